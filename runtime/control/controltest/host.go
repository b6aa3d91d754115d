// Package controltest has a control.Host made of rows that a test sets, for the
// tests of whatever talks to the control API. It keeps no goroutines.
package controltest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// Host answers from its rows. Set changes them under its lock and tells
// watchers.
type Host struct {
	control.Notifier

	mu       sync.Mutex
	rows     Rows
	logs     *control.Ring[shield.LogRow]
	calls    *control.Ring[shield.CallRow]
	requests []any
	reads    int
}

// Rows is what a Host answers with.
type Rows struct {
	Project  control.Project
	Nodes    []shield.NodeRow
	Routes   []shield.RouteRow
	Services []shield.ServiceRow
	Sessions []shield.SessionRow
	Status   []control.NodeStatus
	Methods  map[string][]string // by "node:name"
	Clock    []control.ClockRow
	Call     func(ctx context.Context, c control.Call) control.CallResult
	Eval     func(ctx context.Context, e control.Eval) control.CallResult
	Complete func(c control.Complete) (control.Completion, error)
	Inspect  func(r control.Inspect) (control.Inspection, error)
	Waits    []control.WaitRow
	Why      []control.WhyRow
	Reload   func(r control.ReloadRequest) (control.ReloadResult, error)
	Healthy  error
	Ready    error
	Err      error // of every reading method
}

// Three is a project of three nodes: room.public on node-2 and node-3, auth on
// node-1, one session.
func Three() Rows {
	age := int64(120)
	rows := Rows{
		Project: control.Project{Name: "arena", Version: "0.1.0", Mode: control.ModeDev, PID: 4711,
			Started: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), Dir: "arena",
			Nodes: []shield.NodeID{"node-1", "node-2", "node-3"}},
		Routes: []shield.RouteRow{
			{Node: "node-1", Name: "auth", Service: 1, Version: 3},
			{Node: "node-2", Name: "room.public", Service: 4, Version: 5},
			{Node: "node-2", Name: "players", Service: 2, Version: 5},
			{Node: "node-3", Name: "room.public", Service: 4, Version: 5},
		},
		Sessions: []shield.SessionRow{{Session: "s-1", Player: "ann", Epoch: 1, Target: "node-2:players", Gateway: "node-1:main",
			State: shield.SessionBound, Address: "127.0.0.1:5000", Transport: "tcp"}},
		Methods: map[string][]string{"node-1:auth": {"login"}, "node-2:room.public": {"ping", "join"}, "node-3:room.public": {"ping", "join"}},
	}
	for i, n := range rows.Project.Nodes {
		row := shield.NodeRow{Node: n, State: shield.Online, Intent: shield.Serving, Epoch: shield.NodeEpoch(100 + i),
			Address: "127.0.0.1:9000", Gateways: []string{}, Services: 1, RoutesVersion: 5, HeartbeatAge: &age, LastHeartbeat: &age}
		rows.Nodes = append(rows.Nodes, row)
		rows.Status = append(rows.Status, control.NodeStatus{NodeRow: row, Counters: map[string]int64{"calls": 7},
			Cluster: &control.ClusterStatus{ClusterCounters: &shield.ClusterCounters{Connections: 2}, Nodes: []shield.NodeRow{row}}})
		rows.Clock = append(rows.Clock, control.ClockRow{Node: n, Time: rows.Project.Started})
	}
	rows.Nodes[0].Gateways = []string{"tcp://127.0.0.1:7001"}
	for _, r := range rows.Routes {
		rows.Services = append(rows.Services, shield.ServiceRow{Name: r.Name, Names: []shield.Name{r.Name}, Node: r.Node, ID: r.Service,
			State: shield.Running, Generation: 1, Code: "a41f9c", Module: string(r.Name)})
	}
	return rows
}

