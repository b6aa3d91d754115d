package service

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// scope is what names mean in a line that a tool runs: the session's own
// locals, then the locals of the script's file that a function uses, then M,
// then the service's globals. It needs the baton.
type scope struct {
	b     *luaBody
	env   *lua.LTable
	own   map[string]bool         // the session's names, also those that are nil
	cells map[string]*lua.Upvalue // of the file's locals; nil = not looked for yet
	keeps bool                    // a new name is the session's, not a global
	fresh bool
	used  int64 // clock
}

const (
	maxSessions = 32
	sessionRest = int64(3600e9) // a session that nobody used is forgotten
)

// scope finds or makes the one of a session; "" gives one for a single line.
func (b *luaBody) scope(session string) *scope {
	now := b.s.now()
	for id, sc := range b.sessions {
		if now-sc.used > sessionRest {
			delete(b.sessions, id)
		}
	}
	sc := b.sessions[session]
	if sc == nil {
		sc = b.newScope(session != "")
		if session != "" {
			b.keepScope(session, sc)
		}
	} else {
		sc.fresh = false
	}
	sc.used, sc.cells = now, nil
	return sc
}

func (b *luaBody) keepScope(session string, sc *scope) {
	if len(b.sessions) >= maxSessions {
		oldest := ""
		for id, o := range b.sessions {
			if oldest == "" || o.used < b.sessions[oldest].used {
				oldest = id
			}
		}
		delete(b.sessions, oldest)
	}
	if b.sessions == nil {
		b.sessions = map[string]*scope{}
	}
	b.sessions[session] = sc
}

func (b *luaBody) newScope(keeps bool) *scope {
	sc := &scope{b: b, own: map[string]bool{}, keeps: keeps, fresh: true}
	L := (*lua.LState)(nil)
	meta := L.CreateTable(0, 3)
	meta.RawSetString("__index", &lua.LFunction{IsG: true, Env: b.vm.Globals(), GFunction: sc.index})
	meta.RawSetString("__newindex", &lua.LFunction{IsG: true, Env: b.vm.Globals(), GFunction: sc.assign})
	meta.RawSetString("__metatable", lua.LString("session"))
	sc.env = L.CreateTable(0, 4)
	sc.env.Metatable = meta
	return sc
}

// index is Lua reading a name.
func (sc *scope) index(L *lua.LState) int {
	key := L.Get(2)
	name, ok := key.(lua.LString)
	if ok {
		if v, ok := sc.local(string(name)); ok {
			L.Push(v)
			return 1
		}
	}
	L.Push(L.GetTable(sc.b.vm.Globals(), key))
	return 1
}

// assign is Lua writing a name that the session has no value for.
func (sc *scope) assign(L *lua.LState) int {
	key, v := L.Get(2), L.Get(3)
	name, ok := key.(lua.LString)
	if !ok {
		sc.env.RawSet(key, v)
		return 0
	}
	cell := sc.file()[string(name)]
	switch {
	case sc.own[string(name)]:
		sc.env.RawSet(key, v)
	case cell != nil:
		cell.SetValue(v)
	case !sc.keeps || sc.b.vm.Global(string(name)) != lua.LNil:
		L.SetTable(sc.b.vm.Globals(), key, v)
	default:
		sc.own[string(name)] = true
		sc.env.RawSet(key, v)
	}
	return 0
}

// remember keeps the last value that was shown, as _.
func (sc *scope) remember(v lua.LValue) {
	if sc.keeps {
		sc.own["_"] = true
		sc.env.RawSetString("_", v)
	}
}

func (sc *scope) file() map[string]*lua.Upvalue {
	if sc.cells == nil {
		if sc.cells = sc.b.vm.FileLocals(); sc.cells == nil {
			sc.cells = map[string]*lua.Upvalue{}
		}
	}
	return sc.cells
}

// local is what a name means before globals are asked.
func (sc *scope) local(name string) (lua.LValue, bool) {
	if sc.own[name] {
		return sc.env.RawGetString(name), true
	}
	if cell := sc.file()[name]; cell != nil {
		return cell.Value(), true
	}
	if name == "M" && sc.b.module != nil {
		return sc.b.module, true
	}
	return lua.LNil, false
}

