package luavm

import (
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// The utf8 library of Lua 5.3: strings are bytes, these functions see letters.

func utf8Lib() Lib {
	return Lib{
		"char": utf8Char, "codepoint": utf8Codepoint, "codes": utf8Codes, "len": utf8Len, "offset": utf8Offset,
		"charpattern": lua.LString("[%z\x01-\x7F\xC2-\xF4][\x80-\xBF]*"),
	}
}

func utf8Char(L *lua.LState) int {
	var b []byte
	for i := 1; i <= L.GetTop(); i++ {
		c := checkInt(L, i)
		if c < 0 || c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
			L.ArgError(i, "value out of range")
		}
		b = utf8.AppendRune(b, rune(c))
	}
	L.Push(lua.LString(b))
	return 1
}

// runeAt decodes the letter that begins at a byte; ok is false where none does.
func runeAt(s string, i int) (r rune, size int, ok bool) {
	r, size = utf8.DecodeRuneInString(s[i:])
	return r, size, !(r == utf8.RuneError && size <= 1)
}

func utf8Codepoint(L *lua.LState) int {
	s := L.CheckString(1)
	i := optInt(L, 2, 1)
	j := optInt(L, 3, i)
	from, to := i, j
	if from < 0 {
		from += len(s) + 1
	}
	if to < 0 {
		to += len(s) + 1
	}
	if from < 1 {
		L.ArgError(2, "out of range")
	}
	if to > len(s) {
		L.ArgError(3, "out of range")
	}
	n := 0
	for at := from - 1; at < to; {
		r, size, ok := runeAt(s, at)
		if !ok {
			L.RaiseError("invalid UTF-8 code")
		}
		L.Push(lua.LNumber(r))
		at += size
		if n++; n > maxRegistry/2 {
			L.RaiseError("utf8.codepoint: too many results")
		}
	}
	return n
}

func utf8Len(L *lua.LState) int {
	s := L.CheckString(1)
	from, to := optInt(L, 2, 1), optInt(L, 3, -1)
	if from < 0 {
		from += len(s) + 1
	}
	if to < 0 {
		to += len(s) + 1
	}
	if from < 1 || from > len(s)+1 {
		L.ArgError(2, "initial position out of string")
	}
	if to > len(s) {
		L.ArgError(3, "final position out of string")
	}
	n := 0
	for at := from - 1; at < to; n++ {
		_, size, ok := runeAt(s, at)
		if !ok {
			L.Push(lua.LNil)
			L.Push(lua.LNumber(at + 1))
			return 2
		}
		at += size
	}
	L.Push(lua.LNumber(n))
	return 1
}

func utf8Offset(L *lua.LState) int {
	s, n := L.CheckString(1), checkInt(L, 2)
	start := 1
	if n < 0 {
		start = len(s) + 1
	}
	i := optInt(L, 3, start)
	if i < 0 {
		i += len(s) + 1
	}
	if i < 1 || i > len(s)+1 {
		L.ArgError(3, "position out of range")
	}
	at := i - 1
	inside := func(p int) bool { return p < len(s) && !utf8.RuneStart(s[p]) }
	if n == 0 {
		for at > 0 && inside(at) {
			at--
		}
		L.Push(lua.LNumber(at + 1))
		return 1
	}
	if inside(at) {
		L.RaiseError("initial position is a continuation byte")
	}
	for ; n < 0 && at > 0; n++ {
		for at--; at > 0 && inside(at); at-- {
		}
	}
	for n--; n > 0 && at < len(s); n-- {
		for at++; inside(at); at++ {
		}
	}
	if n > 0 || n < -1 {
		L.Push(lua.LNil)
	} else {
		L.Push(lua.LNumber(at + 1))
	}
	return 1
}

func utf8Codes(L *lua.LState) int {
	s := L.CheckString(1)
	at := 0
	// The string is an upvalue too, for those who count memory.
	L.Push(L.NewClosure(func(L *lua.LState) int {
		if at >= len(s) {
			return 0
		}
		r, size, ok := runeAt(s, at)
		if !ok {
			L.RaiseError("invalid UTF-8 code")
		}
		L.Push(lua.LNumber(at + 1))
		L.Push(lua.LNumber(r))
		at += size
		return 2
	}, lua.LString(s)))
	return 1
}
