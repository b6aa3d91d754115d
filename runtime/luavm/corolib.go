package luavm

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func coroutineLib() Lib {
	return Lib{"create": coCreate, "wrap": coWrap, "resume": coResume, "yield": yield,
		"status": coStatus, "running": coRunningNow, "isyieldable": coIsYieldable}
}

func checkCoroutine(L *lua.LState) *coroutine {
	co := asCoroutine(L.Get(1))
	if co == nil {
		L.ArgError(1, "coroutine expected, got "+L.Get(1).Type().String())
	}
	return co
}

func coCreate(L *lua.LState) int {
	L.Push(&newCoroutine(L.CheckFunction(1)).token)
	return 1
}

func coResume(L *lua.LState) int {
	co := checkCoroutine(L)
	vm := VMOf(L)
	n, failed, refusal := vm.resume(L, co, 2)
	switch {
	case refusal != nil:
		L.Push(lua.LFalse)
		L.Push(refusal)
		return 2
	case failed != nil:
		vm.passOn(failed)
		L.Push(lua.LFalse)
		L.Push(failed.Object)
		return 2
	}
	L.Insert(lua.LTrue, L.GetTop()-n+1)
	return n + 1
}

// passOn goes on unwinding in the resuming coroutine what must not be caught.
func (vm *VM) passOn(failed *lua.ApiError) {
	t := vm.cur.turn
	if failed.Type == lua.ApiErrorPanic {
		t.broken = true
		panic(failed)
	}
	if t.failure != nil {
		vm.cur.L.Error(failed.Object, 0)
	}
}

func coWrap(L *lua.LState) int {
	co := newCoroutine(L.CheckFunction(1))
	// The coroutine is an upvalue too, so that a hot reload can see it.
	L.Push(L.NewClosure(func(L *lua.LState) int {
		vm := VMOf(L)
		n, failed, refusal := vm.resume(L, co, 1)
		switch {
		case refusal != nil:
			if s, ok := refusal.(lua.LString); ok {
				refusal = lua.LString(where(L)) + s
			}
			L.Error(refusal, 0)
		case failed != nil:
			vm.passOn(failed)
			t := vm.cur.turn
			trace := tidyTrace(failed.StackTrace, "coroutine")
			if t.inner.value == failed.Object && t.inner.value != nil {
				trace = strings.TrimRight(traceBody(t.inner.trace), "\n") + "\n" + traceBody(trace)
			}
			t.inner = innerError{failed.Object, trace}
			L.Error(failed.Object, 0)
		}
		return n
	}, &co.token))
	return 1
}

func coStatus(L *lua.LState) int {
	L.Push(lua.LString(checkCoroutine(L).status.String()))
	return 1
}

// coRunningNow gives nil outside a coroutine: what runs there is a pooled
// stack, which a script must not get hold of.
func coRunningNow(L *lua.LState) int {
	if co := VMOf(L).cur.co; co != nil {
		L.Push(&co.token)
	} else {
		L.Push(lua.LNil)
	}
	return 1
}

func coIsYieldable(L *lua.LState) int {
	L.Push(lua.LBool(VMOf(L).cur.co != nil))
	return 1
}

// The debug library that a sandbox can have: it looks, it does not touch.
func debugLib() Lib {
	return Lib{"traceback": debugTraceback, "getinfo": debugGetinfo}
}

func debugTraceback(L *lua.LState) int {
	vm := VMOf(L)
	arg := 1
	trace := ""
	if co := asCoroutine(L.Get(1)); co != nil {
		arg = 2
		trace = co.traceback(vm)
	}
	msg := L.Get(arg)
	if msg != lua.LNil && !lua.LVCanConvToString(msg) {
		L.Push(msg)
		return 1
	}
	switch {
	case trace != "":
	case vm.cur.thrown != "":
		trace = vm.cur.thrown
	default:
		trace = vm.cur.traceback(max(0, optInt(L, arg+1, 1)))
	}
	if msg != lua.LNil {
		trace = msg.String() + "\n" + trace
	}
	L.Push(lua.LString(trace))
	return 1
}

// traceback describes the stack of a coroutine, which for a suspended one has
// to be put back for the look.
func (co *coroutine) traceback(vm *VM) string {
	if co.k == nil {
		return "stack traceback:"
	}
	L := co.k.th.L
	if co.status == coSuspended {
		co.stack.restore(L)
		defer co.stack.save(L)
	}
	return joinTrace(stackLines(L, "coroutine"))
}

func debugGetinfo(L *lua.LState) int {
	dbg := &lua.Debug{}
	var fn lua.LValue
	var err error
	switch v := L.Get(1).(type) {
	case *lua.LFunction:
		fn, err = L.GetInfo(">Snluf", dbg, v)
	default:
		var ok bool
		if dbg, ok = L.GetStack(checkInt(L, 1)); !ok {
			L.Push(lua.LNil)
			return 1
		}
		fn, err = L.GetInfo("Snluf", dbg, lua.LNil)
	}
	if err != nil {
		L.RaiseError("debug.getinfo: %s", err.Error())
	}
	t := L.CreateTable(0, 9)
	if dbg.Name != "" {
		t.RawSetString("name", lua.LString(dbg.Name))
	}
	source := dbg.Source
	if source == "" {
		source = "=[Go]"
	}
	t.RawSetString("what", lua.LString(dbg.What))
	t.RawSetString("source", lua.LString(source))
	t.RawSetString("short_src", lua.LString(strings.TrimLeft(source, "=@")))
	t.RawSetString("currentline", lua.LNumber(dbg.CurrentLine))
	t.RawSetString("linedefined", lua.LNumber(dbg.LineDefined))
	t.RawSetString("lastlinedefined", lua.LNumber(dbg.LastLineDefined))
	t.RawSetString("nups", lua.LNumber(dbg.NUpvalues))
	t.RawSetString("func", fn)
	L.Push(t)
	return 1
}
