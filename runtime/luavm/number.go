package luavm

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Numbers as Lua 5.1 takes them. gopher-lua's own reading of a string as a
// number is Go's: "010" is eight, "0b11" and "1_000" are numbers. Its CheckInt
// takes no string at all, and what doesn't fit an int becomes anything.

func baseTonumber(L *lua.LState) int {
	v := L.CheckAny(1)
	if base := optInt(L, 2, 10); base != 10 {
		if base < 2 || base > 36 {
			L.ArgError(2, "base out of range")
		}
		L.Push(parseBase(L.CheckString(1), base))
		return 1
	}
	if n, ok := toNumber(v); ok {
		L.Push(n)
	} else {
		L.Push(lua.LNil)
	}
	return 1
}

// checkNumber gives argument n of the Go function that L is in: a number, or a
// string that reads as one.
func checkNumber(L *lua.LState, n int) lua.LNumber {
	v := L.Get(n)
	if f, ok := v.(lua.LNumber); ok {
		return f
	}
	f, ok := toNumber(v)
	if !ok {
		L.TypeError(n, lua.LTNumber)
	}
	return f
}

// checkInt is checkNumber cut to an integer. What no int holds becomes the
// largest or smallest, so that s:sub(1, math.huge) is the rest of s.
func checkInt(L *lua.LState, n int) int { return int(toInt64(checkNumber(L, n))) }

// optInt is checkInt, or missing where there is no argument n.
func optInt(L *lua.LState, n, missing int) int {
	if L.Get(n) == lua.LNil {
		return missing
	}
	return checkInt(L, n)
}

// toInt64 converts like C does where that is defined; elsewhere it saturates.
func toInt64(n lua.LNumber) int64 {
	switch f := float64(n); {
	case f != f:
		return math.MinInt64
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	default:
		return int64(f)
	}
}

// toNumber is the number that v is or reads as.
func toNumber(v lua.LValue) (n lua.LNumber, ok bool) {
	if s, isString := v.(lua.LString); isString {
		v = parseNumber(string(s))
	}
	n, ok = v.(lua.LNumber)
	return n, ok
}

const space = " \t\n\r\v\f"

// parseNumber reads what Lua's own grammar takes for a number.
func parseNumber(s string) lua.LValue {
	s = strings.Trim(s, space)
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || body == "" {
		return lua.LNil
	}
	if len(body) > 2 && (body[:2] == "0x" || body[:2] == "0X") {
		return parseBase(s, 16)
	}
	if strings.Trim(body, "0123456789.eE+-") != "" {
		return lua.LNil // ParseFloat also takes inf, nan, 1_0 and 0x1p4
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !strings.Contains(err.Error(), "range") {
		return lua.LNil
	}
	return lua.LNumber(f)
}

func parseBase(s string, base int) lua.LValue {
	s = strings.Trim(s, space)
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	if strings.ContainsAny(s, "_+-") {
		return lua.LNil
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return lua.LNil
	}
	if negative {
		return -lua.LNumber(n)
	}
	return lua.LNumber(n)
}

// arithmetic is what strings do in calculations: it goes before gopher-lua's own
// conversion as a metamethod. A metamethod of the other operand goes before it.
func arithmetic(name string, f func(a, b float64) float64) lua.LGFunction {
	event := "__" + name
	return func(L *lua.LState) int {
		x, y := L.Get(1), L.Get(2)
		a, aok := toNumber(x)
		b, bok := toNumber(y)
		if aok && bok {
			L.Push(lua.LNumber(f(float64(a), float64(b))))
			return 1
		}
		if _, isString := y.(lua.LString); !isString {
			if fn := L.GetMetaField(y, event); fn != lua.LNil {
				L.SetTop(2)
				L.Insert(fn, 1)
				L.Call(2, 1)
				return 1
			}
		}
		L.RaiseError("cannot perform %s operation between %s and %s", name, x.Type(), y.Type())
		return 0
	}
}

// stringArithmetic are the metamethods of strings.
func stringArithmetic() map[string]lua.LGFunction {
	all := map[string]lua.LGFunction{"__unm": func(L *lua.LState) int {
		n, ok := toNumber(L.Get(1))
		if !ok {
			L.RaiseError("__unm undefined")
		}
		L.Push(-n)
		return 1
	}}
	for name, f := range map[string]func(a, b float64) float64{
		"add": func(a, b float64) float64 { return a + b }, "sub": func(a, b float64) float64 { return a - b },
		"mul": func(a, b float64) float64 { return a * b }, "div": func(a, b float64) float64 { return a / b },
		"mod": modulo, "pow": math.Pow,
	} {
		all["__"+name] = arithmetic(name, f)
	}
	return all
}

// modulo is Lua's %: the result has the sign of the divisor.
func modulo(a, b float64) float64 {
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}
