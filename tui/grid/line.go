package grid

import "strings"

// Style is the escape sequence that switches a look on; "" is the terminal's
// own. A line resets by itself.
type Style string

const reset = "\x1b[m"

// Line is one line of the screen while it is put together: exactly as wide as
// it was made, whatever is put on it.
type Line struct {
	b     strings.Builder
	width int
	used  int
	tail  string
	base  Style
	on    Style // what is switched on right now
}

// NewLine starts a line of w cells. tail marks where text was cut.
func NewLine(w int, tail string) *Line {
	l := &Line{width: max(w, 0), tail: tail}
	l.b.Grow(l.width + 48)
	return l
}

// Base makes every later Put use style instead of its own: a selected row is
// one block, not a patchwork.
func (l *Line) Base(style Style) *Line { l.base = style; return l }

// Left is how many cells are still free.
func (l *Line) Left() int { return l.width - l.used }

// Put adds cleaned text, cut to what is free.
func (l *Line) Put(style Style, s string) *Line {
	if s == "" || l.used >= l.width {
		return l
	}
	w := Width(s)
	if w > l.width-l.used {
		s = Cut(s, l.width-l.used, l.tail)
		w = Width(s)
	}
	l.put(style, s, w)
	return l
}

// Field adds cleaned text padded or cut to exactly w cells.
func (l *Line) Field(style Style, s string, w int, right bool) *Line {
	return l.Put(style, Pad(s, min(w, l.Left()), right, l.tail))
}

// Gap adds n blanks.
func (l *Line) Gap(n int) *Line {
	n = min(n, l.Left())
	if n > 0 {
		l.put("", spaces(n), n)
	}
	return l
}

// PutRight sets text at the right end, when there is room for it and one blank.
func (l *Line) PutRight(style Style, s string) *Line {
	if w := Width(s); w > 0 && w < l.Left() {
		l.Gap(l.Left() - w)
		l.put(style, s, w)
	}
	return l
}

func (l *Line) put(style Style, s string, w int) {
	if l.base != "" {
		style = l.base
	}
	if style != l.on {
		if l.on != "" {
			l.b.WriteString(reset)
		}
		l.b.WriteString(string(style))
		l.on = style
	}
	l.b.WriteString(s)
	l.used += w
}

// String fills the line up with blanks and ends its style.
func (l *Line) String() string {
	l.Gap(l.Left())
	if l.on != "" {
		l.b.WriteString(reset)
		l.on = ""
	}
	return l.b.String()
}

// Blank is a line of w blanks.
func Blank(w int) string { return spaces(w) }
