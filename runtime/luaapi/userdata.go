package luaapi

import (
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

func checkHandle(L *lua.LState, n int) shield.Handle {
	h, ok := value.AsHandle(L.Get(n))
	if !ok {
		L.ArgError(n, "handle expected, got "+kindOf(L.Get(n)))
	}
	return h
}

func handleMeta() *lua.LTable {
	return metatable("Handle", map[string]lua.LGFunction{
		"id":    func(L *lua.LState) int { L.Push(lua.LNumber(checkHandle(L, 1).ID)); return 1 },
		"node":  func(L *lua.LState) int { L.Push(lua.LString(checkHandle(L, 1).Node)); return 1 },
		"valid": func(L *lua.LState) int { L.Push(lua.LBool(of(L).Runtime().Valid(checkHandle(L, 1)))); return 1 },
	}, map[string]lua.LGFunction{
		"__tostring": func(L *lua.LState) int { L.Push(lua.LString(checkHandle(L, 1).String())); return 1 },
		"__eq": func(L *lua.LState) int {
			a, ok1 := value.AsHandle(L.Get(1))
			b, ok2 := value.AsHandle(L.Get(2))
			L.Push(lua.LBool(ok1 && ok2 && a == b))
			return 1
		},
	})
}

func checkRef(L *lua.LState, n int) shield.ClientRef {
	r, ok := value.AsClientRef(L.Get(n))
	if !ok {
		L.ArgError(n, "client ref expected, got "+kindOf(L.Get(n)))
	}
	return r
}

// player is nil before login.
func player(id string) lua.LValue {
	if id == "" {
		return lua.LNil
	}
	return lua.LString(id)
}

func refMeta() *lua.LTable {
	return metatable("ClientRef", map[string]lua.LGFunction{
		"player_id": func(L *lua.LState) int { L.Push(player(checkRef(L, 1).Player)); return 1 },
		"session":   func(L *lua.LState) int { L.Push(lua.LString(checkRef(L, 1).Session)); return 1 },
		"epoch":     func(L *lua.LState) int { L.Push(lua.LNumber(checkRef(L, 1).Epoch)); return 1 },
		"gateway":   func(L *lua.LState) int { L.Push(lua.LString(checkRef(L, 1).Gateway)); return 1 },
		"ref":       func(L *lua.LState) int { checkRef(L, 1); L.Push(L.Get(1)); return 1 },
	}, map[string]lua.LGFunction{
		"__tostring": func(L *lua.LState) int { L.Push(lua.LString(checkRef(L, 1).String())); return 1 },
		"__eq": func(L *lua.LState) int {
			a, ok1 := value.AsClientRef(L.Get(1))
			b, ok2 := value.AsClientRef(L.Get(2))
			L.Push(lua.LBool(ok1 && ok2 && a == b))
			return 1
		},
	})
}

// throw raises an Error.
func throw(L *lua.LState, err *shield.Error) {
	L.Error(newError(err), 1)
}

func expired(what, instead string) *shield.Error {
	return shield.Errorf(shield.ContextExpired, "%s was used after its handler had returned: %s", what, instead)
}

// checkClient reads a client whose handler still runs.
func checkClient(L *lua.LState, n int) *service.Client {
	if ud, ok := L.Get(n).(*lua.LUserData); ok {
		if c, ok := ud.Value.(*service.Client); ok {
			if c.Turn.Over() {
				throw(L, expired("client", "keep client:ref() instead"))
			}
			return c
		}
	}
	L.ArgError(n, "client expected, got "+kindOf(L.Get(n)))
	return nil
}

func clientMeta() *lua.LTable {
	return metatable("client", map[string]lua.LGFunction{
		"player_id": func(L *lua.LState) int { L.Push(player(checkClient(L, 1).Ref.Player)); return 1 },
		"session":   func(L *lua.LState) int { L.Push(lua.LString(checkClient(L, 1).Ref.Session)); return 1 },
		"epoch":     func(L *lua.LState) int { L.Push(lua.LNumber(checkClient(L, 1).Ref.Epoch)); return 1 },
		"gateway":   func(L *lua.LState) int { L.Push(lua.LString(checkClient(L, 1).Ref.Gateway)); return 1 },
		"ref":       func(L *lua.LState) int { L.Push(of(L).Ref(checkClient(L, 1).Ref)); return 1 },
	}, map[string]lua.LGFunction{
		"__tostring": func(L *lua.LState) int {
			ud := L.CheckUserData(1)
			if c, ok := ud.Value.(*service.Client); ok {
				L.Push(lua.LString("client " + c.Ref.String()))
				return 1
			}
			L.Push(lua.LString("client"))
			return 1
		},
	})
}

// clientOrRef takes what names a session, for functions that return an Error.
func clientOrRef(v lua.LValue) (shield.ClientRef, *shield.Error) {
	if r, ok := value.AsClientRef(v); ok {
		return r, nil
	}
	if ud, ok := v.(*lua.LUserData); ok {
		if c, ok := ud.Value.(*service.Client); ok {
			if c.Turn.Over() {
				return shield.ClientRef{}, expired("client", "keep client:ref() instead")
			}
			return c.Ref, nil
		}
	}
	return shield.ClientRef{}, shield.Errorf(shield.InvalidTarget, "the first argument is a %s: want a client or a client ref", kindOf(v))
}

func contextMeta() *lua.LTable {
	return metatable("ctx", nil, map[string]lua.LGFunction{
		"__index": contextIndex,
		"__tostring": func(L *lua.LState) int {
			t, _ := L.CheckUserData(1).Value.(*service.Turn)
			if t == nil {
				L.ArgError(1, "ctx expected")
			}
			L.Push(lua.LString("ctx of " + t.Method))
			return 1
		},
	})
}

func contextIndex(L *lua.LState) int {
	ud, _ := L.Get(1).(*lua.LUserData)
	if ud == nil {
		L.ArgError(1, "ctx expected")
	}
	t, _ := ud.Value.(*service.Turn)
	if t == nil {
		L.ArgError(1, "ctx expected")
	}
	if t.Over() {
		throw(L, expired("ctx", "copy what you need while the handler runs"))
	}
	var v lua.LValue = lua.LNil
	switch L.Get(2).String() {
	case "sender":
		if h, ok := t.Sender(); ok {
			v = of(L).Ref(h)
		}
	case "trace":
		v = lua.LString(t.Trace().String())
	case "deadline":
		if d, ok := t.Deadline(); ok {
			v = lua.LNumber(d.Milliseconds())
		}
	case "method":
		v = lua.LString(t.Method)
	case "reason":
		if t.Reason() != "" {
			v = lua.LString(t.Reason())
		}
	}
	L.Push(v)
	return 1
}
