package luavm

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	lua "github.com/yuin/gopher-lua"
)

// fresher makes a function for Lua that notes what Fresh says at each call and
// marks the tables that may be given away.
func fresher(t testing.TB) (b *box, take lua.LValue, said *[]string) {
	b, said = oneBox(t, VMConfig{}), new([]string)
	fn := &lua.LFunction{IsG: true, Env: b.vm.Globals(), GFunction: func(L *lua.LState) int {
		mask, text := Fresh(L), ""
		for i := 1; i <= L.GetTop(); i++ {
			tb, ok := L.Get(i).(*lua.LTable)
			switch {
			case mask>>(i-1)&1 == 0:
				text += "-"
			case !ok:
				text += "!"
			default:
				text += "F"
				tb.RawSetString("given away", lua.LTrue)
				Forget(L, i)
			}
		}
		*said = append(*said, text)
		L.Push(lua.LTrue)
		return 1
	}}
	return b, fn, said
}

func TestFresh(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"a record", `take("hit", {by = 1, at = 2})`, "-F"},
		{"nothing else", `take({})`, "F"},
		{"a list", `take({1, 2, 3}, 4, {a = {5}})`, "F-F"},
		{"what is in it is computed", `local x = 1 take({a = x + 1, b = -x, c = "n" .. x, d = #g, e = x * x, [x] = not x})`, "F"},
		{"fields of others, calls, methods", `take({a = g.b, c = g["d"], e = tostring(1), f = ("x"):upper()})`, "F"},
		{"varargs inside", `local function f(...) return take({...}) end f(1)`, ""},
		{"varargs inside, no tail call", `local function f(...) local r = take({...}) return r end f(1)`, "F"},
		{"a local", `local t = {} take(t)`, "-"},
		{"a global", `g = {} take(g)`, "-"},
		{"a choice", `local t = {} take(t or {})`, "-"},
		{"another choice", `local t = {} take(x and {a = 1} or t)`, "-"},
		{"choices inside", `local t = {} take({a = x or t})`, "-"},
		{"a comparison inside", `take({a = x == 1})`, "-"},
		{"what a function returned", `take((function() g = {} return g end)())`, "-"},
		{"a closure inside", `take({f = function() return g end})`, "-"},
		{"as many as there are", `local function f() return 1 end take({}, f())`, "--"},
		{"a tail call", `return take({})`, ""},
		{"through pcall", `pcall(take, {})`, "-"},
		{"in a loop", `for i = 1, 3 do take({i = i}) end`, "F,F,F"},
		{"behind a condition", `if g then take({}) end while g do take({1}) break end`, "F,F"},
		{"retried", `local n = 0 repeat n = n + 1 until not take({n = n}) or n == 2`, "F,F"},
		{"kept under way", `local t = {} take({t = t}) take(t.x)`, "F,-"},
		{"a long list", `take({` + strings.Repeat("1,", 120) + `})`, "F"},
		{"a method", `local o = {take = take} o:take({a = 1})`, "-F"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, take, said := fresher(t)
			if _, err := b.try("g = {} local take = ... "+tt.src, take); err != nil {
				t.Fatal(err.Message)
			}
			got := strings.Join(*said, ",")
			if tt.want == "" {
				tt.want = strings.Repeat("-", len(got))
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.src, got, tt.want)
			}
		})
	}
}