// read is what a name means, without running anything.
func (sc *scope) read(name string) lua.LValue {
	if v, ok := sc.local(name); ok {
		return v
	}
	return sc.b.vm.Global(name)
}

// names lists what read finds, sorted.
func (sc *scope) names() []string {
	names := append(sc.b.vm.GlobalNames(), "M")
	for name := range sc.own {
		names = append(names, name)
	}
	for name := range sc.file() {
		names = append(names, name)
	}
	sort.Strings(names)
	return slices.Compact(names)
}

// fields lists the names behind a value, as far as they can be had without
// running anything. methods asks for functions only.
func (sc *scope) fields(v lua.LValue, methods bool) []string {
	vm := sc.b.vm
	var t *lua.LTable
	switch v := v.(type) {
	case *lua.LTable:
		t = v
	case lua.LString:
		t = vm.StringMethods()
	case *lua.LUserData:
		if meta, ok := v.Metatable.(*lua.LTable); ok {
			t, _ = meta.RawGetString("__index").(*lua.LTable)
		}
	}
	if t == nil {
		return nil
	}
	names := vm.Fields(t)
	if methods {
		names = slices.DeleteFunc(names, func(n string) bool { return vm.Field(t, lua.LString(n)).Type() != lua.LTFunction })
	}
	return names
}

// follow reads along a path, as far as it leads: n keys were found.
func (sc *scope) follow(p luavm.Path) (v lua.LValue, n int) {
	v = sc.read(p.Root)
	for n < len(p.Keys) {
		t, ok := v.(*lua.LTable)
		if !ok {
			return v, n
		}
		next := sc.b.vm.Field(t, p.Keys[n])
		if next == lua.LNil {
			return v, n
		}
		v = next
		n++
	}
	return v, n
}

// hint explains the first name of a line that leads nowhere: what is there
// instead.
func (sc *scope) hint(line *luavm.Line) string {
	for _, p := range line.Paths() {
		v, n := sc.follow(p)
		if v == lua.LNil {
			if sc.known(p.Root) {
				continue // it is there and holds nil
			}
			if near := shield.Nearest(p.Root, append(sc.names(), sc.methodNames()...)); near != "" {
				return p.Root + " is nil (did you mean " + near + "?)"
			}
			return "nothing is called " + p.Root
		}
		t, ok := v.(*lua.LTable)
		if n == len(p.Keys) || !ok {
			continue
		}
		if key, ok := p.Keys[n].(lua.LString); ok {
			if near := shield.Nearest(string(key), sc.fields(t, false)); near != "" {
				better := luavm.Path{Root: p.Root, Keys: append(slices.Clone(p.Keys[:n]), lua.LString(near))}
				return p.Text(n+1) + " is nil (did you mean " + better.Text(n+1) + "?)"
			}
		}
		return p.Text(n+1) + " is nil; " + p.Text(n) + " has " + contents(t)
	}
	return ""
}

func (sc *scope) known(name string) bool {
	_, ok := sc.local(name)
	return ok
}

// methodNames are the module's, as one would have to write them.
func (sc *scope) methodNames() []string {
	if sc.b.module == nil {
		return nil
	}
	var all []string
	for _, m := range sc.b.vm.Fields(sc.b.module) {
		all = append(all, "M."+m)
	}
	return all
}

// contents says which keys a table has.
func contents(t *lua.LTable) string {
	var keys []string
	n := 0
	t.ForEach(func(k, _ lua.LValue) {
		if n++; n <= 8 {
			keys = append(keys, k.String())
		}
	})
	sort.Strings(keys)
	switch {
	case n == 0:
		return "no entries"
	case n > 8:
		return "the keys " + strings.Join(keys, " ") + " and " + strconv.Itoa(n-8) + " more"
	case n == 1:
		return "one entry (key " + keys[0] + ")"
	}
	return "the keys " + strings.Join(keys, " ")
}

// replace lets a hot reload see the functions that the session holds.
func (sc *scope) replace(with func(*lua.LFunction) *lua.LFunction) {
	for name := range sc.own {
		if fn, ok := sc.env.RawGetString(name).(*lua.LFunction); ok {
			sc.env.RawSetString(name, with(fn))
		}
	}
}
