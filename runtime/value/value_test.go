package value

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// same says why two values differ, or "". NaN equals NaN, zeros have signs, the
// order of keys counts.
func same(a, b lua.LValue) string {
	if a.Type() != b.Type() {
		return fmt.Sprintf("%s and %s", Text(a), Text(b))
	}
	switch x := a.(type) {
	case lua.LNumber:
		f, g := float64(x), float64(b.(lua.LNumber))
		if math.IsNaN(f) && math.IsNaN(g) || f == g && math.Signbit(f) == math.Signbit(g) {
			return ""
		}
		return fmt.Sprintf("%v and %v", f, g)
	case *lua.LUserData:
		y := b.(*lua.LUserData)
		if x.Value != y.Value || (x == Null) != (y == Null) {
			return fmt.Sprintf("%v and %v", x.Value, y.Value)
		}
		return ""
	case *lua.LTable:
		return sameTable(x, b.(*lua.LTable))
	}
	if a != b {
		return fmt.Sprintf("%s and %s", Text(a), Text(b))
	}
	return ""
}

func sameTable(a, b *lua.LTable) string {
	if a.Len() != b.Len() || a.MaxN() != b.MaxN() || IsArrayMark(a.Metatable) != IsArrayMark(b.Metatable) {
		return fmt.Sprintf("tables of length %d/%d, marked %v/%v", a.Len(), b.Len(), IsArrayMark(a.Metatable), IsArrayMark(b.Metatable))
	}
	ka, va := a.Next(lua.LNil)
	kb, vb := b.Next(lua.LNil)
	for {
		if ka != kb || negative(ka) != negative(kb) {
			return fmt.Sprintf("key %s and key %s", ka, kb)
		}
		if ka == lua.LNil {
			return ""
		}
		if d := same(va, vb); d != "" {
			return fmt.Sprintf("[%s]: %s", ka, d)
		}
		ka, va = a.Next(ka)
		kb, vb = b.Next(kb)
	}
}

// negative tells -0 from 0, which are equal.
func negative(v lua.LValue) bool {
	n, ok := v.(lua.LNumber)
	return ok && math.Signbit(float64(n))
}

// lua1 runs a chunk and gives what it returns.
func lua1(t testing.TB, src string) []lua.LValue {
	t.Helper()
	L := lua.NewState()
	t.Cleanup(L.Close)
	L.SetGlobal("null", Null)
	L.SetGlobal("handle", NewHandle(shield.Handle{Node: "n1", Epoch: math.MaxUint64, ID: 7}))
	L.SetGlobal("ref", NewClientRef(shield.ClientRef{Gateway: "n1:main", Session: "s-1", Epoch: 3, Player: "ada", Profile: "g/json"}))
	L.SetGlobal("array", L.NewFunction(func(L *lua.LState) int {
		t := L.CheckTable(1)
		MarkArray(t)
		L.Push(t)
		return 1
	}))
	if err := L.DoString(src); err != nil {
		t.Fatalf("Lua: %v", err)
	}
	var vals []lua.LValue
	for i := 1; i <= L.GetTop(); i++ {
		vals = append(vals, L.Get(i))
	}
	return vals
}

