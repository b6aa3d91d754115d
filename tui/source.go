package tui

import (
	"context"
	"errors"
	"time"

	"shield/runtime/shield"
)

// Source is where the console's data comes from: the control API or a
// recording.
type Source interface {
	// Watch attaches and calls emit, from one goroutine, with a Snapshot first
	// and then with numbered Deltas. It returns when ctx ends or the stream
	// breaks; the error says why in words for a person. ErrLagged asks for a
	// fresh Watch at once, ErrEnd says that nothing more will come, ever. What
	// it hands to emit is not touched again.
	Watch(ctx context.Context, emit func(Event)) error
}

// ErrLagged is returned by Watch when the reader fell behind and has to start
// again from a snapshot.
var ErrLagged = errors.New("the stream ran ahead of its reader")

// ErrEnd is returned by Watch when the source is over: a recording was played
// to its end.
var ErrEnd = errors.New("end of the recording")

// Event is one step of a watch: exactly one of Snapshot, Delta, Lagged and
// Trouble. A Delta's Seq is that of the Snapshot or Delta before plus one.
type Event struct {
	Seq      uint64    `json:"seq"`
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Delta    *Delta    `json:"delta,omitempty"`
	Lagged   bool      `json:"lagged,omitempty"`  // deltas are missing; a Snapshot follows
	Trouble  string    `json:"trouble,omitempty"` // some rows can't be had for now, and why
}

// Snapshot is the whole state at one moment.
type Snapshot struct {
	App      string              `json:"app"`
	Mode     string              `json:"mode"` // dev, run
	Version  string              `json:"version,omitempty"`
	Endpoint string              `json:"endpoint,omitempty"`
	UptimeMS int64               `json:"uptime_ms,omitempty"`
	Nodes    []shield.NodeRow    `json:"nodes"`
	Routes   []shield.RouteRow   `json:"routes"`
	Services []shield.ServiceRow `json:"services"`
	Sessions []shield.SessionRow `json:"sessions"`
	Calls    []shield.CallRow    `json:"calls,omitempty"` // the recent ones, oldest first
	Logs     []shield.LogRow     `json:"logs,omitempty"`  // the recent ones, oldest first
}

// Delta is what changed since the event before. Rows replace the row of the
// same key; Gone lists keys (see the Key functions) of rows that are no more.
type Delta struct {
	Nodes        []shield.NodeRow    `json:"nodes,omitempty"`
	Routes       []shield.RouteRow   `json:"routes,omitempty"`
	Services     []shield.ServiceRow `json:"services,omitempty"`
	Sessions     []shield.SessionRow `json:"sessions,omitempty"`
	Calls        []shield.CallRow    `json:"calls,omitempty"`
	Logs         []shield.LogRow     `json:"logs,omitempty"`
	GoneNodes    []string            `json:"gone_nodes,omitempty"`
	GoneRoutes   []string            `json:"gone_routes,omitempty"`
	GoneServices []string            `json:"gone_services,omitempty"`
	GoneSessions []string            `json:"gone_sessions,omitempty"`
	LogsDropped  int64               `json:"logs_dropped,omitempty"` // lines that never reached us
	CallsDropped int64               `json:"calls_dropped,omitempty"`
}

// NodeKey is the key of a node's row. A peer that has not told its id yet is
// told apart by the address it is dialled at.
func NodeKey(r *shield.NodeRow) string {
	if r.Node == "" {
		return r.Address
	}
	return string(r.Node)
}

// RouteKey is the key of a route's row.
func RouteKey(r *shield.RouteRow) string { return string(r.Node) + ":" + string(r.Name) }

// ServiceKey is the key of a service's row.
func ServiceKey(r *shield.ServiceRow) string {
	return shield.Handle{Node: r.Node, ID: r.ID}.String()
}

// SessionKey is the key of a session's row.
func SessionKey(r *shield.SessionRow) string { return string(r.Session) }

// Commander carries out what a person asked for: the CLI's own verbs.
type Commander interface {
	// Verbs lists what Do understands: call, eval, reload, kick, drain, ...
	Verbs() []string
	// Do runs one verb. It respects ctx; the result is text for a person, one
	// line or many.
	Do(ctx context.Context, verb string, args []string) (string, error)
}

// Reply is how long the console waits for a verb before it says so.
const Reply = 10 * time.Second
