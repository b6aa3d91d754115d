package luavm

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Line is a piece of Lua that a person typed, compiled: an expression, whose
// values are what it is for, or statements.
type Line struct {
	Proto  *lua.FunctionProto
	Locals []string // declared outside of any block; see CompileLine
	Extra  int      // how many values before the line's own it returns

	name, text string
}

// tree parses the line again: the compiler folds constants into the tree it is
// given, and few ask.
func (l *Line) tree() []ast.Stmt {
	chunk, err := parseSource(l.name, l.text)
	if err != nil {
		return nil // it was parsed before
	}
	return chunk
}

// Incomplete is the error of a line that is right so far and ends too early.
type Incomplete struct{ Err error }

func (e *Incomplete) Error() string { return e.Err.Error() }
func (e *Incomplete) Unwrap() error { return e.Err }

// CompileLine compiles what a person typed. With keep, a local that is declared
// outside of any block becomes a name of the function's environment, so that
// the next line finds it there. The error is a *ScriptError, inside an
// *Incomplete where more text could mend it.
func CompileLine(name, source string, keep bool) (*Line, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.TrimPrefix(strings.TrimSpace(source), "=") // as the lua program takes it
	text := "return " + source
	chunk, err := parseSource(name, text)
	if err != nil {
		open := endsEarly(name, text)
		text = source
		if chunk, err = parseSource(name, text); err != nil {
			if open || endsEarly(name, text) {
				return nil, &Incomplete{err}
			}
			return nil, err
		}
	}
	l := &Line{name: name, text: text}
	if keep {
		l.keep(chunk)
	}
	l.stayBelow(chunk)
	if l.Proto, err = compileChunk(name, text, chunk); err != nil {
		return nil, err
	}
	return l, nil
}

// endsEarly reports whether all that is wrong with source is that it ends.
func endsEarly(name, source string) bool {
	_, err := parse.Parse(strings.NewReader(source), name)
	var pe *parse.Error
	if !errors.As(err, &pe) {
		return false
	}
	if strings.Contains(pe.Message, "unterminated string") {
		return false // a string ends on its line
	}
	return pe.Pos.Line == parse.EOF || strings.Contains(pe.Message, "unterminated multiline string")
}

// stayBelow keeps the line on the stack while it returns what a function does:
// a tail call would leave that without its name in tracebacks.
func (l *Line) stayBelow(chunk []ast.Stmt) {
	if len(chunk) != 1 {
		return
	}
	ret, ok := chunk[0].(*ast.ReturnStmt)
	if !ok || len(ret.Exprs) != 1 {
		return
	}
	if call, ok := ret.Exprs[0].(*ast.FuncCallExpr); ok && !call.AdjustRet {
		null := &ast.NilExpr{}
		null.SetLine(ret.Line())
		ret.Exprs, l.Extra = []ast.Expr{null, call}, 1
	}
}

// keep turns the outermost declarations of locals into assignments.
func (l *Line) keep(chunk []ast.Stmt) {
	for i, s := range chunk {
		local, ok := s.(*ast.LocalAssignStmt)
		if !ok {
			continue
		}
		set := &ast.AssignStmt{Rhs: local.Exprs}
		set.SetLine(local.Line())
		set.SetLastLine(local.LastLine())
		for _, name := range local.Names {
			id := &ast.IdentExpr{Value: name}
			id.SetLine(local.Line())
			set.Lhs = append(set.Lhs, id)
			l.Locals = append(l.Locals, name)
		}
		if len(set.Rhs) == 0 {
			null := &ast.NilExpr{}
			null.SetLine(local.Line())
			set.Rhs = []ast.Expr{null}
		}
		chunk[i] = set
	}
}

// Path is a place that a line names: M.players[3] has the root M and the keys
// "players" and 3.
type Path struct {
	Root string
	Keys []lua.LValue // strings and numbers
}

// Text is the first n keys of the path as Lua.
func (p Path) Text(n int) string {
	var b strings.Builder
	b.WriteString(p.Root)
	for _, k := range p.Keys[:n] {
		if s, ok := k.(lua.LString); ok && wordRE.MatchString(string(s)) {
			b.WriteString("." + string(s))
		} else if ok {
			fmt.Fprintf(&b, "[%q]", string(s))
		} else {
			fmt.Fprintf(&b, "[%s]", k)
		}
	}
	return b.String()
}

var wordRE = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// Paths lists the places that the line names by constants, in order, but for
// those that begin with a name of one of its own blocks.
func (l *Line) Paths() []Path {
	var all []Path
	own := map[string]bool{}
	walkTree(reflect.ValueOf(l.tree()), func(node any) (inside bool) {
		switch n := node.(type) {
		case *ast.LocalAssignStmt:
			declare(own, n.Names...)
		case *ast.GenericForStmt:
			declare(own, n.Names...)
		case *ast.NumberForStmt:
			declare(own, n.Name)
		case *ast.ParList:
			declare(own, n.Names...)
		case *ast.FuncCallExpr:
			if p, ok := constPath(n.Receiver); ok {
				p.Keys = append(p.Keys, lua.LString(n.Method))
				all = append(all, p)
			}
		case ast.Expr:
			if p, ok := constPath(n); ok {
				all = append(all, p)
				return false
			}
		}
		return true
	})
	return slices.DeleteFunc(all, func(p Path) bool { return own[p.Root] })
}

func declare(own map[string]bool, names ...string) {
	for _, n := range names {
		own[n] = true
	}
}

// constPath is the place that e names, if it is one.
func constPath(e ast.Expr) (p Path, ok bool) {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return Path{Root: e.Value}, true
	case *ast.AttrGetExpr:
		var key lua.LValue
		switch k := e.Key.(type) {
		case *ast.StringExpr:
			key = lua.LString(k.Value)
		case *ast.NumberExpr:
			key = parseNumber(k.Value)
		default:
			return p, false
		}
		p, ok = constPath(e.Object)
		p.Keys = append(p.Keys, key)
	}
	return p, ok
}

// walkTree visits every node below v, outermost first, and looks inside those
// for which visit asks it to.
func walkTree(v reflect.Value, visit func(node any) (inside bool)) {
	switch v.Kind() {
	case reflect.Interface:
		walkTree(v.Elem(), visit)
	case reflect.Pointer:
		if !v.IsNil() && visit(v.Interface()) {
			walkTree(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkTree(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walkTree(v.Field(i), visit)
			}
		}
	}
}
