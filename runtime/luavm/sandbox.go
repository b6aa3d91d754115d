package luavm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// libraries are the tables that all VMs of a world share. No script can write to
// them. What a script sees under a library's name is a table of its VM's own,
// empty, whose metatable leads here: so `function string.split(...)` works and
// stays in its VM. The own tables appear when they are first used, because most
// services use few of them.
type libraries struct {
	world      *World
	idle       *lua.Global                 // what a stack is on between two turns
	thread     *lua.LState                 // never runs; gopher-lua wants a main thread
	base       *lua.LTable                 // the global functions
	real       map[string]*lua.LTable      // by library
	meta       map[string]*lua.LTable      // of the own tables, by library
	global     *lua.LTable                 // metatable of each _G
	standIn    map[*lua.LTable]*lua.LTable // metatable of an own table -> what it stands for
	locked     map[*lua.LTable]*lua.LTable // metatable of a read-only table -> what it shows, without what a resolver adds
	inert      *lua.LTable                 // shield in a scratch VM
	next       *lua.LFunction
	ipairsNext *lua.LFunction
	stringOps  map[string]lua.LValue // arithmetic of strings

	shared map[*lua.LTable]struct{}  // every table above
	twins  map[lua.LValue]lua.LValue // inert -> live; see reload.go
}

func newLibraries(w *World) (*libraries, error) {
	T := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: 16, RegistrySize: 256})
	T.G.Global = &lua.LTable{Metatable: lua.LNil}
	T.Env = T.G.Global
	l := &libraries{world: w, base: T.CreateTable(0, 64), real: map[string]*lua.LTable{}, meta: map[string]*lua.LTable{},
		standIn: map[*lua.LTable]*lua.LTable{}, locked: map[*lua.LTable]*lua.LTable{}}
	l.thread = &lua.LState{}
	l.ipairsNext = T.NewFunction(ipairsNext)
	for name, lib := range map[string]Lib{
		"string": stringLib(), "table": tableLib(), "math": mathLib(), "coroutine": coroutineLib(),
		"os": osLib(w), "utf8": utf8Lib(), "debug": debugLib(),
	} {
		l.addLibrary(T, name, lib)
	}
	if w.cfg.AllowIO {
		l.addLibrary(T, "io", ioLib(T))
	}
	l.addLibrary(T, "package", Lib{"path": lua.LString(w.cfg.ModulePath), Missing: Resolver(packageField)})
	for name, v := range baseLib() {
		l.base.RawSetString(name, l.value(T, v))
	}
	l.base.RawSetString("_VERSION", lua.LString(lua.LuaVersion))
	l.next = l.base.RawGetString("next").(*lua.LFunction)

	var err error
	if l.inert, err = l.lock(T, "shield", inertLib(w.cfg.Shield, w.cfg.Pure, "")); err != nil {
		return nil, err
	}
	live, err := l.lock(T, "shield", w.cfg.Shield)
	if err != nil {
		return nil, err
	}
	l.base.RawSetString("shield", live)

	lazy := T.CreateTable(0, 1)
	lazy.RawSetString("__index", T.NewFunction(l.own))
	l.base.Metatable = lazy
	l.global = T.CreateTable(0, 1)
	l.global.RawSetString("__index", l.base)
	l.standIn[l.global] = l.base

	l.stringOps = map[string]lua.LValue{}
	for event, f := range stringArithmetic() {
		l.stringOps[event] = T.NewFunction(f)
	}
	T.SetMetatable(lua.LString(""), l.stringMeta(l.real["string"]))

	l.idle = new(lua.Global)
	*l.idle = *T.G // shares builtinMts, which nobody writes to from now on
	l.idle.Registry = T.CreateTable(0, 0)
	l.idle.MainThread, l.idle.CurrentThread = l.thread, l.thread
	l.know()
	return l, nil
}

