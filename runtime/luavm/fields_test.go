package luavm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	lua "github.com/yuin/gopher-lua"
)

// A table that is written by our instructions must be the same, inside too, as
// one that gopher-lua wrote.
func TestSetFieldAgainstPlain(t *testing.T) {
	if err := checkLayout(); err != nil {
		t.Fatal(err)
	}
	keys := []string{`"a"`, `"b"`, `"c"`, `"hp"`, `"1"`, `1`, `2`, `2.5`, `true`, `k1`, `k2`}
	values := []string{`1`, `"x"`, `nil`, `false`, `{}`, `v1`}
	starts := []string{`{}`, `{a = 1}`, `{a = 1, b = 2, c = nil}`, `{1, 2, a = 1}`,
		`setmetatable({b = 1}, {__newindex = function(t, k, v) rawset(t, k, v and type(v)) end})`,
		`setmetatable({b = 1}, {__newindex = other})`, `setmetatable({}, {__index = {a = 1}})`}
	rapid.Check(t, func(t *rapid.T) {
		src := "local k1, k2, v1 = 'a', 'long key of some length', 7.5\nother = {}\nlocal t = " + rapid.SampledFrom(starts).Draw(t, "start") + "\n"
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			k, v := rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(values).Draw(t, "value")
			src += fmt.Sprintf("t[%s] = %s\n", k, v)
		}
		src += "return t, other"
		got, want := runWith(t, hookedTable, src), runWith(t, plainTable, src)
		if got != want {
			t.Fatalf("after\n%s\nthe tables are\n%s\nand with gopher-lua's own instructions\n%s", src, got, want)
		}
	})
}

var hookedTable = jumpTable

// runWith runs src on a stack of its own with the given instructions and
// describes all there is in the tables that it returns.
func runWith(t *rapid.T, table [opCount]instruction, src string) string {
	defer func(was [opCount]instruction) { jumpTable = was }(jumpTable)
	jumpTable = table
	L := lua.NewState()
	defer L.Close()
	if err := L.DoString(src); err != nil {
		t.Fatalf("%v in\n%s", err, src)
	}
	text := ""
	for i := 1; i <= L.GetTop(); i++ {
		tb := L.Get(i).(*lua.LTable)
		m := mirrorOf(tb)
		show := func(v lua.LValue) string {
			if v.Type() == lua.LTTable {
				return "table"
			}
			return v.Type().String() + " " + v.String()
		}
		for i, v := range m.array {
			text += fmt.Sprintf("[%d] %s\n", i+1, show(v))
		}
		for i, k := range m.keys {
			if m.k2i[k] != i {
				text += fmt.Sprintf("%s stands at %d, not %d\n", show(k), i, m.k2i[k])
			}
			text += fmt.Sprintf("%s = %s\n", show(k), show(tb.RawGetH(k)))
		}
		text += fmt.Sprintf("%d strings, %d others, %d places\n", len(m.strdict), len(m.dict), len(m.k2i))
	}
	return text
}
