package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// Printer writes Lua values as Lua text, for eval and logs. Zero fields stand
// for the defaults. It reads raw: no metamethod runs.
type Printer struct {
	Depth  int // tables within tables; 4
	Items  int // elements of one table; 50
	String int // bytes of one string; 200
	Width  int // a table that fits goes on one line; 80
}

// Text is Print with the defaults.
func Text(v lua.LValue) string { return Printer{}.Print(v) }

// Print gives the text of v. What a limit cuts off shows as "..." and a table
// inside itself as "<cycle>".
func (c Printer) Print(v lua.LValue) string {
	c.Depth, c.Items, c.String, c.Width = or(c.Depth, 4), or(c.Items, 50), or(c.String, 200), or(c.Width, 80)
	p := printing{Printer: c}
	return p.value(v, 0)
}

func or(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return n
}

type printing struct {
	Printer
	open []*lua.LTable
	size int // of all pieces so far: a shared table that fans out must end
}

const maxPrinted = 64 << 10

func (p *printing) value(v lua.LValue, indent int) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case lua.LNumber:
		return numberText(v)
	case lua.LString:
		return p.quote(string(v))
	case *lua.LTable:
		return p.table(v, indent)
	case *lua.LFunction:
		return functionText(v)
	case *lua.LUserData:
		return userdataText(v)
	}
	return v.String()
}

func numberText(x lua.LNumber) string {
	f := float64(x)
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		if f > 0 {
			return "inf"
		}
		return "-inf"
	}
	if i, ok := asInteger(x); ok {
		return strconv.FormatInt(i, 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func functionText(f *lua.LFunction) string {
	if f.IsG || f.Proto == nil {
		return "<function: built in>"
	}
	return fmt.Sprintf("<function: %s:%d>", f.Proto.SourceName, f.Proto.LineDefined)
}

func userdataText(u *lua.LUserData) string {
	switch x := u.Value.(type) {
	case nullType:
		return "shield.null"
	case shield.Handle:
		return "<handle " + x.String() + ">"
	case shield.ClientRef:
		return "<client " + x.String() + ">"
	}
	return "<userdata>"
}

// quote writes a string as Lua would read it back.
func (p *printing) quote(s string) string {
	cut := ""
	if len(s) > p.String {
		n := p.String
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		cut = fmt.Sprintf(" ... (%d bytes)", len(s))
		s = s[:n]
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == utf8.RuneError && n <= 1 || !strconv.IsPrint(r):
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, `\%03d`, c)
			}
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String() + cut
}

func (p *printing) table(t *lua.LTable, indent int) string {
	for _, o := range p.open {
		if o == t {
			return "<cycle>"
		}
	}
	switch {
	case len(arrayOf(t)) == 0 && hashLen(t) == 0:
		return "{}"
	case len(p.open) == p.Depth || p.size > maxPrinted:
		return "{...}"
	}
	p.open = append(p.open, t)
	parts := p.parts(t, indent+1)
	p.open = p.open[:len(p.open)-1]

	width, lines := indent*2+4, false
	for _, s := range parts {
		width += len(s) + 2
		lines = lines || strings.Contains(s, "\n")
	}
	if width <= p.Width && !lines {
		return "{" + strings.Join(parts, ", ") + "}"
	}
	pad := strings.Repeat("  ", indent+1)
	return "{\n" + pad + strings.Join(parts, ",\n"+pad) + ",\n" + pad[2:] + "}"
}

func (p *printing) parts(t *lua.LTable, indent int) []string {
	var parts []string
	add := func(prefix string, v lua.LValue) {
		s := prefix + p.value(v, indent)
		p.size += len(s)
		parts = append(parts, s)
	}
	array := arrayOf(t)
	shown := min(len(array), p.Items)
	for _, e := range array[:shown] {
		add("", e)
	}
	left := len(array) - shown
	for k, v := range hashPairs(t) {
		if shown == p.Items {
			left++
			continue
		}
		shown++
		if s, ok := k.(lua.LString); ok && isIdentifier(string(s)) {
			add(string(s)+" = ", v)
		} else if _, ok := k.(*lua.LTable); ok {
			add("[<table>] = ", v)
		} else {
			add("["+p.value(k, indent)+"] = ", v)
		}
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("... (%d more)", left))
	}
	return parts
}
