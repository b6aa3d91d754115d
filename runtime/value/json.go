package value

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// JSON for tools says everything a payload can: what JSON has no word for is an
// object with one key that begins with a dollar.
//
//	{"$binary": "AP8="}                 a string that is not UTF-8, in base64
//	{"$number": "nan"}                  nan, inf, -inf
//	{"$handle": {"node": "a", "epoch": "7", "id": "4"}}
//	{"$client": {"gateway": "a:main", "session": "s-1", "epoch": 2, "player": "ada", "profile": "game.v1/json"}}
//	{"$map": [[5, "x"], ["5", "y"]]}    a table whose keys JSON would mix up
//
// A table whose keys are 1 to n is an array, and one that shield.array marked,
// whose holes are null. Any other is an object: an empty one is {}, and {[5] = x}
// is {"5": x} whatever other keys there are. Integer keys are written in decimal,
// so they come back as strings; write $map where that matters.
const (
	keyBinary = "$binary"
	keyNumber = "$number"
	keyHandle = "$handle"
	keyClient = "$client"
	keyMap    = "$map"
)

// AppendJSON adds the tools' form of one detached value to b.
func AppendJSON(b []byte, v lua.LValue) []byte {
	w := jsonWriter{b: b, tools: true, limit: math.MaxInt}
	w.value(v, MaxDepth) // what is detached travels: it can't be refused
	return w.b
}

// AppendJSON adds all values to b as a JSON array.
func (p *Payload) AppendJSON(b []byte) []byte {
	b = append(b, '[')
	for i := range p.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendJSON(b, p.At(i))
	}
	return append(b, ']')
}

// jsonWriter writes live values too: everything is checked on the way.
type jsonWriter struct {
	b     []byte
	tools bool // the dollar forms may be used
	limit int  // of len(b)
}

func (w *jsonWriter) value(v lua.LValue, depth int) *refusal {
	if len(w.b) > w.limit {
		return bodyTooLarge()
	}
	switch v := v.(type) {
	case *lua.LNilType:
		w.b = append(w.b, "null"...)
	case lua.LBool:
		w.b = strconv.AppendBool(w.b, bool(v))
	case lua.LNumber:
		return w.number(v)
	case lua.LString:
		return w.string(string(v))
	case *lua.LUserData:
		return w.userdata(v)
	case *lua.LTable:
		if depth == 0 {
			return unfit("cyclic table, or one nested deeper than 64 levels")
		}
		return w.table(v, depth)
	default:
		return refuse(v)
	}
	return nil
}

func (w *jsonWriter) number(x lua.LNumber) *refusal {
	f := float64(x)
	if i, ok := asInteger(x); ok {
		w.b = strconv.AppendInt(w.b, i, 10)
		return nil
	}
	name := ""
	switch {
	case math.IsNaN(f):
		name = "nan"
	case math.IsInf(f, 1):
		name = "inf"
	case math.IsInf(f, -1):
		name = "-inf"
	case f == 0:
		w.b = append(w.b, "-0"...)
		return nil
	case f == math.Trunc(f) || math.Abs(f) < 1e-6:
		// A whole number that gets here is beyond int64: the exponent tells the
		// reader that it is not meant digit by digit.
		w.b = strconv.AppendFloat(w.b, f, 'e', -1, 64)
		return nil
	default:
		w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
		return nil
	}
	if !w.tools {
		return &refusal{code: shield.EncodeFailed, what: "number " + name, why: "JSON has no such number"}
	}
	w.b = append(w.b, `{"$number":"`+name+`"}`...)
	return nil
}

func (w *jsonWriter) string(s string) *refusal {
	if !w.tools && !utf8.ValidString(s) {
		return &refusal{code: shield.EncodeFailed, what: "string that is not UTF-8",
			why: "JSON can't hold it; encode it, or use the codec raw or msgpack"}
	}
	w.text(s)
	return nil
}

// text writes any string, in base64 where it must be.
func (w *jsonWriter) text(s string) {
	if utf8.ValidString(s) {
		w.b = appendJSONString(w.b, s)
		return
	}
	w.b = append(w.b, `{"$binary":"`...)
	w.b = base64.StdEncoding.AppendEncode(w.b, []byte(s))
	w.b = append(w.b, `"}`...)
}

