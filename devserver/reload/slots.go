package reload

import (
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// This file finds out what a line of the file itself gives a value.

// spreads reports whether expression i is the last and a call or ..., which may
// give several values.
func spreads(all []ast.Expr, i int) bool {
	if i != len(all)-1 || i < 0 {
		return false
	}
	switch x := all[i].(type) {
	case *ast.FuncCallExpr:
		return !x.AdjustRet && !isSetmetatable(x)
	case *ast.Comma3Expr:
		return !x.AdjustRet
	}
	return false
}

// initialiser is the text that gives name i of a list its value.
func initialiser(exprs []ast.Expr, i int) string {
	last := len(exprs) - 1
	switch {
	case i > last && last >= 0 && spreads(exprs, last):
		return render(exprs[last]) + " value " + strconv.Itoa(i-last+1)
	case i > last:
		return "nil"
	}
	return render(exprs[i])
}

func (a *analyser) assign(lhs, rhs []ast.Expr, line int) {
	places := make([]*place, len(lhs))
	coarse := make([]string, len(lhs))
	for i, l := range lhs {
		if at, ok := l.(*ast.AttrGetExpr); ok {
			a.expr(at.Object, site{coarse: "="})
			a.expr(at.Key, site{coarse: "="})
		} else if id, ok := l.(*ast.IdentExpr); ok {
			a.resolve(id.Value)
		}
		coarse[i] = render(l) + " ="
		if a.fn.id == 0 {
			places[i] = a.target(l, initialiser(rhs, i), line)
		}
	}
	for i, e := range rhs {
		at := site{coarse: "="}
		if i < len(lhs) {
			at.coarse = coarse[i]
			if places[i] != nil && spreads(rhs, i) {
				a.addSlot(*places[i], initialiser(rhs, i), line, false)
			} else {
				at.slot = places[i]
			}
		}
		a.expr(e, at)
	}
	for i := len(rhs); i < len(lhs); i++ {
		if places[i] != nil {
			a.addSlot(*places[i], initialiser(rhs, i), line, false)
		}
	}
}

// target is the place that an assignment of the file itself writes to; nil when
// only running it tells, and then the table gets a dynamic slot.
func (a *analyser) target(l ast.Expr, text string, line int) *place {
	if p := a.placeOf(l); p != nil {
		return p
	}
	if at, ok := l.(*ast.AttrGetExpr); ok {
		if p := a.tableAt(at.Object); p != nil {
			a.addDynamic(*p, "["+render(at.Key)+"] = "+text, line)
			return nil
		}
	}
	a.addStatement(render(l)+" = "+text, line)
	return nil
}

// placeOf is the place that e names, nil when it is no constant path from a
// local there is one of, or from a global.
func (a *analyser) placeOf(e ast.Expr) *place {
	switch x := e.(type) {
	case *ast.IdentExpr:
		l := a.resolve(x.Value)
		if l == nil {
			p := place{root: rootGlobal}.with(key{kind: keyString, text: x.Value})
			return &p
		}
		if !l.single {
			return nil
		}
		p := a.shape.placeOf(l)
		return &p
	case *ast.AttrGetExpr:
		k, ok := constKey(x.Key)
		if !ok {
			return nil
		}
		if p := a.tableAt(x.Object); p != nil {
			q := p.with(k)
			return &q
		}
	}
	return nil
}

// tableAt is placeOf for the table around a key: another name of a table
// (local C = M.Class) leads to its first one.
func (a *analyser) tableAt(e ast.Expr) *place {
	if id, ok := e.(*ast.IdentExpr); ok {
		if l := a.resolve(id.Value); l != nil && l.alias != nil {
			return l.alias
		}
	}
	return a.placeOf(e)
}

func constKey(e ast.Expr) (key, bool) {
	switch x := e.(type) {
	case *ast.StringExpr:
		return key{kind: keyString, text: x.Value}, true
	case *ast.NumberExpr:
		return numberKey(x.Value)
	case *ast.UnaryMinusOpExpr:
		if n, ok := x.Expr.(*ast.NumberExpr); ok {
			return numberKey("-" + n.Value)
		}
	case *ast.TrueExpr:
		return key{kind: keyBool, text: "true"}, true
	case *ast.FalseExpr:
		return key{kind: keyBool, text: "false"}, true
	}
	return key{}, false
}

func numberKey(s string) (key, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		u, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return key{}, false
		}
		n = float64(u)
	}
	return key{kind: keyNumber, text: strconv.FormatFloat(n, 'g', -1, 64), num: n}, true
}

func isSetmetatable(call *ast.FuncCallExpr) bool {
	id, ok := call.Func.(*ast.IdentExpr)
	return ok && id.Value == "setmetatable" && len(call.Args) == 2
}

// hasOwnSlots reports whether e's parts are slots of their own, so that e's
// text is not one initialiser.
func (a *analyser) hasOwnSlots(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.TableExpr, *ast.FunctionExpr:
		return true
	case *ast.FuncCallExpr:
		return isSetmetatable(x) && a.resolve("setmetatable") == nil
	}
	return false
}

func (a *analyser) exprSlot(e ast.Expr, at site) {
	s := a.addSlot(*at.slot, render(e), e.Line(), at.made)
	if ref := a.placeOf(e); ref != nil {
		s.ref = ref
	}
}

func (a *analyser) table(x *ast.TableExpr, at site) {
	if at.slot != nil {
		s := a.addSlot(*at.slot, "{}", x.Line(), at.made)
		s.table = true
	}
	index := 0
	for i, f := range x.Fields {
		k, constant := key{}, false
		if f.Key == nil {
			index++
			k, constant = key{kind: keyNumber, text: strconv.Itoa(index), num: float64(index)}, true
			if i == len(x.Fields)-1 && spreads([]ast.Expr{f.Value}, 0) {
				constant = false
			}
		} else {
			a.expr(f.Key, site{coarse: at.coarse})
			k, constant = constKey(f.Key)
		}
		inner := site{coarse: at.coarse + k.describe(), made: true}
		switch {
		case at.slot != nil && constant:
			q := at.slot.with(k)
			inner.slot = &q
		case at.slot != nil && f.Key != nil:
			a.addDynamic(*at.slot, "["+render(f.Key)+"] = "+render(f.Value), x.Line())
		case at.slot != nil:
			a.addDynamic(*at.slot, "["+k.text+"...] = "+render(f.Value), x.Line())
		}
		a.expr(f.Value, inner)
	}
}

func (a *analyser) conditions(text string) string {
	if len(a.under) == 0 {
		return text
	}
	return strings.Join(a.under, "; ") + ": " + text
}

func (a *analyser) addSlot(p place, text string, line int, made bool) *slot {
	text = a.conditions(text)
	id := p.key()
	s := a.shape.byKey[id]
	if s == nil {
		s = &slot{place: p, text: text, line: line, constructed: made}
		a.shape.byKey[id] = s
		a.shape.slots = append(a.shape.slots, s)
		return s
	}
	s.text += "; " + text
	s.line = line
	s.ref = nil
	s.table = false
	s.constructed = s.constructed && made
	return s
}

func (a *analyser) addDynamic(p place, text string, line int) {
	s := a.addSlot(p.with(key{kind: keyDynamic, text: text}), text, line, false)
	s.dynamic = true
}

func (a *analyser) addStatement(text string, line int) {
	a.shape.stmts = append(a.shape.stmts, statement{text: a.conditions(text), line: line})
}
