package luavm

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Numbers in texts: tonumber, and what calculates with a text.

func baseTonumber(L *lua.LState) int {
	v := L.CheckAny(1)
	if L.Get(2) != lua.LNil {
		base := L.CheckInt(2)
		if base < 2 || base > 36 {
			L.ArgError(2, "base out of range")
		}
		L.Push(parseBase(L.CheckString(1), base))
		return 1
	}
	switch v := v.(type) {
	case lua.LNumber:
		L.Push(v)
	case lua.LString:
		L.Push(parseNumber(string(v)))
	default:
		L.Push(lua.LNil)
	}
	return 1
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
