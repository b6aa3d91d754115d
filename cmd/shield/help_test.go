package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

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
