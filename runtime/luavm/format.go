package luavm

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// strFormat is string.format as C has it. gopher-lua hands the format to Go's
// fmt, whose %g and %q differ and whose widths have no useful bound.
func strFormat(L *lua.LState) int {
	f := L.CheckString(1)
	var out strings.Builder
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			out.WriteByte(f[i])
			continue
		}
		if i++; i < len(f) && f[i] == '%' {
			out.WriteByte('%')
			continue
		}
		end := i
		for end < len(f) && strings.IndexByte("-+ #0123456789.", f[end]) >= 0 {
			end++
		}
		if end >= len(f) {
			L.RaiseError("invalid conversion '%%%s' to 'format'", f[i:])
		}
		spec, verb := f[i:end], f[end]
		if !goodSpec(spec) {
			L.RaiseError("invalid conversion '%%%s%c' to 'format' (width or precision too long)", clip(spec, 20), verb)
		}
		arg++
		if arg > L.GetTop() {
			L.ArgError(arg, "no value")
		}
		formatOne(L, &out, spec, verb, arg)
		if out.Len() > 1<<20 {
			checkSize(L, "string.format", out.Len())
		}
		i = end
	}
	L.Push(lua.LString(out.String()))
	return 1
}

// goodSpec reports whether flags, width and precision have at most two digits
// each, as in C Lua.
func goodSpec(spec string) bool {
	spec = strings.TrimLeft(spec, "-+ #0")
	width, precision, dot := strings.Cut(spec, ".")
	return len(width) <= 2 && len(precision) <= 2 && strings.Trim(width+precision, "0123456789") == "" && (dot || precision == "")
}

func formatOne(L *lua.LState, out *strings.Builder, spec string, verb byte, arg int) {
	switch verb {
	case 'd', 'i', 'u', 'o', 'x', 'X':
		formatInteger(out, spec, verb, toInt64(checkNumber(L, arg)))
	case 'c':
		padded(out, spec, string([]byte{byte(checkInt(L, arg))}))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		formatFloat(out, spec, verb, float64(checkNumber(L, arg)))
	case 's':
		s := tostring(L, L.Get(arg))
		if _, precision, ok := strings.Cut(spec, "."); ok {
			n, _ := strconv.Atoi(precision) // "" is 0, as in C
			s = s[:min(n, len(s))]
		}
		padded(out, spec, s)
	case 'q':
		quote(out, L.CheckString(arg))
	default:
		L.RaiseError("invalid conversion '%%%s%c' to 'format'", spec, verb)
	}
}

// formatInteger is C's, which Go's is not: there %x shows a sign and %.0d none, and
// 0x counts as digits.
func formatInteger(out *strings.Builder, spec string, verb byte, n int64) {
	if spec == "" && verb == 'd' { // what most ask for
		out.WriteString(strconv.FormatInt(n, 10))
		return
	}
	u, prefix := uint64(n), ""
	var digits string
	switch verb {
	case 'o':
		digits = strconv.FormatUint(u, 8)
	case 'x', 'X':
		digits = strconv.FormatUint(u, 16)
		if u != 0 && flags(spec, "#") != "" {
			prefix = "0x"
		}
	default:
		if verb != 'u' {
			u, prefix = signOf(spec, n)
		}
		digits = strconv.FormatUint(u, 10)
	}
	width, precision, dot := strings.Cut(strings.TrimLeft(spec, "-+ #0"), ".")
	least, _ := strconv.Atoi(precision) // "" is 0, as in C
	if dot && least == 0 && u == 0 {
		digits = ""
	} else if !dot && flags(spec, "0") != "" && flags(spec, "-") == "" {
		least, _ = strconv.Atoi(width)
		least -= len(prefix)
	}
	digits = strings.Repeat("0", max(0, least-len(digits))) + digits
	if verb == 'o' && flags(spec, "#") != "" && !strings.HasPrefix(digits, "0") {
		digits = "0" + digits
	}
	if digits = prefix + digits; verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	padded(out, spec, digits)
}

// signOf takes a number apart.
func signOf(spec string, n int64) (u uint64, sign string) {
	switch {
	case n < 0:
		return -uint64(n), "-"
	case flags(spec, "+") != "":
		sign = "+"
	case flags(spec, " ") != "":
		sign = " "
	}
	return uint64(n), sign
}

// formatFloat has C's default precision of six and its words for what is not
// finite.
func formatFloat(out *strings.Builder, spec string, verb byte, f float64) {
	if math.IsInf(f, 0) || f != f {
		word := "inf"
		switch {
		case f != f:
			word = "nan"
		case f < 0:
			word = "-inf"
		case flags(spec, "+") != "":
			word = "+inf"
		case flags(spec, " ") != "":
			word = " inf"
		}
		padded(out, spec, word)
		return
	}
	if (verb == 'g' || verb == 'G') && !strings.Contains(spec, ".") {
		spec += ".6"
	}
	fmt.Fprintf(out, "%"+spec+string(verb), f)
}

// flags keeps those flags of spec that are in some.
func flags(spec, some string) string {
	kept := ""
	for i := 0; i < len(spec) && strings.IndexByte("-+ #0", spec[i]) >= 0; i++ {
		if strings.IndexByte(some, spec[i]) >= 0 {
			kept += string(spec[i])
		}
	}
	return kept
}

// padded writes s in the width that spec asks for. Bytes count, not runes.
func padded(out *strings.Builder, spec, s string) {
	width, _, _ := strings.Cut(strings.TrimLeft(spec, "-+ #0"), ".")
	n, _ := strconv.Atoi(width) // "" is 0
	fill := strings.Repeat(" ", max(0, n-len(s)))
	if flags(spec, "-") != "" {
		out.WriteString(s + fill)
	} else {
		out.WriteString(fill + s)
	}
}

// quote writes s so that Lua reads it back.
func quote(out *strings.Builder, s string) {
	out.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out.WriteByte('\\')
			out.WriteByte(c)
		case '\r':
			out.WriteString(`\r`)
		case 0:
			out.WriteString(`\000`)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
}
