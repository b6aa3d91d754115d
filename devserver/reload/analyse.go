package reload

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Analyse reads one version of a file, as the compiler gets it: without a byte
// order mark, with \n at line ends.
func Analyse(path, source string) (*Shape, error) {
	chunk, err := parse.Parse(strings.NewReader(source), path)
	if err != nil {
		return nil, fmt.Errorf("analyse %s: %w", path, err)
	}
	a := &analyser{shape: &Shape{Path: path, byKey: map[string]*slot{}, result: place{root: rootModule}}}
	a.file(chunk)
	return a.shape, nil
}

// analyser walks a file in the order in which the compiler does, because that
// is the order of a function's prototypes.
type analyser struct {
	shape *Shape
	fn    *function
	scope *scope
	loops int      // around the current line, inside the file's own function
	under []string // conditions and loops around the current line
	stmt  ast.Stmt // innermost statement, and its text once somebody asked
	text  string

	returned []*ast.ReturnStmt
}

// scope is one block: what it declares, newest last.
type scope struct {
	parent *scope
	fn     *function
	path   string
	blocks int
	names  []*local
}

// site says where an expression stands: which slot it initialises, if any, and
// what it is a part of.
type site struct {
	slot   *place
	coarse string
	made   bool // by a constructor
}

func (a *analyser) file(chunk []ast.Stmt) {
	main := &function{name: "main chunk", takes: map[string]*local{}}
	a.shape.fns = []*function{main}
	a.fn = main
	a.scope = &scope{fn: main}
	a.findModule(chunk)
	a.block(chunk)
	a.finish()
}

// findModule looks ahead for `return M`, so that the fields of M are the
// module's from the first line on.
func (a *analyser) findModule(chunk []ast.Stmt) {
	if n := len(chunk); n > 0 {
		if r, ok := chunk[n-1].(*ast.ReturnStmt); ok && len(r.Exprs) > 0 {
			a.returned = append(a.returned, r)
		}
	}
}

func (a *analyser) isModule(name string) bool {
	if len(a.returned) == 0 || a.scope.parent != nil || a.fn.id != 0 {
		return false
	}
	id, ok := a.returned[0].Exprs[0].(*ast.IdentExpr)
	return ok && id.Value == name
}

// finish notes for each local which functions capture it.
func (a *analyser) finish() {
	for _, l := range a.shape.locals {
		l.takers = map[string]bool{}
	}
	for _, f := range a.shape.fns {
		for _, l := range f.takes {
			l.takers[f.name] = true
		}
	}
}

func (a *analyser) declare(name string) *local {
	l := &local{
		id: len(a.shape.locals), name: name, fn: a.fn, block: a.scope.path,
		single: a.fn.id == 0 && a.loops == 0,
	}
	a.shape.locals = append(a.shape.locals, l)
	return l
}

func (a *analyser) enter(l *local) { a.scope.names = append(a.scope.names, l) }

func (a *analyser) push() {
	a.scope.blocks++
	a.scope = &scope{parent: a.scope, fn: a.fn, path: a.scope.path + "/" + strconv.Itoa(a.scope.blocks)}
}

func (a *analyser) pop() { a.scope = a.scope.parent }

// resolve finds the local that name means here, nil for a global, and notes it
// in every function that has to capture it.
func (a *analyser) resolve(name string) *local {
	for s := a.scope; s != nil; s = s.parent {
		for i := len(s.names) - 1; i >= 0; i-- {
			l := s.names[i]
			if l.name != name {
				continue
			}
			for f := a.fn; f != l.fn; f = f.parent {
				f.takes[name] = l
			}
			return l
		}
	}
	return nil
}

func (a *analyser) block(stmts []ast.Stmt) {
	outer, text := a.stmt, a.text
	for _, s := range stmts {
		a.stmt, a.text = s, ""
		a.statement(s)
	}
	a.stmt, a.text = outer, text
}

func (a *analyser) inner(stmts []ast.Stmt) {
	a.push()
	a.block(stmts)
	a.pop()
}

// around walks a block that a condition or loop decides on.
func (a *analyser) around(what string, loop bool, walk func()) {
	a.under = append(a.under, what)
	if loop {
		a.loops++
	}
	walk()
	if loop {
		a.loops--
	}
	a.under = a.under[:len(a.under)-1]
}

func (a *analyser) statement(s ast.Stmt) {
	switch x := s.(type) {
	case *ast.LocalAssignStmt:
		a.localStmt(x)
	case *ast.AssignStmt:
		a.assign(x.Lhs, x.Rhs, x.Line())
	case *ast.FuncDefStmt:
		a.funcDef(x)
	case *ast.FuncCallStmt:
		a.callStmt(x)
	case *ast.DoBlockStmt:
		a.inner(x.Stmts)
	case *ast.WhileStmt:
		a.expr(x.Condition, site{coarse: "while"})
		a.around("while "+render(x.Condition), true, func() { a.inner(x.Stmts) })
	case *ast.RepeatStmt:
		a.around("until "+render(x.Condition), true, func() {
			a.push()
			a.block(x.Stmts)
			a.stmt, a.text = x, ""
			a.expr(x.Condition, site{coarse: "until"})
			a.pop()
		})
	case *ast.IfStmt:
		a.ifStmt(x)
	case *ast.NumberForStmt:
		a.numberFor(x)
	case *ast.GenericForStmt:
		a.genericFor(x)
	case *ast.ReturnStmt:
		a.returnStmt(x)
	}
}