func (w *jsonWriter) userdata(u *lua.LUserData) *refusal {
	if u == Null {
		w.b = append(w.b, "null"...)
		return nil
	}
	if !w.tools {
		if name := refName(u); name != "" {
			return &refusal{code: shield.EncodeFailed, what: name, why: "it means nothing outside the cluster"}
		}
		return refuse(u)
	}
	switch x := u.Value.(type) {
	case shield.Handle:
		w.b = append(w.b, `{"$handle":{"node":`...)
		w.text(string(x.Node))
		w.b = append(w.b, fmt.Sprintf(`,"epoch":"%d","id":"%d"}}`, x.Epoch, x.ID)...)
	case shield.ClientRef:
		w.b = append(w.b, `{"$client":{"gateway":`...)
		w.text(string(x.Gateway))
		w.b = append(w.b, `,"session":`...)
		w.text(string(x.Session))
		w.b = append(w.b, fmt.Sprintf(`,"epoch":%d,"player":`, x.Epoch)...)
		w.text(x.Player)
		w.b = append(w.b, `,"profile":`...)
		w.text(x.Profile)
		w.b = append(w.b, "}}"...)
	default:
		return refuse(u)
	}
	return nil
}

func refName(u *lua.LUserData) string {
	switch u.Value.(type) {
	case shield.Handle:
		return "handle"
	case shield.ClientRef:
		return "client ref"
	}
	return ""
}

func (w *jsonWriter) table(t *lua.LTable, depth int) *refusal {
	if n, ok := listLen(t); ok {
		if len(w.b)+n > w.limit {
			return bodyTooLarge()
		}
		return w.array(t, n, depth)
	}
	collide := keysCollide(t)
	switch {
	case w.tools && (collide || dollarKeys(t)):
		return w.entries(t, depth)
	case collide:
		return &refusal{code: shield.EncodeFailed, what: "table with a number and the same number as a string for keys",
			why: "they are one key in JSON"}
	}
	return w.object(t, depth)
}

func (w *jsonWriter) array(t *lua.LTable, n, depth int) *refusal {
	w.b = append(w.b, '[')
	for i := 1; i <= n; i++ {
		if i > 1 {
			w.b = append(w.b, ',')
		}
		if bad := w.value(element(t, i), depth-1); bad != nil {
			return bad.within(lua.LNumber(i))
		}
	}
	w.b = append(w.b, ']')
	return nil
}

// dollarKeys reports whether a key of t is no JSON key, or looks like a dollar
// form.
func dollarKeys(t *lua.LTable) bool {
	for k := range hashPairs(t) {
		s, ok := k.(lua.LString)
		if ok && (!utf8.ValidString(string(s)) || len(s) > 0 && s[0] == '$') {
			return true
		}
	}
	return false
}

// keysCollide reports whether t has both an integer key and the same in
// decimal.
func keysCollide(t *lua.LTable) bool {
	for k := range hashPairs(t) {
		s, ok := k.(lua.LString)
		if !ok || len(s) == 0 || len(s) > 20 || s[0] > '9' {
			continue
		}
		i, err := strconv.ParseInt(string(s), 10, 64)
		if err == nil && strconv.FormatInt(i, 10) == string(s) && t.RawGet(lua.LNumber(i)) != lua.LNil {
			return true
		}
	}
	return false
}

func (w *jsonWriter) object(t *lua.LTable, depth int) *refusal {
	w.b = append(w.b, '{')
	n := 0
	for k, v := range allPairs(t) {
		if n++; n > 1 {
			w.b = append(w.b, ',')
		}
		if bad := w.key(k); bad != nil {
			return bad
		}
		w.b = append(w.b, ':')
		if bad := w.value(v, depth-1); bad != nil {
			return bad.within(k)
		}
	}
	w.b = append(w.b, '}')
	return nil
}

func (w *jsonWriter) key(k lua.LValue) *refusal {
	switch x := k.(type) {
	case lua.LString:
		if !utf8.ValidString(string(x)) {
			return &refusal{code: shield.EncodeFailed, what: "key that is not UTF-8", why: "JSON can't hold it"}
		}
		w.b = appendJSONString(w.b, string(x))
		return nil
	case lua.LNumber:
		if i, ok := keyInteger(x); ok {
			w.b = append(w.b, '"')
			w.b = strconv.AppendInt(w.b, i, 10)
			w.b = append(w.b, '"')
			return nil
		}
	}
	return badKey(k)
}

// entries writes the $map form.
func (w *jsonWriter) entries(t *lua.LTable, depth int) *refusal {
	w.b = append(w.b, `{"$map":[`...)
	n := 0
	for k, v := range allPairs(t) {
		if n++; n > 1 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '[')
		if bad := w.value(k, 0); bad != nil {
			return bad
		}
		w.b = append(w.b, ',')
		if bad := w.value(v, depth-1); bad != nil {
			return bad.within(k)
		}
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, "]}"...)
	return nil
}

func keyText(k lua.LValue) string {
	if x, ok := k.(lua.LNumber); ok {
		i, _ := keyInteger(x)
		return strconv.FormatInt(i, 10)
	}
	return k.String()
}

const hexDigits = "0123456789abcdef"

// appendJSONString quotes a valid UTF-8 string.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
