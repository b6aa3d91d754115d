package value

import (
	"encoding/json"
	"math"
	"testing"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"
	"shield/runtime/shield"
)

// drawValue makes a live value, sometimes one that can't travel.
func drawValue(t *rapid.T, depth int, tables *[]*lua.LTable) lua.LValue {
	kinds := 9
	if depth == 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return lua.LNil
	case 1:
		return lua.LBool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return lua.LNumber(rapid.Float64().Draw(t, "float"))
	case 3:
		return lua.LNumber(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1),
			1 << 53, 1<<53 + 2, 1 << 63, -1 << 63, 1 << 64, 127, 128, 255, 256, -32, -33, -128, -129, 1e300}).Draw(t, "special"))
	case 4:
		return lua.LString(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"))
	case 5:
		return rapid.SampledFrom([]lua.LValue{Null, NewHandle(shield.Handle{Node: "a", Epoch: 1 << 60, ID: 9}),
			NewClientRef(shield.ClientRef{Gateway: "a:m", Session: "s-2", Epoch: 4, Player: "p\xff"})}).Draw(t, "ref")
	case 6:
		return lua.LNumber(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "int"))
	case 7:
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			return &lua.LFunction{IsG: true}
		}
		return lua.LString("plain")
	case 8:
		if len(*tables) > 0 {
			return rapid.SampledFrom(*tables).Draw(t, "shared")
		}
	}
	return drawTable(t, depth-1, tables)
}

func drawTable(t *rapid.T, depth int, tables *[]*lua.LTable) *lua.LTable {
	tb := newTable(0, 0)
	switch rapid.IntRange(0, 5).Draw(t, "metatable") {
	case 0:
		MarkArray(tb)
	case 1:
		tb.Metatable = newTable(0, 0)
	}
	for range rapid.IntRange(0, 6).Draw(t, "entries") {
		v := drawValue(t, depth, tables)
		switch rapid.IntRange(0, 12).Draw(t, "key") {
		case 0, 1, 2, 3:
			tb.Append(v)
		case 4, 5, 6, 7:
			tb.RawSetString(rapid.SampledFrom([]string{"a", "b", "end", "1", "2", "$map", "$x", "", "\xff", "long key with spaces in it, 32+"}).Draw(t, "skey"), v)
		case 8:
			tb.RawSet(lua.LNumber(rapid.IntRange(-3, 20).Draw(t, "ikey")), v)
		case 9:
			tb.RawSet(lua.LNumber(rapid.SampledFrom([]float64{1 << 40, -1 << 40, 1 << 53, 1 << 60, -1 << 63}).Draw(t, "bigkey")), v)
		case 10:
			tb.RawSetString("a", lua.LNil)
		default:
			if rapid.IntRange(0, 9).Draw(t, "badkey") == 0 {
				tb.RawSet(rapid.SampledFrom([]lua.LValue{lua.LTrue, lua.LNumber(1.5), lua.LNumber(math.Inf(1)), lua.LNumber(1 << 63), tb}).Draw(t, "bad"), v)
			}
		}
	}
	*tables = append(*tables, tb)
	return tb
}

func TestPropertyLocalEqualsRemote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var vals []lua.LValue
		var tables []*lua.LTable
		for range rapid.IntRange(0, 5).Draw(t, "argc") {
			vals = append(vals, drawValue(t, 4, &tables))
		}
		limit := rapid.SampledFrom([]int{0, 0, 0, 64, 300}).Draw(t, "limit")
		var local, again Payload
		if err := Copy(&local, Args, limit, vals...); err != nil {
			// The same values must be refused again, in the same words.
			if err2 := Copy(&again, Args, limit, vals...); err2 == nil || err2.Error() != err.Error() {
				t.Fatalf("refused once with %v, then %v", err, err2)
			}
			if err2 := Encode(&again, Args, limit, vals...); err2 == nil || err2.Error() != err.Error() {
				t.Fatalf("Copy refuses with %v, Encode with %v", err, err2)
			}
			return
		}
		b := Append(nil, &local)
		var leaves Payload
		if err := Encode(&leaves, Args, limit, vals...); err != nil {
			t.Fatalf("Copy accepts what Encode refuses: %v", err)
		}
		if got := Append(nil, &leaves); string(got) != string(b) || leaves.Size() != len(b) || leaves.Refs() != local.Refs() {
			t.Fatalf("Encode gives %x, Append of a copy %x", got, b)
		}
		if len(b) != local.Size() {
			t.Fatalf("Size() = %d, Append wrote %d", local.Size(), len(b))
		}
		var remote Payload
		if err := Decode(&remote, b, limit); err != nil {
			t.Fatalf("Copy accepts what Decode refuses: %v", err)
		}
		if limit == 0 {
			if err := Copy(&again, Args, len(b)-1, vals...); err == nil && len(b) > 1 {
				t.Fatalf("Copy accepts %d bytes under a limit of %d", len(b), len(b)-1)
			}
		}
		for i := range vals {
			if d := same(local.At(i), remote.At(i)); d != "" {
				t.Fatalf("value %d differs: %s", i, d)
			}
		}
		checkJSON(t, &local)
	})
}

// checkJSON: the tools' form is JSON, and reading and writing it again changes
// nothing.
func checkJSON(t *rapid.T, p *Payload) {
	text := p.AppendJSON(nil)
	if !json.Valid(text) || !utf8.Valid(text) {
		t.Fatalf("not JSON: %s", text)
	}
	var back Payload
	if err := parseArgs(&back, text); err != nil {
		t.Fatalf("parseArgs(%s): %v", text, err)
	}
	if again := back.AppendJSON(nil); string(again) != string(text) {
		t.Fatalf("JSON changes on its way:\n%s\n%s", text, again)
	}
	for i := range p.Len() {
		if v := p.At(i); v != lua.LNil && v != lua.LValue(Null) && back.At(i).Type() != v.Type() {
			t.Fatalf("a %s comes back from JSON as a %s", v.Type(), back.At(i).Type())
		}
	}
}

// What a codec decodes it can encode, and decode to the same again.
func TestPropertyCodecs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tables []*lua.LTable
		v := drawValue(t, 4, &tables)
		for _, c := range []Codec{JSON, Msgpack, Raw} {
			b, err := c.Append([]byte("head"), v)
			if err != nil {
				if len(b) != 4 {
					t.Fatalf("%s: a refused value left %q", c.Name(), b)
				}
				continue
			}
			x, err := Trusting(c).Decode(b[4:])
			if err != nil {
				t.Fatalf("%s: Decode(%q): %v", c.Name(), b[4:], err)
			}
			b2, err := c.Append(nil, x)
			if err != nil || string(b2) != string(b[4:]) {
				t.Fatalf("%s: %q becomes %q, %v", c.Name(), b[4:], b2, err)
			}
		}
	})
}
