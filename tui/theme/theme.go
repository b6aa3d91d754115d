// Package theme holds what the console looks like as data: styles by role,
// glyphs by purpose. A state is a word and a glyph before it is a colour; the
// colours here only underline what the text says already.
//
// It starts no goroutines, does no I/O and keeps no state.
package theme

import (
	"strings"

	"charm.land/lipgloss/v2"

	"shield/tui/grid"
)

// Role is what a piece of text is for.
type Role int

const (
	Text Role = iota
	Dim
	Border
	Title
	Accent
	Good
	Warn
	Bad
	Key      // the key in a hint
	Tab      // the tab that is open
	Selected // the row under the cursor
	Flash    // what changed a moment ago
	roles
)

// Theme is one look. Themes are made once and shared; they do not change.
type Theme struct {
	Name string
	// Background and Foreground are asked of the terminal for the whole screen;
	// "" leaves the terminal's own.
	Background, Foreground string

	styles [roles]lipgloss.Style
	on     [roles]grid.Style
}

// Names lists the themes in the order T goes through them.
func Names() []string { return []string{"auto", "dark", "light", "mono"} }

// Get makes the theme called name. auto takes the terminal's own sixteen
// colours and depends on whether its background is dark; an unknown name is
// auto.
func Get(name string, dark bool) *Theme {
	switch name {
	case "dark":
		return paint(darkTheme)
	case "light":
		return paint(lightTheme)
	case "mono":
		return monochrome("mono")
	}
	return sixteen(dark)
}

// On is the escape sequence that switches a role on.
func (t *Theme) On(r Role) grid.Style { return t.on[r] }

// Style is a role's style as lipgloss knows it.
func (t *Theme) Style(r Role) lipgloss.Style { return t.styles[r] }

// Greyed is the theme of a screen that is no longer alive: everything dim.
func (t *Theme) Greyed() *Theme {
	g := *t
	for r := range roles {
		if r != Selected {
			g.styles[r] = t.styles[Dim]
		}
	}
	g.compile()
	return &g
}

// compile turns every style into the sequence that begins it, so that a frame
// costs no more than copying strings.
func (t *Theme) compile() *Theme {
	for r := range roles {
		on, _, _ := strings.Cut(t.styles[r].Render("x"), "x")
		t.on[r] = grid.Style(on)
	}
	return t
}

// monochrome tells things apart by weight alone.
func monochrome(name string) *Theme {
	s := lipgloss.NewStyle()
	t := &Theme{Name: name}
	t.styles = [roles]lipgloss.Style{
		Text: s, Dim: s.Faint(true), Border: s.Faint(true), Title: s.Bold(true), Accent: s.Bold(true),
		Good: s, Warn: s.Bold(true), Bad: s.Bold(true), Key: s.Bold(true),
		Tab: s.Bold(true).Reverse(true), Selected: s.Reverse(true), Flash: s.Bold(true),
	}
	return t.compile()
}

// sixteen uses the terminal's own colours, by number, so that it looks as the
// person wants terminals to look. Yellow and cyan vanish on white paper.
func sixteen(dark bool) *Theme {
	t := monochrome("auto")
	s := lipgloss.NewStyle()
	accent, warn := lipgloss.Cyan, lipgloss.Yellow
	if !dark {
		accent, warn = lipgloss.Blue, lipgloss.Magenta
	}
	t.styles[Accent] = s.Foreground(accent)
	t.styles[Good] = s.Foreground(lipgloss.Green)
	t.styles[Warn] = s.Foreground(warn)
	t.styles[Bad] = s.Foreground(lipgloss.Red).Bold(true)
	t.styles[Key] = s.Foreground(accent)
	t.styles[Title] = s.Foreground(accent).Bold(true)
	t.styles[Tab] = s.Foreground(accent).Bold(true).Reverse(true)
	t.styles[Flash] = s.Foreground(warn).Bold(true)
	return t.compile()
}

// Palette is a theme that brings its own colours.
type Palette struct {
	Name, Background, Foreground     string
	Dim, Accent, Good, Warn, Bad     string
	SelectedText, SelectedBackground string
	TabText, TabBackground           string
}

var darkTheme = Palette{
	Name: "dark", Background: "#16181d", Foreground: "#d5d9e0",
	Dim: "#8d95a5", Accent: "#7fb8ff", Good: "#86cf8f", Warn: "#e8c069", Bad: "#ff8f8f",
	SelectedText: "#ffffff", SelectedBackground: "#34415c",
	TabText: "#10131a", TabBackground: "#7fb8ff",
}

var lightTheme = Palette{
	Name: "light", Background: "#fbfbf9", Foreground: "#24272e",
	Dim: "#666c78", Accent: "#1454a8", Good: "#1d6b2c", Warn: "#835300", Bad: "#b3201f",
	SelectedText: "#10131a", SelectedBackground: "#cfe0fa",
	TabText: "#ffffff", TabBackground: "#1454a8",
}

// Palettes lists the themes that bring their own colours.
func Palettes() []Palette { return []Palette{darkTheme, lightTheme} }

// Pairs lists every text colour with the background it stands on.
func (p Palette) Pairs() [][2]string {
	return [][2]string{
		{p.Foreground, p.Background}, {p.Dim, p.Background}, {p.Accent, p.Background}, {p.Good, p.Background},
		{p.Warn, p.Background}, {p.Bad, p.Background}, {p.SelectedText, p.SelectedBackground}, {p.TabText, p.TabBackground},
	}
}

func paint(p Palette) *Theme {
	s := lipgloss.NewStyle()
	fg := func(c string) lipgloss.Style { return s.Foreground(lipgloss.Color(c)) }
	t := &Theme{Name: p.Name, Background: p.Background, Foreground: p.Foreground}
	t.styles = [roles]lipgloss.Style{
		Text: s, Dim: fg(p.Dim), Border: fg(p.Dim), Title: fg(p.Accent).Bold(true), Accent: fg(p.Accent),
		Good: fg(p.Good), Warn: fg(p.Warn), Bad: fg(p.Bad).Bold(true), Key: fg(p.Accent),
		Tab:      fg(p.TabText).Background(lipgloss.Color(p.TabBackground)).Bold(true),
		Selected: fg(p.SelectedText).Background(lipgloss.Color(p.SelectedBackground)).Bold(true),
		Flash:    fg(p.Warn).Bold(true),
	}
	return t.compile()
}