// Whatever the script looks like, no table that Fresh lets go can be found
// afterwards from anything the script still has.
func TestFreshIsNeverShared(t *testing.T) {
	vars := []string{"a", "b", "c", "u", "G.x"}
	rapid.Check(t, func(rt *rapid.T) {
		var expr func(depth int) string
		expr = func(depth int) string {
			pick := rapid.IntRange(0, 15).Draw(rt, "expression")
			if depth == 0 {
				pick %= 4
			}
			sub := func() string { return expr(depth - 1) }
			v := rapid.SampledFrom(vars).Draw(rt, "variable")
			switch pick {
			case 0, 1:
				return v
			case 2:
				return "{}"
			case 3:
				return rapid.SampledFrom([]string{"1", "'s'", "nil", "true"}).Draw(rt, "constant")
			case 4, 5, 6:
				return fmt.Sprintf("{k = %s, %s, [%q] = %s}", sub(), sub(), v, sub())
			case 7, 14:
				return fmt.Sprintf("(%s and {k = %s} or %s)", sub(), sub(), v)
			case 8, 15:
				return fmt.Sprintf("(%s or {k = %s})", v, sub())
			case 9:
				return fmt.Sprintf("(id(%s, %s))", sub(), sub())
			case 10:
				return fmt.Sprintf("((function() u = %s return %s end)())", sub(), sub())
			case 11:
				return fmt.Sprintf("(keep(%s))", sub())
			case 12:
				return fmt.Sprintf("(G:m(%s))", sub())
			default:
				return fmt.Sprintf("{f = function() return %s end}", v)
			}
		}
		var body strings.Builder
		for range rapid.IntRange(1, 5).Draw(rt, "statements") {
			e, v := expr(3), rapid.SampledFrom(vars).Draw(rt, "to")
			switch rapid.IntRange(0, 5).Draw(rt, "statement") {
			case 0:
				fmt.Fprintf(&body, "%s = %s\n", v, e)
			case 1:
				fmt.Fprintf(&body, "if %s then take(%s) end\n", e, expr(2))
			case 2:
				fmt.Fprintf(&body, "for i = 1, 2 do take(i, %s) end\n", e)
			case 3:
				fmt.Fprintf(&body, "%s = take(%s, %s)\n", v, e, expr(2))
			default:
				fmt.Fprintf(&body, "take(%s, %s)\n", e, expr(2))
			}
		}
		src := `local take = ...
local kept, u, a, b, c = {}, {}, {}, {}, {}
G = {x = {}, m = function(self, v) self.last = v return v end}
local function id(...) return ... end
local function keep(v) kept[#kept + 1] = v return v end
` + body.String() + `return kept, u, a, b, c, G, keep`
		b, take, said := fresher(t)
		got, err := b.try(src, take)
		if err != nil {
			rt.Fatalf("%s in\n%s", err.Message, src)
		}
		seen := map[lua.LValue]bool{}
		var walk func(v lua.LValue)
		walk = func(v lua.LValue) {
			if v == nil || seen[v] {
				return
			}
			switch v := v.(type) {
			case *lua.LTable:
				seen[v] = true
				if v.RawGetString("given away") == lua.LTrue {
					rt.Fatalf("a table that was given away is still there after\n%s\ncalls: %q", src, *said)
				}
				v.ForEach(func(_, e lua.LValue) { walk(e) })
			case *lua.LFunction:
				seen[v] = true
				for _, u := range v.Upvalues {
					walk(u.Value())
				}
			}
		}
		for _, v := range got {
			walk(v)
		}
		if strings.Contains(strings.Join(*said, ""), "!") {
			rt.Fatalf("Fresh named what is no table in\n%s", src)
		}
	})
}

// gopher-lua ends every choice with a move into the argument's register, so no
// script can tell whether jumps are looked at; code that is put together can.
func TestFreshLooksAtJumps(t *testing.T) {
	abc := func(op, a, b, c uint32) uint32 { return op<<26 | a<<18 | c<<9 | b }
	build := []uint32{abc(opNewTable, 1, 0, 1), abc(opSetTableKS, 1, bitRK, bitRK), abc(opCall, 0, 2, 1)}
	for _, tt := range []struct {
		name   string
		before []uint32
		want   uint64
	}{
		{"none", nil, 1},
		{"to the constructor", []uint32{opJmp<<26 | 0x1ffff}, 1},
		{"behind it", []uint32{opJmp<<26 | 0x1ffff + 1}, 0},
		{"to the call", []uint32{opJmp<<26 | 0x1ffff + 2}, 0},
		{"behind the call", []uint32{opJmp<<26 | 0x1ffff + 3}, 1},
		{"a test that skips the constructor", []uint32{abc(opTestSet, 1, 5, 0)}, 0},
	} {
		code := append(tt.before, build...)
		if got := freshArgs(code, len(code)-1); got != tt.want {
			t.Errorf("a jump %s: %b, want %b", tt.name, got, tt.want)
		}
	}
	for _, inst := range []uint32{abc(opSetTableKS, 7, bitRK, 1), abc(opMove, 7, 1, 0), abc(opGetTable, 3, 1, 2), abc(opSetList, 0, 3, 1), abc(opConcat, 5, 0, 2), abc(opCall, 0, 3, 1)} {
		code := []uint32{build[0], inst, build[2]}
		if got := freshArgs(code, 2); got != 0 {
			t.Errorf("fresh although instruction %d reads it", inst>>26)
		}
	}
}
