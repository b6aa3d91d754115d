package reload

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// This file tells what a swap throws away: a local or field whose line is gone,
// or has another name now, and that held something its initialiser did not put
// there. The swap is right to drop it, but nobody should find out by surprise.

func (s *swap) noteDropped(f *fileSwap, old *slot) {
	if old.dynamic || len(old.place.keys) > 0 && old.place.root >= 0 && f.plan.locals[old.place.root] == nil {
		return // the local around it is told
	}
	v, ok := f.live.at(old.place)
	if !ok || !f.plan.Old.stateful(old, v) {
		return
	}
	s.warn("%s: %s was dropped: it held %s, and line %d of before is gone or renamed; undo brings it back",
		f.old.Path, f.plan.Old.describe(old.place), held(v), old.line)
}

// stateful reports whether v, the value of slot s, is surely not what its
// initialiser gave. What a call or another name gave can't be told.
func (sh *Shape) stateful(s *slot, v lua.LValue) bool {
	switch x := v.(type) {
	case lua.LNumber:
		n, err := strconv.ParseFloat(strings.Trim(strings.ReplaceAll(s.text, " ", ""), "()"), 64)
		return (err == nil || isLiteral(s.text)) && (err != nil || lua.LNumber(n) != x)
	case lua.LString:
		text, err := strconv.Unquote(s.text)
		return (err == nil || isLiteral(s.text)) && (err != nil || text != string(x))
	case lua.LBool:
		return isLiteral(s.text) && s.text != x.String()
	case *lua.LTable:
		return s.table && sh.filled(s, x)
	}
	return false
}

// isLiteral knows the initialisers that can only be one value.
func isLiteral(text string) bool {
	switch text {
	case "nil", "true", "false", "":
		return true
	}
	_, number := strconv.ParseFloat(text, 64)
	_, quoted := strconv.Unquote(text)
	return number == nil || quoted == nil
}

// filled reports whether a table that a constructor made holds more than that
// put there, or something else.
func (sh *Shape) filled(s *slot, t *lua.LTable) (yes bool) {
	t.ForEach(func(k, v lua.LValue) {
		if yes || v.Type() == lua.LTFunction {
			return
		}
		var at key
		switch k := k.(type) {
		case lua.LString:
			at = key{kind: keyString, text: string(k)}
		case lua.LNumber:
			at = key{kind: keyNumber, text: strconv.FormatFloat(float64(k), 'g', -1, 64), num: float64(k)}
		default:
			yes = true
			return
		}
		child := sh.byKey[s.place.with(at).key()]
		yes = child == nil || sh.stateful(child, v)
	})
	return yes
}

// held is a value as the warning names it.
func held(v lua.LValue) string {
	t, ok := v.(*lua.LTable)
	if !ok {
		return brief(v)
	}
	n := 0
	t.ForEach(func(_, _ lua.LValue) { n++ })
	if n == 1 {
		return "a table of 1 entry"
	}
	return fmt.Sprintf("a table of %d entries", n)
}
