package luaapi

import (
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// pure are the parts of shield.* that do nothing to anybody: they work in a
// scratch VM too, where a new version of a script is tried out.
// A pool and the helpers of client_rpc are made there and used later.
var pure = []string{"null", "array", "json", "now", "monotonic", "config", "self", "names", "query", "pool", "client_rpc", "cluster.node_id", "cluster.node_epoch"}

// New makes the API for one Runtime.
func New() service.API {
	push := &pushes{}
	return service.API{
		Error:     newError,
		Context:   contextMeta(),
		Client:    clientMeta(),
		Handle:    handleMeta(),
		ClientRef: refMeta(),
		Pure:      pure,
		Shield: luavm.Lib{
			"send": send, "call": call, "call_timeout": callTimeout,
			"spawn": spawn, "self": self, "query": query, "names": names,
			"register": register, "unregister": unregister,
			"exit": exit, "panic": panics,
			"timer": timer, "timer_once": timerOnce, "cancel_timer": cancelTimer,
			"sleep": sleep, "fork": fork,
			"now": now, "monotonic": monotonic, "config": config,
			"null": value.Null, "array": array,
			"json":       luavm.Lib{"encode": jsonEncode, "decode": jsonDecode},
			"log":        luavm.Lib{"debug": logDebug, "info": logInfo, "warn": logWarn, "error": logError},
			"event":      luavm.Lib{"on": eventOn, "off": eventOff, "emit": eventEmit, "clear": eventClear},
			"cluster":    luavm.Lib{"query": clusterQuery, "nodes": clusterNodes, "node_id": clusterNodeID, "node_epoch": clusterNodeEpoch},
			"pool":       newPool,
			"client":     luavm.Lib{"bind": clientBind, "close": clientClose},
			"client_rpc": luavm.Lib{luavm.Missing: luavm.Resolver(push.index)},
		},
	}
}

// of finds the service that calls.
func of(L *lua.LState) *service.Service {
	s, ok := luavm.OwnerOf(L).(*service.Service)
	if !ok {
		L.RaiseError("shield.* works inside a service only")
	}
	return s
}

// newTable makes a table of the right size. CreateTable does not touch its
// receiver.
func newTable(narr, nrec int) *lua.LTable { return (*lua.LState)(nil).CreateTable(narr, nrec) }

// goFunc makes a function that belongs to no VM.
func goFunc(f lua.LGFunction) *lua.LFunction {
	return &lua.LFunction{IsG: true, Env: newTable(0, 0), GFunction: f}
}

// metatable makes a locked metatable. methods becomes __index.
func metatable(kind string, methods map[string]lua.LGFunction, meta map[string]lua.LGFunction) *lua.LTable {
	t := newTable(0, len(meta)+4)
	if methods != nil {
		index := newTable(0, len(methods))
		for name, f := range methods {
			index.RawSetString(name, goFunc(f))
		}
		t.RawSetString("__index", index)
	}
	for name, f := range meta {
		t.RawSetString(name, goFunc(f))
	}
	t.RawSetString("__newindex", goFunc(func(L *lua.LState) int {
		L.RaiseError("%s is read-only", kind)
		return 0
	}))
	t.RawSetString("__metatable", lua.LString(kind))
	return t
}

// errorMeta is the metatable of every Error. It is locked and holds no state,
// so all VMs share it.
var errorMeta = func() *lua.LTable {
	t := newTable(0, 2)
	t.RawSetString("__tostring", goFunc(func(L *lua.LState) int {
		e := L.CheckTable(1)
		L.Push(lua.LString(e.RawGetString("code").String() + ": " + e.RawGetString("message").String()))
		return 1
	}))
	t.RawSetString("__concat", goFunc(func(L *lua.LState) int {
		L.Push(lua.LString(L.ToStringMeta(L.Get(1)).String() + L.ToStringMeta(L.Get(2)).String()))
		return 1
	}))
	t.RawSetString("__metatable", lua.LString("Error"))
	return t
}()

// newError makes the Lua form of an error.
func newError(err *shield.Error) lua.LValue {
	t := newTable(0, 4)
	t.RawSetString("code", lua.LString(err.Code))
	t.RawSetString("message", lua.LString(err.Message))
	t.RawSetString("retryable", lua.LBool(err.Retryable()))
	if err.Detail != nil {
		if d, cerr := value.FromGo(err.Detail); cerr == nil && d != lua.LNil {
			t.RawSetString("detail", d)
		}
	}
	t.Metatable = errorMeta
	return t
}

// refuse returns false, Error.
func refuse(L *lua.LState, err *shield.Error) int {
	L.Push(lua.LFalse)
	L.Push(newError(err))
	return 2
}

// none returns nil, Error.
func none(L *lua.LState, err *shield.Error) int {
	L.Push(lua.LNil)
	L.Push(newError(err))
	return 2
}

// done returns true, or false and the Error.
func done(L *lua.LState, err *shield.Error) int {
	if err != nil {
		return refuse(L, err)
	}
	L.Push(lua.LTrue)
	return 1
}
