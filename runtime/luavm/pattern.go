package luavm

import "strings"

// The matcher of Lua patterns: all of Lua 5.1's, frontier included. It differs
// from gopher-lua's in two ways that matter: it counts its steps, because
// ("a"):rep(200):find(".-.-.-.-.-b") would otherwise run for minutes without
// passing an instruction that can be interrupted, and it keeps the depth of its
// recursion bounded.

const (
	maxCaptures   = 32
	maxMatchDepth = 200
	pollSteps     = 1 << 14

	captureOpen     = -1 // the capture has begun and not ended
	capturePosition = -2 // () captures where it stands
)

// patternError is a malformed pattern, or one that takes too long.
type patternError string

func (e patternError) Error() string { return string(e) }

// matcher matches one pattern against one string. Its methods panic with a
// patternError.
type matcher struct {
	s, p     string
	level    int
	captures [maxCaptures]capture
	depth    int
	steps    int
	next     int // when to look up from work
	budget   int
	poll     func() // called now and then while it works
}

type capture struct{ start, len int32 } // matching has seen that the string is shorter than 2 GiB

func newMatcher(s, p string, poll func()) *matcher {
	return &matcher{s: s, p: p, next: pollSteps, budget: 5_000_000 + 64*len(s), poll: poll}
}

// step counts n units of work.
func (m *matcher) step(n int) {
	if m.steps += n; m.steps >= m.next {
		m.lookUp()
	}
}

func (m *matcher) lookUp() {
	m.next = m.steps + pollSteps
	m.poll()
	if m.steps > m.budget {
		panic(patternError("pattern takes too many steps on this string; use fewer repetitions after one another"))
	}
}

// match matches the pattern from p at s and gives the end of the match, or -1.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxMatchDepth {
		panic(patternError("pattern too complex"))
	}
	end := m.run(s, p)
	m.depth--
	return end
}

func (m *matcher) run(s, p int) int {
	for {
		m.step(1)
		if p == len(m.p) {
			return s
		}
		switch m.p[p] {
		case '(':
			if p+1 < len(m.p) && m.p[p+1] == ')' {
				return m.startCapture(s, p+2, capturePosition)
			}
			return m.startCapture(s, p+1, captureOpen)
		case ')':
			return m.endCapture(s, p+1)
		case '$':
			if p+1 == len(m.p) {
				if s == len(m.s) {
					return s
				}
				return -1
			}
		case '%':
			if after, end, ok := m.special(s, p); ok {
				if after < 0 {
					return -1
				}
				s, p = after, end
				continue
			}
		}
		end := m.classEnd(p)
		next := byte(0)
		if end < len(m.p) {
			next = m.p[end]
		}
		switch next {
		case '?':
			if m.single(s, p, end) {
				if r := m.match(s+1, end+1); r >= 0 {
					return r
				}
			}
			p = end + 1
		case '*':
			return m.most(s, p, end)
		case '+':
			if !m.single(s, p, end) {
				return -1
			}
			return m.most(s+1, p, end)
		case '-':
			return m.least(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s++
			p = end
		}
	}
}

// special matches %b, %f and %1 to %9 at p. after is where the match ends, or
// -1; end is where the item ends in the pattern. ok is false for other items.
func (m *matcher) special(s, p int) (after, end int, ok bool) {
	if p+1 >= len(m.p) {
		return 0, 0, false // classEnd complains
	}
	switch c := m.p[p+1]; {
	case c == 'b':
		return m.balance(s, p+2), p + 4, true
	case c == 'f':
		end = m.frontier(s, p+2)
		if end < 0 {
			return -1, 0, true
		}
		return s, end, true
	case isDigit(c):
		return m.backReference(s, c), p + 2, true
	}
	return 0, 0, false
}

// classEnd gives the end of the single-character class at p.
func (m *matcher) classEnd(p int) int {
	c := m.p[p]
	p++
	switch c {
	case '%':
		if p >= len(m.p) {
			panic(patternError("malformed pattern (ends with '%')"))
		}
		return p + 1
	case '[':
		if p < len(m.p) && m.p[p] == '^' {
			p++
		}
		for first := true; ; first = false { // a ] that comes first is itself
			if p >= len(m.p) {
				panic(patternError("malformed pattern (missing ']')"))
			}
			c := m.p[p]
			if c == ']' && !first {
				return p + 1
			}
			p++
			if c == '%' {
				if p >= len(m.p) {
					panic(patternError("malformed pattern (missing ']')"))
				}
				p++
			}
		}
	}
	return p
}

// single reports whether the character at s is in the class p..end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.s) {
		return false
	}
	c := m.s[s]
	switch m.p[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.p[p+1])
	case '[':
		return inSet(c, m.p[p:end])
	default:
		return m.p[p] == c
	}
}

