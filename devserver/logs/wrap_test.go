package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"shield/runtime/shield"
)

func TestWrap(t *testing.T) {
	tests := []struct {
		name, line string
		width      int
		want       string
	}{
		{"short", "a line", 40, "a line"},
		{"as wide as it may be", strings.Repeat("x", 35) + " abcd", 40, strings.Repeat("x", 35) + " abcd"},
		{"one too wide", strings.Repeat("x", 35) + " abcde", 40, strings.Repeat("x", 35) + "\n    abcde"},
		{"a long word", "see " + strings.Repeat("y", 50) + " and more", 40, "see\n    " + strings.Repeat("y", 50) + "\n    and more"},
		{"columns stay", "12:00  warn   " + strings.Repeat("z", 14) + " " + strings.Repeat("w", 30), 40, "12:00  warn   " + strings.Repeat("z", 14) + "\n    " + strings.Repeat("w", 30)},
		{"no terminal", strings.Repeat("x ", 100), 0, strings.Repeat("x ", 100)},
		{"a very narrow one", strings.Repeat("x ", 100), 10, strings.Repeat("x ", 100)},
		{"wide letters", strings.Repeat("火", 19) + " 火火", 40, strings.Repeat("火", 19) + "\n    火火"},
		{"colours have no width", "\x1b[31m" + strings.Repeat("x", 20) + "\x1b[0m \x1b[2m" + strings.Repeat("k", 19) + "\x1b[0m", 40, "\x1b[31m" + strings.Repeat("x", 20) + "\x1b[0m \x1b[2m" + strings.Repeat("k", 19) + "\x1b[0m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Wrap(tt.line, hang, tt.width); got != tt.want {
				t.Errorf("Wrap(%q, %d) =\n%s\nwant\n%s", tt.line, tt.width, got, tt.want)
			}
		})
	}
}

// TestLineFitsATerminal prints what a user saw torn at 80 columns.
func TestLineFitsATerminal(t *testing.T) {
	row := shield.LogRow{Time: time.Date(2026, 11, 30, 1, 57, 7, 731e6, time.UTC), Level: "error", Node: "node-1", Service: "auth",
		Text: "login: services/auth.lua:3: there is no shield.clients (did you mean shield.client?)",
		Fields: map[string]any{"error": "handler_error", "session": "s-d299956e21f8979b387e1728",
			"detail": "stack traceback:\n\tservices/auth.lua:3: in handler 'login' and a place whose name is longer than most names of places are"}}
	const want = `01:57:07.731 error node-1   auth         login: services/auth.lua:3: there is no
    shield.clients (did you mean shield.client?) error=handler_error
    session=s-d299956e21f8979b387e1728
    stack traceback:
        services/auth.lua:3: in handler 'login' and a place whose name is longer
          than most names of places are
`
	st := Style{Columns: true, UTC: true, Width: func() int { return 80 }}
	if got := string(Line(st, &row)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	st.Color = true
	if got := ansi.Strip(string(Line(st, &row))); got != want {
		t.Errorf("in colour\n%s\nwant\n%s", got, want)
	}
}
