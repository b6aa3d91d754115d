package tui

import (
	"context"
	"errors"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/shield"
)

// Item 22.
func TestRowsWaitForTheKeys(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		order := func() (out string) {
			for _, r := range c.m.st.nodes.shown {
				out += string(r.val.Node) + " "
			}
			return out
		}
		c.keys("1 : type:sort space type:sess enter j")
		was, sel := order(), c.m.st.nodes.key()
		n := arena().Nodes[0]
		n.Sessions = 0
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}}))
		if got := order(); got != was {
			t.Errorf("rows moved under the fingers: %s, was %s", got, was)
		}
		time.Sleep(1100 * time.Millisecond)
		c.send(tickMsg{at: time.Now()})
		if got := order(); got == was {
			t.Error("rows were never sorted again")
		}
		if got := c.m.st.nodes.key(); got != sel {
			t.Errorf("the cursor went from %s to %s", sel, got)
		}
	})
}

// Item 31.
func TestEpochFlashesForThreeSeconds(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		s := arena().Sessions[1]
		s.Epoch = 8
		c.keys("3 j")
		c.events(delta(2, Delta{Sessions: []shield.SessionRow{s}}))
		c.wants("7->8", "bind    ann")
		time.Sleep(2900 * time.Millisecond)
		c.send(tickMsg{}).wants("7->8")
		time.Sleep(200 * time.Millisecond)
		c.send(tickMsg{})
		c.lacks("7->8")
	})
}

func TestHistoryIsFetchedOncePerEpoch(t *testing.T) {
	asked := 0
	cfg := Config{History: func(_ context.Context, id shield.SessionID) ([]shield.EpochStep, error) {
		asked++
		return []shield.EpochStep{{Epoch: 1, Time: at(-5), Cause: "bind", Player: "lin", Target: "node-1:player"}}, nil
	}}
	in(t, 80, 24, cfg, func(t *testing.T, c *console) {
		c.run("3")
		c.wants("bind    lin")
		c.run("g g g")
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// A row of Calls says of both ends where they are, whatever the call named them by.
func TestCallsNameBothEnds(t *testing.T) {
	tests := []struct {
		row      shield.CallRow
		from, to string
	}{
		{shield.CallRow{From: "auth", Target: "players", Node: "node-1"}, "node-1:auth", "node-1:players"},
		{shield.CallRow{From: "auth", Target: "node-2:players", Node: "node-1"}, "node-1:auth", "node-2:players"},
		{shield.CallRow{From: "auth", Target: "node-3#3", Node: "node-1"}, "node-1:auth", "node-3:room.public"},
		{shield.CallRow{From: "(services/npc) node-1#77", Target: "node-2#99", Node: "node-1"}, "(services/npc) node-1#77", "node-2#99"},
		{shield.CallRow{From: "control", Target: "auth", Node: "node-1"}, "control", "node-1:auth"},
		{shield.CallRow{From: "session s-1b90", Target: "auth", Node: "node-2"}, "session s-1b90", "node-2:auth"},
		{shield.CallRow{From: "node-9:auth", Target: "auth"}, "node-9:auth", "auth"},
	}
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		for _, tt := range tests {
			c.events(delta(2, Delta{Calls: []shield.CallRow{tt.row}}))
			if got := c.m.st.calls.selected(); got.from != tt.from || got.to != tt.to {
				t.Errorf("%+v: from %q to %q, want %q to %q", tt.row, got.from, got.to, tt.from, tt.to)
			}
		}
		// The name stays when the service has gone.
		c.events(delta(2, Delta{Calls: []shield.CallRow{{From: "auth", Target: "node-3#3", Node: "node-1", Method: "leave"}}}),
			delta(3, Delta{GoneServices: []string{"node-3#3"}}))
		c.keys("5").wants("node-1:auth", "node-3:room.public", "leave")
	})
}

// Item 32: the console names what failed and why, and never ends because of it.
func TestFailuresAreShown(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("4 G").wants("✕ failed", "attempt to index a nil value", "restarts 5")
		c.keys("k enter").wants("generation 3 keeps serving", "12 | local room x", "|            ^", "different code under this name")
		c.events(delta(2, Delta{Logs: []shield.LogRow{{Seq: 99, Time: at(0), Level: "error", Node: "node-2", Service: "room", Event: "crash", Text: "room.lua:3: boom\ntraceback"}}}))
		c.wants("node-2 room: room.lua:3: boom")
	})
}

// The row of a failed reload may carry the reason alone; the log has the source
// around it.
func TestReloadShowsTheExcerptOfTheLog(t *testing.T) {
	in(t, 100, 30, Config{}, func(t *testing.T, c *console) {
		s := arena().Services[0]
		s.Reload, s.ReloadTime = "failed: services/auth.lua:3:1: syntax error near 'x'", ptr(at(0))
		c.events(delta(2, Delta{Services: []shield.ServiceRow{s}, Logs: []shield.LogRow{{Seq: 60, Time: at(0), Level: "error", Service: "reload", Event: "reload",
			Text: "services/auth.lua:3:1: syntax error near 'x'\n    3 | local = x\n      |       ^"}}}))
		c.keys("4 g").wants("keeps serving", "3 | local = x")
	})
}

func TestStaleResyncAndBack(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.wants("LIVE")
		c.send(lostMsg{errors.New("shield dev stopped\nmore")})
		time.Sleep(4 * time.Second)
		c.send(tickMsg{}).wants("STALE 4s", "attaching again: shield dev stopped", "node-1") // the last screen stays
		c.events(snap(1)).wants("LIVE", "attached again after 4s")
		c.send(resyncMsg{errGap}).wants("RESYNC")
		c.events(snap(9)).wants("RESYNC")
		time.Sleep(3 * time.Second)
		c.send(tickMsg{}).wants("LIVE")
	})
}

func TestPauseFreezesTheScreen(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		n := arena().Nodes[1]
		n.State = shield.Suspect
		gone := "node-10"
		c.keys("1 space")
		c.wants("PAUSED")
		before := bodyOf(c.screen())
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}, GoneNodes: []string{gone}}))
		if bodyOf(c.screen()) != before {
			t.Error("the frozen screen changed")
		}
		n.State = shield.Offline
		c.events(delta(3, Delta{Nodes: []shield.NodeRow{n}}))
		c.keys("space").wants("✕ offline", "LIVE")
		c.lacks(gone)
	})
}

func TestUnfocusedScreenIsDrawnOnceASecond(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.screen()
		c.send(tea.BlurMsg{})
		before := c.m.drawn
		n := arena().Nodes[0]
		n.Sessions = 777
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}}))
		c.m.View()
		if c.m.drawn != before {
			t.Error("drawn again at once")
		}
		time.Sleep(time.Second)
		c.send(tickMsg{}).wants("777")
	})
}
