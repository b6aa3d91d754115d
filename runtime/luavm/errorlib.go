package luavm

import (
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// Throwing and catching: assert, error, pcall, xpcall.

func baseAssert(L *lua.LState) int {
	if lua.LVAsBool(L.CheckAny(1)) {
		return L.GetTop()
	}
	if L.GetTop() < 2 {
		L.RaiseError("assertion failed!")
	}
	L.Error(L.Get(2), 0)
	return 0
}

func baseError(L *lua.LState) int {
	v := L.Get(1)
	level := optInt(L, 2, 1)
	if s, ok := v.(lua.LString); ok && level > 0 {
		v = lua.LString(whereLevel(L, level)) + s
	}
	L.Error(v, 0)
	return 0
}

// whereLevel gives "file:line: " of the function at a level, or "".
func whereLevel(L *lua.LState, level int) string {
	dbg, ok := L.GetStack(level)
	if !ok {
		return ""
	}
	if _, err := L.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.Source == "" {
		return ""
	}
	return dbg.Source + ":" + strconv.Itoa(dbg.CurrentLine) + ": "
}

func callable(L *lua.LState, v lua.LValue) bool {
	return v.Type() == lua.LTFunction || L.GetMetaField(v, "__call").Type() == lua.LTFunction
}

func basePcall(L *lua.LState) int {
	v := L.CheckAny(1)
	if !callable(L, v) {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + v.Type().String() + " value"))
		return 2
	}
	if api := protect(L, L.GetTop()-1, lua.MultRet); api != nil {
		L.Push(lua.LFalse)
		L.Push(api.Object)
		return 2
	}
	L.Insert(lua.LTrue, 1)
	return L.GetTop()
}

// baseXpcall runs the handler after the stack is unwound, because a handler
// given to PCall leaves upvalues open; what debug.traceback says inside it is
// the place where the error was thrown all the same.
func baseXpcall(L *lua.LState) int {
	fn, handler := L.CheckAny(1), L.CheckAny(2)
	n := L.GetTop() - 2
	L.Remove(2)
	if !callable(L, fn) {
		L.SetTop(0)
		return handled(L, handler, &lua.ApiError{Object: lua.LString("attempt to call a " + fn.Type().String() + " value")})
	}
	if api := protect(L, n, lua.MultRet); api != nil {
		return handled(L, handler, api)
	}
	L.Insert(lua.LTrue, 1)
	return L.GetTop()
}

func handled(L *lua.LState, handler lua.LValue, api *lua.ApiError) int {
	th := VMOf(L).cur
	before := th.thrown
	th.thrown = tidyTrace(api.StackTrace, th.entry())
	L.Push(handler)
	L.Push(api.Object)
	failed := protect(L, 1, lua.MultRet)
	th.thrown = before
	if failed != nil {
		L.Push(lua.LFalse)
		L.Push(failed.Object)
		return 2
	}
	L.Insert(lua.LFalse, 1)
	return L.GetTop()
}
