// Package grid owns width: what is foreign text made of, how many cells it
// takes, where it is cut, which columns of a table fit, and how boxes are drawn
// so that every line is exactly as wide as it was asked to be.
//
// It knows nothing of Shield, of terminals or of Bubble Tea. It starts no
// goroutines, does no I/O and keeps no state.
package grid

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// maxMarks is how many marks a character keeps that combine with it; beyond
// that a name is an attack on the lines above and below.
const maxMarks = 3

// MaxText is how many bytes of one text Clean looks at; no row shows more.
const MaxText = 8 << 10

// Charset is what the terminal can be trusted with.
type Charset uint8

const (
	// Legacy terminals add up the widths of single characters. Only text about
	// whose width they agree with everyone else is shown.
	Legacy Charset = iota
	// Full terminals measure what a reader calls a character (mode 2027).
	Full
	// ASCII is for locales that are not UTF-8.
	ASCII
)

// Clean makes foreign text safe to lay out: one line, no control or invisible
// characters, no escape sequences, and only characters about whose width this
// terminal and package grid agree. Clean of cleaned text changes nothing.
func Clean(s string, set Charset) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	if printableASCII(s) {
		return s
	}
	out := clean(ansi.Strip(strings.ToValidUTF8(s, "\uFFFD")), set)
	if strings.TrimSpace(out) == "" && strings.TrimSpace(s) != "" {
		// Nothing visible: an empty cell would hide that somebody chose this.
		return strconv.QuoteToASCII(s)
	}
	return out
}

func clean(s string, set Charset) string {
	c := cleaner{set: set}
	c.b.Grow(len(s))
	for s != "" {
		cluster, w := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
		if cluster == "" {
			cluster = s[:1]
		}
		s = s[len(cluster):]
		if len(cluster) == 1 && cluster[0] >= ' ' && cluster[0] < 0x7f {
			c.write(cluster)
			continue
		}
		c.cluster(cluster, w)
	}
	return c.b.String()
}

// cleaner collects clean text and remembers its last character, which the next
// one may not join.
type cleaner struct {
	b    strings.Builder
	set  Charset
	last string
}

// cluster writes what is left of one grapheme cluster.
func (c *cleaner) cluster(cluster string, w int) {
	switch first, _ := utf8.DecodeRuneInString(cluster); {
	case first == '\t' || first == '\n' || first == '\r' || first == '\u2028' || first == '\u2029':
		c.write(" ")
		return
	case unicode.IsControl(first) || invisible(first) || w <= 0:
		return
	}
	if c.set == ASCII {
		c.write(strings.Repeat("?", w))
		return
	}
	cluster = trimCluster(cluster)
	if c.set == Full && standsAlone(cluster) || agreed(cluster) {
		c.write(cluster)
		return
	}
	// Emoji joined from several, flags, conjuncts of Indic scripts: terminals
	// count them in different ways. Their letters, or the first sign alone, are
	// drawn in the same number of cells by all of them.
	wrote := false
	for _, r := range cluster {
		if (!wrote || unicode.IsLetter(r)) && unicode.IsGraphic(r) && agreed(string(r)) {
			c.write(string(r))
			wrote = true
		}
	}
	if !wrote {
		c.write("?")
	}
}

// write adds a piece unless it would join the one before: what was dropped in
// between may have kept them apart.
func (c *cleaner) write(piece string) {
	if c.last != "" && (len(piece) > 1 || len(c.last) > 1) &&
		ansi.StringWidth(c.last+piece) != ansi.StringWidth(c.last)+ansi.StringWidth(piece) {
		piece = "?"
	}
	c.b.WriteString(piece)
	c.last = piece
}

