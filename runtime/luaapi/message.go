package luaapi

import (
	"math"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// target reads a target: a name, "node:name" or a handle.
func target(v lua.LValue) (service.Target, *shield.Error) {
	if s, ok := v.(lua.LString); ok {
		return service.Target{Name: string(s)}, nil
	}
	if h, ok := value.AsHandle(v); ok {
		return service.Target{Handle: h}, nil
	}
	return service.Target{}, shield.Errorf(shield.InvalidTarget, "the target is a %s: want a service name, a handle, or \"node:name\"", kindOf(v))
}

func method(v lua.LValue) (string, *shield.Error) {
	if s, ok := v.(lua.LString); ok {
		return string(s), nil
	}
	return "", shield.Errorf(shield.InvalidMethod, "the method is a %s: want its name", kindOf(v))
}

// kindOf names the type of a value as a script's author would.
func kindOf(v lua.LValue) string {
	if ud, ok := v.(*lua.LUserData); ok {
		switch ud.Value.(type) {
		case shield.Handle:
			return "handle"
		case shield.ClientRef:
			return "client ref"
		case *service.Client:
			return "client"
		case *service.Turn:
			return "ctx"
		}
	}
	return v.Type().String()
}

// args takes the arguments of a message to a target from the stack, from index
// first on: copies of them, or what is written to another node.
func args(L *lua.LState, s *service.Service, p *value.Payload, to service.Target, first int) *shield.Error {
	if s.Leaves(to) {
		if err := value.EncodeStack(p, value.Args, s.Limits().MaxMessageSize, L, first); err != nil {
			return s.CopyError(err)
		}
		return nil
	}
	own := uint64(0)
	for i := first; i <= L.GetTop(); i++ {
		if L.Get(i).Type() == lua.LTTable {
			own = luavm.Fresh(L)
			break
		}
	}
	err := value.TakeStack(p, value.Args, s.Limits().MaxMessageSize, L, first, own)
	for i := first; own>>(i-1) != 0; i++ {
		if own>>(i-1)&1 != 0 {
			luavm.Forget(L, i)
		}
	}
	if err != nil {
		return s.CopyError(err)
	}
	return nil
}

func send(L *lua.LState) int { return sendFrom(L, of(L), 1) }

// sendFrom sends what stands on the stack from index at on: target, method,
// arguments.
func sendFrom(L *lua.LState, s *service.Service, at int) int {
	to, err := target(L.Get(at))
	if err != nil {
		return refuse(L, err)
	}
	return sendTo(L, s, to, at+1)
}

func sendTo(L *lua.LState, s *service.Service, to service.Target, at int) int {
	name, err := method(L.Get(at))
	if err != nil {
		return refuse(L, err)
	}
	var p value.Payload
	if err := args(L, s, &p, to, at+1); err != nil {
		return refuse(L, err)
	}
	return done(L, s.Send(to, name, &p))
}

func call(L *lua.LState) int { return callFrom(L, of(L), 1, 0) }

func callTimeout(L *lua.LState) int {
	ms, ok := L.Get(1).(lua.LNumber)
	if !ok || !(ms > 0) {
		L.ArgError(1, "milliseconds expected, a number above 0")
	}
	return callFrom(L, of(L), 2, millis(ms))
}

func callFrom(L *lua.LState, s *service.Service, at int, timeout time.Duration) int {
	to, err := target(L.Get(at))
	if err != nil {
		return refuse(L, err)
	}
	return callTo(L, s, to, at+1, timeout)
}

func callTo(L *lua.LState, s *service.Service, to service.Target, at int, timeout time.Duration) int {
	name, err := method(L.Get(at))
	if err != nil {
		return refuse(L, err)
	}
	var in, out value.Payload
	if err := args(L, s, &in, to, at+1); err != nil {
		return refuse(L, err)
	}
	if err := s.Call(L, to, name, &in, timeout, &out); err != nil {
		return refuse(L, err)
	}
	s.InternPayload(&out)
	L.Push(lua.LTrue)
	return 1 + out.Push(L)
}

// forever is the longest time a script can name: a hundred years.
const forever = 100 * 365 * 24 * time.Hour

// millis makes a duration of milliseconds, whatever the number is.
func millis(ms lua.LNumber) time.Duration {
	f := float64(ms)
	switch {
	case math.IsNaN(f) || f <= 0:
		return 0
	case f >= float64(forever/time.Millisecond):
		return forever
	}
	return max(time.Duration(f*float64(time.Millisecond)), 1)
}

// checkMillis is millis for an argument.
func checkMillis(L *lua.LState, n int) time.Duration {
	ms := L.CheckNumber(n)
	if math.IsNaN(float64(ms)) {
		L.ArgError(n, "milliseconds expected, got not-a-number")
	}
	return millis(ms)
}

func sleep(L *lua.LState) int {
	d := checkMillis(L, 1)
	return done(L, of(L).Sleep(L, d))
}

func fork(L *lua.LState) int {
	fn := L.CheckFunction(1)
	return done(L, of(L).Fork(fn))
}

func timer(L *lua.LState) int     { return addTimer(L, true) }
func timerOnce(L *lua.LState) int { return addTimer(L, false) }

func addTimer(L *lua.LState, repeats bool) int {
	d := checkMillis(L, 1)
	fn := L.CheckFunction(2)
	id, err := of(L).AddTimer(d, fn, repeats)
	if err != nil {
		return none(L, err)
	}
	L.Push(lua.LNumber(id))
	return 1
}

func cancelTimer(L *lua.LState) int {
	id := L.CheckNumber(1)
	if id < 1 || id != lua.LNumber(math.Trunc(float64(id))) || id > 1<<53 {
		return refuse(L, shield.Errorf(shield.TimerNotFound, "%s is not a timer's id", id.String()))
	}
	return done(L, of(L).CancelTimer(uint64(id)))
}