// New makes a Host.
func New(rows Rows) *Host {
	return &Host{rows: rows,
		logs:  control.NewRing(1000, func(r *shield.LogRow, seq uint64) { r.Seq = seq }),
		calls: control.NewRing[shield.CallRow](1000, nil)}
}

// Set changes the rows and says that topics changed in a notable way; no topics
// means that only counters did.
func (h *Host) Set(change func(*Rows), topics ...control.Topic) {
	h.mu.Lock()
	change(&h.rows)
	h.mu.Unlock()
	for _, t := range topics {
		h.Changed(t)
	}
}

// Requests lists what was asked of the host so far, in order.
func (h *Host) Requests() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Reads counts the calls of reading methods.
func (h *Host) Reads() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reads
}

func read[T any](h *Host, pick func(*Rows) T) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return pick(&h.rows), h.rows.Err
}

func act[T any](h *Host, request any, pick func(*Rows) T) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, request)
	return pick(&h.rows)
}

func (h *Host) Project() control.Project {
	p, _ := read(h, func(r *Rows) control.Project { return r.Project })
	return p
}

func (h *Host) Nodes(shield.NodeID) ([]shield.NodeRow, error) {
	return read(h, func(r *Rows) []shield.NodeRow { return slices.Clone(r.Nodes) })
}

func (h *Host) Routes(shield.NodeID) ([]shield.RouteRow, error) {
	return read(h, func(r *Rows) []shield.RouteRow { return slices.Clone(r.Routes) })
}

func (h *Host) Services() ([]shield.ServiceRow, error) {
	return read(h, func(r *Rows) []shield.ServiceRow { return slices.Clone(r.Services) })
}

func (h *Host) Sessions() ([]shield.SessionRow, error) {
	return read(h, func(r *Rows) []shield.SessionRow { return slices.Clone(r.Sessions) })
}

func (h *Host) Session(id shield.SessionID) (shield.SessionRow, error) {
	rows, err := h.Sessions()
	for _, r := range rows {
		if r.Session == id {
			return r, err
		}
	}
	return shield.SessionRow{}, shield.Errorf(shield.SessionClosed, "no session %q", id)
}

func (h *Host) Status() ([]control.NodeStatus, error) {
	return read(h, func(r *Rows) []control.NodeStatus { return slices.Clone(r.Status) })
}

func (h *Host) Methods(_ context.Context, node shield.NodeID, name shield.Name) ([]string, error) {
	all, err := read(h, func(r *Rows) map[string][]string { return r.Methods })
	names, ok := all[string(node)+":"+string(name)]
	if !ok {
		return nil, shield.Errorf(shield.ServiceNotFound, "%s does not publish %q", node, name)
	}
	return slices.Clone(names), err
}

// Call is the Rows' Call, else it answers with the arguments it got. Unknown
// nodes, services and methods fail as a cluster would let them.
func (h *Host) Call(ctx context.Context, c control.Call) control.CallResult {
	rows := act(h, c, func(r *Rows) Rows { return *r })
	fail := func(code shield.Code, format string, args ...any) control.CallResult {
		return control.CallResult{Error: control.MakeError(shield.Errorf(code, format, args...), code)}
	}
	if !slices.ContainsFunc(rows.Nodes, func(r shield.NodeRow) bool { return r.Node == c.Node }) {
		return fail(shield.NodeNotFound, "no node %q", c.Node)
	}
	methods, ok := rows.Methods[string(c.Node)+":"+string(c.Service)]
	if !ok {
		return fail(shield.ServiceNotFound, "%s does not publish %q", c.Node, c.Service)
	}
	if !slices.Contains(methods, c.Method) {
		return fail(shield.MethodNotFound, "%s has no method %q", c.Service, c.Method)
	}
	if rows.Call != nil {
		return rows.Call(ctx, c)
	}
	return control.CallResult{OK: true, Values: c.Args, Generation: 1, Code: "a41f9c", MS: 0.4, Trace: 0xabc}
}

