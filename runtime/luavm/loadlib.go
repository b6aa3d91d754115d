package luavm

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
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

// maxChunkName bounds the name of a chunk: a traceback has it in every line.
const maxChunkName = 100

// maxLookups is what the compiler may spend on finding constants, about a second:
// it compares each use with all constants of the function that came before.
const maxLookups = 100_000_000

func compileLoaded(name, src string) (*lua.FunctionProto, error) {
	chunk, err := parseSource(name, src)
	if err != nil {
		return nil, err
	}
	if lookups(chunk) > maxLookups {
		return nil, &ScriptError{File: name, Message: "a function has too many different constants to be compiled while the service waits; make several functions of it, or keep data in another form (shield.json.decode)"}
	}
	return compileChunk(name, src, chunk)
}

// lookups is how many comparisons the compiler makes to find the constants of a
// chunk.
func lookups(chunk []ast.Stmt) (total int) {
	type constant struct {
		number bool
		text   string
	}
	type places map[constant]int // in the list of constants of one function
	type node struct {
		stmt ast.Stmt
		expr ast.Expr
		of   places
	}
	var todo []node
	of := places{}
	use := func(number bool, text string) {
		at, ok := of[constant{number, text}]
		if !ok {
			at = len(of)
			of[constant{number, text}] = at
		}
		total += at + 1
	}
	exprs := func(es ...ast.Expr) {
		for _, e := range es {
			todo = append(todo, node{expr: e, of: of})
		}
	}
	block := func(b []ast.Stmt) {
		for _, s := range b {
			todo = append(todo, node{stmt: s, of: of})
		}
	}
	for block(chunk); len(todo) > 0 && total <= maxLookups; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		of = n.of
		switch e := n.expr.(type) {
		case *ast.NumberExpr:
			use(true, e.Value)
		case *ast.StringExpr:
			use(false, e.Value)
		case *ast.IdentExpr:
			use(false, e.Value)
		case *ast.FuncCallExpr:
			use(false, e.Method)
		case *ast.FunctionExpr:
			of = places{}
		}
		stmtChildren(n.stmt, exprs, block)
		exprChildren(n.expr, exprs, block)
	}
	return total
}

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
	proto, err := compileLoaded(clip(strings.TrimLeft(name, "=@"), maxChunkName), tidySource(src))
	if err != nil {
		L.Push(lua.LNil)
		L.Push(lua.LString(err.Error()))
		return 2
	}
	fn := VMOf(L).closure(proto)
	if env, ok := L.Get(4).(*lua.LTable); ok {
		checkWrite(L, env)
		fn.Env = env
	}
	L.Push(fn)
	return 1
}
