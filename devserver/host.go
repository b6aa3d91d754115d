package devserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shield/runtime/control"
	"shield/runtime/node"
	"shield/runtime/shield"
)

var _ control.Host = (*Server)(nil)

// Project says what runs here.
func (s *Server) Project() control.Project {
	p := control.Project{
		Name: s.cfg.Project.App.Name, Version: s.cfg.Version, Mode: s.cfg.Mode,
		PID: pid, Started: s.started, Dir: s.cfg.Project.Dir,
	}
	for _, m := range s.members {
		p.Nodes = append(p.Nodes, m.id)
	}
	return p
}

// member finds a node of this process.
func (s *Server) member(id shield.NodeID) (*member, error) {
	for _, m := range s.members {
		if m.id == id {
			return m, nil
		}
	}
	return nil, shield.Errorf(shield.NodeNotFound, "node %q does not run in this process", id) // control adds which do
}

// on finds a node of this process that runs.
func (s *Server) on(id shield.NodeID) (*node.Node, error) {
	m, err := s.member(id)
	if err != nil {
		return nil, err
	}
	n, ok := m.running()
	if !ok {
		return nil, shield.Errorf(shield.NodeOffline, "node %q is stopped; start it with `shield restart %s`", id, id)
	}
	return n, nil
}

// alive lists the nodes that run.
func (s *Server) alive() []*node.Node {
	var all []*node.Node
	for _, m := range s.members {
		if n, ok := m.running(); ok {
			all = append(all, n)
		}
	}
	return all
}

