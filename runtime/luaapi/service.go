package luaapi

import (
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

func spawn(L *lua.LState) int {
	s := of(L)
	req := service.SpawnRequest{Module: L.CheckString(1)}
	if o := L.Get(2); o != lua.LNil {
		opts, ok := o.(*lua.LTable)
		if !ok {
			L.ArgError(2, "table of name, args, timeout expected")
		}
		switch n := opts.RawGetString("name").(type) {
		case lua.LString:
			req.Name = shield.Name(n)
			if n == "" {
				return none(L, shield.Errorf(shield.InvalidName, "a name must not be empty"))
			}
		case *lua.LNilType:
		default:
			return none(L, shield.Errorf(shield.InvalidName, "the name is a %s, want a string", kindOf(n)))
		}
		if ms, ok := opts.RawGetString("timeout").(lua.LNumber); ok {
			req.Timeout = max(millis(ms), 1)
		}
		if a := opts.RawGetString("args"); a != lua.LNil {
			var p value.Payload
			if err := value.Copy(&p, value.Args, s.Limits().MaxMessageSize, a); err != nil {
				return none(L, s.CopyError(err))
			}
			req.Args = &p
		}
	}
	h, err := s.Spawn(L, req)
	if err != nil {
		return none(L, err)
	}
	L.Push(s.Ref(h))
	return 1
}

func self(L *lua.LState) int {
	s := of(L)
	L.Push(s.Ref(s.Handle()))
	return 1
}

func query(L *lua.LState) int {
	s := of(L)
	h, err := s.Query(shield.Name(L.CheckString(1)))
	if err != nil {
		return none(L, err)
	}
	L.Push(s.Ref(h))
	return 1
}

func names(L *lua.LState) int {
	all := of(L).Names()
	t := newTable(len(all), 0)
	for _, n := range all {
		t.Append(lua.LString(n))
	}
	value.MarkArray(t)
	L.Push(t)
	return 1
}

func register(L *lua.LState) int {
	name := shield.Name(L.CheckString(1))
	var h shield.Handle
	if v := L.Get(2); v != lua.LNil {
		var ok bool
		if h, ok = value.AsHandle(v); !ok {
			return refuse(L, shield.Errorf(shield.RegisterFailed, "%q: the second argument is a %s, want a handle", name, kindOf(v)))
		}
	}
	return done(L, of(L).Register(name, h))
}

func unregister(L *lua.LState) int {
	return done(L, of(L).Unregister(shield.Name(L.CheckString(1))))
}

func exit(L *lua.LState) int {
	of(L).Exit(L.OptString(1, ""))
	return 0
}

func panics(L *lua.LState) int {
	reason := L.ToStringMeta(L.Get(1)).String()
	if L.GetTop() == 0 {
		reason = "no reason given"
	}
	of(L).Panic(L, reason)
	return 0
}

// now is the business clock, in milliseconds.
func now(L *lua.LState) int {
	L.Push(lua.LNumber(of(L).Runtime().Now().UnixMilli()))
	return 1
}

func monotonic(L *lua.LState) int {
	L.Push(lua.LNumber(of(L).Runtime().Monotonic() / time.Millisecond))
	return 1
}

// config reads a key of the service's configuration; dots go deeper.
func config(L *lua.LState) int {
	key := L.CheckString(1)
	v, ok := of(L).Config(key)
	if !ok {
		L.Push(L.Get(2))
		return 1
	}
	lv, err := value.FromGo(v)
	if err != nil {
		L.RaiseError("config %s: %s", key, err)
	}
	L.Push(lv)
	return 1
}

func array(L *lua.LState) int {
	if L.GetTop() == 0 || L.Get(1) == lua.LNil {
		t := newTable(0, 0)
		value.MarkArray(t)
		L.Push(t)
		return 1
	}
	t := L.CheckTable(1)
	if t.Metatable != lua.LNil && !value.IsArrayMark(t.Metatable) {
		L.ArgError(1, "a table with a metatable can't be marked as an array: copy its elements")
	}
	value.MarkArray(t)
	L.Push(t)
	return 1
}

func jsonEncode(L *lua.LState) int {
	b, err := value.JSON.Append(nil, L.CheckAny(1))
	if err != nil {
		return none(L, shield.AsError(err, shield.EncodeFailed))
	}
	L.Push(lua.LString(b))
	return 1
}

func jsonDecode(L *lua.LState) int {
	v, err := value.JSON.Decode([]byte(L.CheckString(1)))
	if err != nil {
		return none(L, shield.AsError(err, shield.DecodeError))
	}
	L.Push(v)
	return 1
}
