package devserver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"shield/runtime/control"
	"shield/runtime/node"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// Eval runs Lua in a service of this process.
func (s *Server) Eval(ctx context.Context, e control.Eval) control.CallResult {
	n, err := s.on(e.Node)
	if err != nil {
		return failedCall(e.Node, e.Service, err)
	}
	began := time.Now()
	ev, served, err := n.Runtime().Eval(ctx, service.EvalRequest{
		Target: service.Target{Name: string(e.Service)}, Source: e.Source, Timeout: e.Timeout,
		Session: e.Session, Name: e.Name, Budget: e.Budget, ReadOnly: e.ReadOnly,
	})
	r := result(e.Node, e.Service, value.Payload{}, served, time.Since(began), err)
	r.ID, r.Output, r.Hint, r.Incomplete, r.Ended, r.Began = served.ID, ev.Output, ev.Hint, ev.Incomplete, ev.Ended, ev.Began
	if err != nil {
		return r
	}
	for i := range ev.Values.Len() {
		v := json.RawMessage("null")
		if ev.Plain[i] {
			v = value.AppendJSON(nil, ev.Values.At(i))
		}
		r.Values = append(r.Values, v)
	}
	r.Text = ev.Text
	return r
}

// lookTime is how long a service may keep a question for words waiting.
const lookTime = 300 * time.Millisecond

// Complete lists what could stand at the end of a line of Lua.
func (s *Server) Complete(ctx context.Context, c control.Complete) (control.Completion, error) {
	n, err := s.on(c.Node)
	if err != nil {
		return control.Completion{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	from, words, err := n.Runtime().Complete(ctx, service.Target{Name: string(c.Service)}, c.Session, c.Line)
	return control.Completion{From: from, Words: words}, err
}

// Inspect looks into one service.
func (s *Server) Inspect(ctx context.Context, r control.Inspect) (control.Inspection, error) {
	n, err := s.on(r.Node)
	if err != nil {
		return control.Inspection{}, err
	}
	in, err := n.Runtime().Inspect(ctx, service.InspectRequest{Target: service.Target{Name: string(r.Service)}, State: r.State, Session: r.Session})
	if err != nil {
		return control.Inspection{}, err
	}
	out := control.Inspection{
		Service: in.Row.Name, Names: in.Row.Names, Node: in.Row.Node, ID: in.Row.ID, State: in.Row.State,
		Generation: in.Row.Generation, Code: in.Row.Code, Files: in.Files, AgeMS: in.Age.Milliseconds(),
		Memory: in.Memory, Objects: in.Objects, Mailbox: in.Mailbox, MailboxAgeMS: in.MailboxAge.Milliseconds(), InFlight: in.InFlight,
		Calls: in.Row.Calls, Errors: in.Row.Errors, Restarts: in.Row.Restarts, Reason: in.Row.Reason,
	}
	if out.Files == nil && in.Script != "" {
		out.Files = []string{in.Script}
	}
	if st := in.Stuck; st != nil {
		out.Stuck = &control.StuckRow{Method: st.Method, Kind: st.Kind, ForMS: st.For.Milliseconds(), Stack: st.Stack}
	}
	for _, h := range in.Handled {
		out.Handlers = append(out.Handlers, control.HandlerRow{Method: h.Method, Count: h.Count, Errors: h.Errors, MeanMS: millis(h.Mean), MaxMS: millis(h.Longest)})
	}
	for _, t := range in.Tables {
		out.Tables = append(out.Tables, control.TableRow{Path: t.Path, Bytes: t.Bytes, Entries: t.Entries})
	}
	for _, t := range in.Timers {
		out.Timers = append(out.Timers, control.TimerRow{ID: t.ID, InMS: t.In.Milliseconds(), EveryMS: t.Every.Milliseconds(), Function: t.Function})
	}
	for _, p := range in.Waiting {
		out.Waiting = append(out.Waiting, waitRow(n, p))
	}
	for _, h := range in.State {
		out.Held = append(out.Held, control.HeldRow{Name: h.Name, Kind: h.Kind, Text: h.Text})
	}
	return out, nil
}

func waitRow(n *node.Node, p service.Parked) control.WaitRow {
	row := control.WaitRow{Node: n.ID(), Service: p.Name, ID: p.Service, Method: p.Method, What: p.What, Target: p.Target, Calls: p.Calls,
		ForMS: p.Since.Milliseconds(), Trace: p.Trace, Stack: p.Stack, Init: p.Init}
	if !p.To.IsZero() {
		row.To = p.To.String()
	}
	return row
}

// waitsTime is how long listing who waits may take on one node: services that
// are stuck are listed without their stacks then.
const waitsTime = time.Second

// Waits lists the handlers that wait on every node here, node by node, oldest
// first.
func (s *Server) Waits(ctx context.Context) ([]control.WaitRow, error) {
	ctx, cancel := context.WithTimeout(ctx, waitsTime)
	defer cancel()
	nodes := s.alive()
	all := make([][]control.WaitRow, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			for _, p := range n.Runtime().Waits(ctx) {
				all[i] = append(all[i], waitRow(n, p))
			}
		})
	}
	wg.Wait()
	var rows []control.WaitRow
	for _, of := range all {
		rows = append(rows, of...)
	}
	return rows, nil
}

// Why says which code the services of a name run, and since when.
func (s *Server) Why(name shield.Name) ([]control.WhyRow, error) {
	var rows []control.WhyRow
	for _, n := range s.alive() {
		for _, row := range n.Services() {
			if row.Code == "" || name != "" && !goesBy(row, name) {
				continue // in Go, or another
			}
			rows = append(rows, s.reload.history.why(row, s.startOf(n, row.ID)))
		}
	}
	return rows, nil
}

func goesBy(row shield.ServiceRow, name shield.Name) bool {
	if row.Name == name || row.Module == string(name) {
		return true
	}
	for _, n := range row.Names {
		if n == name {
			return true
		}
	}
	return false
}

// noteStarts remembers what a node's services began with.
func (s *Server) noteStarts(n *node.Node) {
	for _, row := range n.Services() {
		if row.Code != "" {
			s.reload.history.why(row, s.startOf(n, row.ID))
		}
	}
}

// startOf is when a service began and what it runs, for one whose code no
// reload has changed.
func (s *Server) startOf(n *node.Node, id shield.ServiceID) service.Started {
	st, err := n.Runtime().Started(id)
	if err != nil {
		return service.Started{Time: time.Now()} // it has ended since it was listed
	}
	return st
}

// markMixed marks rows of one name that run different code on different nodes.
func markMixed(rows []shield.ServiceRow) {
	code := map[shield.Name]string{}
	mixed := map[shield.Name]bool{}
	for _, r := range rows {
		if r.Code == "" || len(r.Names) == 0 {
			continue
		}
		if c, ok := code[r.Name]; ok && c != r.Code {
			mixed[r.Name] = true
		}
		code[r.Name] = r.Code
	}
	for i := range rows {
		rows[i].Mixed = mixed[rows[i].Name] && len(rows[i].Names) > 0
	}
}
