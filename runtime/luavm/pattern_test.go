package luavm

import (
	"fmt"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

func TestPatterns(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`("hello world"):find("o w")`, "5 7"},
		{`("hello"):find("l+")`, "3 4"},
		{`("a.b"):find(".", 1, true)`, "2 2"},
		{`("a.b"):find("%.")`, "2 2"},
		{`("hello"):find("")`, "1 0"},
		{`("hello"):find("", 10)`, "6 5"},
		{`("hello"):find("xyz")`, "nil"},
		{`("hello"):find("l", -2)`, "4 4"},
		{`("key = value"):match("^(%w+)%s*=%s*(%w+)$")`, "key value"},
		{`("hello"):match("()ll()")`, "3 5"},
		{`("2026-11-29"):match("(%d+)-(%d+)-(%d+)")`, "2026 11 29"},
		{`("THE (quick) fox"):find("%((%a+)%)")`, "5 11 quick"},
		{`("f(a(b)c)d"):match("%b()")`, "(a(b)c)"},
		{`("THE (quick) fox"):gsub("%f[%a]%a+", "x")`, "x (x) x 3"},
		{`("THE END"):find("%f[%z]")`, "8 7"},
		{`("abcabc"):match("(a)(b)(c)%1%2%3")`, "a b c"},
		{`("[[x]]"):match("%[%[(.-)%]%]")`, "x"},
		{`("a]b"):match("[]]")`, "]"},
		{`("a-b"):match("[a%-]+")`, "a-"},
		{`("a-b"):match("[+-]")`, "-"},
		{`("x^y"):match("[x^]+")`, "x^"},
		{`("aXb"):match("[^%l]")`, "X"},
		{`("abc"):gsub("%w", "%0%0")`, "aabbcc 3"},
		{`("abc"):gsub("", "-")`, "-a-b-c- 4"},
		{`("abc"):gsub("b*", "x")`, "xaxxcx 4"},
		{`("hello world"):gsub("o", "0", 1)`, "hell0 world 1"},
		{`("abc"):gsub("^a", "x")`, "xbc 1"},
		{`("$name is $age"):gsub("%$(%w+)", {name = "bob", age = 7})`, "bob is 7 2"},
		{`("abc"):gsub("%w", function(c) if c == "b" then return nil end return c:upper() end)`, "AbC 3"},
		{`("a,b,,c"):gsub(",", ";")`, "a;b;;c 3"},
		{`("x"):gsub("x", "%%")`, "% 1"},
		{`("  trim  "):match("^%s*(.-)%s*$")`, "trim"},
		{`("x"):rep(3)`, "xxx"},
		{`("\0a"):find("%z")`, "1 1"},
		{`("é"):upper() == "é"`, "true"},
		{`("\255\254a"):upper() == "\255\254A"`, "true"},
		{`("%d"):format(3.99)`, "3"},
		{`("%5d|%-5d|%05d"):format(42, 42, 42)`, "   42|42   |00042"},
		{`("%g %g %g"):format(0.1, 1/3, 1e20)`, "0.1 0.333333 1e+20"},
		{`("%.2f %e"):format(1/3, 12345.678)`, "0.33 1.234568e+04"},
		{`("%x %X %o"):format(255, 255, 8)`, "ff FF 10"},
		{`("%q"):format('a "b"\n\\')`, "\"a \\\"b\\\"\\\n\\\\\""},
		{`("%s %s"):format(nil, true)`, "nil true"},
		{`("%10s|%-10s|%.2s"):format("hi", "hi", "hello")`, "        hi|hi        |he"},
		{`("%c%c"):format(72, 105)`, "Hi"},
		{`("%5.1f|%+d"):format(3.14159, 5)`, "  3.1|+5"},
		{`("%f %f"):format(1/0, -1/0)`, "inf -inf"},
		{`("100%%"):format()`, "100%"},
		{`pcall(string.format, "%d")`, "false test.lua:1: bad argument #2 to (anonymous) (no value)"},
		{`pcall(string.format, "%y", 1)`, "false test.lua:1: invalid conversion '%y' to 'format'"},
		{`pcall(string.find, "a", "[a")`, "false test.lua:1: malformed pattern (missing ']')"},
		{`pcall(string.find, "a", "%")`, "false test.lua:1: malformed pattern (ends with '%')"},
		{`pcall(string.find, "a", "(a")`, "false test.lua:1: unfinished capture"},
		{`pcall(string.match, "a", "a)")`, "false test.lua:1: invalid pattern capture"},
		{`pcall(string.find, "a", "%1")`, "false test.lua:1: invalid capture index"},
		{`pcall(string.gsub, "a", "a", "%2")`, "false test.lua:1: invalid capture index"},
		{`pcall(string.gsub, "a", "a", function() return {} end)`, "false test.lua:1: invalid replacement value (a table)"},
	} {
		if got := b.do("return " + tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
	if got := b.do(`local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end return table.concat(t, " ")`); got != "a1 b2" {
		t.Errorf("gmatch gave %q", got)
	}
	if got := b.do(`local n = 0 for _ in ("abc"):gmatch("") do n = n + 1 end return n`); got != "4" {
		t.Errorf("gmatch of nothing gave %s matches", got)
	}
}

// patternFrom makes a well-formed pattern of the part that gopher-lua's matcher
// gets right, out of any bytes.
func patternFrom(b []byte) string {
	atoms := []string{"a", "b", "c", ".", "%a", "%d", "%s", "%w", "[ab]", "[^a]", "[a-c]", "%.", "%A"}
	var p strings.Builder
	open := 0
	for _, c := range b {
		switch {
		case c < 16 && open == 0:
			p.WriteString("(")
			open = 1
		case c < 32 && open == 2:
			p.WriteString(")")
			open = 0
		default:
			p.WriteString(atoms[int(c)%len(atoms)])
			p.WriteString([]string{"", "", "*", "+", "-", "?"}[int(c)/32%6])
			open = min(open*2, 2)
		}
	}
	if open == 1 {
		p.WriteString("a")
	}
	if open > 0 {
		p.WriteString(")")
	}
	return p.String()
}

// FuzzMatcher compares with gopher-lua's own on small inputs, and takes any
// bytes as a pattern without a panic or a hang.
func FuzzMatcher(f *testing.F) {
	f.Add("abcab 12", []byte{1, 40, 17, 90}, "%f[%w]%w+")
	f.Add("aaab", []byte{66, 130, 200}, "(a*(.)%w(%s*))")
	f.Add("((x)y", []byte{0, 255}, "%b()[]]-$")
	f.Fuzz(func(t *testing.T, s string, raw []byte, wild string) {
		if len(s) > 24 || len(raw) > 8 || len(wild) > 40 {
			return
		}
		L := lua.NewState()
		defer L.Close()
		w, err := NewWorld(Config{Files: files{}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(t.Context())
		vm := w.NewVM(VMConfig{})
		h := w.Take()
		p := patternFrom(raw)
		for _, src := range []string{`return string.find(S, P)`, `return string.match(S, P)`, `return string.gsub(S, P, "<%0>")`,
			`local r = {} for a, b in string.gmatch(S, P) do r[#r + 1] = tostring(a) .. tostring(b) end return table.concat(r, "|")`} {
			L.SetGlobal("S", lua.LString(s))
			L.SetGlobal("P", lua.LString(p))
			L.SetTop(0)
			if err := L.DoString(src); err != nil {
				continue
			}
			var want []lua.LValue
			for i := 1; i <= L.GetTop(); i++ {
				want = append(want, L.Get(i))
			}
			if len(want) == 0 {
				want = []lua.LValue{lua.LNil} // gopher-lua's match forgets its nil
			}
			vm.Globals().RawSetString("S", lua.LString(s))
			vm.Globals().RawSetString("P", lua.LString(p))
			code, err := compile("x", src)
			if err != nil {
				t.Fatal(err)
			}
			got, rerr := vm.Run(h, Call{Fn: vm.closure(code.Proto)})
			if rerr != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s with S=%q P=%q: got %q (%v), gopher-lua has %q", src, s, p, got, rerr, want)
			}
		}
		vm.Globals().RawSetString("P", lua.LString(wild))
		code, err := compile("x", `return string.find(S, P), string.gsub(S, P, "%1"), pcall(string.format, P, 1, 2, 3)`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := vm.Run(h, Call{Fn: vm.closure(code.Proto)}); err != nil && err.Kind != KindError {
			t.Fatalf("P=%q: %v %s", wild, err, err.Traceback)
		}
	})
}
