package luavm

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"

	"shield/runtime/shield"
)

// Reader evaluates a line without running any Lua: no function of the script is
// called and no metamethod, so nothing can change. It understands expressions
// made of constants, names, fields, operators and table constructors, and calls
// of its own type, tostring, count and keys.
type Reader struct {
	VM   *VM
	Name func(name string) lua.LValue // what a name means; nil values are lua.LNil
}

// Read gives the values of l. The error is permission_denied for what would
// have to run, else handler_error.
func (r Reader) Read(l *Line) ([]lua.LValue, error) {
	chunk := l.tree()
	if len(chunk) == 0 {
		return nil, nil
	}
	ret, ok := chunk[0].(*ast.ReturnStmt)
	if !ok || len(chunk) > 1 {
		return nil, refuse("a statement")
	}
	var all []lua.LValue
	for _, e := range ret.Exprs {
		v, err := r.value(e)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func refuse(what string) error {
	return shield.Errorf(shield.PermissionDenied, "this is read-only, and %s could change something; expressions without calls are fine, and type(v) tostring(v) count(t) keys(t)", what)
}

func wrong(format string, args ...any) error {
	return shield.Errorf(shield.HandlerError, format, args...)
}

func (r Reader) value(e ast.Expr) (lua.LValue, error) {
	switch e := e.(type) {
	case *ast.NilExpr:
		return lua.LNil, nil
	case *ast.TrueExpr:
		return lua.LTrue, nil
	case *ast.FalseExpr:
		return lua.LFalse, nil
	case *ast.StringExpr:
		return lua.LString(e.Value), nil
	case *ast.NumberExpr:
		return parseNumber(e.Value), nil
	case *ast.IdentExpr:
		return r.Name(e.Value), nil
	case *ast.AttrGetExpr:
		return r.index(e)
	case *ast.TableExpr:
		return r.table(e)
	case *ast.FuncCallExpr:
		return r.call(e)
	case *ast.LogicalOpExpr:
		v, err := r.value(e.Lhs)
		if err != nil || (e.Operator == "and") != lua.LVAsBool(v) {
			return v, err
		}
		return r.value(e.Rhs)
	case *ast.UnaryNotOpExpr:
		v, err := r.value(e.Expr)
		return lua.LBool(err == nil && !lua.LVAsBool(v)), err
	case *ast.UnaryLenOpExpr:
		return r.length(e)
	case *ast.UnaryMinusOpExpr:
		n, err := r.number(e.Expr)
		return -n, err
	case *ast.ArithmeticOpExpr:
		return r.arithmetic(e)
	case *ast.RelationalOpExpr:
		return r.compare(e)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	}
	return nil, refuse("a function")
}

func (r Reader) index(e *ast.AttrGetExpr) (lua.LValue, error) {
	v, err := r.value(e.Object)
	if err != nil {
		return nil, err
	}
	key, err := r.value(e.Key)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *lua.LTable:
		return r.VM.Field(v, key), nil
	case lua.LString:
		return r.VM.Field(r.VM.StringMethods(), key), nil
	}
	return nil, wrong("attempt to index a %s value (key %s)", v.Type(), key)
}

func (r Reader) table(e *ast.TableExpr) (lua.LValue, error) {
	t := (*lua.LState)(nil).CreateTable(0, len(e.Fields))
	n := 0
	for _, f := range e.Fields {
		v, err := r.value(f.Value)
		if err != nil {
			return nil, err
		}
		if f.Key == nil {
			n++ // also for nil, which leaves a hole
			t.RawSetInt(n, v)
			continue
		}
		k, err := r.value(f.Key)
		if err != nil {
			return nil, err
		}
		if n, isNumber := k.(lua.LNumber); k == lua.LNil || isNumber && math.IsNaN(float64(n)) {
			return nil, wrong("table index is %s", k)
		}
		t.RawSet(k, v)
	}
	return t, nil
}

// call carries out the few functions that a Reader has of its own.
func (r Reader) call(e *ast.FuncCallExpr) (lua.LValue, error) {
	id, ok := e.Func.(*ast.IdentExpr)
	if !ok || len(e.Args) != 1 {
		return nil, refuse("a call")
	}
	switch id.Value {
	case "type", "tostring", "count", "keys":
	default:
		return nil, refuse("a call of " + id.Value)
	}
	v, err := r.value(e.Args[0])
	if err != nil {
		return nil, err
	}
	switch id.Value {
	case "type":
		return lua.LString(v.Type().String()), nil
	case "tostring":
		return lua.LString(v.String()), nil
	}
	t, ok := v.(*lua.LTable)
	if !ok {
		return nil, wrong("%s wants a table, not a %s", id.Value, v.Type())
	}
	keys, n := (*lua.LState)(nil).CreateTable(0, 0), 0
	t.ForEach(func(k, _ lua.LValue) {
		if n++; n <= maxFields && id.Value == "keys" {
			keys.Append(k)
		}
	})
	if id.Value == "count" {
		return lua.LNumber(n), nil
	}
	return keys, nil
}

func (r Reader) length(e *ast.UnaryLenOpExpr) (lua.LValue, error) {
	v, err := r.value(e.Expr)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case lua.LString:
		return lua.LNumber(len(v)), nil
	case *lua.LTable:
		return lua.LNumber(v.Len()), nil
	}
	return nil, wrong("attempt to get length of a %s value", v.Type())
}

