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

// maxLookups is what the compiler may spend on finding constants and names, about a
// second: it goes through lists for them, so it may take time that is quadratic in
// the length of the source. A function counts for the 12 KB that it takes meanwhile.
const (
	maxLookups     = 60_000_000
	functionLookup = 10_000
)

func compileLoaded(name, src string) (*lua.FunctionProto, error) {
	chunk, err := parseSource(name, src)
	if err != nil {
		return nil, err
	}
	if l := (lookups{}); l.count(chunk) > maxLookups {
		return nil, &ScriptError{File: name, Message: "the source has too many functions or labels, or too many different constants in one function, to be compiled while the service waits; load it in parts, or keep data in another form (shield.json.decode)"}
	}
	return compileChunk(name, src, chunk)
}

// lookups counts the comparisons that the compiler makes to find the constants,
// names and labels of a chunk.
type lookups struct {
	todo  []sought
	total int
	jumps int // labels and gotos so far
}

// sought is a part of the chunk that is still to be looked at.
type sought struct {
	stmt  ast.Stmt
	expr  ast.Expr
	of    places
	reach int // blocks around it, and names in them
}

// places are the constants of one function, by their places in its list.
type places map[constant]int

type constant struct {
	number bool
	text   string
}

func (p places) find(c constant) (comparisons int) {
	at, ok := p[c]
	if !ok {
		at = len(p)
		p[c] = at
	}
	return at + 1
}

func (l *lookups) count(chunk []ast.Stmt) int {
	l.block(chunk, places{}, 0)
	for len(l.todo) > 0 && l.total <= maxLookups {
		n := l.todo[len(l.todo)-1]
		l.todo = l.todo[:len(l.todo)-1]
		switch s := n.stmt.(type) {
		case *ast.LabelStmt, *ast.GotoStmt:
			l.jumps++
			l.total += l.jumps + n.reach
		case *ast.GenericForStmt:
			n.reach += len(s.Names)
		}
		switch e := n.expr.(type) {
		case *ast.NumberExpr:
			l.total += n.of.find(constant{true, e.Value})
		case *ast.StringExpr:
			l.total += n.of.find(constant{false, e.Value})
		case *ast.IdentExpr:
			l.total += n.of.find(constant{false, e.Value}) + n.reach
		case *ast.FuncCallExpr:
			l.total += n.of.find(constant{false, e.Method})
		case *ast.FunctionExpr:
			n.of = places{}
			n.reach += len(e.ParList.Names)
			l.total += functionLookup
		}
		exprs := func(es ...ast.Expr) {
			for _, e := range es {
				l.todo = append(l.todo, sought{expr: e, of: n.of, reach: n.reach})
			}
		}
		block := func(b []ast.Stmt) { l.block(b, n.of, n.reach) }
		stmtChildren(n.stmt, exprs, block)
		exprChildren(n.expr, exprs, block)
	}
	return l.total
}

// block puts the statements of a block on the list.
func (l *lookups) block(b []ast.Stmt, of places, reach int) {
	reach++
	for _, s := range b {
		if local, ok := s.(*ast.LocalAssignStmt); ok {
			reach += len(local.Names)
		}
		l.todo = append(l.todo, sought{stmt: s, of: of, reach: reach})
	}
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
