package luavm

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// Cover is asked about each file that is compiled: it gets the lines that can
// run, in order, and gives the function that hears of each run of one, from
// whichever goroutine runs the script; nil = this file does not count.
type Cover func(path string, lines []int) (hit func(line int))

// coverName stands for the hit function in the instrumented source; no script
// can spell it.
const coverName = "\x00cover"

// The numbers of two instructions of lua's opcode.go.
const (
	opLoadK     = 2
	opGetGlobal = 6
)

// cover compiles c again with a call in front of each statement. Lines, names
// and what the script can see stay as they are.
func cover(c *Code, ask Cover) error {
	chunk, err := parseSource(c.Path, c.Source)
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	chunk = coverBlock(chunk, seen)
	lines := make([]int, 0, len(seen))
	for line := range seen {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	hit := ask(c.Path, lines)
	if hit == nil {
		return nil
	}
	proto, err := compileChunk(c.Path, c.Source, chunk)
	if err != nil {
		return err
	}
	fn := &lua.LFunction{IsG: true, Env: &lua.LTable{Metatable: lua.LNil}, GFunction: func(L *lua.LState) int {
		hit(int(L.CheckNumber(1)))
		return 0
	}}
	putCover(proto, fn)
	c.Proto = proto
	return nil
}

// putCover replaces every read of the global coverName by the function itself,
// which a table of constants can hold.
func putCover(p *lua.FunctionProto, fn *lua.LFunction) {
	at := -1
	for i, k := range p.Constants {
		if k == lua.LString(coverName) {
			at, p.Constants[i] = i, fn
		}
	}
	for i, inst := range p.Code {
		if at >= 0 && inst>>26 == opGetGlobal && int(inst&0x3ffff) == at {
			p.Code[i] = inst&^(uint32(0x3f)<<26) | opLoadK<<26
		}
	}
	for _, inner := range p.FunctionPrototypes {
		putCover(inner, fn)
	}
}

// coverBlock puts a call in front of each statement of a block and of all that
// it holds.
func coverBlock(block []ast.Stmt, seen map[int]bool) []ast.Stmt {
	out := make([]ast.Stmt, 0, 2*len(block))
	inner := func(e ...ast.Expr) { coverExprs(e, seen) }
	for _, s := range block {
		if line := s.Line(); line > 0 {
			seen[line] = true
			out = append(out, coverCall(line))
		}
		switch s := s.(type) {
		case *ast.DoBlockStmt:
			s.Stmts = coverBlock(s.Stmts, seen)
		case *ast.WhileStmt:
			s.Stmts = coverBlock(s.Stmts, seen)
		case *ast.RepeatStmt:
			s.Stmts = coverBlock(s.Stmts, seen)
		case *ast.IfStmt:
			s.Then, s.Else = coverBlock(s.Then, seen), coverBlock(s.Else, seen)
		case *ast.NumberForStmt:
			s.Stmts = coverBlock(s.Stmts, seen)
		case *ast.GenericForStmt:
			s.Stmts = coverBlock(s.Stmts, seen)
		}
		stmtChildren(s, inner, func([]ast.Stmt) {})
		out = append(out, s)
	}
	return out
}

func coverExprs(exprs []ast.Expr, seen map[int]bool) {
	for _, e := range exprs {
		if f, ok := e.(*ast.FunctionExpr); ok && f != nil {
			f.Stmts = coverBlock(f.Stmts, seen)
			continue
		}
		if e != nil {
			exprChildren(e, func(more ...ast.Expr) { coverExprs(more, seen) }, func([]ast.Stmt) {})
		}
	}
}

func coverCall(line int) ast.Stmt {
	name := &ast.IdentExpr{Value: coverName}
	arg := &ast.NumberExpr{Value: lua.LNumber(line).String()}
	call := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{arg}}
	stmt := &ast.FuncCallStmt{Expr: call}
	for _, n := range []interface {
		SetLine(int)
		SetLastLine(int)
	}{name, arg, call, stmt} {
		n.SetLine(line)
		n.SetLastLine(line)
	}
	return stmt
}
