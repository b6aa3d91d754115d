package value

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// parseArgs reads what Payload.AppendJSON wrote.
func parseArgs(p *Payload, text []byte) error {
	v, err := ParseJSON(text)
	if err != nil {
		return err
	}
	list := v.(*lua.LTable)
	for i := 1; i <= list.MaxN(); i++ {
		e := list.RawGetInt(i)
		if e == Null {
			e = lua.LNil
		}
		p.Add(e)
	}
	return nil
}

func TestToolsJSON(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"scalars", `return nil, true, 1, -0.0, 1.5, 1e300, 1e-9, "x"`, `[null,true,1,-0,1.5,1e+300,1e-09,"x"]`},
		{"big integers keep their digits", `return 2^53, 2^60, -2^63, 2^63`, `[9007199254740992,1152921504606846976,-9223372036854775808,9.223372036854776e+18]`},
		{"no such numbers in JSON", `return 0/0, 1/0, -1/0`, `[{"$number":"nan"},{"$number":"inf"},{"$number":"-inf"}]`},
		{"escapes", `return "q\"b\\n\nt\tz\0e\127"`, `["q\"b\\n\nt\tz\u0000e\u007f"]`},
		{"binary", `return "\0\255"`, `[{"$binary":"AP8="}]`},
		{"tables", `return {}, {1, {2}}, {a = {b = 1}}, array{}`, `[{},[1,[2]],{"a":{"b":1}},[]]`},
		{"null is no hole", `return {1, null, 3}`, `[[1,null,3]]`},
		{"holes make an object", `return {1, nil, null}`, `[{"1":1,"3":null}]`},
		{"a marked list keeps its holes", `return array{1, nil, 3}`, `[[1,null,3]]`},
		{"keys by id", `return {[5000] = 1}, {[1] = "a", [1e8] = "b"}, {[1] = "a"}`, `[{"5000":1},{"1":"a","100000000":"b"},["a"]]`},
		{"a list however it was filled", `local t = {}; t[2] = "b"; t[3] = "c"; t[1] = "a"; return t`, `[["a","b","c"]]`},
		{"integer keys", `return {[5] = "x", [-1] = "y"}`, `[{"5":"x","-1":"y"}]`},
		{"mixed", `return {"x", name = "y"}`, `[{"1":"x","name":"y"}]`},
		{"keys that would collide", `return {[5] = "x", ["5"] = "y"}`, `[{"$map":[[5,"x"],["5","y"]]}]`},
		{"keys that look like ours", `return {["$binary"] = 1}`, `[{"$map":[["$binary",1]]}]`},
		{"references", `return handle, ref`, `[{"$handle":{"node":"n1","epoch":"18446744073709551615","id":"7"}},` +
			`{"$client":{"gateway":"n1:main","session":"s-1","epoch":3,"player":"ada","profile":"g/json"}}]`},
	} {
		var p, back Payload
		if err := Copy(&p, Args, 0, lua1(t, tt.src)...); err != nil {
			t.Fatal(err)
		}
		got := string(p.AppendJSON(nil))
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		if err := parseArgs(&back, []byte(got)); err != nil {
			t.Errorf("%s: parseArgs: %v", tt.name, err)
		} else if again := string(back.AppendJSON(nil)); again != got {
			t.Errorf("%s: comes back as %s", tt.name, again)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{` null `, "nil"}, {`true`, "true"}, {`[1, 2.5e1, -3]`, "{1, 25, -3}"}, {`{"a": [], "b": {}}`, "{a = {}, b = {}}"},
		{`"\u00e9\ud83d\ude00\n\/\b\f\r"`, "\"\u00e9\U0001F600\\n/\\008\\012\\r\""}, {`"\ud800x"`, "\"\uFFFDx\""},
		{`{"$binary":"AP8="}`, `"\000\255"`}, {`{"$map":[[1,"x"],["k",2]]}`, `{"x", k = 2}`},
		{`{"$handle":{"node":"a","epoch":1,"id":2}}`, "<handle a#2>"}, {`{"$unknown":1}`, `{["$unknown"] = 1}`},
		{`{"a":1,"a":2}`, "{a = 2}"}, {`{"$binary":"AA==","more":1}`, `{["$binary"] = "AA==", more = 1}`},
	} {
		v, err := ParseJSON([]byte(tt.in))
		if err != nil || Text(v) != tt.want {
			t.Errorf("ParseJSON(%s) = %s, %v, want %s", tt.in, Text(v), err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{``, "the text ends"}, {`[1`, "',' or ']'"}, {`{"a"`, "':'"}, {`{"a":1`, "',' or '}'"}, {`{a:1}`, "double quotes"},
		{`tru`, "not true, false or null"}, {`1 2`, "something follows"}, {`"a`, "without end"}, {`"a\`, "without end"}, {"\"a\nb\"", "control character"},
		{"\"\\n\n\"", "control character"}, {`"\x"`, `unknown escape \x`}, {`"\u12"`, "four hexadecimal"}, {`"\u12zz"`, "four hexadecimal"},
		{"\"\xff\"", "not UTF-8"}, {"\"\\n\xff\"", "not UTF-8"}, {`01`, "something follows"}, {`-`, "needs a digit"}, {`1.`, "needs a digit"}, {`1e`, "needs a digit"},
		{`1e999`, "out of range"}, {`9007199254740993`, "loses digits"}, {`18446744073709551615`, "loses digits"}, {strings.Repeat("9", 40), "..."},
		{`@`, `unexpected '@'`}, {strings.Repeat("[", 65), "deeper than 64"}, {`{"$binary":"*"}`, "base64"}, {`{"$number":"x"}`, "nan, inf"},
		{`{"$handle":1}`, "node, epoch"}, {`{"$handle":{"node":"a","epoch":-1,"id":2}}`, "node, epoch"}, {`{"$client":1}`, "gateway, session"},
		{`{"$client":{"gateway":"a","session":"s","epoch":4294967296}}`, "gateway, session"}, {`{"$map":{}}`, "pairs"}, {`{"$map":[[1]]}`, "pairs"},
		{`{"$map":[[true,1]]}`, "strings and integers"}, {`{"$map":[[2000000,1]]}`, "far apart"},
	} {
		if v, err := ParseJSON([]byte(tt.in)); !errors.Is(err, shield.DecodeError) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseJSON(%s) = %v, %v, want decode_error with %q", tt.in, v, err, tt.want)
		}
	}
}

func TestCodecs(t *testing.T) {
	for _, name := range append(CodecNames(), "") {
		c := CodecByName(name)
		if c == nil || name != "" && c.Name() != name {
			t.Errorf("CodecByName(%q) = %v", name, c)
		}
	}
	if CodecByName("protobuf") != nil || CodecByName("") != JSON {
		t.Error("protobuf is not there yet, and json is the default")
	}
	for _, tt := range []struct{ codec, src, want string }{
		{"json", `return {x = 1, list = array{}, none = null}`, `{"x":1,"list":[],"none":null}`},
		{"json", `return {[1] = "a", [2] = "b", n = 2}`, `{"1":"a","2":"b","n":2}`},
		{"json", `return {["$binary"] = "AA=="}`, `{"$binary":"AA=="}`},
		{"msgpack", `return {x = 1, list = array{}, none = null}`, "\x83\xa1x\x01\xa4list\x90\xa4none\xc0"},
		{"msgpack", `return {7, n = 2}`, "\x82\x01\x07\xa1n\x02"},
		{"msgpack", `return {1, nil, 3}`, "\x82\x01\x01\x03\x03"},
		{"msgpack", `return array{1, nil, 3}`, "\x93\x01\xc0\x03"},
		{"json", `return {[100001] = {hp = 1}}`, `{"100001":{"hp":1}}`},
		{"raw", `return "as it \0 is"`, "as it \x00 is"},
		{"raw", `return nil`, ""},
	} {
		got, err := CodecByName(tt.codec).Append(nil, lua1(t, tt.src)[0])
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s = %q, %v, want %q", tt.codec, tt.src, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ codec, src, want string }{
		{"json", `return {a = {print}}`, "body.a[1]: function"},
		{"json", `return {n = 0/0}`, "body.n: number nan"},
		{"json", `return {s = "\255"}`, "body.s: string that is not UTF-8"},
		{"json", `return {["\255"] = 1}`, "body: key that is not UTF-8"},
		{"json", `return {[5] = 1, ["5"] = 2}`, "one key in JSON"},
		{"json", `return {[1.5] = 1}`, "body: key 1.5"},
		{"json", `return handle`, "body: handle"},
		{"json", `local t = {}; t.t = t; return t`, "cyclic"},
		{"json", `return ("x"):rep(2^20 + 1)`, "grows beyond 1 MiB"},
		{"msgpack", `return {ref}`, "body[1]: client ref"},
		{"msgpack", `return {[true] = 1}`, "body: key true"},
		{"msgpack", `return {[1.5] = 1}`, "body: key 1.5"},
		{"msgpack", `return {x = print}`, "body.x: function"},
		{"msgpack", `local t = {}; t[1] = t; return t`, "cyclic"},
		{"msgpack", `local t = {}; for i = 1, 40 do t = {t, t} end; return t`, "grows beyond 1 MiB"},
		{"raw", `return {}`, "body: table"},
	} {
		_, err := CodecByName(tt.codec).Append(nil, lua1(t, tt.src)[0])
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s = %v, want an error with %q", tt.codec, tt.src, err, tt.want)
		}
	}
	for _, tt := range []struct{ codec, in, want string }{
		{"json", ``, "nil"}, {"json", `null`, "shield.null"}, {"json", `{"$handle":{"node":"a","epoch":"1","id":"2"}}`, `{["$handle"] = {node = "a", epoch = "1", id = "2"}}`},
		{"msgpack", "", "nil"}, {"msgpack", "\xc4\x02\x00\xff", `"\000\255"`}, {"msgpack", "\x82\x05\xc0\xa1a\x91\xc0", "{[5] = shield.null, a = {shield.null}}"},
		{"msgpack", "\xca\x3f\x80\x00\x00", "1"}, {"msgpack", "\xcf\x00\x20\x00\x00\x00\x00\x00\x00", "9007199254740992"}, {"raw", "", `""`},
	} {
		v, err := CodecByName(tt.codec).Decode([]byte(tt.in))
		got := ""
		if err == nil {
			got = Text(v)
		}
		// A key beyond the end of the array part opens holes, which print as nil.
		got = strings.ReplaceAll(got, "{nil, nil, nil, nil, shield.null, a", "{[5] = shield.null, a")
		if err != nil || got != tt.want {
			t.Errorf("%s: Decode(%q) = %s, %v, want %s", tt.codec, tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"\xd4\x01\x00", "\xc9\x00\x00\x00\x0d\x04", "\x93\x01", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\x01\x02", "\xd3\x7f\xff\xff\xff\xff\xff\xff\xff",
		"\xd9\x05ab", "\xc4\x05ab", "\xcb\x00", "\xcd\x00", "\x81\xc3\x01"} {
		if v, err := Msgpack.Decode([]byte(in)); !errors.Is(err, shield.DecodeError) {
			t.Errorf("msgpack: Decode(%q) = %v, %v, want decode_error", in, v, err)
		}
	}
	far := []byte("\x81\xce\x00\x01\x86\xa1\x01") // {[100001] = 1}
	if v, err := Msgpack.Decode(far); !errors.Is(err, shield.DecodeError) || !strings.Contains(err.Error(), "send it as a string") {
		t.Errorf("msgpack: a far key of a client = %v, %v, want decode_error with what to do", v, err)
	}
	if v, err := Trusting(Msgpack).Decode(far); err != nil || v.(*lua.LTable).RawGetInt(100001) != lua.LNumber(1) {
		t.Errorf("msgpack: a far key of a server = %v, %v, want the table", v, err)
	}
	if b, err := AppendBody(JSON, []byte("h"), lua.LString("\xff raw")); err != nil || string(b) != "h\xff raw" {
		t.Errorf("AppendBody of a string = %q, %v, want its bytes", b, err)
	}
	if b, err := AppendBody(JSON, nil, lua.LNumber(7)); err != nil || string(b) != "7" {
		t.Errorf("AppendBody of a number = %q, %v", b, err)
	}
}

type level int

func TestGoValues(t *testing.T) {
	seven := 7
	for _, tt := range []struct {
		in   any
		text string
		back any
	}{
		{nil, "nil", nil}, {true, "true", true}, {"s", `"s"`, "s"}, {[]byte{0}, `"\000"`, "\x00"}, {1.5, "1.5", 1.5}, {7, "7", int64(7)},
		{uint64(1 << 63), "9.223372036854776e+18", float64(1 << 63)}, {int64(-1 << 63), "-9223372036854775808", float64(-1 << 63)},
		{level(3), "3", int64(3)}, {uint8(9), "9", int64(9)}, {float32(0.5), "0.5", 0.5}, {shield.Name("n"), `"n"`, "n"}, {&seven, "7", int64(7)}, {(*int)(nil), "nil", nil},
		{[]int{1, 2}, "{1, 2}", []any{int64(1), int64(2)}}, {[]string{}, "{}", []any{}}, {[2]bool{true}, "{true, false}", []any{true, false}},
		{map[string]any{"b": nil, "a": []any{nil}}, "{a = {shield.null}, b = shield.null}", map[string]any{"a": []any{nil}, "b": nil}},
		{map[int]string{10: "x", -1: "y"}, `{nil, nil, nil, nil, nil, nil, nil, nil, nil, "x", [-1] = "y"}`, map[string]any{"10": "x", "-1": "y"}},
		{shield.Handle{Node: "a", ID: 4}, "<handle a#4>", shield.Handle{Node: "a", ID: 4}},
		{shield.ClientRef{Session: "s-1"}, "<client s-1@0>", shield.ClientRef{Session: "s-1"}},
		{lua.LString("lua"), `"lua"`, "lua"}, {math.Inf(1), "inf", math.Inf(1)},
	} {
		v, err := FromGo(tt.in)
		if err != nil || Text(v) != tt.text {
			t.Errorf("FromGo(%#v) = %s, %v, want %s", tt.in, Text(v), err, tt.text)
			continue
		}
		if diff := cmp.Diff(tt.back, ToGo(v)); diff != "" {
			t.Errorf("%#v comes back changed (-want +got):\n%s", tt.in, diff)
		}
	}
	var deep any = 1
	for range 65 {
		deep = []any{deep}
	}
	for _, tt := range []struct {
		in   any
		want string
	}{
		{struct{}{}, "args[1]: Go struct {}"}, {func() {}, "args[1]: Go func()"}, {map[string]any{"k": []any{make(chan int)}}, "args[1].k[1]: Go chan int"},
		{int64(1<<53 + 1), "integer 9007199254740993"}, {uint64(math.MaxUint64), "integer 18446744073709551615"}, {int64(math.MaxInt64), "integer 9223372036854775807"},
		{deep, "nested deeper than 64"}, {map[bool]int{true: 1}, "key true"}, {map[float64]int{1.5: 1}, "key 1.5"}, {&lua.LFunction{}, "args[1]: function"},
		{map[int]int{3000000: 1}, "too many here are empty: use a string"},
	} {
		if _, err := PayloadOf(tt.in); !errors.Is(err, shield.EncodeFailed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("PayloadOf(%T) = %v, want encode_failed with %q", tt.in, err, tt.want)
		}
	}
	var plain Payload
	plain.AddPlain(lua1(t, `return {1}`)[0])
	plain.AddPlain(nil)
	if plain.Refs() || plain.Len() != 2 || plain.At(1) != lua.LNil {
		t.Errorf("AddPlain gives %d values, refs %v", plain.Len(), plain.Refs())
	}
	p, err := PayloadOf(1, nil, "x", []any{shield.Handle{ID: 1}}, nil)
	if err != nil || p.Len() != 5 || !p.Refs() {
		t.Fatalf("PayloadOf = %d values, refs %v, %v", p.Len(), p.Refs(), err)
	}
	if diff := cmp.Diff([]any{int64(1), nil, "x", []any{shield.Handle{ID: 1}}, nil}, p.Go()); diff != "" {
		t.Errorf("Go() (-want +got):\n%s", diff)
	}
}

func TestPrinter(t *testing.T) {
	for _, tt := range []struct {
		name, src, want string
		p               Printer
	}{
		{"scalars", `return {nil, true, 1.5, "a\n\"\0\255é"}`, "{nil, true, 1.5, \"a\\n\\\"\\000\\255é\"}", Printer{}},
		{"keys", `return {[1.5] = 1, [true] = 2, ["end"] = 3, ok_1 = 4, ["1x"] = 5}`, `{[1.5] = 1, [true] = 2, ["end"] = 3, ok_1 = 4, ["1x"] = 5}`, Printer{Width: 200}},
		{"table keys", `return {[{}] = 1}`, `{[<table>] = 1}`, Printer{}},
		{"cycle", `local t = {1}; t.me = t; return t`, `{1, me = <cycle>}`, Printer{}},
		{"depth", `return {{{{1}}}}`, `{{{...}}}`, Printer{Depth: 2}},
		{"items", `return {1, 2, 3, 4, x = 5}`, `{1, 2, ... (3 more)}`, Printer{Items: 2}},
		{"long string", `return ("é"):rep(10)`, `"éé" ... (20 bytes)`, Printer{String: 5}},
		{"function", "return {\n function() end}", `{<function: <string>:2>}`, Printer{}},
		{"built in", `return print`, `<function: built in>`, Printer{}},
		{"lines", `return {name = "a long enough name", list = {1, 2}}`, "{\n  name = \"a long enough name\",\n  list = {1, 2},\n}", Printer{Width: 30}},
		{"references", `return {handle, ref, null}`, `{<handle n1#7>, <client s-1@3 ada>, shield.null}`, Printer{}},
	} {
		got := tt.p.Print(lua1(t, tt.src)[0])
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
	wide := lua1(t, `local t = {1}; for i = 1, 30 do t = {t, t} end; return t`)[0]
	if n := len(Printer{Depth: 64}.Print(wide)); n > 4*maxPrinted {
		t.Errorf("a table that fans out prints as %d bytes", n)
	}
}

func TestCopyFromAStack(t *testing.T) {
	L := lua.NewState()
	defer L.Close()
	for _, v := range []lua.LValue{lua.LString("target"), lua.LNumber(1), lua.LNil, lua.LString("x"), lua.LTrue} {
		L.Push(v)
	}
	var p Payload
	if err := CopyStack(&p, Args, 0, L, 2); err != nil || p.Len() != 4 || p.At(3) != lua.LTrue || p.At(1) != lua.LNil || p.At(9) != lua.LNil {
		t.Errorf("CopyStack = %d values, %v", p.Len(), err)
	}
	L.SetTop(0)
	if n := p.Push(L); n != 4 || L.GetTop() != 4 || L.Get(4) != lua.LTrue {
		t.Errorf("Push = %d, the stack has %d", n, L.GetTop())
	}
	L.Push(L.NewFunction(func(*lua.LState) int { return 0 }))
	var q Payload
	if err := CopyStack(&q, Results, 0, L, 1); err == nil || !strings.Contains(err.Error(), "results[5]: function") {
		t.Errorf("CopyStack of a function = %v", err)
	}
	var none Payload
	if err := CopyStack(&none, Args, 0, L, 99); err != nil || none.Len() != 0 {
		t.Errorf("CopyStack beyond the top = %d values, %v", none.Len(), err)
	}
	if v, err := CopyValue(lua1(t, `return {1}`)[0], "event", 0); err != nil || Text(v) != "{1}" {
		t.Errorf("CopyValue = %s, %v", Text(v), err)
	}
	if _, err := CopyValue(lua1(t, `return {x = print}`)[0], "event", 0); err == nil || !strings.Contains(err.Error(), "event.x: function") {
		t.Errorf("CopyValue of a function = %v", err)
	}
	if h, ok := AsHandle(NewHandle(shield.Handle{ID: 3})); !ok || h.ID != 3 {
		t.Errorf("AsHandle = %v, %v", h, ok)
	}
	if r, ok := AsClientRef(NewClientRef(shield.ClientRef{Session: "s"})); !ok || r.Session != "s" {
		t.Errorf("AsClientRef = %v, %v", r, ok)
	}
	if _, ok := AsHandle(Null); ok {
		t.Error("null is a handle")
	}
	if _, ok := AsClientRef(lua.LNil); ok {
		t.Error("nil is a client ref")
	}
	if got := L.ToStringMeta(Null); got != lua.LString("null") {
		t.Errorf("tostring(shield.null) = %s", got)
	}
}
