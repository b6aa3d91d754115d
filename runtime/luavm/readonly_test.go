package luavm

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// A Reader gives what Lua would, and refuses what would have to run.
func TestReaderReadsLikeLua(t *testing.T) {
	b := oneBox(t, VMConfig{})
	r := Reader{VM: b.vm, Name: func(string) lua.LValue { return lua.LNil }}
	for _, src := range []string{
		`1 + 2 * 3, 7 % 3, -7 % 3, 7 % -3, 5 % (1/0), 2 ^ 10, 0x10, 1e3`,
		`"010" + 0, " 5 " * "2", -"3"`,
		`#{1, nil, 3}, ({1, nil, 3})[3], ({[1] = "a"})[1], ({[2 ^ 53] = 1})[2 ^ 53], ({x = {y = 5}}).x.y`,
		`"a" .. 1 .. "b", "a" < "b", 1 <= 1, 2 > 3, 0/0 == 0/0, 1 ~= 2, not nil`,
		`nil and 1, false or "x", 1 and nil`,
	} {
		line, err := CompileLine("line", src, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Read(line)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if want := b.do("return " + src); show(got) != want {
			t.Errorf("%s = %q, want %q", src, show(got), want)
		}
	}
	for src, want := range map[string]string{
		`f()`: "could change something", `x = 1`: "could change something", `function() end`: "could change something",
		`"1_000" + 1`: "arithmetic on a string", `"inf" + 1`: "arithmetic on a string", `{[nil] = 1}`: "index is nil", `{[0/0] = 1}`: "index is NaN", `1 < "2"`: "compare",
	} {
		line, err := CompileLine("line", src, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", src, err, want)
		}
	}
}