func (r Reader) number(e ast.Expr) (lua.LNumber, error) {
	v, err := r.value(e)
	if err != nil {
		return 0, err
	}
	if n, ok := toNumber(v); ok {
		return n, nil
	}
	return 0, wrong("attempt to perform arithmetic on a %s value", v.Type())
}

func (r Reader) arithmetic(e *ast.ArithmeticOpExpr) (lua.LValue, error) {
	a, err := r.number(e.Lhs)
	if err != nil {
		return nil, err
	}
	b, err := r.number(e.Rhs)
	if err != nil {
		return nil, err
	}
	switch e.Operator {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		return a / b, nil
	case "%":
		return lua.LNumber(modulo(float64(a), float64(b))), nil
	case "^":
		return lua.LNumber(math.Pow(float64(a), float64(b))), nil
	}
	return nil, refuse("the operator " + e.Operator)
}

func (r Reader) compare(e *ast.RelationalOpExpr) (lua.LValue, error) {
	a, err := r.value(e.Lhs)
	if err != nil {
		return nil, err
	}
	b, err := r.value(e.Rhs)
	if err != nil {
		return nil, err
	}
	switch e.Operator {
	case "==":
		return lua.LBool(a == b), nil
	case "~=":
		return lua.LBool(a != b), nil
	}
	order, ok := 0, false
	switch x := a.(type) {
	case lua.LNumber:
		if y, is := b.(lua.LNumber); is {
			if math.IsNaN(float64(x)) || math.IsNaN(float64(y)) {
				return lua.LFalse, nil
			}
			ok = true
			if x < y {
				order = -1
			} else if x > y {
				order = 1
			}
		}
	case lua.LString:
		if y, is := b.(lua.LString); is {
			order, ok = strings.Compare(string(x), string(y)), true
		}
	}
	if !ok {
		return nil, wrong("attempt to compare %s with %s", a.Type(), b.Type())
	}
	switch e.Operator {
	case "<":
		return lua.LBool(order < 0), nil
	case "<=":
		return lua.LBool(order <= 0), nil
	case ">":
		return lua.LBool(order > 0), nil
	default:
		return lua.LBool(order >= 0), nil
	}
}

// maxJoined bounds a text that a Reader makes.
const maxJoined = 1 << 20

func (r Reader) concat(e *ast.StringConcatOpExpr) (lua.LValue, error) {
	var text strings.Builder
	for _, part := range []ast.Expr{e.Lhs, e.Rhs} {
		v, err := r.value(part)
		if err != nil {
			return nil, err
		}
		if !lua.LVCanConvToString(v) {
			return nil, wrong("attempt to concatenate a %s value", v.Type())
		}
		if text.WriteString(fmt.Sprint(v)); text.Len() > maxJoined {
			return nil, wrong("the text is longer than %d bytes", maxJoined)
		}
	}
	return lua.LString(text.String()), nil
}
