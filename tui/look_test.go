package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/runtime/shield"
)

// Item 20.
func TestTooSmallRecovers(t *testing.T) {
	in(t, 20, 5, Config{}, func(t *testing.T, c *console) {
		c.wants("this is 20x5", "needs 60x16")
		c.send(tea.WindowSizeMsg{Width: 80, Height: 24}).wants("Nodes 4")
		c.send(tea.WindowSizeMsg{Width: 3, Height: 1})
		c.screen()
		c.send(tea.WindowSizeMsg{Width: 140, Height: 40}).wants("Nodes 4")
	})
}

func TestSmallHeaderCountsWholeSessions(t *testing.T) {
	in(t, 60, 16, Config{}, func(t *testing.T, c *console) {
		c.m.st.sessions = newSessions()
		c.events(delta(2, Delta{Sessions: arena().Sessions[:2]}))
		c.wants("  2 sess")
	})
}

// Item 21.
func TestNamesCannotBreakARow(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		rows := arena().Sessions[:0:0]
		for i, name := range []string{"\x1b[2J\x1b[H", "a\nb\tc\rd", "👨‍👩‍👧‍👦👨‍👩‍👧‍👦", "\u202egnp.exe", strings.Repeat("漢", 40), "ｱ\u0301\u0301\u0301\u0301", "हिन्दी", "\x9b31m\x85"} {
			rows = append(rows, shield.SessionRow{Session: shield.SessionID(string(rune('a' + i))), Player: name, Target: name, State: shield.SessionBound})
		}
		c.keys("3")
		c.events(delta(2, Delta{Sessions: rows}))
		c.screen() // checks every line's width
		raw := c.m.View().Content
		for _, bad := range []string{"\x1b[2J", "\u202e", "\x9b", "\r", "\t", "\u200d"} {
			if strings.Contains(raw, bad) {
				t.Errorf("%q reached the terminal", bad)
			}
		}
	})
}

// Item 25: no state is told by colour alone, so the text of a monochrome screen
// is that of a coloured one.
func TestNoStateByColourAlone(t *testing.T) {
	screen := func(theme string) (s string) {
		in(t, 140, 40, Config{Theme: theme}, func(t *testing.T, c *console) { s = c.screen() })
		return strings.ReplaceAll(s, theme, "")
	}
	mono, dark := strings.Fields(screen("mono")), strings.Fields(screen("dark"))
	if strings.Join(mono, " ") != strings.Join(dark, " ") {
		t.Error("the theme changes the text of the screen")
	}
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.wants("[1]Nodes", "● online", "◐ draining", "✕ offline")
	})
}

func TestASCII(t *testing.T) {
	in(t, 140, 40, Config{ASCII: true}, func(t *testing.T, c *console) {
		c.keys("3")
		for _, r := range ansi.Strip(c.screen()) {
			if r > '~' {
				t.Fatalf("%q on a terminal that knows ASCII only", r)
			}
		}
		c.wants("* bound", "+- Sessions 38 -")
	})
}

func TestMouse(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("1 m").screen()
		c.send(tea.MouseClickMsg{X: 5, Y: 6, Button: tea.MouseLeft}).wants("> node-3")
		c.send(tea.MouseClickMsg{X: 20, Y: 1, Button: tea.MouseLeft}).wants("[3]Sessions")
		c.send(tea.MouseWheelMsg{X: 5, Y: 6, Button: tea.MouseWheelDown}).wants("> s-1c3b")
		for range 500 {
			c.send(tea.MouseWheelMsg{X: 5, Y: 6, Button: tea.MouseWheelDown})
		}
		c.screen()
	})
}

func TestOverviewPanes(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		c.wants("[0]Overview", "Nodes 4", "Sessions 38", "Routes 9", "Services 10", "Calls 4", "Logs")
		c.keys("tab j enter").wants("[3]Sessions", "> s-1bc9")
		c.keys("0 tab tab tab tab enter").wants("[6]Logs")
		c.send(tea.WindowSizeMsg{Width: 100, Height: 30}).keys("0").wants("[1]Nodes")
		c.send(tea.WindowSizeMsg{Width: 150, Height: 50}).wants("[0]Overview")
	})
}

func TestPrefsAreKept(t *testing.T) {
	var kept Prefs
	in(t, 140, 40, Config{Keep: func(p Prefs) error { kept = p; return nil }}, func(t *testing.T, c *console) {
		c.run("3 w s s T 6 L")
	})
	in(t, 140, 40, Config{Prefs: kept}, func(t *testing.T, c *console) {
		c.keys("3").wants("wide", "theme dark")
		if title, desc := c.m.st.sessions.sorted(); title != "EPOCH" || !desc {
			t.Errorf("sessions are sorted by %s, %v", title, desc)
		}
		c.keys("6").wants("level>=warn")
	})
}