var accepted = []struct{ name, src, text string }{
	{"nothing", ``, ``},
	{"argc is kept", `return 1, nil, nil`, `1 nil nil`},
	{"more than three", `return 1, 2, 3, 4, nil`, `1 2 3 4 nil`},
	{"scalars", `return true, false, "a\0\255b", 1.5, -3`, `true false "a\000\255b" 1.5 -3`},
	{"numbers", `return 0/0, 1/0, -1/0, 2^53, 2^60, 1e300, 2^63, -2^63, 2^64`,
		`nan inf -inf 9007199254740992 1152921504606846976 1e+300 9.223372036854776e+18 -9223372036854775808 1.8446744073709552e+19`},
	{"integers of every size", `return 127,128,255,256,32767,32768,2^31-1,2^31,-32,-33,-128,-129,-32768,-32769,-2^31,-2^31-1`, ``},
	{"array", `return {1,2,3}`, `{1, 2, 3}`},
	{"empty", `return {}`, `{}`},
	{"record keeps its order", `return {z=1, a=2, ["m n"]=3}`, `{z = 1, a = 2, ["m n"] = 3}`},
	{"mixed", `return {1, 2, name="x"}`, `{1, 2, name = "x"}`},
	{"hole", `return {1, nil, 3}`, `{1, nil, 3}`},
	{"trailing nil", `local t = {1, 2, 3}; t[3] = nil; return t`, `{1, 2}`},
	{"integer keys", `return {[0]=1, [-5]=2, [2^40]=3}`, `{[0] = 1, [-5] = 2, [1099511627776] = 3}`},
	{"a zero key has no sign", `return {-0.0, [0]=1}, {{[-0.0]=2}}`, ``},
	{"deleted key", `local t = {a=1, b=2}; t.a = nil; return t`, `{b = 2}`},
	{"metatable stays behind", `return setmetatable({a=1}, {__index = {b = 2}, __call = print})`, `{a = 1}`},
	{"shared table twice", `local s = {1}; return {s, s}, s`, `{{1}, {1}} {1}`},
	{"null", `return null, {null, a=null}`, `shield.null {shield.null, a = shield.null}`},
	{"marked", `return array{}, array{1}, array{1, x=2}, array{x=2}`, `{} {1} {1, x = 2} {x = 2}`},
	{"references", `return handle, {h = handle, r = ref}`,
		`<handle n1#7> {h = <handle n1#7>, r = <client s-1@3 ada>}`},
	{"64 levels", `local t = {}; for i = 2, 64 do t = {t} end; return t`, ``},
}

func TestLocalAndRemoteAgree(t *testing.T) {
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) {
			vals := lua1(t, tt.src)
			var local Payload
			if err := Copy(&local, Args, 0, vals...); err != nil {
				t.Fatalf("Copy: %v", err)
			}
			b := Append(nil, &local)
			if len(b) != local.Size() {
				t.Errorf("Size() = %d, Append wrote %d bytes", local.Size(), len(b))
			}
			var remote Payload
			if err := Decode(&remote, b, 0); err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if local.Len() != len(vals) || remote.Len() != len(vals) || local.Refs() != remote.Refs() || local.Size() != remote.Size() {
				t.Errorf("local %d values, refs %v; remote %d, refs %v; want %d", local.Len(), local.Refs(), remote.Len(), remote.Refs(), len(vals))
			}
			var texts []string
			for i := range vals {
				if d := same(local.At(i), remote.At(i)); d != "" {
					t.Errorf("value %d differs: %s", i, d)
				}
				texts = append(texts, Text(local.At(i)))
			}
			if got := strings.Join(texts, " "); tt.text != "" && got != tt.text {
				t.Errorf("arrived as %s, want %s", got, tt.text)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		code      shield.Code
		want      string
	}{
		{"function with its path", `return 1, {inventory = {on_use = function() end}}`, shield.EncodeFailed, "args[2].inventory.on_use: function ("},
		{"function at the top", `return print`, shield.EncodeFailed, "args[1]: function ("},
		{"in an array", `return {1, {2, print}}`, shield.EncodeFailed, "args[1][2][2]: function ("},
		{"under a strange key", `return {["a b"] = {["end"] = print}}`, shield.EncodeFailed, `args[1]["a b"]["end"]: function (`},
		{"thread", `return {coroutine.create(print)}`, shield.EncodeFailed, "args[1][1]: thread ("},
		{"cycle", `local t = {}; t.me = {t}; return t`, shield.EncodeFailed, "args[1].me[1]: cyclic table ("},
		{"too deep", `local t = {}; for i = 2, 65 do t = {t} end; return t`, shield.EncodeFailed, "table nested deeper than 64 levels ("},
		{"float key", `return {a = {[1.5] = 1}}`, shield.EncodeFailed, "args[1].a: key 1.5 (only strings and integers can be keys)"},
		{"boolean key", `return {[true] = 1}`, shield.EncodeFailed, "args[1]: key true (only"},
		{"table key", `return {[{}] = 1}`, shield.EncodeFailed, "args[1]: table as a key (only"},
		{"infinite key", `return {[1/0] = 1}`, shield.EncodeFailed, "args[1]: key +Inf (only"},
		{"long string", `return {a = ("x"):rep(2^20)}`, shield.MessageTooLarge, "args[1].a: the message grows beyond 1 MiB ("},
		{"fan of shared tables", `local t = {}; for i = 1, 60 do t = {t, t} end; return t`, shield.MessageTooLarge, "the message grows beyond 1 MiB ("},
		{"sparse array", `return {[3000000] = 1}`, shield.MessageTooLarge, "args[1]: the message grows beyond 1 MiB ("},
	} {
		var p Payload
		err := Copy(&p, Args, 0, lua1(t, tt.src)...)
		if !errors.Is(err, tt.code) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Copy = %v, want %s with %q", tt.name, err, tt.code, tt.want)
		}
	}
}

