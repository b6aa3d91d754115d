package value

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

func FuzzDecode(f *testing.F) {
	for _, tt := range accepted {
		var p Payload
		if err := Copy(&p, Args, 0, lua1(f, tt.src)...); err != nil {
			f.Fatal(err)
		}
		f.Add(Append(nil, &p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Payload
		if err := Decode(&p, b, 0); err != nil {
			return
		}
		// What arrives can be sent on, and arrives the same.
		vals := make([]lua.LValue, p.Len())
		for i := range vals {
			vals[i] = p.At(i)
		}
		var c, again Payload
		if err := Copy(&c, Args, 0, vals...); err != nil {
			if !errors.Is(err, shield.MessageTooLarge) {
				t.Fatalf("Decode(%x) gives what Copy refuses: %v", b, err)
			}
			return
		}
		if err := Decode(&again, Append(nil, &c), 0); err != nil {
			t.Fatalf("Decode of the copy of %x: %v", b, err)
		}
		for i := range vals {
			if d := same(p.At(i), again.At(i)); d != "" {
				t.Fatalf("%x: value %d: %s", b, i, d)
			}
		}
		p.AppendJSON(nil)
		Text(p.At(0))
	})
}

// Our parser accepts nothing that is not JSON, and refuses JSON only for the
// reasons it documents.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,-0,1e9,null,true,"x\u00e9\ud83d\ude00\ud800"]}`, `{"$binary":"AP8="}`, `{"$map":[[1,"x"],["1",2]]}`,
		`{"$handle":{"node":"a","epoch":"1","id":"2"}}`, `{"$client":{"gateway":"a:b","session":"s","epoch":1}}`, `{"$number":"nan"}`,
		`9007199254740993`, `[[[]],{}]`, ` 1 `, `"\ud800\u0041"`, `01`, `1.`, `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := JSON.Decode(b)
		switch {
		case err == nil && len(b) > 0 && (!json.Valid(b) || !utf8.Valid(b)):
			t.Fatalf("accepted %q", b)
		case err != nil && !errors.Is(err, shield.DecodeError):
			t.Fatalf("Decode(%q) = %v, want decode_error", b, err)
		case err != nil && json.Valid(b) && utf8.Valid(b) && !hasReason(b):
			t.Fatalf("Decode(%q) = %v", b, err)
		}
		if err == nil {
			if out, err := JSON.Append(nil, v); err == nil && !json.Valid(out) {
				t.Fatalf("%q becomes %q", b, out)
			}
		}
		if v, err := ParseJSON(b); err == nil {
			if out := AppendJSON(nil, v); !json.Valid(out) {
				t.Fatalf("%q becomes %q", b, out)
			}
		}
	})
}

// hasReason: too deep, or a number that Lua can't hold.
func hasReason(b []byte) bool {
	depth, most := 0, 0
	for _, c := range b {
		switch {
		case c == '[' || c == '{':
			depth++
			most = max(most, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	if most > MaxDepth {
		return true
	}
	digits := 0
	for _, c := range b {
		if c >= '0' && c <= '9' {
			digits++
		} else if c == 'e' || c == 'E' {
			return true // may be out of range
		}
	}
	return digits > 15
}

func FuzzMsgpack(f *testing.F) {
	for _, s := range []string{"\x82\xa1a\x01\xa1b\x92\xc0\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "\xc4\x02ab", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\xd4\x01\x00", "\x81\x05\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Msgpack.Decode(b)
		if err != nil {
			if !errors.Is(err, shield.DecodeError) {
				t.Fatalf("Decode(%x) = %v, want decode_error", b, err)
			}
			return
		}
		out, err := Msgpack.Append(nil, v)
		if err != nil {
			return // a table that grew by its nils
		}
		if _, err := Msgpack.Decode(out); err != nil {
			t.Fatalf("%x becomes %x: %v", b, out, err)
		}
	})
}
