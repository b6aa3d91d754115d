package luavm

import "testing"

// string.format as C has it; the answers are those of PUC Lua 5.1.
func TestFormatIsThatOfC(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`("%05d|%-05d|%+d|% d|%.3d|%5.3d|%05.3d"):format(42, 42, 42, 42, 42, 42, 42)`, "00042|42   |+42| 42|042|  042|  042"},
		{`("%+x|% X|%+o|%+u|%#x|%#o|%#X"):format(42, 42, 42, 42, 42, 42, 42)`, "2a|2A|52|42|0x2a|052|0X2A"},
		{`("%#x|%#o|%#.0o|%+.0d|%.0d|%#8x|%#08x|%-#8x|"):format(0, 0, 0, 0, 0, 1, 1, 1)`, "0|0|0|+||     0x1|0x000001|0x1     |"},
		{`("%d|%d|%d|%x|%u"):format(3.7, -3.7, "10", -1, 2 ^ 53)`, "3|-3|10|ffffffffffffffff|9007199254740992"},
		{`("%d|%d|%d"):format(-2 ^ 63, 2 ^ 63, -0)`, "-9223372036854775808|9223372036854775807|0"},
		{`("%g|%g|%g|%g|%.3g|%G|%e|%E"):format(1e15, 100000, 1e6, 0.0001, 123456789, 1e-10, 1.5, 0)`, "1e+15|100000|1e+06|0.0001|1.23e+08|1E-10|1.500000e+00|0.000000E+00"},
		{`("%10.4f|%-10.2f|%+.2f|%#.0f|%.14g|%5.1f"):format(3.14159, 2.5, 1, 1, 0.1, 2.25)`, "    3.1416|2.50      |+1.00|1.|0.1|  2.2"},
		{`("%f|%5.1f|%+g|%-6g|%d"):format(1/0, -1/0, 1/0, 1/0, 1e100)`, "inf| -inf|+inf|inf   |9223372036854775807"},
		{`("%5s|%-5s|%.2s|%5.1s|%c%c|%%"):format("abc", "abc", "abc", "abc", 65, 66)`, "  abc|abc  |ab|    a|AB|%"},
		{`("%q"):format('a"b\\c\nd\re\0f')`, "\"a\\\"b\\\\c\\\nd\\re\\000f\""},
	} {
		if got := b.do("return " + tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
	for _, src := range []string{`("%100d"):format(1)`, `("%.100d"):format(1)`, `("%y"):format(1)`, `("%"):format(1)`, `("%d"):format("x")`, `("%d"):format()`, `("%1.1.1d"):format(1)`} {
		if got := b.do("return (pcall(function() return " + src + " end))"); got != "false" {
			t.Errorf("%s gave no error", src)
		}
	}
}
