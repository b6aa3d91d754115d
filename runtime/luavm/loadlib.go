package luavm

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Compiling at run time: load and loadstring.

func baseLoad(L *lua.LState) int {
	if _, ok := L.Get(1).(lua.LString); ok {
		return baseLoadstring(L)
	}
	fn := L.CheckFunction(1)
	var src strings.Builder
	for {
		L.Push(fn)
		L.Call(0, 1)
		piece := L.Get(-1)
		L.Pop(1)
		if piece == lua.LNil || piece == lua.LString("") {
			break
		}
		s, ok := piece.(lua.LString)
		if !ok {
			L.RaiseError("load: the reader function must return a string")
		}
		src.WriteString(string(s))
		if src.Len() > maxLoad {
			break // loadChunk says why
		}
	}
	return loadChunk(L, src.String(), "=(load)")
}

func baseLoadstring(L *lua.LState) int {
	src := L.CheckString(1)
	line, _, _ := strings.Cut(src, "\n")
	return loadChunk(L, src, "="+`[string "`+clip(line, 40)+`"]`)
}

// maxLoad is the longest source that a running script may have compiled: the
// compiler can't be interrupted, and takes a hundred times the memory.
const maxLoad = 512 << 10

// loadChunk compiles source into a function of the caller's globals, or of the
// environment in argument 4.
func loadChunk(L *lua.LState, src, name string) int {
	name = L.OptString(2, name)
	if len(src) > maxLoad {
		L.RaiseError("load: the source is longer than %d bytes; keep data in another form", maxLoad)
	}
	if strings.HasPrefix(src, "\x1b") {
		L.Push(lua.LNil)
		L.Push(lua.LString("load: binary chunks are not taken"))
		return 2
	}
	code, err := compile(strings.TrimLeft(name, "=@"), src)
	if err != nil {
		L.Push(lua.LNil)
		L.Push(lua.LString(err.Error()))
		return 2
	}
	fn := VMOf(L).closure(code.Proto)
	if env, ok := L.Get(4).(*lua.LTable); ok {
		checkWrite(L, env)
		fn.Env = env
	}
	L.Push(fn)
	return 1
}
