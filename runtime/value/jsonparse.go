package value

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// ParseJSON reads one value of the tools' form. null is nil at the top and Null
// inside; arrays come back marked, so that they stay arrays when they are
// emptied. The error carries decode_error and names the byte.
func ParseJSON(text []byte) (lua.LValue, error) {
	p := jsonParser{s: text, tools: true}
	v := p.document()
	if p.err != "" {
		return nil, p.error()
	}
	if v == Null {
		return lua.LNil, nil
	}
	return v, nil
}

// jsonParser is strict: RFC 8259, UTF-8 only, 64 levels, integers that a Lua
// number holds exactly. The first fault is kept in err.
type jsonParser struct {
	s     []byte
	i     int
	tools bool // the dollar forms mean something
	err   string
}

func (p *jsonParser) error() error {
	return shield.Errorf(shield.DecodeError, "JSON at byte %d: %s", p.i, p.err)
}

func (p *jsonParser) fail(format string, args ...any) lua.LValue {
	if p.err == "" {
		p.err = fmt.Sprintf(format, args...)
	}
	return lua.LNil
}

func (p *jsonParser) document() lua.LValue {
	v := p.value(MaxDepth)
	p.space()
	if p.err == "" && p.i < len(p.s) {
		p.fail("something follows the value")
	}
	return v
}

func (p *jsonParser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// next skips white space and takes c if it comes next.
func (p *jsonParser) next(c byte) bool {
	p.space()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *jsonParser) value(depth int) lua.LValue {
	p.space()
	if p.i >= len(p.s) {
		return p.fail("the text ends where a value should be")
	}
	switch c := p.s[p.i]; c {
	case '{', '[':
		if depth == 0 {
			return p.fail("nested deeper than %d levels", MaxDepth)
		}
		p.i++
		if c == '[' {
			return p.array(depth)
		}
		return p.object(depth)
	case '"':
		p.i++
		return lua.LString(p.str())
	case 't':
		return p.word("true", lua.LTrue)
	case 'f':
		return p.word("false", lua.LFalse)
	case 'n':
		return p.word("null", Null)
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return p.number()
		}
		return p.fail("unexpected %q", rune(c))
	}
}

func (p *jsonParser) word(w string, v lua.LValue) lua.LValue {
	if len(p.s)-p.i < len(w) || string(p.s[p.i:p.i+len(w)]) != w {
		return p.fail("a word that is not true, false or null")
	}
	p.i += len(w)
	return v
}

func (p *jsonParser) array(depth int) lua.LValue {
	if p.next(']') {
		t := newTable(0, 0)
		t.Metatable = arrayMark
		return t
	}
	// Room for a short array only: longer ones grow as their bytes are read.
	t := newTable(4, 0)
	t.Metatable = arrayMark
	for i := 1; ; i++ {
		v := p.value(depth - 1)
		if p.err != "" {
			return v
		}
		t.RawSetInt(i, v)
		if p.next(',') {
			continue
		}
		if !p.next(']') {
			return p.fail("an array needs ',' or ']' here")
		}
		return t
	}
}

func (p *jsonParser) object(depth int) lua.LValue {
	if p.next('}') {
		return newTable(0, 0)
	}
	t := newTable(0, 4)
	for n := 1; ; n++ {
		if !p.next('"') {
			return p.fail("an object needs a key in double quotes here")
		}
		k := p.str()
		if p.err == "" && !p.next(':') {
			return p.fail("an object needs ':' here")
		}
		v := p.value(depth - 1)
		if p.err != "" {
			return v
		}
		setField(t, lua.LString(k), v)
		if p.next(',') {
			continue
		}
		if !p.next('}') {
			return p.fail("an object needs ',' or '}' here")
		}
		if p.tools && n == 1 && len(k) > 0 && k[0] == '$' {
			return p.dollar(k, v)
		}
		return t
	}
}

func (p *jsonParser) number() lua.LValue {
	start, whole := p.i, true
	if p.s[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '0' {
		p.i++
	} else if p.digits() == 0 {
		return p.fail("a number needs a digit here")
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		whole = false
		p.i++
		if p.digits() == 0 {
			return p.fail("a number needs a digit here")
		}
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		whole = false
		p.i++
		if p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if p.digits() == 0 {
			return p.fail("a number needs a digit here")
		}
	}
	text := string(p.s[start:p.i])
	if whole {
		return p.whole(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return p.fail("number %s is out of range", clip(text))
	}
	return lua.LNumber(f)
}

func (p *jsonParser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}

// whole reads an integer. An id whose digits would change in silence is worth
// an error.
func (p *jsonParser) whole(text string) lua.LValue {
	if text == "-0" {
		return lua.LNumber(math.Copysign(0, -1))
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		if v, bad := fromInt(i); bad == nil {
			return v
		}
	} else if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		if v, bad := fromUint(u); bad == nil {
			return v
		}
	}
	return p.fail("integer %s loses digits in Lua, whose numbers are exact to 2^53 only: send it as a string", clip(text))
}

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "..."
	}
	return s
}

// str reads the rest of a string after its opening quote.
func (p *jsonParser) str() string {
	start := p.i
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			s := p.s[start:p.i]
			if !utf8.Valid(s) {
				p.fail("a string that is not UTF-8")
				return ""
			}
			p.i++
			return string(s)
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			p.fail("a control character in a string")
			return ""
		default:
			p.i++
		}
	}
	p.fail("a string without end")
	return ""
}

