package tui

import (
	"maps"
	"slices"

	"shield/runtime/shield"
)

// backlog keeps what came while the screen was frozen, merged, so that a long
// pause costs no more than the rows there are.
type backlog struct {
	snap     *Snapshot
	nodes    merged[shield.NodeRow]
	routes   merged[shield.RouteRow]
	services merged[shield.ServiceRow]
	sessions merged[shield.SessionRow]
	rest     Delta // calls, logs and what was dropped
	early    Delta // the same from before the snapshot, which brings only the newest
	events   int
}

// merged is the last row of each key, and the keys that are gone.
type merged[T any] struct {
	rows map[string]T
	gone map[string]bool
}

func (m *merged[T]) add(rows []T, key func(*T) string, gone []string) {
	if m.rows == nil {
		m.rows, m.gone = map[string]T{}, map[string]bool{}
	}
	for i := range rows {
		k := key(&rows[i])
		m.rows[k] = rows[i]
		delete(m.gone, k)
	}
	for _, k := range gone {
		delete(m.rows, k)
		m.gone[k] = true
	}
}

func (m *merged[T]) take() (rows []T, gone []string) {
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		rows = append(rows, m.rows[k])
	}
	return rows, slices.Sorted(maps.Keys(m.gone))
}

func (b *backlog) add(ev Event) {
	b.events++
	if ev.Snapshot != nil {
		early := b.early
		hold(&early, &b.rest)
		*b = backlog{snap: ev.Snapshot, early: early, events: b.events}
		return
	}
	d := ev.Delta
	b.nodes.add(d.Nodes, NodeKey, d.GoneNodes)
	b.routes.add(d.Routes, RouteKey, d.GoneRoutes)
	b.services.add(d.Services, ServiceKey, d.GoneServices)
	b.sessions.add(d.Sessions, SessionKey, d.GoneSessions)
	hold(&b.rest, d)
}

// hold adds the calls and logs of d to those that are held; the oldest leave.
func hold(held, d *Delta) {
	held.LogsDropped += d.LogsDropped
	held.CallsDropped += d.CallsDropped
	held.Logs = append(held.Logs, d.Logs...)
	if over := len(held.Logs) - maxLogs; over > 0 {
		held.Logs = slices.Clone(held.Logs[over:])
		held.LogsDropped += int64(over)
	}
	held.Calls = append(held.Calls, d.Calls...)
	if over := len(held.Calls) - maxCalls; over > 0 {
		held.Calls = slices.Clone(held.Calls[over:])
		held.CallsDropped += int64(over)
	}
}

// delta is everything but the snapshot, as one change.
func (b *backlog) delta() *Delta {
	d := b.rest
	d.Nodes, d.GoneNodes = b.nodes.take()
	d.Routes, d.GoneRoutes = b.routes.take()
	d.Services, d.GoneServices = b.services.take()
	d.Sessions, d.GoneSessions = b.sessions.take()
	return &d
}
