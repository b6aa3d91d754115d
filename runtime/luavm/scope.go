package luavm

import (
	"math"
	"slices"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// gopher-lua notes for each local of a function from which instruction on it
// exists, but where it ends only for some, and wrongly: EndScope (compile.go:599)
// takes the number of the register for the number of the local. The blocks of
// the source say it, so the notes are mended from there, for whoever wants to
// know what a register holds (see names.go).

// scopes are the locals of one function in the order of their declarations.
type scopes struct {
	first, last int // lines of the function
	names       []string
	ends        []int // the last line of the block; endsWithFunction
	next        []int // the first local that is declared behind the block
}

const endsWithFunction = math.MaxInt

// mendLocals corrects DbgLocals of proto and of all functions in it. What it can't
// find in the source gets no end, and no name later.
func mendLocals(proto *lua.FunctionProto, chunk []ast.Stmt) {
	w := &scopeWalker{}
	w.function(proto.LineDefined, proto.LastLineDefined, nil, chunk)
	var mend func(p *lua.FunctionProto)
	mend = func(p *lua.FunctionProto) {
		for i, l := range p.DbgLocals {
			l.EndPc = 0
			if i < int(p.NumParameters) {
				l.EndPc = len(p.Code)
			}
		}
		if i := slices.IndexFunc(w.all, func(s *scopes) bool { return s.of(p) }); i >= 0 {
			w.all[i].mend(p)
			w.all = slices.Delete(w.all, i, i+1) // another one of that line is another function
		}
		for _, inner := range p.FunctionPrototypes {
			mend(inner)
		}
	}
	mend(proto)
}

// of reports whether s may be the locals of p.
func (s *scopes) of(p *lua.FunctionProto) bool {
	return s.first == p.LineDefined && s.last == p.LastLineDefined &&
		slices.EqualFunc(s.names, p.DbgLocals, func(name string, l *lua.DbgLocalInfo) bool { return name == l.Name })
}

func (s *scopes) mend(p *lua.FunctionProto) {
	for i, l := range p.DbgLocals {
		l.EndPc = len(p.Code)
		if s.ends[i] == endsWithFunction {
			continue
		}
		from := min(l.StartPc, len(p.Code))
		if n := slices.IndexFunc(p.DbgSourcePositions[from:], func(line int) bool { return line > s.ends[i] }); n >= 0 {
			l.EndPc = from + n
		}
		if next := s.next[i]; next < len(p.DbgLocals) {
			l.EndPc = min(l.EndPc, p.DbgLocals[next].StartPc)
		}
	}
}

// scopeWalker follows the compiler through the source.
type scopeWalker struct {
	all []*scopes
	cur *scopes
}

func (w *scopeWalker) function(first, last int, params []string, body []ast.Stmt) {
	outer := w.cur
	w.cur = &scopes{first: first, last: last}
	w.all = append(w.all, w.cur)
	w.declare(params...)
	w.stmts(body)
	for i := range w.cur.names {
		if w.cur.ends[i] == 0 {
			w.cur.ends[i], w.cur.next[i] = endsWithFunction, math.MaxInt
		}
	}
	w.cur = outer
}

func (w *scopeWalker) declare(names ...string) {
	for _, n := range names {
		w.cur.names = append(w.cur.names, n)
		w.cur.ends = append(w.cur.ends, 0)
		w.cur.next = append(w.cur.next, 0)
	}
}

// block is a block that ends on a line.
func (w *scopeWalker) block(lastLine int, body func()) {
	from := len(w.cur.names)
	body()
	for i := from; i < len(w.cur.names); i++ {
		if w.cur.ends[i] == 0 {
			w.cur.ends[i], w.cur.next[i] = lastLine, len(w.cur.names)
		}
	}
}

func (w *scopeWalker) stmts(list []ast.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *scopeWalker) stmt(s ast.Stmt) {
	last := max(s.Line(), s.LastLine())
	switch s := s.(type) {
	case *ast.AssignStmt:
		w.exprs(s.Rhs...)
		w.exprs(s.Lhs...)
	case *ast.LocalAssignStmt:
		if len(s.Names) == 1 && len(s.Exprs) == 1 {
			if _, recursive := s.Exprs[0].(*ast.FunctionExpr); recursive {
				w.declare(s.Names...)
				w.exprs(s.Exprs...)
				return
			}
		}
		w.exprs(s.Exprs...)
		w.declare(s.Names...)
	case *ast.FuncCallStmt:
		w.exprs(s.Expr)
	case *ast.ReturnStmt:
		w.exprs(s.Exprs...)
	case *ast.FuncDefStmt:
		w.exprs(s.Name.Func, s.Name.Receiver)
		w.closure(s.Func, s.Name.Method != "")
	case *ast.DoBlockStmt:
		w.block(last, func() { w.stmts(s.Stmts) })
	case *ast.WhileStmt:
		w.exprs(s.Condition)
		w.block(last, func() { w.stmts(s.Stmts) })
	case *ast.RepeatStmt:
		w.block(max(last, s.Condition.Line()), func() { w.stmts(s.Stmts); w.exprs(s.Condition) })
	case *ast.IfStmt:
		w.exprs(s.Condition)
		end := last
		if len(s.Else) > 0 && len(s.Then) > 0 {
			end = max(s.Else[0].Line()-1, s.Then[len(s.Then)-1].Line())
		}
		w.block(end, func() { w.stmts(s.Then) })
		w.block(last, func() { w.stmts(s.Else) })
	case *ast.NumberForStmt:
		w.block(last, func() {
			for i, e := range []ast.Expr{s.Init, s.Limit, s.Step} {
				w.declare([]string{"(for index)", "(for limit)", "(for step)"}[i])
				w.exprs(e)
			}
			w.declare(s.Name)
			w.stmts(s.Stmts)
		})
	case *ast.GenericForStmt:
		w.block(last, func() {
			w.declare("(for generator)", "(for state)", "(for control)")
			w.exprs(s.Exprs...)
			w.declare(s.Names...)
			w.stmts(s.Stmts)
		})
	}
}

// exprs looks for functions, each of which has locals of its own.
func (w *scopeWalker) exprs(list ...ast.Expr) {
	for _, e := range list {
		switch e := e.(type) {
		case *ast.FunctionExpr:
			w.closure(e, false)
		case *ast.AttrGetExpr:
			w.exprs(e.Object, e.Key)
		case *ast.FuncCallExpr:
			w.exprs(e.Func, e.Receiver)
			w.exprs(e.Args...)
		case *ast.TableExpr:
			for _, f := range e.Fields {
				w.exprs(f.Key, f.Value)
			}
		case *ast.LogicalOpExpr:
			w.exprs(e.Lhs, e.Rhs)
		case *ast.RelationalOpExpr:
			w.exprs(e.Lhs, e.Rhs)
		case *ast.StringConcatOpExpr:
			w.exprs(e.Lhs, e.Rhs)
		case *ast.ArithmeticOpExpr:
			w.exprs(e.Lhs, e.Rhs)
		case *ast.UnaryMinusOpExpr:
			w.exprs(e.Expr)
		case *ast.UnaryNotOpExpr:
			w.exprs(e.Expr)
		case *ast.UnaryLenOpExpr:
			w.exprs(e.Expr)
		}
	}
}

func (w *scopeWalker) closure(f *ast.FunctionExpr, method bool) {
	params := f.ParList.Names
	if method {
		params = append([]string{"self"}, params...)
	}
	if f.ParList.HasVargs {
		params = append(slices.Clone(params), "arg")
	}
	w.function(f.Line(), f.LastLine(), params, f.Stmts)
}