func (h *Host) Eval(ctx context.Context, e control.Eval) control.CallResult {
	eval := act(h, e, func(r *Rows) func(context.Context, control.Eval) control.CallResult { return r.Eval })
	if eval != nil {
		return eval(ctx, e)
	}
	b, err := json.Marshal(e.Source)
	if err != nil {
		return control.CallResult{Error: control.MakeError(err, shield.EncodeFailed)}
	}
	return control.CallResult{OK: true, Values: []json.RawMessage{b}, Generation: 1, Code: "a41f9c"}
}

func (h *Host) Complete(_ context.Context, c control.Complete) (control.Completion, error) {
	complete, err := read(h, func(r *Rows) func(control.Complete) (control.Completion, error) { return r.Complete })
	if complete == nil {
		return control.Completion{From: len(c.Line)}, err
	}
	return complete(c)
}

func (h *Host) Inspect(_ context.Context, r control.Inspect) (control.Inspection, error) {
	inspect, err := read(h, func(r *Rows) func(control.Inspect) (control.Inspection, error) { return r.Inspect })
	if inspect == nil {
		return control.Inspection{Node: r.Node, Service: r.Service}, err
	}
	return inspect(r)
}

func (h *Host) Waits(context.Context) ([]control.WaitRow, error) {
	return read(h, func(r *Rows) []control.WaitRow { return slices.Clone(r.Waits) })
}

func (h *Host) Why(name shield.Name) ([]control.WhyRow, error) {
	return read(h, func(r *Rows) []control.WhyRow {
		return slices.DeleteFunc(slices.Clone(r.Why), func(w control.WhyRow) bool { return name != "" && w.Service != name })
	})
}

func (h *Host) Reload(_ context.Context, r control.ReloadRequest) (control.ReloadResult, error) {
	reload := act(h, r, func(r *Rows) func(control.ReloadRequest) (control.ReloadResult, error) { return r.Reload })
	if reload != nil {
		return reload(r)
	}
	return control.ReloadResult{OK: true}, nil
}

func (h *Host) node(id shield.NodeID) (shield.NodeRow, error) {
	rows, err := h.Nodes("")
	for _, r := range rows {
		if r.Node == id {
			return r, err
		}
	}
	return shield.NodeRow{}, shield.Errorf(shield.NodeNotFound, "no node %q", id)
}

func (h *Host) Drain(_ context.Context, r control.DrainRequest) (shield.NodeRow, error) {
	act(h, r, func(*Rows) int { return 0 })
	row, err := h.node(r.Node)
	row.Intent = shield.Draining
	return row, err
}

func (h *Host) Node(_ context.Context, r control.NodeRequest) (shield.NodeRow, error) {
	act(h, r, func(*Rows) int { return 0 })
	return h.node(r.Node)
}

func (h *Host) Kick(_ context.Context, r control.KickRequest) error {
	act(h, r, func(*Rows) int { return 0 })
	return nil
}

func (h *Host) SetLogLevel(r control.LogLevelRequest) error {
	act(h, r, func(*Rows) int { return 0 })
	return nil
}

func (h *Host) Clock() ([]control.ClockRow, error) {
	return read(h, func(r *Rows) []control.ClockRow { return slices.Clone(r.Clock) })
}

func (h *Host) SetClock(r control.ClockRequest) error {
	act(h, r, func(rows *Rows) int {
		rows.Clock = slices.Clone(rows.Clock)
		for i := range rows.Clock {
			rows.Clock[i].Shift += r.Shift
		}
		return 0
	})
	return nil
}

func (h *Host) Logs() *control.Ring[shield.LogRow]   { return h.logs }
func (h *Host) Calls() *control.Ring[shield.CallRow] { return h.calls }

func (h *Host) Healthy() error {
	err, _ := read(h, func(r *Rows) error { return r.Healthy })
	return err
}

func (h *Host) Ready() error {
	err, _ := read(h, func(r *Rows) error { return r.Ready })
	return err
}
