package main

import (
	"bytes"
	"context"
	stdio "io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/devserver/logs"
	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// Verbs that wait end with 130 at Ctrl-C, whatever they waited for.
func TestCtlAnInterruptedWaitIsInterrupted(t *testing.T) {
	c := serveCtl(t)
	for _, tt := range []struct {
		dir  string
		args []string
	}{
		{t.TempDir(), []string{"wait"}},
		{c.dir, []string{"wait", "node-2", "--state", "offline"}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errInterrupted) }) // it asks again and again by then
		var errs bytes.Buffer
		exit := run(ctx, tt.args, &IO{In: strings.NewReader(""), Out: stdio.Discard, Err: &errs, Dir: tt.dir, Color: "auto"})
		if exit != exitInterrupted || errs.Len() > 0 {
			t.Errorf("%q: exit %d, %q; want 130 and no words", tt.args, exit, errs.String())
		}
	}
}

// A length of time below nothing is no default.
func TestCtlDurationsAreNotNegative(t *testing.T) {
	for _, args := range [][]string{
		{"call", "auth", "login", "--timeout=-1s"}, {"eval", "auth", "1", "--timeout=-1ms"}, {"wait", "--timeout=-1s"},
		{"client", "--timeout=-1s"}, {"client", "--linger=-1s"}, {"repl", "auth", "--budget=-1s"}, {"test", "--timeout=-1s"},
	} {
		got := shieldIn(t, t.TempDir(), "", args...)
		if got.exit != exitUsage || !strings.Contains(got.err, "want a time such as 500ms, 5s or 2m") {
			t.Errorf("shield %q = %+v", args, got)
		}
	}
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1<<63 - 1: 9223372036855} {
		if got := milliseconds(d); got != want {
			t.Errorf("milliseconds(%d) = %d, want %d", d, got, want)
		}
	}
}

func TestCtlWaitKnowsTheStates(t *testing.T) {
	if got := shieldIn(t, t.TempDir(), "", "wait", "node-1", "--state", "up"); got.exit != exitUsage || !strings.Contains(got.err, "suspect") {
		t.Errorf("wait for no state = %+v", got)
	}
}

// What asks for a node that is not there says so, followed or not.
func TestCtlClockOfOneNode(t *testing.T) {
	c := serveCtl(t)
	if got := c.run(t, "clock", "--node", "node-2"); got.exit != 0 || !strings.Contains(got.out, "node-2") || strings.Contains(got.out, "node-1") {
		t.Errorf("clock --node node-2 = %+v", got)
	}
	for _, args := range [][]string{{"clock", "--node", "nope"}, {"services", "--node", "nope", "--watch"}} {
		if got := c.run(t, args...); got.exit != exitFailed || !strings.Contains(got.err, "node_not_found") {
			t.Errorf("shield %q = %+v", args, got)
		}
	}
}

// A result that could not be written is no success, whichever verb has it.
func TestLostResultsAreAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	c := serveCtl(t)
	for _, args := range [][]string{{"call", "auth", "login"}, {"eval", "auth", "1"}, {"help"}, {"status"}, {"inspect", "auth"}, {"help", "call"}} {
		var errs bytes.Buffer
		io := &IO{In: strings.NewReader(""), Out: &results{File: full}, Err: &errs, Dir: c.dir, Color: "auto"}
		if exit := run(t.Context(), args, io); exit != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%q: exit %d, %q", args, exit, errs.String())
		}
	}
}

// A watch tells what went while nobody was attached, and nothing of rows that it
// has not printed.
func TestWatchTellsWhatIsMissing(t *testing.T) {
	io, out, _ := testIO(t)
	io.JSON = true
	l := look[shield.ServiceRow]{
		key: control.ServiceKey, keep: func(r shield.ServiceRow) bool { return r.Node == "a" }, told: map[string]bool{},
		snap:  func(s *control.Snapshot) []shield.ServiceRow { return s.Services },
		delta: func(d *control.Delta) []shield.ServiceRow { return d.Services },
	}
	row := func(node shield.NodeID, id shield.ServiceID) shield.ServiceRow {
		return shield.ServiceRow{Node: node, ID: id}
	}
	var all control.Snapshot
	for _, ev := range []control.Event{
		{Kind: control.EventSnapshot, Snapshot: &control.Snapshot{Services: []shield.ServiceRow{row("a", 1), row("a", 2), row("b", 1)}}},
		{Kind: control.EventDelta, Delta: &control.Delta{Topic: control.TopicServices, Gone: []string{"b#1", "a#2"}}},
		{Kind: control.EventSnapshot, Snapshot: &control.Snapshot{Services: []shield.ServiceRow{row("a", 3)}}},
	} {
		all.Apply(ev)
		if err := l.tell(io, &ev, &all); err != nil {
			t.Fatal(err)
		}
	}
	var gone []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, `{"gone"`) {
			gone = append(gone, strings.TrimSpace(line))
		}
	}
	if got := strings.Join(gone, " "); got != `{"gone":"a#2"} {"gone":"a#1"}` {
		t.Errorf("gone = %s\n%s", got, out)
	}
}

func TestExitOfCall(t *testing.T) {
	for _, tt := range []struct {
		name string
		res  control.CallResult
		want int
	}{
		{"ok", control.CallResult{OK: true}, exitOK},
		{"failed", control.CallResult{Error: &control.Error{Code: shield.HandlerError}}, exitCall},
		{"timed out", control.CallResult{Error: &control.Error{Code: shield.Timeout}}, exitTimeout},
		{"neither", control.CallResult{}, exitCall},
	} {
		if got := exitOfCall(tt.res); got != tt.want {
			t.Errorf("%s: exit %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A player's name is printed by the shell at the tab key.
func TestCtlCompletionHoldsNoOrders(t *testing.T) {
	c := serveCtl(t)
	c.Set(func(r *controltest.Rows) { r.Sessions[0].Player = "ann\x1b[2J\u202e" })
	got := c.run(t, "__complete", "kick", "")
	if got.exit != 0 || !strings.Contains(got.out, "\tann") || strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(got.out), logs.Orders) {
		t.Errorf("completion = %+v", got)
	}
	want := []string{"ping", "s-1\tann"}
	if diff := cmp.Diff(want, typable([]string{"ping", "\x1b[2J", "a\nb", "s-1\tann\x1b[2J"})); diff != "" {
		t.Errorf("typable (-want +got):\n%s", diff)
	}
}