// Nodes gives the cluster as from sees it. Where that node is stopped, the first
// that runs answers in its place, so that the screen does not go blank with it.
func (s *Server) Nodes(from shield.NodeID) ([]shield.NodeRow, error) {
	n, err := s.on(from)
	if errors.Is(err, shield.NodeOffline) {
		if all := s.alive(); len(all) > 0 {
			n, err = all[0], nil
		} else {
			return s.stoppedRows(), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return s.markEnded(n.ID(), n.Nodes()), nil
}

// markEnded says of nodes that from still takes for online what this process
// knows: they were ended here.
func (s *Server) markEnded(from shield.NodeID, rows []shield.NodeRow) []shield.NodeRow {
	for i, r := range rows {
		m, err := s.member(r.Node)
		if err != nil || r.State != shield.Online {
			continue
		}
		if how := m.endedAs(); how != "" {
			rows[i].State, rows[i].Reason = shield.Suspect, fmt.Sprintf("%s; %s has not noticed yet", how, from)
		}
	}
	return rows
}

// stoppedRows show a process whose nodes have all been stopped.
func (s *Server) stoppedRows() []shield.NodeRow {
	var rows []shield.NodeRow
	for _, m := range s.members {
		rows = append(rows, shield.NodeRow{Node: m.id, State: shield.Offline, Address: m.addr, Gateways: []string{}, Reason: "stopped"})
	}
	return rows
}

// Routes gives what from knows.
func (s *Server) Routes(from shield.NodeID) ([]shield.RouteRow, error) {
	n, err := s.on(from)
	if errors.Is(err, shield.NodeOffline) {
		all := s.alive()
		if len(all) == 0 {
			return []shield.RouteRow{}, nil
		}
		n, err = all[0], nil
	}
	if err != nil {
		return nil, err
	}
	return n.Routes(), nil
}

// Services lists those of every node here.
func (s *Server) Services() ([]shield.ServiceRow, error) {
	rows := []shield.ServiceRow{}
	for _, n := range s.alive() {
		rows = append(rows, n.Services()...)
	}
	s.reload.mark(rows)
	markMixed(rows)
	return rows, nil
}

// Sessions lists those of every gateway here, with the code that serves them.
func (s *Server) Sessions() ([]shield.SessionRow, error) {
	rows := []shield.SessionRow{}
	for _, n := range s.alive() {
		rows = append(rows, n.Sessions()...)
	}
	if len(rows) > 0 {
		code := s.codes()
		for i := range rows {
			rows[i].Code = code[rows[i].Target]
		}
	}
	return rows, nil
}

// codes says which generation and hash serves each target.
func (s *Server) codes() map[string]string {
	code := map[string]string{}
	for _, n := range s.alive() {
		for _, row := range n.Services() {
			lens := fmt.Sprintf("%d %s", row.Generation, row.Code)
			for _, name := range row.Names {
				code[string(row.Node)+":"+string(name)] = lens
			}
			code[shield.Handle{Node: row.Node, ID: row.ID}.String()] = lens
		}
	}
	return code
}

// Session gives one session with its history.
func (s *Server) Session(id shield.SessionID) (shield.SessionRow, error) {
	for _, n := range s.alive() {
		if row, ok := n.Session(id); ok {
			row.Code = s.codes()[row.Target]
			return row, nil
		}
	}
	return shield.SessionRow{}, shield.Errorf(shield.SessionClosed, "no gateway here has a session %q", id) // control adds which there are
}

// Status gives what every node here counts.
func (s *Server) Status() ([]control.NodeStatus, error) {
	all := []control.NodeStatus{}
	for _, n := range s.alive() {
		st := control.NodeStatus{Gateway: []control.GatewayStatus{}, Counters: n.Totals()}
		nodes := n.Nodes()
		for _, row := range nodes {
			if row.Self || row.Node == n.ID() {
				st.NodeRow = row
			}
		}
		if c := n.Counters(); c != nil {
			st.Cluster = &control.ClusterStatus{ClusterCounters: c, Nodes: nodes}
		}
		for _, g := range n.Gateways() {
			st.Gateway = append(st.Gateway, control.GatewayStatus{Gateway: g.ID, Addresses: g.Addresses, Sessions: g.Sessions, Counters: g.Counters})
		}
		for _, row := range n.Services() {
			st.Memory += row.Memory
		}
		if shift := n.ClockShift(); shift != 0 {
			row := clockRow(n)
			st.Clock = &row
		}
		all = append(all, st)
	}
	return all, nil
}

func clockRow(n *node.Node) control.ClockRow {
	return control.ClockRow{Node: n.ID(), Time: n.Now(), Shift: n.ClockShift().Milliseconds()}
}

// Kick closes one session.
func (s *Server) Kick(_ context.Context, r control.KickRequest) error {
	for _, n := range s.alive() {
		if _, ok := n.Session(r.Session); ok {
			return n.Kick(r.Session, r.Reason)
		}
	}
	return shield.Errorf(shield.SessionClosed, "kick %s: no gateway here has that session; see `shield sessions`", r.Session)
}

// SetLogLevel changes what is logged from now on.
func (s *Server) SetLogLevel(r control.LogLevelRequest) error {
	if r.Node != "" {
		if _, err := s.member(r.Node); err != nil {
			return err
		}
	}
	if !s.cfg.Log.SetLevel(r.Level, r.Node, r.Service) {
		return shield.Errorf(shield.InvalidName, "log level %q: want debug, info, warn or error", r.Level)
	}
	return nil
}

// Clock gives every node's business clock.
func (s *Server) Clock() ([]control.ClockRow, error) {
	rows := []control.ClockRow{}
	for _, n := range s.alive() {
		rows = append(rows, clockRow(n))
	}
	return rows, nil
}

// SetClock moves the business clock of one node or of all.
func (s *Server) SetClock(r control.ClockRequest) error {
	nodes := s.alive()
	if r.Node != "" {
		n, err := s.on(r.Node)
		if err != nil {
			return err
		}
		nodes = []*node.Node{n}
	}
	shifts := make([]time.Duration, len(nodes))
	for i, n := range nodes {
		if !r.Reset {
			shifts[i] = n.ClockShift()
		}
		shifts[i] += time.Duration(r.Shift) * time.Millisecond // the control server keeps it small
		if shifts[i].Abs() > control.MaxShift {
			return shield.Errorf(shield.DecodeError, "the clock of %s would be moved by more than a hundred years; `shield clock reset` puts it right", n.ID())
		}
	}
	for i, n := range nodes {
		n.SetClockShift(shifts[i])
		s.log.Info("business clock moved", "service", "node", "node", string(n.ID()), "shift", n.ClockShift().String())
	}
	s.Changed(control.TopicStatus)
	return nil
}

// Logs is the ring of log rows.
func (s *Server) Logs() *control.Ring[shield.LogRow] { return s.cfg.Rows }

// Calls is the ring of finished calls.
func (s *Server) Calls() *control.Ring[shield.CallRow] { return s.calls }

// Healthy is nil while the process does its work.
func (s *Server) Healthy() error {
	select {
	case <-s.failed:
		return s.failErr
	default:
		return nil
	}
}

// Ready is nil while every node here wants traffic.
func (s *Server) Ready() error {
	if err := s.Healthy(); err != nil {
		return err
	}
	for _, m := range s.members {
		n, ok := m.running()
		if !ok {
			return shield.Errorf(shield.NodeOffline, "%s is stopped", m.id)
		}
		if n.Intent() == shield.Draining {
			return shield.Errorf(shield.RuntimeStopping, "%s is draining", m.id)
		}
	}
	return nil
}

// nodeChanged hears from the nodes that rows differ.
func (s *Server) nodeChanged(p node.Part) {
	if p == node.PartNodes {
		select {
		case s.nodesChanged <- struct{}{}:
		default:
		}
	}
	s.Changed(control.Topic(p))
}
