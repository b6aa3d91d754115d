package luavm

import (
	"sort"

	lua "github.com/yuin/gopher-lua"
)

// This file is what tools see of a VM without running any of its Lua. All of it
// needs the baton.

// Global gives a global as a script would find it, libraries and built-in
// functions included; nil when there is none.
func (vm *VM) Global(name string) lua.LValue {
	if v := vm.g.Global.RawGetString(name); v != lua.LNil {
		return v
	}
	if v := vm.world.libs.base.RawGetString(name); v != lua.LNil {
		return v
	}
	if vm.world.libs.meta[name] != nil && (name != "string" || vm.strings == nil) {
		return vm.world.libs.ownTable(vm, name)
	}
	return lua.LNil
}

// GlobalNames lists what Global finds, sorted.
func (vm *VM) GlobalNames() []string {
	names := map[string]bool{"_G": true}
	for _, t := range []*lua.LTable{vm.g.Global, vm.world.libs.base} {
		for k := range mirrorOf(t).strdict {
			names[k] = true
		}
	}
	for k := range vm.world.libs.meta {
		names[k] = true
	}
	return sortedKeys(names)
}

// Field reads one field as a script would, through metatables whose __index is
// a table, but without running anything.
func (vm *VM) Field(t *lua.LTable, key lua.LValue) lua.LValue {
	for range 100 {
		if v := t.RawGet(key); v != lua.LNil {
			return v
		}
		if t = vm.behind(t); t == nil {
			break
		}
	}
	return lua.LNil
}

// Fields lists the string keys that Field finds, sorted.
func (vm *VM) Fields(t *lua.LTable) []string {
	names := map[string]bool{}
	for range 100 {
		for k := range mirrorOf(t).strdict {
			names[k] = true
		}
		if t = vm.behind(t); t == nil || len(names) > maxFields {
			break
		}
	}
	return sortedKeys(names)
}

// maxFields is how many keys of a table somebody wants to choose from.
const maxFields = 10_000

// behind is the table that answers for keys that t does not have; nil when
// there is none, or when a function would have to run.
func (vm *VM) behind(t *lua.LTable) *lua.LTable {
	libs := vm.world.libs
	meta, ok := t.Metatable.(*lua.LTable)
	if !ok {
		return nil
	}
	if shown := libs.locked[meta]; shown != nil {
		return shown
	}
	if real := libs.standIn[meta]; real != nil {
		return real
	}
	next, _ := meta.RawGetString("__index").(*lua.LTable)
	return next
}

// StringMethods is the table in which s:upper() is found.
func (vm *VM) StringMethods() *lua.LTable {
	if vm.strings != nil {
		return vm.strings
	}
	return vm.world.libs.real["string"]
}

func sortedKeys(set map[string]bool) []string {
	all := make([]string, 0, len(set))
	for k := range set {
		all = append(all, k)
	}
	sort.Strings(all)
	return all
}

// FileLocals finds the locals of the script's own file, as far as a function
// that something holds has captured them. Several of one name are told apart by
// how many functions use them.
func (vm *VM) FileLocals() map[string]*lua.Upvalue {
	if len(vm.modules) == 0 {
		return nil
	}
	main := vm.modules[0]
	top := map[*lua.FunctionProto]bool{}
	for _, p := range main.Code.Proto.FunctionPrototypes {
		top[p] = true
	}
	uses := map[*lua.Upvalue]int{}
	found := map[string]*lua.Upvalue{}
	vm.functions(main.Value, func(fn *lua.LFunction) {
		if fn.IsG || !top[fn.Proto] {
			return
		}
		for i, u := range fn.Upvalues {
			if u == nil || i >= len(fn.Proto.DbgUpvalues) {
				continue
			}
			uses[u]++
			name := fn.Proto.DbgUpvalues[i]
			if old := found[name]; old == nil || uses[u] > uses[old] {
				found[name] = u
			}
		}
	})
	return found
}

// maxLooked bounds how many objects FileLocals looks at: functions stand near
// the module, data does not matter.
const maxLooked = 20_000

// functions visits those that can be reached from v and from what the owner
// holds, nearest first.
func (vm *VM) functions(v lua.LValue, visit func(*lua.LFunction)) {
	seen := map[lua.LValue]bool{}
	var queue []lua.LValue
	add := func(v lua.LValue) {
		switch v.(type) {
		case *lua.LTable, *lua.LFunction:
			if !seen[v] && len(seen) < maxLooked {
				seen[v] = true
				queue = append(queue, v)
			}
		}
	}
	add(v)
	if roots := vm.cfg.Roots; roots != nil {
		roots(add)
	}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		switch v := v.(type) {
		case *lua.LFunction:
			visit(v)
			for _, u := range v.Upvalues {
				if u != nil {
					add(u.Value())
				}
			}
		case *lua.LTable:
			if vm.world.Shared(v) {
				continue
			}
			add(v.Metatable)
			m := mirrorOf(v)
			for _, e := range m.array {
				if e != nil {
					add(e)
				}
			}
			for _, e := range m.strdict {
				add(e)
			}
			for _, e := range m.dict {
				add(e)
			}
		}
	}
}
