package record

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
	"shield/tui"
)

// life is a server that is seen, lost and seen again.
type life struct{ watches int }

func (l *life) Watch(_ context.Context, emit func(tui.Event)) error {
	l.watches++
	emit(tui.Event{Seq: 1, Snapshot: &tui.Snapshot{App: "arena", Nodes: []shield.NodeRow{{Node: "node-1", State: shield.Online, Epoch: 1 << 60}}}})
	time.Sleep(2 * time.Second)
	emit(tui.Event{Seq: 2, Delta: &tui.Delta{GoneNodes: []string{"node-1"}, Logs: []shield.LogRow{{Seq: 9, Text: "\x1b[31m漢字\n"}}}})
	if l.watches == 1 {
		return errors.New("shield dev stopped")
	}
	return tui.ErrEnd
}

type step struct {
	After time.Duration
	Event *tui.Event
	Err   string
}

// watch collects what a source tells in two watches.
func watch(t *testing.T, src tui.Source) (steps []step) {
	began := time.Now()
	for range 2 {
		err := src.Watch(t.Context(), func(ev tui.Event) { steps = append(steps, step{After: time.Since(began), Event: &ev}) })
		steps = append(steps, step{After: time.Since(began), Err: err.Error()})
	}
	return steps
}

func TestARecordingPlaysAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		rec := New(&life{}, &buf)
		want := watch(t, rec)
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		player, err := Open(&buf, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, watch(t, player)); diff != "" {
			t.Errorf("played (-want +got):\n%s", diff)
		}
	})
}

func TestSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		rec := New(&life{}, &buf)
		watch(t, rec)
		player, err := Open(&buf, 4)
		if err != nil {
			t.Fatal(err)
		}
		steps := watch(t, player)
		if last := steps[len(steps)-1].After; last != time.Second {
			t.Errorf("four seconds at four times the speed took %v", last)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", "it is empty"},
		{"something else", "hello\n", "the first line is no header"},
		{"JSON of another kind", `{"a":1}` + "\n", "the first line is no header"},
		{"the future", `{"shield_recording":99}` + "\n", "version 99"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Open(strings.NewReader(tt.in), 1); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestADamagedLineEndsTheRecording(t *testing.T) {
	p, err := Open(strings.NewReader("{\"shield_recording\":1}\n{\"at_ms\":0,\"event\":{\"seq\":1,\"snap"), 1)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Watch(t.Context(), func(tui.Event) { t.Error("an event came of half a line") })
	if !errors.Is(err, tui.ErrEnd) || !strings.Contains(err.Error(), "line 2 is damaged") {
		t.Errorf("Watch = %v", err)
	}
}

type fullDisk struct{ room int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestAFullDiskDisturbsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := New(&life{}, &fullDisk{room: 100})
		if steps := watch(t, rec); len(steps) != 6 {
			t.Errorf("%d steps came through, want 6", len(steps))
		}
		if err := rec.Close(); err == nil || !strings.Contains(err.Error(), "not complete: no space left") {
			t.Errorf("Close = %v", err)
		}
	})
}

func FuzzPlayer(f *testing.F) {
	f.Add("{\"shield_recording\":1}\n{\"at_ms\":0,\"event\":{\"seq\":1,\"snapshot\":{}}}\n{\"at_ms\":-9,\"lost\":\"x\"}\n")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Open(strings.NewReader(s), 1e9)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for range 20 {
			if err := p.Watch(ctx, func(tui.Event) {}); errors.Is(err, tui.ErrEnd) {
				return
			} else if err == nil {
				t.Fatal("a watch ended without a reason")
			}
		}
	})
}
