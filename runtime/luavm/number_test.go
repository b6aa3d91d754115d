package luavm

import "testing"

// What a string is worth as a number does not depend on who asks: an operator,
// a library function or tonumber. The answers are those of PUC Lua 5.1.
func TestStringsAsNumbers(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`return "010" + 0, 0 + "010", "010" * "2", "012" - 2, "0100" / 10, "7" % "4", "2" ^ "3", -"010"`, "10 10 20 10 10 3 8 -10"},
		{`return os.date("%j", 86400 * 44) + 1, math.floor("010"), math.max("010", 3)`, "46 10 10"},
		{`return "0x10" + 0, " 5 " + 1, "\n7\f" + 1, "1e1" * 1, "5." + 0, ".5" + 0`, "16 6 8 10 5 0.5"},
		{`return ("abc"):sub("2"), ("x"):rep("3"), ("abc"):byte("1"), string.char("65"), ("%d"):format("10"), select("2", "a", "b")`, "bc xxx 97 A 10 b"},
		{`return table.concat({1, 2.5, "x"}, ",", "1", "3"), unpack({1, 2, 3}, "2", "3")`, "1,2.5,x 2 3"},
		{`return tonumber("1.5", 10), tonumber("10", "16"), tonumber(" -0x10 "), tonumber("- 1"), tonumber("1e")`, "1.5 16 -16 nil nil"},
		{`for _, s in ipairs{"1_000", "0b11", "0o7", "inf", "nan", "", "1e", "0x", "--1"} do
			assert(not pcall(function() return s + 1 end) and not pcall(math.floor, s) and not tonumber(s), s) end return "none"`, "none"},
		{`local v = setmetatable({}, {__add = function(a, b) return tostring(a ~= b) end, __unm = function() return "neg" end}) return "5" + v, v + "5", "x" + v, -v`, "true true true neg"},
		{`return pcall(function() return "x" + 1 end)`, `false test.lua:1: attempt to perform arithmetic on a string value: "x" is no number`},
		{`return pcall(function() return "1" + zzqq end)`, "false test.lua:1: attempt to perform arithmetic on a nil value (global 'zzqq')"},
		{`return pcall(function() error("cannot perform concat operation") end)`, "false test.lua:1: cannot perform concat operation"},
		{`return pcall(function() return -"x" end)`, "false test.lua:1: attempt to perform arithmetic on a string value"},
	} {
		if got := b.do(tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
	b.do(`string.extra = 1 assert("010" + 0 == 10)`) // the strings of a VM with a string library of its own
}

// What no integer holds becomes the largest or smallest one.
func TestIntegersAtTheEdge(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`local h = math.huge return ("abc"):sub(1, h), ("abc"):sub(-h), ("abc"):sub(h) == "", ("abc"):sub(-h, h), ("abc"):find("c", -h), ("abc"):find("c", h)`, "abc abc true abc 3 nil"},
		{`return ("abc"):byte(1, math.huge), ("abc"):gsub("%w", "x", math.huge), ("abc"):gsub("%w", "x", -math.huge)`, "97 xxx abc 0"},
		{`return (select("#", ("abc"):byte(-math.huge, math.huge)))`, "3"},
		{`local ok = {} for _, n in ipairs{-math.huge, 0/0, -4, 0} do ok[#ok + 1] = tostring(pcall(select, n, 1, 2, 3)) end return table.concat(ok, " "), select(math.huge, 1)`, "false false false false"},
		{`return select(-3, 1, 2, 3)`, "1 2 3"},
		{`return pcall(string.char, 0/0), pcall(string.char, math.huge), pcall(unpack, {}, -math.huge, math.huge)`, "false false false test.lua:1: unpack: too many results (18446744073709551616, at most 65536)"},
		{`return select("#", unpack({1, 2}, 2, -math.huge)), table.concat({1}, ",", math.huge), pcall(utf8.char, 1e300), pcall(utf8.codepoint, "x", -math.huge)`, "0  false false test.lua:1: bad argument #2 to (anonymous) (out of range)"},
		{`return utf8.offset("abc", math.huge), utf8.offset("abc", -math.huge), pcall(utf8.len, "abc", math.huge)`, "nil nil false test.lua:1: bad argument #2 to (anonymous) (initial position out of string)"},
	} {
		if got := b.do(tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
}
