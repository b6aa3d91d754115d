package luavm

import (
	lua "github.com/yuin/gopher-lua"
)

// This file is what hot reload needs to see of a VM: everything that its stacks
// hold, what belongs to no VM alone, and what an inert function stands for. All
// of it needs the baton.

// Stacks visits every stack of the VM that is suspended: handlers that wait and
// coroutines. values gets what is on a stack (not to be changed), frame the
// place where each of its frames keeps its function.
func (vm *VM) Stacks(values func([]lua.LValue), frame func(fn **lua.LFunction)) {
	for t := vm.turns; t != nil; t = t.older {
		for th := t.top; th != nil; th = th.parent {
			values(registers(th.L))
			frames := framesOf(th.L)
			for i := range frames.array[:frames.sp] {
				if frames.array[i].Fn != nil {
					frame(&frames.array[i].Fn)
				}
			}
		}
	}
	for _, p := range vm.coroutines {
		co := p.Value()
		if co == nil || co.stack.g == nil {
			continue // forgotten, or it is one of the stacks above
		}
		values(co.stack.values())
		for i := range co.stack.fns {
			if co.stack.fns[i] != nil {
				frame(&co.stack.fns[i])
			}
		}
	}
}

// Inside visits what a coroutine will run when it is resumed for the first time.
func (vm *VM) Inside(v lua.LValue, visit func(lua.LValue)) {
	if co := asCoroutine(v); co != nil && co.fn != nil {
		visit(co.fn)
	}
}

// Shared reports whether t belongs to the world rather than to one VM.
func (w *World) Shared(t *lua.LTable) bool {
	_, ok := w.libs.shared[t]
	return ok
}

// Twin gives what an inert function or table of a scratch VM stands for in a
// live one.
func (w *World) Twin(v lua.LValue) (live lua.LValue, ok bool) {
	live, ok = w.libs.twins[v]
	return live, ok
}

// Library gives the VM's own table of a library, which comes into being when it
// is first named; nil when there is no library of that name.
func (vm *VM) Library(name string) lua.LValue {
	if v := vm.g.Global.RawGetString(name); v != lua.LNil {
		return v
	}
	return vm.world.libs.ownTable(vm, name)
}

// IsLibrary reports whether t is a VM's own table of a library.
func (w *World) IsLibrary(t *lua.LTable) bool { return w.libs.standsFor(t) != nil }

// Kept visits what the scripts of a scratch VM have handed to the inert shield:
// the functions of timers and listeners that a live VM would hold.
func (vm *VM) Kept(visit func(lua.LValue)) {
	for _, v := range vm.kept {
		visit(v)
	}
}

// hold is every inert function.
func hold(L *lua.LState) int {
	vm := VMOf(L)
	for i := 1; i <= L.GetTop(); i++ {
		switch v := L.Get(i).(type) {
		case *lua.LFunction, *lua.LTable:
			vm.kept = append(vm.kept, v)
		}
	}
	return 0
}

// know fills in shared and twins, when everything else is built.
func (l *libraries) know() {
	l.shared, l.twins = map[*lua.LTable]struct{}{}, map[lua.LValue]lua.LValue{}
	add := func(ts ...*lua.LTable) {
		for _, t := range ts {
			if t != nil {
				l.shared[t] = struct{}{}
			}
		}
	}
	add(l.base, l.global, l.inert)
	for _, t := range l.real {
		add(t)
	}
	for _, t := range l.meta {
		add(t)
	}
	for meta, real := range l.locked {
		add(meta, real)
	}
	if m, ok := l.base.Metatable.(*lua.LTable); ok {
		add(m)
	}
	if live, ok := l.base.RawGetString("shield").(*lua.LTable); ok {
		l.twin(l.inert, live)
	}
}

// twin pairs an inert table with the live one, key by key.
func (l *libraries) twin(inert, live *lua.LTable) {
	l.shared[inert], l.shared[live] = struct{}{}, struct{}{}
	l.twins[inert] = live
	from, to := l.shown(inert), l.shown(live)
	if from == nil || to == nil {
		return
	}
	from.ForEach(func(k, v lua.LValue) {
		switch v := v.(type) {
		case *lua.LFunction:
			if w := to.RawGet(k); w != lua.LNil && w != v {
				l.twins[v] = w
			}
		case *lua.LTable:
			if w, ok := to.RawGet(k).(*lua.LTable); ok && w != v {
				l.twin(v, w)
			}
		}
	})
}

// shown is the content of a read-only table.
func (l *libraries) shown(t *lua.LTable) *lua.LTable {
	meta, _ := t.Metatable.(*lua.LTable)
	if meta == nil {
		return nil
	}
	return l.locked[meta]
}
