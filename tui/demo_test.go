package tui_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
	"shield/tui"
	"shield/tui/record"
)

// demo is a source that tells the same minute of a cluster's life each time: the
// recording that pictures and the tests of the real binary play.
type demo struct{ seconds int }

func (d demo) Watch(ctx context.Context, emit func(tui.Event)) error {
	snap := tui.Arena()
	emit(tui.Event{Seq: 1, Snapshot: snap})
	seq, logSeq := uint64(1), uint64(100)
	next := func(delta tui.Delta) {
		seq++
		emit(tui.Event{Seq: seq, Delta: &delta})
	}
	began := time.Now()
	for step := range d.seconds * 2 {
		time.Sleep(500 * time.Millisecond)
		now := time.Now()
		var delta tui.Delta
		for i := range snap.Nodes[:3] {
			n := snap.Nodes[i]
			n.Uptime += now.Sub(began).Milliseconds()
			n.CallsPerSecond = math.Round(snap.Nodes[i].CallsPerSecond * (1 + 0.3*math.Sin(float64(step)/4+float64(i))))
			delta.Nodes = append(delta.Nodes, n)
		}
		for i := range snap.Services {
			s := &snap.Services[i]
			s.Calls += int64(20*(i+1)) + int64(step*7%13)
			delta.Services = append(delta.Services, *s)
		}
		delta.Calls = []shield.CallRow{{Time: now, Trace: shield.TraceID(0x8000 + step), From: "session s-1bc9", Target: "room.public", Method: "attack", Node: "node-2", Micros: int64(900 + step*137%4000), Result: "ok"}}
		if step%6 == 5 {
			logSeq++
			delta.Logs = []shield.LogRow{{Seq: logSeq, Time: now, Level: "info", Node: "node-2", Service: "room.public", Text: fmt.Sprintf("round %d begins", step/6), Generation: 4, Code: "a41f9c"}}
		}
		if step == 8 {
			s := snap.Sessions[1]
			s.Epoch++
			delta.Sessions = []shield.SessionRow{s}
			delta.Logs = append(delta.Logs, shield.LogRow{Seq: logSeq + 1, Time: now, Level: "info", Node: "node-1", Service: "gateway", Text: "s-1bc9 epoch 7 -> 8: bind to node-2:player", Event: "epoch"})
			logSeq++
		}
		next(delta)
	}
	return fmt.Errorf("shield dev stopped (exit 0): %w", tui.ErrEnd)
}

// TestDemoRecording holds testdata/arena.jsonl to what demo tells;
// SHIELD_UPDATE=1 writes it.
func TestDemoRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		rec := record.New(demo{seconds: 20}, &buf)
		if err := rec.Watch(t.Context(), func(tui.Event) {}); !errors.Is(err, tui.ErrEnd) {
			t.Fatal(err)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "arena.jsonl")
		if os.Getenv("SHIELD_UPDATE") == "1" {
			if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, buf.Bytes()) {
			t.Errorf("%s is not what demo tells; SHIELD_UPDATE=1 writes it anew", path)
		}
	})
}