func (a *analyser) ifStmt(x *ast.IfStmt) {
	cond := render(x.Condition)
	a.expr(x.Condition, site{coarse: "if"})
	a.around("if "+cond, false, func() { a.inner(x.Then) })
	if len(x.Else) > 0 {
		a.around("unless "+cond, false, func() { a.inner(x.Else) })
	}
}

func (a *analyser) numberFor(x *ast.NumberForStmt) {
	what := "for " + x.Name + " = " + render(x.Init) + ", " + render(x.Limit) + ", " + render(x.Step)
	a.push()
	for _, e := range []ast.Expr{x.Init, x.Limit, x.Step} {
		a.expr(e, site{coarse: "for"})
	}
	a.around(what, true, func() {
		a.enter(a.declare(x.Name))
		a.block(x.Stmts)
	})
	a.pop()
}

func (a *analyser) genericFor(x *ast.GenericForStmt) {
	a.push()
	for _, e := range x.Exprs {
		a.expr(e, site{coarse: "for"})
	}
	r := renderer{}
	r.list(x.Exprs)
	a.around("for "+strings.Join(x.Names, ", ")+" in "+r.b.String(), true, func() {
		for _, n := range x.Names {
			a.enter(a.declare(n))
		}
		a.block(x.Stmts)
	})
	a.pop()
}

func (a *analyser) localStmt(x *ast.LocalAssignStmt) {
	made := make([]*local, len(x.Names))
	for i, n := range x.Names {
		made[i] = a.declare(n)
		made[i].line = x.Line()
		made[i].init = initialiser(x.Exprs, i)
		if a.isModule(n) {
			a.shape.module = made[i]
		}
	}
	// The compiler declares a local before its function, also without `local function`.
	early := false
	if len(x.Names) == 1 && len(x.Exprs) == 1 {
		_, early = x.Exprs[0].(*ast.FunctionExpr)
	}
	if early {
		a.enter(made[0])
	}
	for i, e := range x.Exprs {
		if i < len(made) {
			a.initialise(made[i], e, x.Exprs, i)
		} else {
			a.expr(e, site{coarse: "local"})
		}
	}
	for i := len(x.Exprs); i < len(made); i++ {
		if made[i].single {
			a.addSlot(a.shape.placeOf(made[i]), made[i].init, x.Line(), false)
		}
	}
	if !early {
		for _, l := range made {
			a.enter(l)
		}
	}
}

func (a *analyser) initialise(l *local, e ast.Expr, all []ast.Expr, i int) {
	at := site{coarse: "local " + l.name}
	if l.single && !spreads(all, i) {
		p := a.shape.placeOf(l)
		at.slot = &p
		if ref := a.tableAt(e); ref != nil && l != a.shape.module {
			l.alias = ref
		}
	} else if l.single {
		a.addSlot(a.shape.placeOf(l), l.init, l.line, false)
	}
	a.expr(e, at)
}

func (a *analyser) funcDef(x *ast.FuncDefStmt) {
	if x.Name.Func != nil {
		a.assign([]ast.Expr{x.Name.Func}, []ast.Expr{x.Func}, x.Line())
		return
	}
	a.expr(x.Name.Receiver, site{coarse: "function"})
	at := site{coarse: render(x.Name.Receiver) + "." + x.Name.Method + " ="}
	if a.fn.id == 0 {
		k := key{kind: keyString, text: x.Name.Method}
		if p := a.tableAt(x.Name.Receiver); p != nil {
			q := p.with(k)
			at.slot = &q
		}
	}
	a.function(x.Func, at, true)
}

func (a *analyser) callStmt(x *ast.FuncCallStmt) {
	call, ok := x.Expr.(*ast.FuncCallExpr)
	if !ok {
		return
	}
	if a.fn.id == 0 && isSetmetatable(call) && a.resolve("setmetatable") == nil {
		if p := a.tableAt(call.Args[0]); p != nil {
			a.expr(call.Func, site{})
			a.expr(call.Args[0], site{})
			q := p.with(key{kind: keyMeta})
			a.expr(call.Args[1], site{slot: &q, coarse: "setmetatable " + render(call.Args[0])})
			return
		}
	}
	if a.fn.id == 0 {
		a.addStatement(render(call), x.Line())
	}
	a.expr(call, site{})
}

