package reload

import (
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// The text of an initialiser is rendered from the syntax tree, so white space
// and comments are gone; a function is one word, so what is inside it can't
// change the initialiser around it.

const functionWord = "function"

// render writes e in one canonical form. Inside full, functions are written
// whole.
func render(e ast.Expr) string {
	var r renderer
	r.expr(e)
	return r.b.String()
}

func renderBody(f *ast.FunctionExpr) string {
	r := renderer{full: true}
	r.function(f)
	return r.b.String()
}

func renderStmt(s ast.Stmt) string {
	var r renderer
	r.stmt(s)
	return r.b.String()
}

type renderer struct {
	b    strings.Builder
	full bool
}

func (r *renderer) words(w ...string) {
	for _, s := range w {
		r.b.WriteString(s)
	}
}

func (r *renderer) list(es []ast.Expr) {
	for i, e := range es {
		if i > 0 {
			r.words(", ")
		}
		r.expr(e)
	}
}

func (r *renderer) binary(op string, a, b ast.Expr) {
	r.words("(")
	r.expr(a)
	r.words(" ", op, " ")
	r.expr(b)
	r.words(")")
}

func (r *renderer) unary(op string, e ast.Expr) {
	r.words("(", op, " ")
	r.expr(e)
	r.words(")")
}

func (r *renderer) expr(e ast.Expr) {
	switch x := e.(type) {
	case nil:
		r.words("nil")
	case *ast.TrueExpr:
		r.words("true")
	case *ast.FalseExpr:
		r.words("false")
	case *ast.NilExpr:
		r.words("nil")
	case *ast.NumberExpr:
		r.words(x.Value)
	case *ast.StringExpr:
		r.words(strconv.Quote(x.Value))
	case *ast.Comma3Expr:
		r.words("...")
	case *ast.IdentExpr:
		r.words(x.Value)
	case *ast.AttrGetExpr:
		r.expr(x.Object)
		if s, ok := x.Key.(*ast.StringExpr); ok && isIdentifier(s.Value) {
			r.words(".", s.Value)
			return
		}
		r.words("[")
		r.expr(x.Key)
		r.words("]")
	case *ast.TableExpr:
		r.table(x)
	case *ast.FuncCallExpr:
		r.call(x)
	case *ast.LogicalOpExpr:
		r.binary(x.Operator, x.Lhs, x.Rhs)
	case *ast.RelationalOpExpr:
		r.binary(x.Operator, x.Lhs, x.Rhs)
	case *ast.StringConcatOpExpr:
		r.binary("..", x.Lhs, x.Rhs)
	case *ast.ArithmeticOpExpr:
		r.binary(x.Operator, x.Lhs, x.Rhs)
	case *ast.UnaryMinusOpExpr:
		r.unary("-", x.Expr)
	case *ast.UnaryNotOpExpr:
		r.unary("not", x.Expr)
	case *ast.UnaryLenOpExpr:
		r.unary("#", x.Expr)
	case *ast.FunctionExpr:
		if r.full {
			r.function(x)
		} else {
			r.words(functionWord)
		}
	}
}

func (r *renderer) table(x *ast.TableExpr) {
	r.words("{")
	for i, f := range x.Fields {
		if i > 0 {
			r.words(", ")
		}
		if f.Key != nil {
			r.words("[")
			r.expr(f.Key)
			r.words("] = ")
		}
		r.expr(f.Value)
	}
	r.words("}")
}

func (r *renderer) call(x *ast.FuncCallExpr) {
	if x.AdjustRet {
		r.words("(")
		defer r.words(")")
	}
	if x.Func != nil {
		r.expr(x.Func)
	} else {
		r.expr(x.Receiver)
		r.words(":", x.Method)
	}
	r.words("(")
	r.list(x.Args)
	r.words(")")
}

func (r *renderer) function(f *ast.FunctionExpr) {
	r.words("function(", strings.Join(f.ParList.Names, ", "))
	if f.ParList.HasVargs {
		r.words(", ...")
	}
	r.words(") ")
	r.block(f.Stmts)
	r.words("end")
}

func (r *renderer) block(stmts []ast.Stmt) {
	for _, s := range stmts {
		r.stmt(s)
		r.words("; ")
	}
}

func (r *renderer) stmt(s ast.Stmt) {
	switch x := s.(type) {
	case *ast.AssignStmt:
		r.list(x.Lhs)
		r.words(" = ")
		r.list(x.Rhs)
	case *ast.LocalAssignStmt:
		r.words("local ", strings.Join(x.Names, ", "), " = ")
		r.list(x.Exprs)
	case *ast.FuncCallStmt:
		r.expr(x.Expr)
	case *ast.DoBlockStmt:
		r.words("do ")
		r.block(x.Stmts)
		r.words("end")
	case *ast.WhileStmt, *ast.RepeatStmt, *ast.NumberForStmt, *ast.GenericForStmt:
		r.loop(s)
	case *ast.IfStmt:
		r.words("if ")
		r.expr(x.Condition)
		r.words(" then ")
		r.block(x.Then)
		r.words("else ")
		r.block(x.Else)
		r.words("end")
	case *ast.FuncDefStmt:
		r.words("function ")
		if x.Name.Func != nil {
			r.expr(x.Name.Func)
		} else {
			r.expr(x.Name.Receiver)
			r.words(":", x.Name.Method)
		}
		if r.full {
			r.function(x.Func)
		}
	case *ast.ReturnStmt:
		r.words("return ")
		r.list(x.Exprs)
	case *ast.BreakStmt:
		r.words("break")
	case *ast.LabelStmt:
		r.words("::", x.Name, "::")
	case *ast.GotoStmt:
		r.words("goto ", x.Label)
	}
}

func (r *renderer) loop(s ast.Stmt) {
	switch x := s.(type) {
	case *ast.WhileStmt:
		r.words("while ")
		r.expr(x.Condition)
		r.words(" do ")
		r.block(x.Stmts)
	case *ast.RepeatStmt:
		r.words("repeat until ")
		r.expr(x.Condition)
		r.words(" do ")
		r.block(x.Stmts)
	case *ast.NumberForStmt:
		r.words("for ", x.Name, " = ")
		r.list([]ast.Expr{x.Init, x.Limit, x.Step})
		r.words(" do ")
		r.block(x.Stmts)
	case *ast.GenericForStmt:
		r.words("for ", strings.Join(x.Names, ", "), " in ")
		r.list(x.Exprs)
		r.words(" do ")
		r.block(x.Stmts)
	}
	r.words("end")
}

func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