func TestNothingIsShared(t *testing.T) {
	vals := lua1(t, `local s = {1}; return {s, s, k = s}`)
	var p Payload
	if err := Copy(&p, Args, 0, vals...); err != nil {
		t.Fatal(err)
	}
	c := p.At(0).(*lua.LTable)
	seen := map[lua.LValue]bool{vals[0]: true, vals[0].(*lua.LTable).RawGetInt(1): true}
	for _, e := range []lua.LValue{c, c.RawGetInt(1), c.RawGetInt(2), c.RawGetString("k")} {
		if seen[e] {
			t.Errorf("%s appears twice", Text(e))
		}
		seen[e] = true
	}
}

func TestIntern(t *testing.T) {
	var p Payload
	if err := Copy(&p, Args, 0, lua1(t, `return handle, {handle, {x = handle, r = ref, n = null}}, null, 1`)...); err != nil {
		t.Fatal(err)
	}
	known := map[any]*lua.LUserData{}
	p.Intern(func(u *lua.LUserData) *lua.LUserData {
		if known[u.Value] == nil {
			known[u.Value] = u
		}
		return known[u.Value]
	})
	in := p.At(1).(*lua.LTable)
	deep := in.RawGetInt(2).(*lua.LTable)
	if p.At(0) != in.RawGetInt(1) || p.At(0) != deep.RawGetString("x") || len(known) != 2 {
		t.Errorf("equal handles are not one value; %d distinct references", len(known))
	}
	if deep.RawGetString("n") != lua.LValue(Null) || p.At(2) != lua.LValue(Null) {
		t.Error("null was interned")
	}
}

// A marked array is to Lua code a table like any other.
func TestMarkedArraysTakeMetatables(t *testing.T) {
	got := lua1(t, `
		local t = array{1, 2}
		local missing, n = t.x, #t
		t.y = 3
		setmetatable(t, {__index = {x = "from the class"}})
		return missing, n, t.x, t.y, t == t, t ~= array{1, 2}`)
	var s []string
	for _, v := range got {
		s = append(s, Text(v))
	}
	if want := `nil 2 "from the class" 3 true true`; strings.Join(s, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(s, " "), want)
	}
}

