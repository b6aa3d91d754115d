package luavm

import (
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The string library. Written anew because gopher-lua's takes any size, uses a
// matcher without bounds, and changes the case of invalid UTF-8.

func stringLib() Lib {
	return Lib{
		"byte": strByte, "char": strChar, "dump": strDump, "find": strFind, "format": strFormat,
		"gfind": strGmatch, "gmatch": strGmatch, "gsub": strGsub, "len": strLen, "lower": strLower,
		"match": strMatch, "rep": strRep, "reverse": strReverse, "sub": strSub, "upper": strUpper,
	}
}

// bounds turns Lua's i and j into a Go range of a string of n bytes.
func bounds(i, j, n int) (from, to int) {
	if i < 0 {
		i = max(n+i+1, 1)
	} else if i == 0 {
		i = 1
	}
	if j < 0 {
		j = n + j + 1
	}
	j = min(j, n)
	if i > j {
		return 0, 0
	}
	return i - 1, j
}

func strByte(L *lua.LState) int {
	s := L.CheckString(1)
	i := optInt(L, 2, 1)
	from, to := bounds(i, optInt(L, 3, i), len(s))
	if to-from > maxRegistry/2 {
		L.RaiseError("string.byte: too many results (%d, at most %d)", to-from, maxRegistry/2)
	}
	for k := from; k < to; k++ {
		L.Push(lua.LNumber(s[k]))
	}
	return to - from
}

func strChar(L *lua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := checkInt(L, i+1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	L.Push(lua.LString(b))
	return 1
}

func strDump(L *lua.LState) int {
	L.RaiseError("string.dump: functions have no binary form here")
	return 0
}

func strLen(L *lua.LState) int {
	L.Push(lua.LNumber(len(L.CheckString(1))))
	return 1
}

func strSub(L *lua.LState) int {
	s := L.CheckString(1)
	from, to := bounds(checkInt(L, 2), optInt(L, 3, -1), len(s))
	L.Push(part(s, from, to))
	return 1
}

// part is s[from:to]. A small part of a long string is a copy: as a slice it
// would keep all of the string, and nobody who counts memory would see it.
func part(s string, from, to int) lua.LString {
	if len(s) >= 256 && to-from < len(s)/2 {
		return lua.LString(strings.Clone(s[from:to]))
	}
	return lua.LString(s[from:to])
}

// mapCase changes ASCII letters only: Go's own functions would replace the
// bytes of strings that are not UTF-8.
func mapCase(s string, first, last byte) string {
	i := 0
	for i < len(s) && (s[i] < first || s[i] > last) {
		i++
	}
	if i == len(s) {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if b[i] >= first && b[i] <= last {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

func strLower(L *lua.LState) int {
	L.Push(lua.LString(mapCase(L.CheckString(1), 'A', 'Z')))
	return 1
}

func strUpper(L *lua.LState) int {
	L.Push(lua.LString(mapCase(L.CheckString(1), 'a', 'z')))
	return 1
}

func strReverse(L *lua.LState) int {
	s := L.CheckString(1)
	b := make([]byte, len(s))
	for i := range len(s) {
		b[len(s)-1-i] = s[i]
	}
	L.Push(lua.LString(b))
	return 1
}

func strRep(L *lua.LState) int {
	s, n := L.CheckString(1), float64(checkNumber(L, 2))
	sep := L.OptString(3, "")
	if n < 1 {
		L.Push(lua.LString(""))
		return 1
	}
	size := float64(len(s)+len(sep)) * n
	if size > float64(1<<62) || size != size {
		size = 1 << 62
	}
	if len(s)+len(sep) == 0 {
		L.Push(lua.LString(""))
		return 1
	}
	checkSize(L, "string.rep", int(size))
	out := strings.Repeat(s+sep, int(n))
	L.Push(lua.LString(out[:len(out)-len(sep)]))
	return 1
}

// matching runs f with a matcher and turns its panics into Lua errors.
func matching(L *lua.LState, s, p string, f func(m *matcher)) {
	if len(s) > math.MaxInt32 {
		L.RaiseError("a string of %d bytes is too long for patterns", len(s))
	}
	bad := patternError("")
	func() {
		defer func() {
			if r := recover(); r != nil {
				var ok bool
				if bad, ok = r.(patternError); !ok {
					panic(r)
				}
			}
		}()
		f(newMatcher(s, p, func() { poll(L) }))
	}()
	if bad != "" {
		L.RaiseError("%s", string(bad))
	}
}

// pushCaptures pushes what a match captured.
func pushCaptures(L *lua.LState, m *matcher, start, end int) int {
	n := m.count()
	for i := range n {
		pushCapture(L, m, i, start, end)
	}
	return n
}

func pushCapture(L *lua.LState, m *matcher, i, start, end int) {
	from, to, position := m.capture(i, start, end)
	if position > 0 {
		L.Push(lua.LNumber(position))
	} else {
		L.Push(part(m.s, from, to))
	}
}

// startAt turns Lua's init argument into an offset.
func startAt(init, n int) int {
	switch {
	case init > 0:
		init--
	case init < 0:
		init += n
	}
	return min(max(init, 0), n)
}

func strFind(L *lua.LState) int {
	s, p := L.CheckString(1), L.CheckString(2)
	from := startAt(optInt(L, 3, 1), len(s))
	if L.ToBool(4) || !strings.ContainsAny(p, "^$*+?.([%-") {
		i := strings.Index(s[from:], p)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(from + i + 1))
		L.Push(lua.LNumber(from + i + len(p)))
		return 2
	}
	n := 0
	matching(L, s, p, func(m *matcher) {
		start, end := m.find(from)
		if start < 0 {
			L.Push(lua.LNil)
			n = 1
			return
		}
		L.Push(lua.LNumber(start + 1))
		L.Push(lua.LNumber(end))
		if n = 2; m.level > 0 {
			n += pushCaptures(L, m, start, end)
		}
	})
	return n
}

func strMatch(L *lua.LState) int {
	s, p := L.CheckString(1), L.CheckString(2)
	from := startAt(optInt(L, 3, 1), len(s))
	n := 0
	matching(L, s, p, func(m *matcher) {
		start, end := m.find(from)
		if start < 0 {
			L.Push(lua.LNil)
			n = 1
			return
		}
		n = pushCaptures(L, m, start, end)
	})
	return n
}

func strGmatch(L *lua.LState) int {
	s, p := L.CheckString(1), L.CheckString(2)
	from := 0
	// The string is an upvalue too, for those who count memory.
	L.Push(L.NewClosure(func(L *lua.LState) int {
		n := 0
		matching(L, s, p, func(m *matcher) {
			for ; from <= len(s); from++ {
				end := m.at(from, 0)
				if end < 0 {
					continue
				}
				start := from
				if from = end; end == start {
					from++
				}
				n = pushCaptures(L, m, start, end)
				return
			}
		})
		return n
	}, lua.LString(s)))
	return 1
}

func strGsub(L *lua.LState) int {
	s, p := L.CheckString(1), L.CheckString(2)
	repl := L.Get(3)
	if n, ok := repl.(lua.LNumber); ok {
		repl = lua.LString(n.String())
	}
	switch repl.(type) {
	case lua.LString, *lua.LTable, *lua.LFunction:
	default:
		L.ArgError(3, "string/function/table expected, got "+repl.Type().String())
	}
	limit := optInt(L, 4, len(s)+1)
	from, count := 0, 0
	if strings.HasPrefix(p, "^") {
		from, limit = 1, min(limit, 1)
	}
	var out strings.Builder
	s0 := 0
	matching(L, s, p, func(m *matcher) {
		for count < limit {
			end := m.at(s0, from)
			if end >= 0 {
				count++
				out.WriteString(replacement(L, m, repl, s0, end))
				if out.Len() > 1<<20 {
					checkSize(L, "string.gsub", out.Len())
				}
			}
			switch {
			case end > s0:
				s0 = end
			case s0 < len(s):
				out.WriteByte(s[s0])
				s0++
			default:
				s0++
				return
			}
			if from == 1 {
				return
			}
		}
	})
	if count == 0 {
		L.Push(lua.LString(s))
	} else {
		out.WriteString(s[min(s0, len(s)):])
		L.Push(lua.LString(out.String()))
	}
	L.Push(lua.LNumber(count))
	return 2
}

// replacement gives what a match start..end is replaced by.
func replacement(L *lua.LState, m *matcher, repl lua.LValue, start, end int) string {
	var v lua.LValue
	switch r := repl.(type) {
	case lua.LString:
		return expand(L, m, string(r), start, end)
	case *lua.LTable:
		pushCapture(L, m, 0, start, end)
		v = L.GetTable(r, L.Get(-1))
		L.Pop(1)
	case *lua.LFunction:
		// The callback may suspend, or match something itself; the captures are
		// pushed first and the matcher keeps no other state between two matches.
		poll(L)
		L.Push(r)
		L.Call(pushCaptures(L, m, start, end), 1)
		v = L.Get(-1)
		L.Pop(1)
	}
	switch v := v.(type) {
	case lua.LString, lua.LNumber:
		return v.String()
	default:
		if lua.LVAsBool(v) {
			L.RaiseError("invalid replacement value (a %s)", v.Type().String())
		}
		return m.s[start:end]
	}
}

// expand fills in %0 to %9 of a replacement string.
func expand(L *lua.LState, m *matcher, r string, start, end int) string {
	poll(L) // a long replacement takes time at each match
	if !strings.Contains(r, "%") {
		return r
	}
	var b strings.Builder
	for i := 0; i < len(r); i++ {
		if r[i] != '%' || i+1 == len(r) {
			b.WriteByte(r[i])
			continue
		}
		i++
		switch c := r[i]; {
		case c == '0':
			b.WriteString(m.s[start:end])
		case isDigit(c):
			from, to, position := m.capture(int(c-'1'), start, end)
			if position > 0 {
				b.WriteString(lua.LNumber(position).String())
			} else {
				b.WriteString(m.s[from:to])
			}
		default:
			b.WriteByte(c)
		}
		if b.Len() > 1<<20 {
			checkSize(L, "string.gsub", b.Len())
		}
	}
	return b.String()
}