// install gives vm its globals.
func (l *libraries) install(vm *VM) {
	*vm.g = *l.idle
	vm.g.Registry = &lua.LTable{Metatable: lua.LNil}
	mirrorOf(vm.g.Registry).array = []lua.LValue{&lua.LUserData{Value: vm, Metatable: lua.LNil}}
	vm.g.Global = &lua.LTable{Metatable: l.global}
	if vm.cfg.Inert {
		vm.g.Global.RawSetString("shield", l.inert)
	}
}

// addLibrary makes a library that each VM may extend.
func (l *libraries) addLibrary(T *lua.LState, name string, lib Lib) {
	real := T.CreateTable(0, len(lib))
	meta := T.CreateTable(0, 1)
	var index lua.LValue = real
	for key, v := range lib {
		if r, ok := v.(Resolver); ok {
			index = resolve(T, real, r)
			continue
		}
		real.RawSetString(key, l.value(T, v))
	}
	meta.RawSetString("__index", index)
	l.real[name], l.meta[name], l.standIn[meta] = real, meta, real
}

func (l *libraries) value(T *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case func(*lua.LState) int:
		return T.NewFunction(v)
	case lua.LGFunction:
		return T.NewFunction(v)
	case lua.LValue:
		return v
	}
	panic(fmt.Sprintf("luavm: a library holds a %T", v)) // a mistake in our own tables
}

// resolve makes an __index function that asks the table first.
func resolve(T *lua.LState, real *lua.LTable, r Resolver) *lua.LFunction {
	return T.NewFunction(func(L *lua.LState) int {
		key, ok := L.Get(2).(lua.LString)
		if !ok {
			L.Push(lua.LNil)
			return 1
		}
		v := real.RawGetString(string(key))
		if v == lua.LNil {
			v = r(L, string(key))
		}
		L.Push(v)
		return 1
	})
}

// lock makes a read-only table that all VMs share, nested ones included.
func (l *libraries) lock(T *lua.LState, path string, lib Lib) (*lua.LTable, error) {
	real := T.CreateTable(0, len(lib))
	var index lua.LValue = real
	for key, v := range lib {
		switch v := v.(type) {
		case Lib:
			sub, err := l.lock(T, path+"."+key, v)
			if err != nil {
				return nil, err
			}
			real.RawSetString(key, sub)
		case Resolver:
			index = resolve(T, real, v)
		case func(*lua.LState) int, lua.LGFunction, lua.LValue:
			real.RawSetString(key, l.value(T, v))
		default:
			return nil, fmt.Errorf("luavm: %s.%s is a %T; a library holds functions, Lua values and tables", path, key, v)
		}
	}
	if index == lua.LValue(real) { // asked only for what real does not hold: hits cost nothing
		misspelt := T.CreateTable(0, 1)
		misspelt.RawSetString("__index", T.NewFunction(nearMiss(path, lib)))
		real.Metatable = misspelt
	}
	meta := T.CreateTable(0, 3)
	meta.RawSetString("__index", index)
	meta.RawSetString("__metatable", lua.LString("locked"))
	meta.RawSetString("__newindex", T.NewFunction(func(L *lua.LState) int {
		L.RaiseError("%s is read-only: keep your own functions in a table of your own", path)
		return 0
	}))
	l.locked[meta] = real
	return &lua.LTable{Metatable: meta}, nil
}

// nearMiss answers for a name that a locked table does not hold: one that looks
// like a slip is an error here, where it has a name, and not "attempt to call a
// non-function object" later. Any other is nil, so that a script can ask whether
// there is such a thing.
func nearMiss(path string, lib Lib) lua.LGFunction {
	known := slices.Sorted(maps.Keys(lib))
	return func(L *lua.LState) int {
		if key, ok := L.Get(2).(lua.LString); ok {
			if near := shield.Nearest(string(key), known); near != "" {
				L.RaiseError("there is no %s.%s (did you mean %s.%s?)", path, string(key), path, near)
			}
		}
		L.Push(lua.LNil)
		return 1
	}
}

