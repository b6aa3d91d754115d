package luavm

import "strings"

// scanner cuts Lua source into tokens, only as exactly as finding blocks needs:
// gopher-lua says no more than "at EOF" when an end is missing.
type scanner struct {
	src   string
	pos   int
	line  int
	begin int // of the line that the last token stands on
	black int // the first byte there that is no space
}

// token is a keyword, a bracket, or another thing without a name.
type token struct {
	text   string
	line   int
	indent int  // of its line
	first  bool // on its line
}

// next gives the next keyword or bracket; ok is false at the end. unclosed is
// the line of a string or comment that never ends.
func (s *scanner) next() (t token, ok bool, unclosed int) {
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		start := s.pos
		switch {
		case c == '\n':
			s.line++
			s.pos++
			s.lineFrom(s.pos)
		case strings.HasPrefix(s.src[s.pos:], "--"):
			s.pos += 2
			if n, long := s.longOpen(); long {
				if line := s.line; !s.longClose(n) {
					return token{}, false, line
				}
				continue
			}
			if i := strings.IndexByte(s.src[s.pos:], '\n'); i >= 0 {
				s.pos += i
			} else {
				s.pos = len(s.src)
			}
		case c == '"' || c == '\'':
			if line := s.line; !s.quoted(c) {
				return token{}, false, line
			}
		case c == '[':
			if n, long := s.longOpen(); long {
				if line := s.line; !s.longClose(n) {
					return token{}, false, line
				}
				continue
			}
			s.pos++
			return s.token(start), true, 0
		case isWord(c):
			for s.pos < len(s.src) && isWord(s.src[s.pos]) {
				s.pos++
			}
			switch s.src[start:s.pos] {
			case "function", "if", "for", "while", "do", "repeat", "until", "end", "then", "elseif", "else":
				return s.token(start), true, 0
			}
		case strings.IndexByte("(){}]", c) >= 0:
			s.pos++
			return s.token(start), true, 0
		default:
			s.pos++
		}
	}
	return token{}, false, 0
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func (s *scanner) token(start int) token {
	return token{text: s.src[start:s.pos], line: s.line, indent: s.black - s.begin, first: s.black == start}
}

// lineFrom notes that a line begins at a byte.
func (s *scanner) lineFrom(begin int) {
	s.begin = begin
	for s.black = begin; s.black < len(s.src) && (s.src[s.black] == ' ' || s.src[s.black] == '\t'); s.black++ {
	}
}

// longOpen steps over [[ or [=[ and gives the number of equals signs.
func (s *scanner) longOpen() (level int, ok bool) {
	p := s.pos
	if p >= len(s.src) || s.src[p] != '[' {
		return 0, false
	}
	for p++; p < len(s.src) && s.src[p] == '='; p++ {
		level++
	}
	if p >= len(s.src) || s.src[p] != '[' {
		return 0, false
	}
	s.pos = p + 1
	return level, true
}

func (s *scanner) longClose(level int) bool {
	end := "]" + strings.Repeat("=", level) + "]"
	i := strings.Index(s.src[s.pos:], end)
	if i < 0 {
		return false
	}
	if n := strings.Count(s.src[s.pos:s.pos+i], "\n"); n > 0 {
		s.line += n
		s.lineFrom(s.pos + strings.LastIndexByte(s.src[s.pos:s.pos+i], '\n') + 1)
	}
	s.pos += i + len(end)
	return true
}

// quoted steps over a string in quotes; it ends at an unescaped line end.
func (s *scanner) quoted(q byte) bool {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case q:
			s.pos++
			return true
		case '\\':
			s.pos++
			if s.pos < len(s.src) && s.src[s.pos] == '\n' {
				s.line++
				s.lineFrom(s.pos + 1)
			}
		case '\n':
			return false
		}
	}
	return false
}

// unclosedBlock finds the block that lacks its end. Every end closes some
// block, so with one missing it is the outermost that stays open; the one that
// really lacks it was closed by an end that stands further left than its line.
func unclosedBlock(src string) (opener string, line int) {
	s := scanner{src: src, line: 1}
	s.lineFrom(0)
	var open []token
	var suspect *token
	for {
		t, ok, unclosed := s.next()
		if unclosed > 0 {
			return "string or comment", unclosed
		}
		if !ok {
			break
		}
		top := ""
		if len(open) > 0 {
			top = open[len(open)-1].text
		}
		switch t.text {
		case "function", "if", "repeat", "(", "{", "[", "for", "while":
			open = append(open, t)
		case "do": // the do of a for or while is part of it
			if top == "for" || top == "while" {
				open[len(open)-1].text += " "
				continue
			}
			open = append(open, t)
		case "end", "until", ")", "}", "]":
			if len(open) == 0 {
				return "", 0
			}
			o := open[len(open)-1]
			open = open[:len(open)-1]
			if suspect == nil && t.text == "end" && t.first && o.line != t.line && o.indent > t.indent {
				suspect = &o
			}
		}
	}
	if len(open) == 0 {
		return "", 0
	}
	o := open[len(open)-1]
	if suspect != nil {
		o = *suspect
	}
	return strings.TrimSpace(o.text), o.line
}
