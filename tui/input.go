package tui

import (
	"strings"

	binding "charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/tui/grid"
	"shield/tui/theme"
)

const (
	// maxInput is how many code points a typed or pasted line may have; a megabyte
	// from the clipboard is cut, not refused.
	maxInput = 4096
	maxPast  = 200 // lines that are remembered
)

// input is a line being typed. The editing is bubbles/textinput's; here are the
// lines before, the steps over what a reader calls a character, and the drawing
// by package grid, which has the last word on what a terminal is shown.
type input struct {
	edit    textinput.Model
	past    []string
	back    int    // how far into past; 0 = the line being typed
	pending string // that line, while past is shown
}

func newInput() input {
	edit := textinput.New()
	edit.CharLimit = maxInput
	edit.SetVirtualCursor(false) // its blinking would draw the screen twice a second
	edit.Focus()
	off := binding.WithDisabled()
	edit.KeyMap.Paste = binding.NewBinding(off) // it runs a program to read the clipboard; terminals paste by themselves
	edit.KeyMap.AcceptSuggestion, edit.KeyMap.NextSuggestion, edit.KeyMap.PrevSuggestion = binding.NewBinding(off), binding.NewBinding(off), binding.NewBinding(off)
	// v2.2.1 indexes behind the line when the last character is deleted so.
	edit.KeyMap.DeleteWordForward = binding.NewBinding(off)
	return input{edit: edit}
}

func (in *input) text() string { return in.edit.Value() }

// around is the text before and after the cursor.
func (in *input) around() (before, after string) {
	all := []rune(in.edit.Value())
	at := in.edit.Position()
	return string(all[:at]), string(all[at:])
}

func (in *input) set(s string) {
	in.edit.SetValue(s)
	in.edit.CursorEnd()
}

// put sets the text around the cursor.
func (in *input) put(before, after string) {
	in.edit.SetValue(before + after)
	in.edit.SetCursor(len([]rune(before)))
}

func (in *input) reset() { in.set(""); in.back = 0 }

// insert adds pasted text; it becomes one line.
func (in *input) insert(s string) {
	in.edit, _ = in.edit.Update(tea.PasteMsg{Content: strings.ReplaceAll(s, "\r\n", "\n")})
}

// key edits the line; it reports whether the text is another one now.
func (in *input) key(msg tea.KeyPressMsg) bool {
	was := in.edit.Value()
	switch msg.String() {
	case "up", "ctrl+p":
		in.recall(1)
	case "down", "ctrl+n":
		in.recall(-1)
	default:
		for range in.steps(msg) {
			in.edit, _ = in.edit.Update(msg)
		}
	}
	return in.edit.Value() != was
}

// steps is how often a key counts: textinput moves and deletes by code points,
// of which a character may have several.
func (in *input) steps(msg tea.KeyPressMsg) int {
	before, after := in.around()
	character := ""
	switch km := &in.edit.KeyMap; {
	case binding.Matches(msg, km.CharacterBackward, km.DeleteCharacterBackward):
		character = lastCluster(before)
	case binding.Matches(msg, km.CharacterForward, km.DeleteCharacterForward):
		character = firstCluster(after)
	}
	return max(len([]rune(character)), 1)
}

// recall walks through what was typed before.
func (in *input) recall(n int) {
	if in.back == 0 && n > 0 {
		in.pending = in.text()
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
	s := strings.TrimSpace(in.text())
	if s != "" && (len(in.past) == 0 || in.past[len(in.past)-1] != s) {
		in.past = append(in.past, s)
		if len(in.past) > maxPast {
			in.past = in.past[1:]
		}
	}
	in.reset()
	return s
}

// draw puts the line with its cursor on l, keeping the cursor in sight.
func (in *input) draw(p *pen, l *grid.Line, role theme.Role, cursor bool) {
	before, after := in.around()
	under := " "
	if c := firstCluster(after); c != "" {
		under, after = p.clean(c), after[len(c):]
	}
	before, after = p.clean(before), p.clean(after)
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
	tail := []rune(s)
	tail = tail[max(len(tail)-16, 0):]
	last := ""
	for rest := string(tail); rest != ""; {
		c := firstCluster(rest)
		if c == "" {
			break
		}
		last, rest = c, rest[len(c):]
	}
	return last
}
