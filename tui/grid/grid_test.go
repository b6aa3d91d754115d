package grid

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

// hostile are strings that players, scripts and files have been seen to send.
var hostile = []string{
	"", "ann", "漢字", "한국어", "क्षि", "हिन्दी", "தமிழ்", "สวัสดี", "👨‍👩‍👧", "❤️", "🇩🇪🇫🇷🇪", "e\u0301\u0301\u0301\u0301\u0301",
	"\x1b[31mred\x1b[0m", "\x1b]0;owned\x07", "\x1b]52;c;aGk=\x07", "a\tb\nc\rd", "\x00\x01\x7f\u0085\u009b31m", "\u202eabc\u202c", "\xff\xfe",
	"\ufeff\u200b\u200d", "x\u200dy", "\u1160\u115f", "ﷺ", "\U000e0041", strings.Repeat("\u0300", 500), "  ", "ａｂｃ", "\u2028", "a\u0308\u200d👩", "🏴\U000e0067\U000e0062",
}

func TestClean(t *testing.T) {
	tests := []struct {
		name, in string
		set      Charset
		want     string
	}{
		{"plain text stays", "ann-7", Legacy, "ann-7"},
		{"colour goes", "\x1b[31mred\x1b[0m", Legacy, "red"},
		{"a title does not reach the terminal", "\x1b]0;owned\x07ann", Legacy, "ann"},
		{"a name of escapes only is shown quoted", "\x1b[31m", Legacy, `"\x1b[31m"`},
		{"line ends and tabs are blanks", "a\tb\nc", Legacy, "a b c"},
		{"direction marks go", "\u202eabc", Legacy, "abc"},
		{"wide stays", "漢字", Legacy, "漢字"},
		{"accents stay", "e\u0301", Legacy, "e\u0301"},
		{"a tower of accents is cut", "e" + strings.Repeat("\u0301", 90), Legacy, "e\u0301\u0301\u0301"},
		{"joined emoji fall back to the first", "👨‍👩‍👧", Legacy, "👨"},
		{"joined emoji stay where they are understood", "👨‍👩‍👧", Full, "👨‍👩‍👧"},
		{"conjuncts keep their letters", "हिन्दी", Legacy, "हनद"},
		{"conjuncts stay where they are understood", "हिन्दी", Full, "हिन्दी"},
		{"ASCII keeps the width", "漢x", ASCII, "??x"},
		{"bytes that are no text", "\xffx", Legacy, "\ufffdx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in, tt.set); got != tt.want {
				t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	tests := []struct {
		name, got, want string
	}{
		{"fits", Cut("abc", 3, "…"), "abc"},
		{"end", Cut("abcdef", 4, "…"), "abc…"},
		{"nothing", Cut("abc", 0, "…"), ""},
		{"one", Cut("abc", 1, "…"), "…"},
		{"wide is never halved", Cut("漢字漢", 4, "…"), "漢…"},
		{"middle", CutMiddle("node-1-s-8f3a", 9, "…"), "node…8f3a"},
		{"middle of wide", CutMiddle("漢字漢字漢字", 7, "…"), "漢…漢字"},
		{"middle without room", CutMiddle("abcdef", 2, "…"), "a…"},
		{"suffix", Suffix("a漢字", 3), "字"},
		{"skip halves a wide one into a blank", Skip("漢字", 1), " 字"},
		{"skip all", Skip("ab", 5), ""},
		{"pad right", Pad("7", 3, true, "…"), "  7"},
		{"pad left", Pad("漢", 3, false, "…"), "漢 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %q, want %q", tt.got, tt.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	tests := []struct {
		in   string
		w    int
		want []string
	}{
		{"", 5, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"漢字", 1, []string{""}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Wrap(tt.in, tt.w)); diff != "" {
			t.Errorf("Wrap(%q, %d) (-want +got):\n%s", tt.in, tt.w, diff)
		}
	}
}

func TestColumnsLeaveByPriority(t *testing.T) {
	cols := []Column{
		{Title: "NODE", Min: 6, Middle: true},
		{Title: "STATE", Priority: 9},
		{Title: "SESS", Priority: 5},
		{Title: "ADDR", Min: 8, Priority: 2},
		{Title: "EPOCH", Wide: true, Priority: 1},
	}
	want := []int{12, 8, 4, 16, 20}
	titles := func(w int, wide bool) string {
		var b strings.Builder
		for _, p := range Fit(cols, want, w, wide) {
			b.WriteString(cols[p.Index].Title + " ")
		}
		return strings.TrimSpace(b.String())
	}
	tests := []struct {
		w    int
		wide bool
		want string
	}{
		{60, false, "NODE STATE SESS ADDR"},
		{32, false, "NODE STATE SESS ADDR"}, // squeezed first
		{28, false, "NODE STATE SESS"},
		{17, false, "NODE STATE"},
		{7, false, "NODE"},
		{2, false, "NODE"},
		{7, true, "NODE STATE SESS ADDR EPOCH"},
	}
	for _, tt := range tests {
		if got := titles(tt.w, tt.wide); got != tt.want {
			t.Errorf("Fit(%d, wide=%v) = %s, want %s", tt.w, tt.wide, got, tt.want)
		}
	}
}

// Wide columns are as wide as what they say: whoever asks for all wants to read it.
func TestWideColumnsAreWhole(t *testing.T) {
	cols := []Column{{Title: "ID", Min: 4, Max: 8}, {Title: "NAME", Min: 4, Priority: 1}, {Title: "ADDRESS", Wide: true}}
	got := Fit(cols, []int{20, 300, 2}, 40, true)
	want := []Placed{{0, 20}, {1, 20}, {2, 7}} // half of the pane is the most, the title the least
	if !slices.Equal(got, want) {
		t.Errorf("Fit = %v, want %v", got, want)
	}
}

func TestBoxIsExact(t *testing.T) {
	f := &Frame{Horizontal: "─", Vertical: "│", TopLeft: "┌", TopRight: "┐", BottomLeft: "└", BottomRight: "┘", Border: "\x1b[2m", Tail: "…"}
	for w := range 30 {
		for h := range 6 {
			lines := f.Box(w, h, "Nodes 漢字", "sort NODE", []string{Blank(max(w-2, 0))})
			if w == 0 || h == 0 {
				continue
			}
			if len(lines) != h {
				t.Fatalf("Box(%d, %d) has %d lines", w, h, len(lines))
			}
			for _, l := range lines {
				if got := ansi.StringWidth(l); got != w {
					t.Fatalf("Box(%d, %d): line %q is %d wide", w, h, l, got)
				}
			}
		}
	}
}

func TestSpark(t *testing.T) {
	bars := []string{"1", "2", "3", "4"}
	if got, want := Spark([]float64{9, 0, 1, 2, 4}, 4, bars), " 124"; got != want {
		t.Errorf("Spark = %q, want %q", got, want)
	}
	if got, want := Spark(nil, 3, bars), ""; got != want {
		t.Errorf("Spark of nothing = %q, want %q", got, want)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 5, byte(0))
	}
	f.Fuzz(func(t *testing.T, s string, w int, set byte) {
		w %= 300
		charset := Charset(set % 3)
		c := Clean(s, charset)
		if !utf8.ValidString(c) {
			t.Fatalf("Clean(%q) = %q is not UTF-8", s, c)
		}
		for _, r := range c {
			if unicode.IsControl(r) {
				t.Fatalf("Clean(%q) = %q keeps %U", s, c, r)
			}
		}
		if again := Clean(c, charset); again != c {
			t.Fatalf("Clean(%q) = %q, and again %q", s, c, again)
		}
		if charset != Full && Width(c) != ansi.StringWidthWc(c) {
			t.Fatalf("Clean(%q) = %q: %d cells or %d", s, c, Width(c), ansi.StringWidthWc(c))
		}
		for _, cut := range []string{Cut(c, w, "…"), CutMiddle(c, w, "…"), Pad(c, w, true, "…")} {
			if w >= 0 && Width(cut) > w {
				t.Fatalf("cut of %q to %d is %q, %d cells", c, w, cut, Width(cut))
			}
		}
		if l := NewLine(w, "…").Put("\x1b[1m", c).PutRight("", c).String(); ansi.StringWidth(l) != max(w, 0) {
			t.Fatalf("line of %d is %d cells: %q", w, ansi.StringWidth(l), l)
		}
		for _, part := range Wrap(c, w) {
			if w > 0 && Width(part) > w {
				t.Fatalf("Wrap(%q, %d) has %q", c, w, part)
			}
		}
	})
}