// inertLib is lib for a scratch VM: loading a new version of a script must not
// reach the live world. What a script only computes with stays, and so does a
// Resolver: a file may keep what it gives in a local.
func inertLib(lib Lib, pure []string, path string) Lib {
	out := maps.Clone(lib)
	for key, v := range lib {
		name := strings.TrimPrefix(path+"."+key, ".")
		keep := false
		for _, p := range pure {
			keep = keep || p == name
		}
		if keep {
			continue
		}
		switch v := v.(type) {
		case Lib:
			out[key] = inertLib(v, pure, name)
		case func(*lua.LState) int, lua.LGFunction, *lua.LFunction:
			out[key] = hold
		}
	}
	return out
}

// own answers for a global that is not there: the VM's table of a library comes
// into being when it is first named.
func (l *libraries) own(L *lua.LState) int {
	key, _ := L.Get(2).(lua.LString)
	L.Push(l.ownTable(VMOf(L), string(key)))
	return 1
}

func (l *libraries) ownTable(vm *VM, name string) lua.LValue {
	if name == "_G" {
		vm.g.Global.RawSetString(name, vm.g.Global)
		return vm.g.Global
	}
	meta := l.meta[name]
	if meta == nil {
		return lua.LNil
	}
	t := &lua.LTable{Metatable: meta}
	if name == "string" {
		if vm.strings != nil {
			return lua.LNil // the script has put it away
		}
		vm.strings = t
		setBuiltinMetatables(vm.g, map[int]lua.LValue{int(lua.LTString): l.stringMeta(t)})
	}
	vm.g.Global.RawSetString(name, t)
	return t
}

// stringMeta is the metatable of strings. A VM has one of its own as soon as its
// script has named string, so that what it adds there works as a method.
func (l *libraries) stringMeta(index *lua.LTable) *lua.LTable {
	meta := &lua.LTable{Metatable: lua.LNil}
	fields := make(map[string]lua.LValue, len(l.stringOps)+2)
	maps.Copy(fields, l.stringOps)
	fields["__index"], fields["__metatable"] = index, lua.LString("locked")
	mirrorOf(meta).strdict = fields // never traversed: no list of keys
	return meta
}

// standsFor gives what an own table leads to, or nil.
func (l *libraries) standsFor(t *lua.LTable) *lua.LTable {
	if meta, ok := t.Metatable.(*lua.LTable); ok {
		return l.standIn[meta]
	}
	return nil
}

// checkWrite refuses to change a table that VMs share. Ordinary assignments are
// refused by its metatable; this is for functions that go past it.
func checkWrite(L *lua.LState, t *lua.LTable) {
	if meta, ok := t.Metatable.(*lua.LTable); ok && VMOf(L).world.libs.locked[meta] != nil {
		L.RaiseError("this table belongs to the runtime and is read-only")
	}
}

// whole fills an own table with what it stands for, for those who want to see
// everything: pairs(string), setmetatable(_G, ...). A read-only table is copied.
func (l *libraries) whole(vm *VM, t *lua.LTable) *lua.LTable {
	meta, ok := t.Metatable.(*lua.LTable)
	if !ok {
		return t
	}
	if shown := l.locked[meta]; shown != nil {
		out := &lua.LTable{Metatable: lua.LNil}
		shown.ForEach(out.RawSet)
		return out
	}
	real := l.standIn[meta]
	if real == nil {
		return t
	}
	real.ForEach(func(k, v lua.LValue) {
		if t.RawGet(k) == lua.LNil {
			t.RawSet(k, v)
		}
	})
	if real == l.base {
		l.ownTable(vm, "_G")
		for name := range l.real {
			if t.RawGetString(name) == lua.LNil {
				l.ownTable(vm, name)
			}
		}
	}
	return t
}

// packageField answers package.loaded.
func packageField(L *lua.LState, key string) lua.LValue {
	if key != "loaded" {
		return lua.LNil
	}
	vm := VMOf(L)
	t := L.CreateTable(0, len(vm.byName))
	for name, m := range vm.byName {
		t.RawSetString(name, m.Value)
	}
	return t
}
