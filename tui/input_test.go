package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"shield/tui/grid"
	"shield/tui/theme"
)

// typed presses keys written with blanks between on an empty line that knows past.
func typed(keys string, past ...string) *input {
	in := newInput()
	in.past = past
	for _, k := range strings.Fields(keys) {
		if text, ok := strings.CutPrefix(k, "paste:"); ok {
			in.insert(text)
			continue
		}
		in.key(key(k))
	}
	return &in
}

func TestLineIsEditedByCharacters(t *testing.T) {
	tests := []struct{ keys, want string }{
		{"", "|"},
		{"a b c", "abc|"},
		{"a space b left left X", "aX| b"},
		{"a b c home X end Y ctrl+a Z", "Z|XabcY"},
		{"a b c left backspace", "a|c"},
		{"a b c home delete", "|bc"},
		{"backspace delete ctrl+w ctrl+k ctrl+u left right", "|"},
		{"漢 字 left backspace", "|字"},
		{"paste:👨‍👩‍👧x left left", "|👨‍👩‍👧x"},
		{"paste:👨‍👩‍👧x left backspace", "|x"},
		{"paste:👨‍👩‍👧x home delete", "|x"},
		{"paste:👨‍👩‍👧x home right", "👨‍👩‍👧|x"},
		{"paste:e\u0301x left left right", "e\u0301|x"},
		{"paste:हिन्दी backspace backspace backspace", "|"},
		{"o n e space t w o ctrl+w", "one |"},
		{"o n e space t w o ctrl+w ctrl+w", "|"},
		{"a b c left ctrl+u", "|c"},
		{"a b c left left ctrl+k", "a|"},
		{"a space b alt+b X", "a X|b"},
		{"a b c alt+d home alt+d", "|abc"}, // alt-d of the library is off: it fails on the last character
		{"a ctrl+v tab", "a|"},             // the terminal pastes; tab is the completion's
		{"up", "two|"},
		{"up up up", "one|"},
		{"x up up down", "two|"},
		{"x up down", "x|"},
		{"up ! down", "|"},
		{"ctrl+p ctrl+p ctrl+n", "two|"},
	}
	for _, tt := range tests {
		before, after := typed(tt.keys, "one", "two").around()
		if got := before + "|" + after; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.keys, got, tt.want)
		}
	}
}

// Pasted text becomes one line without what could steer a terminal.
func TestPasteBecomesOneLine(t *testing.T) {
	in := newInput()
	in.insert("a\r\nb\tc\x1b[31m\x00\xff\x7fd\n")
	if got, want := in.text(), "a b c[31md "; got != want {
		t.Errorf("pasted %q, want %q", got, want)
	}
}

func TestDoneRemembersEachLineOnce(t *testing.T) {
	in := newInput()
	for _, s := range []string{" a ", "a", "", "b", "a"} {
		in.set(s)
		if got := in.done(); got != strings.TrimSpace(s) {
			t.Errorf("done of %q = %q", s, got)
		}
	}
	if got := strings.Join(in.past, " "); got != "a b a" {
		t.Errorf("it remembers %q", got)
	}
	for range 3 * maxPast {
		in.set(strings.Repeat("x", len(in.past)+1))
		in.done()
		in.set("y")
		in.done()
	}
	if len(in.past) != maxPast {
		t.Errorf("it remembers %d lines, want %d", len(in.past), maxPast)
	}
}

// The cursor is in sight wherever it is, and the line is as wide as asked for.
func TestCursorStaysInSight(t *testing.T) {
	p := &pen{th: theme.Get("mono", true), gl: &theme.Unicode}
	on := string(p.on(theme.Selected))
	for _, text := range []string{"", "abc", strings.Repeat("abc ", 40), strings.Repeat("漢", 60), strings.Repeat("👨‍👩‍👧", 30), strings.Repeat("e\u0301", 80)} {
		in := newInput()
		in.set(text)
		for at := len([]rune(text)); ; at-- {
			in.edit.SetCursor(at)
			l := p.line(20)
			in.draw(p, l, theme.Text, true)
			if s := l.String(); !strings.Contains(s, on) {
				t.Fatalf("no cursor at %d of %q: %q", at, text, s)
			} else if w := grid.Width(s); w != 20 {
				t.Fatalf("at %d of %q the line is %d wide: %q", at, text, w, s)
			}
			if at == 0 {
				break
			}
		}
	}
}

func TestKeyTellsWhetherTheTextChanged(t *testing.T) {
	in := typed("a b")
	for k, want := range map[string]bool{"left": false, "home": false, "x": true, "up": false} {
		if got := in.key(key(k)); got != want {
			t.Errorf("key(%s) = %v, want %v", k, got, want)
		}
	}
	if in.key(tea.KeyPressMsg{Code: tea.KeyF5}) {
		t.Error("F5 changes the text")
	}
}
