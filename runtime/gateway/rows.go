package gateway

import (
	"sort"
	"time"

	"shield/runtime/session"
	"shield/runtime/shield"
)

// Sessions lists the sessions, sorted by id, without their history.
func (g *Gateway) Sessions() []shield.SessionRow {
	rows := []shield.SessionRow{}
	for _, c := range g.all() {
		rows = append(rows, c.row(false))
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Session < rows[j].Session })
	return rows
}

// Session gives one session with its history.
func (g *Gateway) Session(id shield.SessionID) (shield.SessionRow, bool) {
	c := g.find(id)
	if c == nil {
		return shield.SessionRow{}, false
	}
	return c.row(true), true
}

func (c *client) row(history bool) shield.SessionRow {
	now := c.g.now()
	c.mu.Lock()
	b := c.s.Binding()
	row := shield.SessionRow{Session: c.id, Player: b.Player, Epoch: b.Epoch, Gateway: c.g.id, State: c.s.State(),
		Address: c.addr, Transport: c.transport, In: c.in.Load(), Out: c.outN.Load(), Stale: c.stale.Load(), Queue: c.out.frames + c.out.flying,
		IdleMS: max(0, now-time.Duration(c.seen.Load())).Milliseconds(), OpenedMS: time.Since(c.s.Opened()).Milliseconds()}
	var steps []session.Step
	if history {
		steps = c.s.History()
	}
	c.mu.Unlock()
	// The router is asked with nothing locked.
	for _, h := range steps {
		e := shield.EpochStep{Epoch: h.Epoch, Time: h.Time, Cause: h.Cause, Player: h.Player}
		if !h.Target.IsZero() {
			e.Target = c.g.router.TargetName(h.Target)
		}
		row.History = append(row.History, e)
	}
	if !b.Target.IsZero() {
		row.Target = c.g.router.TargetName(b.Target)
	}
	return row
}
