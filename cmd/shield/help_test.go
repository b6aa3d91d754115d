package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

// TestProseFitsATerminal holds that no sentence of the help or of an explanation
// is broken by the terminal, in the middle of a word. Lines to paste stay whole.
func TestProseFitsATerminal(t *testing.T) {
	const width = 80
	print := func(words ...string) string {
		var out bytes.Buffer
		io := &IO{Out: &out, Err: &out, In: strings.NewReader(""), OutTTY: true, Width: width, Color: "never", Dir: t.TempDir()}
		if exit := run(t.Context(), words, io); exit != exitOK {
			t.Errorf("shield %s: exit %d\n%s", strings.Join(words, " "), exit, out.String())
		}
		return out.String()
	}
	check := func(text string, words ...string) {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if ansi.StringWidth(line) > width && !strings.HasPrefix(line, "  shield ") && !strings.HasPrefix(line, "  echo ") {
				t.Errorf("shield %s: %d columns: %s", strings.Join(words, " "), ansi.StringWidth(line), line)
			}
		}
	}
	for _, cmd := range newRoot(&IO{}).Commands() {
		if !cmd.Hidden {
			check(print("help", cmd.Name()), "help", cmd.Name())
		}
	}
	for _, code := range shield.Codes() {
		check(print("explain", string(code)), "explain", string(code))
	}
	if got := print("explain", "invalid_service_module"); !strings.Contains(got, "\n          ") {
		t.Errorf("a long sentence does not go on below its own beginning:\n%s", got)
	}
}

// TestErrorsFitATerminal holds the same for what went wrong, and that a program
// finds it in one line.
func TestErrorsFitATerminal(t *testing.T) {
	err := fail(exitFailed, "shield nodes", "node %q does not run in this process, which has a great many others\nsource line", "node-9")
	for _, tt := range []struct {
		tty  bool
		want string
	}{
		{true, "shield kill: node \"node-9\" does not run in\n    this process, which has a great many\n    others\nsource line\n  shield nodes\n"},
		{false, "shield kill: node \"node-9\" does not run in this process, which has a great many others\nsource line\n  shield nodes\n"},
	} {
		var errs bytes.Buffer
		printError(&IO{Err: &errs, ErrTTY: tt.tty, OutTTY: tt.tty, Width: 42, Color: "never"}, "kill", err, exitFailed)
		if diff := cmp.Diff(tt.want, errs.String()); diff != "" {
			t.Errorf("terminal %v (-want +have):\n%s", tt.tty, diff)
		}
	}
}
