package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An OnEvent that never returns costs events, in order from the oldest that are
// kept, and no memory without end.
func TestEventsAreBounded(t *testing.T) {
	q := newEvents()
	kept := 0
	for i := range 2 * maxEvents {
		if q.push(Event{Address: fmt.Sprint(i)}) {
			kept++
		}
	}
	if kept != maxEvents {
		t.Errorf("%d events are kept, want %d", kept, maxEvents)
	}
	q.close()
	next := 0
	q.run(func(e Event) {
		if e.Address != fmt.Sprint(next) {
			t.Fatalf("event %q, want %d", e.Address, next)
		}
		next++
	})
	if next != maxEvents {
		t.Errorf("%d events were delivered", next)
	}
}

// A line that repeats is written once a minute, with how often it was held back;
// how many lines are remembered has an end.
func TestCivil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var cv civil
		for range 125 {
			cv.warn(log, "k", "it rains")
			time.Sleep(time.Second)
		}
		if got := strings.Count(out.String(), "it rains"); got != 3 || strings.Count(out.String(), "repeated=59") != 2 {
			t.Errorf("%d lines:\n%s", got, out.String())
		}
		if !cv.settle("k") || cv.settle("k") {
			t.Error("it is settled once")
		}
		cv.warn(log, "k", "it rains")
		if got := strings.Count(out.String(), "it rains"); got != 4 {
			t.Errorf("after it was settled there are %d lines, want 4", got)
		}
		for i := range 3 * maxCivil {
			cv.warn(log, fmt.Sprint("stranger ", i), "who is it")
		}
		if n := len(cv.last); n > maxCivil {
			t.Errorf("%d lines are remembered, the bound is %d", n, maxCivil)
		}
	})
}
