package value

import (
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// refusal is why a value can't travel and, gathered while the walk unwinds,
// where it is.
type refusal struct {
	code shield.Code
	what string // "function"
	why  string
	path []lua.LValue // innermost key first
}

const whatTravels = "only nil, booleans, numbers, strings, tables, shield.null, handles and client refs travel"

// refuse is for a value of a type that does not travel.
func refuse(v lua.LValue) *refusal { return unfit(typeName(v)) }

func unfit(what string) *refusal {
	return &refusal{code: shield.EncodeFailed, what: what, why: whatTravels}
}

func badKey(k lua.LValue) *refusal {
	what := typeName(k) + " as a key"
	if n, ok := k.(lua.LNumber); ok {
		what = "key " + n.String()
	} else if b, ok := k.(lua.LBool); ok {
		what = "key " + b.String()
	}
	return &refusal{code: shield.EncodeFailed, what: what, why: "only strings and integers can be keys"}
}

func tooLarge(limit int) *refusal {
	return &refusal{code: shield.MessageTooLarge, what: "the message grows beyond " + byteCount(limit),
		why: "send less or in parts, or raise limits.max_message_size"}
}

// bodyTooLarge is for codecs, whose bound no configuration moves.
func bodyTooLarge() *refusal {
	return &refusal{code: shield.MessageTooLarge, what: "the body grows beyond " + byteCount(MaxSize), why: "send less or in parts"}
}

// farKey is for an integer key that an array would have to reach.
func farKey(k lua.LValue) *refusal {
	return &refusal{code: shield.EncodeFailed, what: "key " + k.String(),
		why: "a Lua table keeps every place below an integer key, and too many here are empty: use a string"}
}

func (r *refusal) within(key lua.LValue) *refusal {
	r.path = append(r.path, key)
	return r
}

func (r *refusal) error(noun string) error {
	var s strings.Builder
	s.WriteString(noun)
	for i := len(r.path) - 1; i >= 0; i-- {
		writeKey(&s, r.path[i])
	}
	return shield.Errorf(r.code, "%s: %s (%s)", s.String(), r.what, r.why)
}

// maxKeyShown keeps a key that is a whole document out of an error.
const maxKeyShown = 64

func writeKey(s *strings.Builder, key lua.LValue) {
	k, ok := key.(lua.LString)
	switch {
	case !ok:
		fmt.Fprintf(s, "[%s]", key.String())
	case isIdentifier(string(k)):
		s.WriteString("." + string(k))
	case len(k) > maxKeyShown:
		s.WriteString("[" + strconv.Quote(string(k[:maxKeyShown])+"...") + "]")
	default:
		s.WriteString("[" + strconv.Quote(string(k)) + "]")
	}
}

func typeName(v lua.LValue) string { return v.Type().String() }

func byteCount(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + " MiB"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + " KiB"
	}
	return strconv.Itoa(n) + " bytes"
}

var luaKeywords = map[string]bool{"and": true, "break": true, "do": true, "else": true, "elseif": true, "end": true,
	"false": true, "for": true, "function": true, "goto": true, "if": true, "in": true, "local": true, "nil": true,
	"not": true, "or": true, "repeat": true, "return": true, "then": true, "true": true, "until": true, "while": true}

func isIdentifier(s string) bool {
	if s == "" || len(s) > maxKeyShown || luaKeywords[s] {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}
