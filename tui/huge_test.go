package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"shield/runtime/control/repl"
	"shield/tui/keys"
)

// What a service answers is bounded by a message alone: half a million lines, or
// one line of a megabyte, must neither hold the console up nor be cut in silence.
func TestHugeAnswers(t *testing.T) {
	const enough = time.Second // a hundred times what it takes
	lines, line := strings.Repeat("x\n", 500_000), strings.Repeat("y", 1<<20)
	rows := &repl.Table{Head: []string{"A"}, Right: []bool{false}, Rows: make([][]string, 100_000)}
	for i := range rows.Rows {
		rows.Rows[i] = []string{"z"}
	}
	for _, tt := range []struct {
		name string
		show func(m *model)
		want string
	}{
		{"lines of a REPL", func(m *model) { m.answer(repl.Answer{Blocks: []repl.Block{{Text: lines}}}) }, "x"},
		{"rows of a REPL", func(m *model) { m.answer(repl.Answer{Blocks: []repl.Block{{Table: rows}}}) }, "z"},
		{"a line of a REPL", func(m *model) { m.answer(repl.Answer{Blocks: []repl.Block{{Text: line}}}) }, "1.0M bytes more"},
		{"lines of a call", func(m *model) { m.done(doneMsg{what: "call", text: lines}); m.scroll = maxScroll }, "... 490k lines more"},
		{"a line of a call", func(m *model) { m.done(doneMsg{what: "call", text: line}); m.scroll = maxScroll }, "1.0M bytes more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newModel(t.Context(), Config{Width: 100, Height: 30})
			m.show(keys.REPL)
			began := time.Now()
			tt.show(m)
			screen := ansi.Strip(m.draw())
			if took := time.Since(began); took > enough {
				t.Errorf("it took %v", took)
			}
			if !strings.Contains(screen, tt.want) {
				t.Errorf("the screen does not say %q:\n%s", tt.want, screen)
			}
		})
	}
}
