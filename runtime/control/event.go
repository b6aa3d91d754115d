package control

import (
	"slices"
	"strconv"
	"strings"

	"shield/runtime/shield"
)

// Topic is a kind of rows that can be watched.
type Topic string

const (
	TopicNodes    Topic = "nodes"
	TopicRoutes   Topic = "routes"
	TopicServices Topic = "services"
	TopicSessions Topic = "sessions"
	TopicStatus   Topic = "status"
	TopicLogs     Topic = "logs"
	TopicCalls    Topic = "calls"
)

// Topics lists all of them.
func Topics() []Topic {
	return []Topic{TopicNodes, TopicRoutes, TopicServices, TopicSessions, TopicStatus, TopicLogs, TopicCalls}
}

// EventKind tells the lines of a watch apart.
type EventKind string

const (
	EventSnapshot EventKind = "snapshot" // everything; what the reader had before is void
	EventDelta    EventKind = "delta"    // what changed since the line before
	EventLagged   EventKind = "lagged"   // the reader was too slow; a snapshot follows
	EventAlive    EventKind = "alive"    // nothing happened, the server lives; no number of its own
	EventFailed   EventKind = "failed"   // the rows of Topic can't be had for now; those of before are old
)

// Event is one line of GET /ops/watch. Seq rises by one with each delta; a
// snapshot carries the number of the last delta it contains.
type Event struct {
	Kind     EventKind `json:"kind"`
	Seq      uint64    `json:"seq"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Delta    *Delta    `json:"delta,omitempty"`
	Missed   uint64    `json:"missed,omitempty"` // lagged: about how many deltas the reader did not get
	Topic    Topic     `json:"topic,omitempty"`  // failed
	Error    *Error    `json:"error,omitempty"`  // failed
}

// Snapshot holds the rows of the topics asked for, sorted; the others are nil.
// Ages (uptime_ms, idle_ms, age_ms) go on by themselves: a row is not sent again
// for them, its reader adds the time that passed.
type Snapshot struct {
	Project  Project             `json:"project"`
	Nodes    []shield.NodeRow    `json:"nodes,omitzero"`
	Routes   []shield.RouteRow   `json:"routes,omitzero"`
	Services []shield.ServiceRow `json:"services,omitzero"`
	Sessions []shield.SessionRow `json:"sessions,omitzero"`
	Status   []NodeStatus        `json:"status,omitzero"`
	Logs     []shield.LogRow     `json:"logs,omitzero"` // the last ones, oldest first
	Calls    []shield.CallRow    `json:"calls,omitzero"`
}

// Delta is what changed in one topic: rows that are new or different, whole,
// and the keys of those that are gone. Logs and calls only grow.
type Delta struct {
	Topic    Topic               `json:"topic"`
	Notable  bool                `json:"notable,omitempty"` // more than counters changed
	Nodes    []shield.NodeRow    `json:"nodes,omitempty"`
	Routes   []shield.RouteRow   `json:"routes,omitempty"`
	Services []shield.ServiceRow `json:"services,omitempty"`
	Sessions []shield.SessionRow `json:"sessions,omitempty"`
	Status   []NodeStatus        `json:"status,omitempty"`
	Logs     []shield.LogRow     `json:"logs,omitempty"`
	Calls    []shield.CallRow    `json:"calls,omitempty"`
	Gone     []string            `json:"gone,omitempty"`
	Dropped  uint64              `json:"dropped,omitempty"` // logs and calls that fell out before they could be sent
}

// NodeKey is a node's key in deltas. A placeholder has no id yet: its dial
// address tells it apart.
func NodeKey(r shield.NodeRow) string {
	if r.Node == "" {
		return r.Address
	}
	return string(r.Node)
}

// RouteKey is a route's key in deltas.
func RouteKey(r shield.RouteRow) string { return string(r.Node) + ":" + string(r.Name) }

// ServiceKey is a service's key in deltas.
func ServiceKey(r shield.ServiceRow) string {
	return string(r.Node) + "#" + strconv.FormatUint(uint64(r.ID), 10)
}

// SessionKey is a session's key in deltas.
func SessionKey(r shield.SessionRow) string { return string(r.Session) }

// StatusKey is a node status's key in deltas.
func StatusKey(r NodeStatus) string { return NodeKey(r.NodeRow) }

// SortNodes and its sisters put rows into the order in which they are printed.
func SortNodes(rows []shield.NodeRow) {
	slices.SortFunc(rows, func(a, b shield.NodeRow) int { return natural(NodeKey(a), NodeKey(b)) })
}

// SortRoutes orders by name, then node.
func SortRoutes(rows []shield.RouteRow) {
	slices.SortFunc(rows, func(a, b shield.RouteRow) int {
		return first(natural(string(a.Name), string(b.Name)), natural(string(a.Node), string(b.Node)))
	})
}

// SortServices orders by name, node and id.
func SortServices(rows []shield.ServiceRow) {
	slices.SortFunc(rows, func(a, b shield.ServiceRow) int {
		return first(natural(string(a.Name), string(b.Name)), natural(string(a.Node), string(b.Node)), int(a.ID)-int(b.ID))
	})
}

// SortSessions orders by id.
func SortSessions(rows []shield.SessionRow) {
	slices.SortFunc(rows, func(a, b shield.SessionRow) int { return natural(string(a.Session), string(b.Session)) })
}

// SortStatus orders as SortNodes does.
func SortStatus(rows []NodeStatus) {
	slices.SortFunc(rows, func(a, b NodeStatus) int { return natural(StatusKey(a), StatusKey(b)) })
}

func first(orders ...int) int {
	for _, o := range orders {
		if o != 0 {
			return o
		}
	}
	return 0
}

// natural compares like a person: node-2 comes before node-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da > 0 && db > 0 {
			na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if o := first(len(na)-len(nb), strings.Compare(na, nb), da-db); o != 0 {
				return o
			}
			a, b = a[da:], b[db:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// keptLines is how many log lines and calls a reader's snapshot keeps.
const keptLines = 5000

// Apply brings s up to date with ev, so that a reader can hold one Snapshot and
// feed it every event. Slices of s are replaced, never changed in place: one
// handed to somebody else stays as it was.
func (s *Snapshot) Apply(ev Event) {
	switch {
	case ev.Snapshot != nil:
		*s = *ev.Snapshot
	case ev.Delta != nil:
		s.apply(ev.Delta)
	}
}

func (s *Snapshot) apply(d *Delta) {
	switch d.Topic {
	case TopicNodes:
		s.Nodes = merge(s.Nodes, d.Nodes, d.Gone, NodeKey, SortNodes)
	case TopicRoutes:
		s.Routes = merge(s.Routes, d.Routes, d.Gone, RouteKey, SortRoutes)
	case TopicServices:
		s.Services = merge(s.Services, d.Services, d.Gone, ServiceKey, SortServices)
	case TopicSessions:
		s.Sessions = merge(s.Sessions, d.Sessions, d.Gone, SessionKey, SortSessions)
	case TopicStatus:
		s.Status = merge(s.Status, d.Status, d.Gone, StatusKey, SortStatus)
	case TopicLogs:
		s.Logs = tail(s.Logs, d.Logs)
	case TopicCalls:
		s.Calls = tail(s.Calls, d.Calls)
	}
}

func merge[T any](old, set []T, gone []string, key func(T) string, sort func([]T)) []T {
	touched := make(map[string]bool, len(set)+len(gone))
	for _, k := range gone {
		touched[k] = true
	}
	for _, r := range set {
		touched[key(r)] = true
	}
	rows := make([]T, 0, len(old)+len(set))
	for _, r := range old {
		if !touched[key(r)] {
			rows = append(rows, r)
		}
	}
	rows = append(rows, set...)
	sort(rows)
	return rows
}

func tail[T any](old, add []T) []T {
	all := append(slices.Clip(old), add...)
	return all[max(0, len(all)-keptLines):]
}