func (a *analyser) returnStmt(x *ast.ReturnStmt) {
	for i, e := range x.Exprs {
		at := site{coarse: "return " + strconv.Itoa(i)}
		if a.fn.id == 0 && i == 0 {
			p := a.placeOf(e)
			switch {
			case p == nil:
				at.slot = &place{root: rootModule}
			case p.root != rootModule || len(p.keys) > 0:
				a.shape.result = *p
			}
		}
		a.expr(e, at)
	}
}

func (a *analyser) expr(e ast.Expr, at site) {
	if at.slot != nil && !a.hasOwnSlots(e) {
		a.exprSlot(e, at)
	}
	switch x := e.(type) {
	case *ast.IdentExpr:
		a.resolve(x.Value)
	case *ast.AttrGetExpr:
		a.expr(x.Object, site{coarse: at.coarse})
		a.expr(x.Key, site{coarse: at.coarse})
	case *ast.TableExpr:
		a.table(x, at)
	case *ast.FuncCallExpr:
		a.call(x, at)
	case *ast.LogicalOpExpr:
		a.both(x.Lhs, x.Rhs, at)
	case *ast.RelationalOpExpr:
		a.both(x.Lhs, x.Rhs, at)
	case *ast.StringConcatOpExpr:
		a.both(x.Lhs, x.Rhs, at)
	case *ast.ArithmeticOpExpr:
		a.both(x.Lhs, x.Rhs, at)
	case *ast.UnaryMinusOpExpr:
		a.expr(x.Expr, site{coarse: at.coarse})
	case *ast.UnaryNotOpExpr:
		a.expr(x.Expr, site{coarse: at.coarse})
	case *ast.UnaryLenOpExpr:
		a.expr(x.Expr, site{coarse: at.coarse})
	case *ast.FunctionExpr:
		a.function(x, at, false)
	}
}

func (a *analyser) both(l, r ast.Expr, at site) {
	a.expr(l, site{coarse: at.coarse + " left"})
	a.expr(r, site{coarse: at.coarse + " right"})
}

func (a *analyser) call(x *ast.FuncCallExpr, at site) {
	if at.slot != nil && a.hasOwnSlots(x) {
		a.expr(x.Func, site{})
		a.expr(x.Args[0], at)
		q := at.slot.with(key{kind: keyMeta})
		a.expr(x.Args[1], site{slot: &q, coarse: at.coarse + " metatable", made: true})
		return
	}
	name := ""
	if x.Func != nil {
		a.expr(x.Func, site{coarse: at.coarse})
		name = render(x.Func)
	} else {
		a.expr(x.Receiver, site{coarse: at.coarse})
		name = ":" + x.Method
	}
	for i, arg := range x.Args {
		a.expr(arg, site{coarse: name + "(" + strconv.Itoa(i+1) + ")"})
	}
}

func (a *analyser) function(x *ast.FunctionExpr, at site, method bool) {
	f := &function{
		id: len(a.shape.fns), parent: a.fn, line: x.Line(), name: functionWord,
		coarse: at.coarse, context: a.context(), body: renderBody(x), takes: map[string]*local{},
	}
	a.shape.fns = append(a.shape.fns, f)
	a.fn.kids = append(a.fn.kids, f)
	if at.slot != nil {
		s := a.addSlot(*at.slot, functionWord, x.Line(), at.made)
		s.fns = append(s.fns, f)
		f.slot = s.place.key()
		f.name = a.shape.describe(s.place)
	} else if name, ok := strings.CutPrefix(at.coarse, "local "); ok {
		f.name = name
	}
	outerFn, outerScope, loops, under := a.fn, a.scope, a.loops, a.under
	a.fn, a.loops, a.under = f, 0, nil
	a.scope = &scope{parent: outerScope, fn: f}
	if method {
		a.enter(a.declare("self"))
	}
	for _, n := range x.ParList.Names {
		a.enter(a.declare(n))
	}
	if x.ParList.HasVargs {
		a.enter(a.declare("arg"))
	}
	a.block(x.Stmts)
	a.fn, a.scope, a.loops, a.under = outerFn, outerScope, loops, under
}

func (a *analyser) context() string {
	if a.text == "" && a.stmt != nil {
		a.text = renderStmt(a.stmt)
	}
	return a.text
}

// protos maps the prototypes that the compiler made of this file to its
// functions; false when main was not made of this text.
func (s *Shape) protos(main *lua.FunctionProto) (map[*lua.FunctionProto]*function, bool) {
	index := make(map[*lua.FunctionProto]*function, len(s.fns))
	var pair func(p *lua.FunctionProto, f *function) bool
	pair = func(p *lua.FunctionProto, f *function) bool {
		if len(p.FunctionPrototypes) != len(f.kids) || len(p.DbgUpvalues) != len(f.takes) {
			return false
		}
		for _, name := range p.DbgUpvalues {
			if f.takes[name] == nil {
				return false
			}
		}
		index[p] = f
		for i, kid := range p.FunctionPrototypes {
			if !pair(kid, f.kids[i]) {
				return false
			}
		}
		return true
	}
	return index, pair(main, s.fns[0])
}
