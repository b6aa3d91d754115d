package tui

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"shield/tui/grid"
	"shield/tui/theme"
)

// maxInput is how many bytes a typed or pasted line may have; a megabyte from
// the clipboard is cut, not refused.
const maxInput = 4096

// input is a line being typed. It moves by what a reader calls a character.
type input struct {
	text    string
	at      int // the cursor, a byte offset between characters
	past    []string
	back    int    // how far into past; 0 = the line being typed
	pending string // that line, while past is shown
}

func (in *input) set(s string) { in.text, in.at = s, len(s) }

func (in *input) reset() { in.set(""); in.back = 0 }

// insert adds typed or pasted text; it becomes one line.
func (in *input) insert(s string) {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f:
			return -1
		}
		return r
	}, s)
	if room := maxInput - len(in.text); len(s) > room {
		s = s[:max(room, 0)]
		for s != "" && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	in.text = in.text[:in.at] + s + in.text[in.at:]
	in.at += len(s)
}

// key edits the line; it reports whether the key was one that edits.
func (in *input) key(k, typed string) bool {
	switch k {
	case "left", "ctrl+b":
		in.at -= len(lastCluster(in.text[:in.at]))
	case "right", "ctrl+f":
		in.at += len(firstCluster(in.text[in.at:]))
	case "home", "ctrl+a":
		in.at = 0
	case "end", "ctrl+e":
		in.at = len(in.text)
	case "backspace", "ctrl+h":
		n := len(lastCluster(in.text[:in.at]))
		in.text = in.text[:in.at-n] + in.text[in.at:]
		in.at -= n
	case "delete":
		n := len(firstCluster(in.text[in.at:]))
		in.text = in.text[:in.at] + in.text[in.at+n:]
	case "ctrl+w", "alt+backspace":
		head := strings.TrimRight(in.text[:in.at], " ")
		head = head[:strings.LastIndexByte(head, ' ')+1]
		in.text = head + in.text[in.at:]
		in.at = len(head)
	case "ctrl+u":
		in.text, in.at = in.text[in.at:], 0
	case "ctrl+k":
		in.text = in.text[:in.at]
	case "up", "ctrl+p":
		in.recall(1)
	case "down", "ctrl+n":
		in.recall(-1)
	default:
		if typed == "" {
			return false
		}
		in.insert(typed)
	}
	return true
}

// recall walks through what was typed before.
func (in *input) recall(n int) {
	if in.back == 0 && n > 0 {
		in.pending = in.text
	}
	to := max(min(in.back+n, len(in.past)), 0)
	if to == in.back {
		return
	}
	in.back = to
	if to == 0 {
		in.set(in.pending)
		return
	}
	in.set(in.past[len(in.past)-to])
}

// done takes the line and remembers it.
func (in *input) done() string {
	s := strings.TrimSpace(in.text)
	if s != "" && (len(in.past) == 0 || in.past[len(in.past)-1] != s) {
		in.past = append(in.past, s)
		if len(in.past) > 200 {
			in.past = in.past[1:]
		}
	}
	in.reset()
	return s
}

// draw puts the line with its cursor on l, keeping the cursor in sight.
func (in *input) draw(p *pen, l *grid.Line, role theme.Role, cursor bool) {
	before, under, after := p.clean(in.text[:in.at]), " ", ""
	if c := firstCluster(in.text[in.at:]); c != "" {
		under, after = p.clean(c), p.clean(in.text[in.at+len(c):])
	}
	if room := l.Left() - grid.Width(under); grid.Width(before) > room {
		before = grid.Suffix(before, max(room-1, 0))
		l.Put(p.on(theme.Dim), p.gl.Ellipsis)
	}
	l.Put(p.on(role), before)
	if cursor {
		l.Put(p.on(theme.Selected), under)
	} else {
		l.Put(p.on(role), under)
	}
	l.Put(p.on(role), after)
}

func firstCluster(s string) string {
	c, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return c
}

// lastCluster is the last character of s; it looks at no more than its tail.
func lastCluster(s string) string {
	from := max(len(s)-64, 0)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	last := ""
	for rest := s[from:]; rest != ""; {
		c := firstCluster(rest)
		if c == "" {
			break
		}
		last, rest = c, rest[len(c):]
	}
	return last
}
