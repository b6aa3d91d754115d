package reload

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Module is one file as a VM has loaded it.
type Module struct {
	Path  string
	Shape *Shape
	Proto *lua.FunctionProto // compiled from the text that Shape is of
	Value lua.LValue         // what the file returned
}

// Image is what one VM has loaded, live or scratch.
type Image struct {
	Globals *lua.LTable
	Modules []*Module // the script first
	// Roots visits values that are held in Go: the functions of timers, forks
	// and listeners; in a scratch VM whatever was handed to the inert shield.
	Roots func(visit func(lua.LValue))
	// Stacks visits the stacks of suspended handlers and coroutines: what is on
	// them, and where each frame keeps its function.
	Stacks func(values func([]lua.LValue), frame func(fn **lua.LFunction))
	// Inside visits what a value of type thread holds.
	Inside func(v lua.LValue, visit func(lua.LValue))
	// Shared says which tables belong to no VM alone. They are not looked into.
	Shared func(*lua.LTable) bool
	// Plan gives the plan for two versions of a file, so that several VMs can
	// share one; nil makes it.
	Plan func(old, new *Shape) *Plan
	// Twin gives the live value that an inert one of a scratch VM stands for.
	Twin func(v lua.LValue) (lua.LValue, bool)
}

func (im *Image) module(path string) *Module {
	for _, m := range im.Modules {
		if m.Path == path {
			return m
		}
	}
	return nil
}

func (im *Image) roots(visit func(lua.LValue)) {
	if im.Roots != nil {
		im.Roots(visit)
	}
}

func (im *Image) stacks(values func([]lua.LValue), frame func(fn **lua.LFunction)) {
	if im.Stacks != nil {
		im.Stacks(values, frame)
	}
}

// cells are the upvalue cells of one file's locals of which there is one.
type cells map[int]*lua.Upvalue

// reader looks up places of one version of a file in one VM.
type reader struct {
	globals *lua.LTable
	module  *Module
	cells   cells
}

// at reads a place; ok is false when nothing leads there.
func (r reader) at(p place) (v lua.LValue, ok bool) { return r.search(p, 4) }

func (r reader) search(p place, depth int) (lua.LValue, bool) {
	v, ok := r.root(p.root, depth)
	for _, k := range p.keys {
		t, isTable := v.(*lua.LTable)
		if !ok || !isTable {
			return lua.LNil, false
		}
		v = field(t, k)
	}
	return v, ok
}

// root finds a root's value. A local that no function captured has no cell any
// more, but may be what the module or another slot holds.
func (r reader) root(root, depth int) (lua.LValue, bool) {
	switch {
	case root == rootGlobal:
		return r.globals, true
	case root == rootModule:
		return r.module.Value, true
	}
	if c := r.cells[root]; c != nil {
		return c.Value(), true
	}
	if depth == 0 {
		return lua.LNil, false
	}
	s := r.module.Shape
	if s.result.root == root && len(s.result.keys) == 0 {
		return r.module.Value, true
	}
	for _, h := range s.slots {
		if h.ref != nil && h.ref.root == root && len(h.ref.keys) == 0 {
			if v, ok := r.search(h.place, depth-1); ok {
				return v, true
			}
		}
	}
	return lua.LNil, false
}

// table reads the table around the last key of p; nil when there is none.
func (r reader) table(p place) *lua.LTable {
	v, _ := r.at(p.parent())
	t, _ := v.(*lua.LTable)
	return t
}

func field(t *lua.LTable, k key) lua.LValue {
	if k.kind == keyMeta {
		return t.Metatable
	}
	return t.RawGet(k.value())
}

func setField(t *lua.LTable, k, v lua.LValue) {
	if k == metaKey {
		t.Metatable = v
		return
	}
	t.RawSet(k, v)
}

// metaKey stands for the metatable where a key is wanted; no table has it.
var metaKey lua.LValue = &lua.LUserData{}

func luaKey(k key) lua.LValue {
	if k.kind == keyMeta {
		return metaKey
	}
	return k.value()
}

func describeKey(k lua.LValue) string {
	if k == metaKey {
		return "(metatable)"
	}
	switch x := k.(type) {
	case lua.LString:
		return key{kind: keyString, text: string(x)}.describe()
	case lua.LNumber, lua.LBool:
		return "[" + k.String() + "]"
	}
	return "[" + k.Type().String() + "]"
}

// tidyPath writes the path of a global without its table.
func tidyPath(p string) string { return strings.TrimPrefix(p, "_G.") }
