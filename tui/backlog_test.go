package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
	"shield/tui/keys"
)

// What comes while the screen is paused is what would have come without: also
// when the console was attached anew meanwhile, whose snapshot brings only the
// newest lines and calls.
func TestAPauseLosesNothing(t *testing.T) {
	logs := func(from, to uint64) (rows []shield.LogRow) {
		for n := from; n <= to; n++ {
			rows = append(rows, shield.LogRow{Seq: n, Level: "info", Text: "x"})
		}
		return rows
	}
	call := func(method string) shield.CallRow {
		return shield.CallRow{Node: "node-1", Target: "room", Method: method}
	}
	events := []Event{
		{Seq: 1, Delta: &Delta{Logs: logs(1, 20), LogsDropped: 2, Calls: []shield.CallRow{call("one"), call("two")}}},
		{Seq: 2, Snapshot: &Snapshot{App: "arena", Logs: logs(16, 25), Calls: []shield.CallRow{call("two"), call("three")}}},
		{Seq: 3, Delta: &Delta{Logs: logs(26, 27), Calls: []shield.CallRow{call("four")}}},
	}
	seen := func(paused bool) (seqs []uint64, calls []string, dropped int64) {
		m := newModel(t.Context(), Config{Width: 100, Height: 30})
		if paused {
			m.pause()
		}
		m.receive(events, time.Now())
		if paused {
			m.pause()
		}
		for _, it := range m.st.logs.live {
			seqs = append(seqs, it.Seq)
		}
		m.st.calls.sortOn("TIME", false)
		for _, r := range m.st.calls.order {
			calls = append(calls, r.val.Method)
		}
		return seqs, calls, m.st.logs.dropped
	}
	seqs, calls, dropped := seen(false)
	gotSeqs, gotCalls, gotDropped := seen(true)
	if diff := cmp.Diff(seqs, gotSeqs); diff != "" || len(seqs) != 27 {
		t.Errorf("lines (-without a pause +with one):\n%s", diff)
	}
	if diff := cmp.Diff(calls, gotCalls); diff != "" || len(calls) != 3 {
		t.Errorf("calls (-without a pause +with one):\n%s", diff)
	}
	if dropped != gotDropped || dropped != 2 {
		t.Errorf("dropped = %d with a pause, %d without", gotDropped, dropped)
	}
}

// Calls that never reached the console are counted on the screen, as lines are.
func TestDroppedCallsAreShown(t *testing.T) {
	m := newModel(t.Context(), Config{Width: 100, Height: 30})
	m.receive([]Event{{Snapshot: &Snapshot{App: "arena"}}, {Seq: 1, Delta: &Delta{CallsDropped: 7}}}, time.Now())
	m.show(keys.Calls)
	if screen := ansi.Strip(m.draw()); !strings.Contains(screen, "7 dropped  FOLLOW") {
		t.Errorf("the screen does not say it:\n%s", screen)
	}
}