// inSet reports whether c is in set, which reads "[...]" or "[^...]".
func inSet(c byte, set string) bool {
	set = set[1 : len(set)-1]
	want := true
	if strings.HasPrefix(set, "^") {
		want, set = false, set[1:]
	}
	for i := 0; i < len(set); i++ {
		switch {
		case set[i] == '%':
			i++
			if inClass(c, set[i]) {
				return want
			}
		case i+2 < len(set) && set[i+1] == '-':
			if set[i] <= c && c <= set[i+2] {
				return want
			}
			i += 2
		case set[i] == c:
			return want
		}
	}
	return !want
}

// inClass reports whether c is in the class of a letter after %.
func inClass(c, class byte) bool {
	var in bool
	lower := class | 0x20
	switch lower {
	case 'a':
		in = isAlpha(c)
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
	case 'p':
		in = c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c)
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class == lower)
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// most matches the class as often as it can, then less.
func (m *matcher) most(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		m.step(1)
		n++
	}
	for ; n >= 0; n-- {
		if r := m.match(s+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

// least matches the class as little as it can, then more.
func (m *matcher) least(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r >= 0 {
			return r
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) startCapture(s, p, kind int) int {
	if m.level >= maxCaptures {
		panic(patternError("too many captures"))
	}
	m.captures[m.level] = capture{int32(s), int32(kind)}
	m.level++
	r := m.match(s, p)
	if r < 0 {
		m.level--
	}
	return r
}

func (m *matcher) endCapture(s, p int) int {
	l := m.level - 1
	for l >= 0 && m.captures[l].len != captureOpen {
		l--
	}
	if l < 0 {
		panic(patternError("invalid pattern capture"))
	}
	m.captures[l].len = int32(s) - m.captures[l].start
	r := m.match(s, p)
	if r < 0 {
		m.captures[l].len = captureOpen
	}
	return r
}

// balance matches %bxy, whose x and y stand at p.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.p) {
		panic(patternError("unbalanced pattern"))
	}
	if s >= len(m.s) || m.s[s] != m.p[p] {
		return -1
	}
	begin, end, open := m.p[p], m.p[p+1], 1
	for s++; s < len(m.s); s++ {
		m.step(1)
		switch m.s[s] {
		case end:
			if open--; open == 0 {
				return s + 1
			}
		case begin:
			open++
		}
	}
	return -1
}

// frontier matches %f[set], whose set stands at p, and gives the end of the set
// or -1.
func (m *matcher) frontier(s, p int) int {
	if p >= len(m.p) || m.p[p] != '[' {
		panic(patternError("missing '[' after '%f' in pattern"))
	}
	end := m.classEnd(p)
	var before, here byte
	if s > 0 {
		before = m.s[s-1]
	}
	if s < len(m.s) {
		here = m.s[s]
	}
	if set := m.p[p:end]; inSet(before, set) || !inSet(here, set) {
		return -1
	}
	return end
}

func (m *matcher) backReference(s int, digit byte) int {
	l := int(digit) - '1'
	if l < 0 || l >= m.level || m.captures[l].len == captureOpen {
		panic(patternError("invalid capture index"))
	}
	want := ""
	if c := m.captures[l]; c.len >= 0 {
		want = m.s[c.start : c.start+c.len]
	}
	if len(want) > len(m.s)-s {
		return -1
	}
	m.step(len(want) >> 6) // comparing is fast, but not for nothing
	if !strings.HasPrefix(m.s[s:], want) {
		return -1
	}
	return s + len(want)
}

// at tries the pattern from p at one place.
func (m *matcher) at(s, p int) int {
	m.level, m.depth = 0, 0
	return m.match(s, p)
}

// find looks for the first match at or after from.
func (m *matcher) find(from int) (start, end int) {
	p := 0
	anchored := strings.HasPrefix(m.p, "^")
	if anchored {
		p = 1
	}
	for s := from; s <= len(m.s); s++ {
		if e := m.at(s, p); e >= 0 {
			return s, e
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// capture gives capture i of a match start..end: where its text is, or its
// position. A pattern without captures has one, the whole match.
func (m *matcher) capture(i, start, end int) (from, to, position int) {
	if i >= m.level {
		if i != 0 {
			panic(patternError("invalid capture index"))
		}
		return start, end, 0
	}
	switch c := m.captures[i]; c.len {
	case captureOpen:
		panic(patternError("unfinished capture"))
	case capturePosition:
		return 0, 0, int(c.start) + 1
	default:
		return int(c.start), int(c.start + c.len), 0
	}
}

// count is how many captures a match gives.
func (m *matcher) count() int { return max(1, m.level) }
