package tui

import (
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