// trimCluster drops invisible runes and surplus marks inside a cluster.
func trimCluster(cluster string) string {
	if utf8.RuneCountInString(cluster) == 1 {
		return cluster
	}
	var b strings.Builder
	marks := 0
	for i, r := range cluster {
		if i > 0 && (unicode.IsControl(r) || invisible(r) && r != '\u200d') {
			continue
		}
		if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) {
			if marks++; marks > maxMarks {
				continue
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// agreed reports whether terminals that count clusters and terminals that count
// characters come to the same width.
func agreed(cluster string) bool {
	return ansi.StringWidth(cluster) == ansi.StringWidthWc(cluster) && standsAlone(cluster)
}

// standsAlone reports whether a cluster keeps its width whatever stands beside
// it: a vowel sign without its letter would join the blank before it.
func standsAlone(cluster string) bool {
	w := ansi.StringWidth(cluster)
	return w > 0 && ansi.StringWidth("x"+cluster+"x") == w+2
}

// invisible finds the characters that reorder, join or tag others: format
// characters, fillers and the like.
func invisible(r rune) bool {
	switch {
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), unicode.Is(unicode.Cs, r):
		return true
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff:
		return true
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800:
		return true // fillers and the blank Braille pattern draw nothing
	}
	return false
}

func printableASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Width is how many cells cleaned text takes.
func Width(s string) int {
	if printableASCII(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// Cut shortens cleaned text to at most w cells, ending it with tail where
// something was lost.
func Cut(s string, w int, tail string) string {
	if w <= 0 {
		return ""
	}
	if Width(s) <= w {
		return s
	}
	tw := Width(tail)
	if tw > w {
		tail, tw = "", 0
	}
	head, _ := prefix(s, w-tw)
	return head + tail
}

// CutMiddle shortens cleaned text to at most w cells by replacing its middle,
// so that ids which share a beginning stay apart.
func CutMiddle(s string, w int, tail string) string {
	if w <= 0 {
		return ""
	}
	full := Width(s)
	if full <= w {
		return s
	}
	tw := Width(tail)
	if w < tw+2 {
		return Cut(s, w, tail)
	}
	keep := w - tw
	left := keep / 2
	head, hw := prefix(s, left)
	return head + tail + Suffix(s, keep-hw)
}

// prefix is the longest beginning of s that takes at most w cells. Its cost
// depends on w, not on how much follows.
func prefix(s string, w int) (string, int) {
	used, end := 0, 0
	for end < len(s) && used < w {
		if lone(s, end) {
			used++
			end++
			continue
		}
		cluster, cw := ansi.FirstGraphemeCluster(s[end:], ansi.GraphemeWidth)
		if cluster == "" || used+cw > w {
			break
		}
		used += cw
		end += len(cluster)
	}
	return s[:end], used
}

// lone reports whether the byte at i is a character of its own.
func lone(s string, i int) bool {
	return s[i] >= ' ' && s[i] <= '~' && (i+1 == len(s) || s[i+1] < 0x80)
}

// Suffix is the longest end of s that takes at most w cells.
func Suffix(s string, w int) string {
	if printableASCII(s) {
		return s[len(s)-min(len(s), max(w, 0)):]
	}
	skip := Width(s) - w
	for skip > 0 && s != "" {
		cluster, cw := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
		if cluster == "" {
			break
		}
		s = s[len(cluster):]
		skip -= cw
	}
	return s
}

// Skip drops the first w cells of cleaned text; a wide character that is cut in
// half leaves a blank.
func Skip(s string, w int) string {
	if w <= 0 {
		return s
	}
	full := Width(s)
	if w >= full {
		return ""
	}
	out := Suffix(s, full-w)
	return strings.Repeat(" ", full-w-Width(out)) + out
}

// Pad fills cleaned text up to w cells, at the right or, for numbers, at the
// left. Text that is too wide is cut.
func Pad(s string, w int, right bool, tail string) string {
	sw := Width(s)
	switch {
	case w <= 0:
		return ""
	case sw > w:
		s = Cut(s, w, tail)
		sw = Width(s)
	}
	if sw == w {
		return s
	}
	if right {
		return spaces(w-sw) + s
	}
	return s + spaces(w-sw)
}

// Wrap breaks cleaned text into lines of at most w cells, at blanks where it
// can. It always gives at least one line.
func Wrap(s string, w int) []string {
	if w <= 0 {
		return []string{""}
	}
	var out []string
	for {
		head, _ := prefix(s, w)
		switch {
		case len(head) == len(s):
			return append(out, s)
		case head == "": // a wide character in a column of one
			cluster, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
			s = s[len(cluster):]
			continue
		}
		if i := strings.LastIndexByte(head, ' '); i > len(head)/2 && s[len(head)] != ' ' {
			head = head[:i]
		}
		out = append(out, strings.TrimRight(head, " "))
		s = strings.TrimLeft(s[len(head):], " ")
	}
}

const blanks = "                                                                                                                                "

func spaces(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blanks) {
		return blanks[:n]
	}
	return strings.Repeat(" ", n)
}
