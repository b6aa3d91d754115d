package luaapi

import (
	"shield/runtime/luavm"

	lua "github.com/yuin/gopher-lua"
)

func eventOn(L *lua.LState) int {
	name, fn := L.CheckString(1), L.CheckFunction(2)
	L.Push(lua.LNumber(of(L).Listen(name, fn)))
	return 1
}

// eventOff removes one listener, by id or function, or all of an event.
func eventOff(L *lua.LState) int {
	name := L.CheckString(1)
	var removed int
	switch v := L.Get(2).(type) {
	case *lua.LNilType:
		removed = of(L).Unlisten(name, 0, nil)
	case lua.LNumber:
		if v >= 1 { // and a number
			removed = of(L).Unlisten(name, uint64(v), nil)
		}
	case *lua.LFunction:
		removed = of(L).Unlisten(name, 0, v)
	default:
		L.ArgError(2, "the id that shield.event.on returned, or the function, expected")
	}
	L.Push(lua.LNumber(removed))
	return 1
}

func eventClear(L *lua.LState) int {
	if L.GetTop() == 0 || L.Get(1) == lua.LNil {
		of(L).ClearListeners()
		return 0
	}
	of(L).Unlisten(L.CheckString(1), 0, nil)
	return 0
}

// eventEmit calls the listeners one after the other. One that throws is told to
// on_error and keeps the others from nothing.
func eventEmit(L *lua.LState) int {
	name := L.CheckString(1)
	s := of(L)
	n := L.GetTop()
	called := 0
	for _, fn := range s.Listeners(name) {
		L.Push(fn)
		for i := 2; i <= n; i++ {
			L.Push(L.Get(i))
		}
		if rerr := luavm.PCall(L, n-1, 0); rerr != nil {
			L.SetTop(n)
			s.EventFailed(L, name, fn, rerr)
		}
		called++
	}
	L.Push(lua.LNumber(called))
	return 1
}
