package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

func TestAttributesFindTheirPlace(t *testing.T) {
	l := New(nil, nil)
	log := l.Logger("node-2").With("service", "room.public", "gen", 3, "code", "a41f9c")
	log.WithGroup("player").Warn("left", "event", "epoch", "uid", 7)
	log.Error("boom", "event", "crash", "err", errors.New("no map"))
	log.Debug("not recorded")

	want := []shield.LogRow{
		{Seq: 1, Level: "warn", Node: "node-2", Service: "room.public", Generation: 3, Code: "a41f9c", Text: "left",
			Fields: map[string]any{"player.event": "epoch", "player.uid": int64(7)}},
		{Seq: 2, Level: "error", Node: "node-2", Service: "room.public", Generation: 3, Code: "a41f9c", Text: "boom",
			Event: "crash", Fields: map[string]any{"err": "no map"}},
	}
	got := l.Rows()
	for i := range got {
		got[i].Time = got[i].Time.Add(-got[i].Time.Sub(got[i].Time))
		want[i].Time = got[i].Time
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows differ (-want +got):\n%s", d)
	}
}

func TestLevelChangesAtRunTime(t *testing.T) {
	l := New(nil, nil)
	log := l.Logger("n")
	if !l.SetLevel("error") || l.SetLevel("loud") || l.Level() != "error" {
		t.Fatalf("SetLevel: level is %q", l.Level())
	}
	log.Warn("no")
	log.Error("yes")
	if rows := l.Rows(); len(rows) != 1 || rows[0].Text != "yes" {
		t.Errorf("rows = %v", rows)
	}
}

func TestRingKeepsTheLastInOrder(t *testing.T) {
	l := New(nil, nil)
	for range Keep + 10 {
		l.Add(shield.LogRow{})
	}
	rows := l.Rows()
	if len(rows) != Keep || rows[0].Seq != 11 || rows[Keep-1].Seq != Keep+10 {
		t.Errorf("kept %d rows from %d to %d", len(rows), rows[0].Seq, rows[len(rows)-1].Seq)
	}
}

func TestFollowerThatLagsIsToldWhatItLost(t *testing.T) {
	l := New(nil, nil)
	l.Add(shield.LogRow{Text: "before"})
	kept, f := l.Follow()
	defer f.Close()
	if len(kept) != 1 {
		t.Fatalf("kept %d rows, want 1", len(kept))
	}
	for range followQueue + 5 {
		l.Add(shield.LogRow{})
	}
	if row := <-f.C(); row.Seq != 2 {
		t.Errorf("first row has number %d, want 2", row.Seq)
	}
	if n := f.Dropped(); n != 5 {
		t.Errorf("Dropped() = %d, want 5", n)
	}
}

func TestWritersAndFollowersTogether(t *testing.T) {
	var out bytes.Buffer
	l := New(&out, JSON)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			log := l.Logger("n")
			for range 100 {
				log.Info("x")
			}
		})
		wg.Go(func() {
			_, f := l.Follow()
			<-f.C()
			f.Close()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for { // followers may begin after the last writer ended
		select {
		case <-done:
		default:
			l.Logger("n").Info("more")
			continue
		}
		break
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %q is not JSON", line)
		}
	}
}

func TestTextIsSafeForATerminal(t *testing.T) {
	row := &shield.LogRow{Level: "error", Node: "node-1", Service: "room", Text: "hi \x1b[2J\nstack:\n\troom.lua:3", Fields: map[string]any{"player": "\u009b2J x"}}
	got := string(Line(Style{Columns: true, UTC: true}, row))
	want := "00:00:00.000 error node-1   room         hi \\x1b[2J player=\"\\u009b2J x\"\n    stack:\n    \troom.lua:3\n"
	if got != want {
		t.Errorf("Line = %q\nwant   %q", got, want)
	}
}
