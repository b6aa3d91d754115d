package tui

import (
	"strings"
	"testing"

	"shield/runtime/shield"
)

// Item 13.
func TestLogPausesAndFollows(t *testing.T) {
	line := func(n int, text string) shield.LogRow {
		return shield.LogRow{Seq: uint64(100 + n), Time: at(float64(n)), Level: "info", Node: "node-1", Service: "room", Text: text}
	}
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("6").wants("FOLLOW")
		seq := uint64(1)
		more := func(n int) {
			for range n {
				seq++
				c.events(delta(seq, Delta{Logs: []shield.LogRow{line(int(seq), "line "+total(int64(seq)))}}))
			}
		}
		more(40)
		c.wants("line 41")
		c.keys("k k").wants("PAUSED  +0 new")
		before := bodyOf(c.screen())
		more(132)
		c.wants("PAUSED  +132 new")
		if after := bodyOf(c.screen()); after != before {
			t.Errorf("paused text moved:\n%s\nto\n%s", before, after)
		}
		more(maxLogs + 2*slackLogs) // the ring turns over; the reader's part does not
		if after := bodyOf(c.screen()); after != before {
			t.Errorf("paused text moved when the ring turned over")
		}
		c.keys("G").wants("FOLLOW", "line "+total(int64(seq)))
		c.keys("k f").wants("FOLLOW")
		seq++
		c.events(delta(seq, Delta{LogsDropped: 7})).wants("7 dropped  FOLLOW")
	})
}

func TestLogPanStaysAndWrapWraps(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("6 right")
		c.lacks("node-10: online")
		c.events(delta(2, Delta{Logs: []shield.LogRow{{Seq: 50, Time: at(0), Level: "info", Node: "node-1", Service: "x", Text: "12345678tail"}}}))
		c.wants("tail")
		c.lacks("5678tail")
		c.keys("left w").wants("12345678tail", "value (field 'hp')")
		c.keys("L").wants("level>=warn")
		c.lacks("12345678tail")
		c.keys("n").wants("PAUSED")
	})
}

// Whatever the width, the whole of a line can be read: wrapped, panned, or opened
// with what it carries, and what is opened does not give way to what comes in.
func TestLongLogLinesAreReachable(t *testing.T) {
	long := strings.Repeat("0123456789", 12) + " last words"
	row := shield.LogRow{Seq: 50, Time: at(0), Level: "info", Node: "node-1", Service: "room", Text: long + "\n\tand more", Trace: "7f22", Fields: map[string]any{"gold": 12.0, "who": "ann\x1b[31m"}}
	next := shield.LogRow{Seq: 51, Time: at(1), Level: "info", Node: "node-1", Service: "room", Text: "the next"}
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.events(delta(2, Delta{Logs: []shield.LogRow{row}})).keys("6")
		c.lacks("last words", "from column")
		c.keys("enter").wants("info of node-1 room", "2000-01-01 00:00:00.000", "trace 7f22", "gold 12", "who ann", "last words", "  and more")
		c.events(delta(3, Delta{Logs: []shield.LogRow{next}})).wants("last words")
		c.lacks("the next")
		c.keys("esc").wants("PAUSED  +1 new").keys("f").wants("the next", "FOLLOW")
		for range 40 {
			c.keys("right").screen()
		}
		c.wants("last words", "from column 93  ") // panning ends where the longest line does
	})
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.events(delta(2, Delta{Logs: []shield.LogRow{row}})).keys("6 w").wants("last words", "wrapped  FOLLOW")
		c.keys("right").wants("lines are wrapped and shown whole; w cuts them")
		c.keys("/ type:zzz").wants("nothing at this level and filter")
		c.keys("enter enter").wants("there is no line")
	})
}