// escaped goes on with a string that has escapes.
func (p *jsonParser) escaped(start int) string {
	out := append(make([]byte, 0, p.i-start+32), p.s[start:p.i]...)
	for p.i < len(p.s) {
		c := p.s[p.i]
		p.i++
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				p.fail("a string that is not UTF-8")
				return ""
			}
			return string(out)
		case c < 0x20:
			p.fail("a control character in a string")
			return ""
		case c != '\\':
			out = append(out, c)
			continue
		}
		if p.i >= len(p.s) {
			break
		}
		c = p.s[p.i]
		p.i++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			out = utf8.AppendRune(out, p.unicode())
		default:
			p.fail("an unknown escape \\%c", c)
		}
		if p.err != "" {
			return ""
		}
	}
	p.fail("a string without end")
	return ""
}

// unicode reads the digits after \u, and the second half of a pair. A lone half
// becomes U+FFFD, as it does elsewhere in Go.
func (p *jsonParser) unicode() rune {
	r := p.hex4()
	if !utf16.IsSurrogate(r) || p.err != "" {
		return r
	}
	if len(p.s)-p.i >= 6 && p.s[p.i] == '\\' && p.s[p.i+1] == 'u' {
		save := p.i
		p.i += 2
		if pair := utf16.DecodeRune(r, p.hex4()); pair != utf8.RuneError {
			return pair
		}
		p.i = save
	}
	return utf8.RuneError
}

func (p *jsonParser) hex4() rune {
	if len(p.s)-p.i < 4 {
		p.fail("\\u needs four hexadecimal digits")
		return 0
	}
	var r rune
	for _, c := range p.s[p.i : p.i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			p.fail("\\u needs four hexadecimal digits")
			return 0
		}
	}
	p.i += 4
	return r
}

// dollar turns an object with one dollar key into what it stands for. A key
// that stands for nothing is an ordinary object.
func (p *jsonParser) dollar(k string, v lua.LValue) lua.LValue {
	switch k {
	case keyBinary:
		s, ok := v.(lua.LString)
		raw, err := base64.StdEncoding.DecodeString(string(s))
		if !ok || err != nil {
			return p.fail("$binary needs a string in base64")
		}
		return lua.LString(raw)
	case keyNumber:
		switch v {
		case lua.LString("nan"):
			return lua.LNumber(math.NaN())
		case lua.LString("inf"):
			return lua.LNumber(math.Inf(1))
		case lua.LString("-inf"):
			return lua.LNumber(math.Inf(-1))
		}
		return p.fail("$number is nan, inf or -inf")
	case keyHandle:
		return p.handle(v)
	case keyClient:
		return p.client(v)
	case keyMap:
		return p.entries(v)
	}
	t := newTable(0, 1)
	t.RawSetString(k, v)
	return t
}

func (p *jsonParser) handle(v lua.LValue) lua.LValue {
	t, ok := v.(*lua.LTable)
	if !ok {
		return p.fail("$handle needs node, epoch and id")
	}
	node, ok1 := t.RawGetString("node").(lua.LString)
	epoch, ok2 := parseUint(t.RawGetString("epoch"))
	id, ok3 := parseUint(t.RawGetString("id"))
	if !ok1 || !ok2 || !ok3 {
		return p.fail("$handle needs node, epoch and id")
	}
	return NewHandle(shield.Handle{Node: shield.NodeID(node), Epoch: shield.NodeEpoch(epoch), ID: shield.ServiceID(id)})
}

func (p *jsonParser) client(v lua.LValue) lua.LValue {
	t, ok := v.(*lua.LTable)
	if !ok {
		return p.fail("$client needs gateway, session and epoch")
	}
	gateway, ok1 := t.RawGetString("gateway").(lua.LString)
	session, ok2 := t.RawGetString("session").(lua.LString)
	epoch, ok3 := parseUint(t.RawGetString("epoch"))
	if !ok1 || !ok2 || !ok3 || epoch > math.MaxUint32 {
		return p.fail("$client needs gateway, session and epoch")
	}
	player, _ := t.RawGetString("player").(lua.LString)
	profile, _ := t.RawGetString("profile").(lua.LString)
	return NewClientRef(shield.ClientRef{Gateway: shield.GatewayID(gateway), Session: shield.SessionID(session),
		Epoch: shield.SessionEpoch(epoch), Player: string(player), Profile: string(profile)})
}

func parseUint(v lua.LValue) (uint64, bool) {
	switch v := v.(type) {
	case lua.LString:
		u, err := strconv.ParseUint(string(v), 10, 64)
		return u, err == nil
	case lua.LNumber:
		i, ok := keyInteger(v)
		return uint64(i), ok && i >= 0
	}
	return 0, false
}

// entries reads the $map form.
func (p *jsonParser) entries(v lua.LValue) lua.LValue {
	list, ok := v.(*lua.LTable)
	if !ok || !IsArrayMark(list.Metatable) {
		return p.fail("$map needs an array of [key, value] pairs")
	}
	n := list.MaxN()
	t := newTable(0, n)
	d := decoder{slots: MaxSize}
	for i := 1; i <= n; i++ {
		e, ok := list.RawGetInt(i).(*lua.LTable)
		if !ok || !IsArrayMark(e.Metatable) || e.MaxN() != 2 {
			return p.fail("$map needs an array of [key, value] pairs")
		}
		switch k := e.RawGetInt(1).(type) {
		case lua.LString:
			t.RawSetString(string(k), e.RawGetInt(2))
		case lua.LNumber:
			d.setNumber(t, k, e.RawGetInt(2))
		default:
			d.bad = true
		}
		if d.bad {
			return p.fail("$map keys are strings and integers that are not far apart")
		}
	}
	return t
}