func TestScalarsNeedNoMemory(t *testing.T) {
	vals := []lua.LValue{lua.LNumber(4711), lua.LString("hello"), lua.LTrue}
	n := testing.AllocsPerRun(100, func() {
		var p Payload
		if err := Copy(&p, Args, 0, vals...); err != nil || p.Len() != 3 {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("a copy of three scalars takes %v allocations, want 0", n)
	}
}

func TestDecodeRefusesLies(t *testing.T) {
	for _, tt := range []struct{ name, b string }{
		{"empty", ""},
		{"not an array", "\xc0"},
		{"array longer than the bytes", "\xdd\xff\xff\xff\xff\xc0"},
		{"inner array longer", "\x91\xdd\x7f\xff\xff\xff"},
		{"map longer", "\x91\xdf\x7f\xff\xff\xff\xc0"},
		{"string longer", "\x91\xdb\x7f\xff\xff\xffab"},
		{"extension longer", "\x91\xc9\xff\xff\xff\xff\x02\x90"},
		{"unknown extension", "\x91\xc9\x00\x00\x00\x01\x77\x90"},
		{"extension not used up", "\x91\xc9\x00\x00\x00\x02\x02\x90\x90"},
		{"boolean key", "\x91\x81\xc3\x01"},
		{"float key", "\x91\x81\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\x01"},
		{"something follows", "\x90\xc0"},
		{"sparse key beyond the budget", "\x91\x81\xce\x00\x3f\x00\x00\x01"},
		{"65 levels", "\x91" + strings.Repeat("\x91", 64) + "\x90"},
		{"client epoch beyond 32 bits", "\x91\xc9\x00\x00\x00\x0d\x05\xa0\xa0\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa0\xa0"},
		{"reserved byte", "\x91\xc1"},
	} {
		var p Payload
		if err := Decode(&p, []byte(tt.b), 0); !errors.Is(err, shield.DecodeError) {
			t.Errorf("%s: Decode(%q) = %v, want decode_error", tt.name, tt.b, err)
		}
	}
	var p Payload
	if err := Decode(&p, make([]byte, 11), 10); !errors.Is(err, shield.MessageTooLarge) {
		t.Errorf("Decode of 11 bytes with limit 10 = %v, want message_too_large", err)
	}
}

// testdata/wire.txt must hold for ever: other releases read these bytes, and
// docs/wire.md points there.
func TestWireBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	vectors := 0
	for line := range strings.Lines(string(text)) {
		src, want, ok := strings.Cut(strings.TrimRight(line, "\n"), "|")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		vectors++
		src, want = strings.TrimSpace(src), strings.TrimSpace(want)
		var p, back Payload
		if err := Copy(&p, Args, 0, lua1(t, "return "+src)...); err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got := fmt.Sprintf("%x", Append(nil, &p)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", src, got, want)
		}
		raw, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(&back, raw, 0); err != nil || back.Len() != p.Len() {
			t.Errorf("%s: Decode = %d values, %v", src, back.Len(), err)
			continue
		}
		for i := range p.Len() {
			if d := same(p.At(i), back.At(i)); d != "" {
				t.Errorf("%s: value %d: %s", src, i, d)
			}
		}
	}
	if vectors < 10 {
		t.Errorf("only %d vectors", vectors)
	}
}

// Headers that lie about their lengths, one inside the other, can't make a short
// message take more memory than an honest one of its length.
func TestLiesTakeNoMemory(t *testing.T) {
	const size = 64 << 10
	lies := func(header string) []byte {
		b := bytes.Repeat([]byte(header), MaxDepth-1)
		return append(b, make([]byte, size-len(b))...)
	}
	for _, tt := range []struct {
		name string
		b    []byte
	}{
		{"arrays", lies("\xdc\xf0\x00")},
		{"maps", lies("\xde\x78\x00\xa1a")},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var p Payload
		if err := Decode(&p, append([]byte{0x91}, tt.b...), 0); !errors.Is(err, shield.DecodeError) {
			t.Errorf("%s: Decode = %v, want decode_error", tt.name, err)
		}
		if _, err := Msgpack.Decode(tt.b); !errors.Is(err, shield.DecodeError) {
			t.Errorf("%s: Msgpack.Decode = %v, want decode_error", tt.name, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 300*size {
			t.Errorf("%s: %d bytes took %d KiB", tt.name, size, took>>10)
		}
	}
}
