package testrun

import (
	"fmt"
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/value"
)

// differences lists where two values differ, by the path to each place.
type differences struct {
	L     *lua.LState
	lines []string
	open  map[[2]*lua.LTable]bool // being compared: a cycle is the same as itself
}

const (
	maxDifferences = 8
	maxDepth       = 200
)

func (d *differences) compare(path string, want, have lua.LValue, depth int) {
	if len(d.lines) >= maxDifferences {
		return
	}
	a, ok1 := want.(*lua.LTable)
	b, ok2 := have.(*lua.LTable)
	if !ok1 || !ok2 {
		if !equalValues(d.L, want, have) {
			d.add(path, want, have)
		}
		return
	}
	if a == b || d.open[[2]*lua.LTable{a, b}] {
		return
	}
	if depth > maxDepth {
		d.lines = append(d.lines, path+" is nested too deep to compare")
		return
	}
	if d.open == nil {
		d.open = map[[2]*lua.LTable]bool{}
	}
	d.open[[2]*lua.LTable{a, b}] = true
	for _, k := range keysOf(a, b) {
		d.compare(path+step(k), d.get(a, k), d.get(b, k), depth+1)
	}
	delete(d.open, [2]*lua.LTable{a, b})
}

// get reads a key; a key that is a table is looked for by what it holds.
func (d *differences) get(t *lua.LTable, k lua.LValue) lua.LValue {
	v := t.RawGet(k)
	if v != lua.LNil || k.Type() != lua.LTTable {
		return v
	}
	t.ForEach(func(other, ov lua.LValue) {
		if v == lua.LNil && other.Type() == lua.LTTable {
			inner := &differences{L: d.L, open: d.open}
			if inner.compare("", k, other, maxDepth-10); len(inner.lines) == 0 {
				v = ov
			}
		}
	})
	return v
}

func equalValues(L *lua.LState, a, b lua.LValue) bool {
	u, ok1 := a.(*lua.LUserData)
	v, ok2 := b.(*lua.LUserData)
	if ok1 && ok2 && u.Value == v.Value {
		return true
	}
	return L.Equal(a, b)
}

func (d *differences) add(path string, want, have lua.LValue) {
	if path == "" {
		path = "the value"
	}
	short := value.Printer{Depth: 2, Items: 8, String: 80, Width: 80}
	d.lines = append(d.lines, fmt.Sprintf("%s: expected %s, got %s", path, short.Print(want), short.Print(have)))
}

// keysOf lists the keys of both tables, numbers first, each once.
func keysOf(a, b *lua.LTable) []lua.LValue {
	seen := map[lua.LValue]bool{}
	var keys []lua.LValue
	for _, t := range []*lua.LTable{a, b} {
		t.ForEach(func(k, _ lua.LValue) {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		})
	}
	sort.SliceStable(keys, func(i, j int) bool {
		x, ok1 := keys[i].(lua.LNumber)
		y, ok2 := keys[j].(lua.LNumber)
		switch {
		case ok1 && ok2:
			return x < y
		case ok1 != ok2:
			return ok1
		}
		s, ok1 := keys[i].(lua.LString)
		t, ok2 := keys[j].(lua.LString)
		return ok1 && ok2 && s < t
	})
	return keys
}

// step writes a key as Lua would index with it.
func step(k lua.LValue) string {
	if s, ok := k.(lua.LString); ok {
		if isName(string(s)) {
			return "." + string(s)
		}
		return fmt.Sprintf("[%q]", string(s))
	}
	return "[" + strings.TrimSpace(value.Text(k)) + "]"
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// holds reports whether have has everything that want has: tables may have more
// keys, all else must be equal.
func holds(have, want lua.LValue) bool {
	w, ok := want.(*lua.LTable)
	if !ok {
		return have == want
	}
	h, ok := have.(*lua.LTable)
	if !ok || w.Len() != h.Len() {
		return false
	}
	all := true
	w.ForEach(func(k, v lua.LValue) {
		if all && !holds(h.RawGet(k), v) {
			all = false
		}
	})
	return all
}
