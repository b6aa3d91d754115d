package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"shield/runtime/shield"
)

func TestAttributesFindTheirPlace(t *testing.T) {
	var got []shield.LogRow
	l := New(func(r shield.LogRow) { got = append(got, r) })
	log := l.Logger("node-2").With("service", "room.public", "gen", 3, "code", "a41f9c")
	log.WithGroup("player").Warn("left", "event", "epoch", "uid", 7)
	log.Error("boom", "event", "crash", "err", errors.New("no map"))
	log.Debug("not recorded")

	want := []shield.LogRow{
		{Level: "warn", Node: "node-2", Service: "room.public", Generation: 3, Code: "a41f9c", Text: "left",
			Fields: map[string]any{"player.event": "epoch", "player.uid": int64(7)}},
		{Level: "error", Node: "node-2", Service: "room.public", Generation: 3, Code: "a41f9c", Text: "boom",
			Event: "crash", Fields: map[string]any{"err": "no map"}},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(shield.LogRow{}, "Time")); d != "" {
		t.Errorf("rows differ (-want +got):\n%s", d)
	}
}

func TestTheMostParticularLevelWins(t *testing.T) {
	var got []string
	l := New(func(r shield.LogRow) { got = append(got, r.Text) })
	if !l.SetLevel("error", "", "") || !l.SetLevel("debug", "", "room") || !l.SetLevel("warn", "node-2", "room") {
		t.Fatal("SetLevel refused a word it should know")
	}
	if l.SetLevel("loud", "", "") || l.Level() != "error" {
		t.Errorf("after an unknown word the level is %q, want error", l.Level())
	}
	for _, node := range []shield.NodeID{"node-1", "node-2"} {
		log := l.Logger(node)
		log.Warn(string(node) + " other")
		log.With("service", "room").Debug(string(node) + " room debug")
		log.Warn(string(node)+" room warn", "service", "room")
	}
	want := []string{"node-1 room debug", "node-1 room warn", "node-2 room warn"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows differ (-want +got):\n%s", d)
	}
	l.SetLevel("info", "", "")
	got = nil
	l.Logger("node-2").Info("back", "service", "room")
	if len(got) != 1 {
		t.Error("a level for everything must end the particular ones")
	}
}

func TestManyWritersPrintWholeLines(t *testing.T) {
	var out bytes.Buffer
	l := New(To(&out, JSON))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				l.Logger("n").Info("x", "k", "v")
			}
		})
	}
	wg.Wait()
	n := 0
	for line := range strings.Lines(out.String()) {
		n++
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %q is not JSON", line)
		}
	}
	if n != 400 {
		t.Errorf("printed %d lines, want 400", n)
	}
}

func TestTextIsSafeForATerminal(t *testing.T) {
	row := &shield.LogRow{Level: "error", Node: "node-1", Service: "room", Text: "hi \x1b[2J\u202e\u2028\nstack:\n\troom.lua:3", Fields: map[string]any{"player": "\u009b2J \u202ex"}}
	got := string(Line(Style{Columns: true, UTC: true}, row))
	want := "00:00:00.000 error node-1   room         hi \\x1b[2J\\u202e\\u2028 player=\"\\u009b2J \\u202ex\"\n    stack:\n    \troom.lua:3\n"
	if got != want {
		t.Errorf("Line = %q\nwant   %q", got, want)
	}
}

// A traceback is a block below its line, also where an event's other fields are
// left out.
func TestDetailIsABlock(t *testing.T) {
	row := shield.LogRow{Level: "error", Service: "room", Text: "hi: boom",
		Fields: map[string]any{"detail": "stack traceback:\n\troom.lua:3: in hi\n", "error": "handler_error", "note": "a\nb"}}
	got := string(Line(Style{UTC: true}, &row))
	want := "00:00:00.000 error room         hi: boom error=handler_error\n    stack traceback:\n    \troom.lua:3: in hi\n    note:\n      a\n      b\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	row.Event = "crash"
	want = "00:00:00.000 error room         hi: boom\n    stack traceback:\n    \troom.lua:3: in hi\n"
	if diff := cmp.Diff(want, string(Line(Style{UTC: true}, &row))); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}
