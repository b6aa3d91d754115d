package devserver

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"shield/runtime/control"
	"shield/runtime/node"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

var pid = os.Getpid()

// via finds who makes a call to a node: that node itself, or the first of this
// process for a node that is elsewhere. target is how the caller says it.
func (s *Server) via(id shield.NodeID, name shield.Name) (n *node.Node, target string, err error) {
	if _, err := s.member(id); err == nil {
		n, err := s.on(id)
		return n, string(name), err
	}
	for _, n := range s.alive() {
		return n, string(id) + ":" + string(name), nil
	}
	return nil, "", shield.Errorf(shield.NodeOffline, "no node of this process runs")
}

// Call makes one call for a tool.
func (s *Server) Call(ctx context.Context, c control.Call) control.CallResult {
	var args value.Payload
	for _, raw := range c.Args {
		v, err := value.ParseJSON(raw)
		if err != nil {
			return failedCall(c.Node, c.Service, err)
		}
		args.Add(v)
	}
	n, target, err := s.via(c.Node, c.Service)
	if err != nil {
		return failedCall(c.Node, c.Service, err)
	}
	began := time.Now()
	values, served, err := n.Runtime().Call(ctx, service.CallRequest{
		Target: service.Target{Name: target}, Method: c.Method, Args: args, Timeout: c.Timeout,
	})
	return result(c.Node, c.Service, values, served, time.Since(began), err)
}

func failedCall(id shield.NodeID, name shield.Name, err error) control.CallResult {
	return control.CallResult{Node: id, Service: name, Error: control.MakeError(err, shield.HandlerError)}
}

// result prints what a call returned.
func result(id shield.NodeID, name shield.Name, values value.Payload, served service.Served, took time.Duration, err error) control.CallResult {
	r := control.CallResult{
		OK: err == nil, Node: id, Service: name, Generation: served.Generation, Code: served.Code,
		MS: float64(took.Microseconds()) / 1000, Trace: served.Trace,
	}
	if served.Node != "" {
		r.Node = served.Node
	}
	if served.Service != "" {
		r.Service = served.Service
	}
	if err != nil {
		r.Error = control.MakeError(err, shield.HandlerError)
		return r
	}
	r.Values = make([]json.RawMessage, 0, values.Len())
	for i := range values.Len() {
		r.Values = append(r.Values, value.AppendJSON(nil, values.At(i)))
	}
	return r
}

// Methods lists what may be called on a service of a node of this process.
func (s *Server) Methods(ctx context.Context, id shield.NodeID, name shield.Name) ([]string, error) {
	n, err := s.on(id)
	if err != nil {
		return nil, err
	}
	return n.Runtime().Methods(ctx, name)
}

// Drain takes one node out of service: routing first, then its services finish,
// then it ends.
func (s *Server) Drain(ctx context.Context, r control.DrainRequest) (shield.NodeRow, error) {
	return s.drainNode(ctx, r.Node, "drain")
}

// drainNode drains and ends a node; verb is what the caller asked for.
func (s *Server) drainNode(ctx context.Context, id shield.NodeID, verb string) (shield.NodeRow, error) {
	m, err := s.member(id)
	if err != nil {
		return shield.NodeRow{}, err
	}
	n, ok := m.running()
	if !ok {
		return shield.NodeRow{}, shield.Errorf(shield.NodeOffline, "%s %s: it is stopped already; start it with `shield restart %s`", verb, id, id)
	}
	if n.Intent() == shield.Draining {
		return shield.NodeRow{}, shield.Errorf(shield.RuntimeStopping, "%s %s: it is draining already", verb, id)
	}
	drain, stop := s.Budget()
	dctx, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	if err := m.drain(dctx); err != nil {
		s.log.Warn("drain cut short", "service", "node", "node", string(id), "err", err)
	}
	sctx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), stop)
	defer cancelStop()
	if err := m.stop(sctx); err != nil {
		return shield.NodeRow{}, err
	}
	s.afterStop(m, "drained")
	return s.row(id), nil
}

// Budget is how long draining and stopping may take; in dev nobody waits long.
func (s *Server) Budget() (drain, stop time.Duration) {
	if s.cfg.Mode == control.ModeDev {
		return 2 * time.Second, time.Second
	}
	return s.cfg.Project.Shutdown.Drain, s.cfg.Project.Shutdown.Stop
}

// afterStop tells everybody, and ends a process that was made of this node.
func (s *Server) afterStop(m *member, how string) {
	s.log.Info(string(m.id)+" is "+how, "service", "node", "node", string(m.id), "event", "state")
	s.nodeChanged(node.PartNodes)
	s.nodeChanged(node.PartServices)
	s.nodeChanged(node.PartSessions)
	if s.cfg.Mode == control.ModeRun {
		s.fail(nil)
	}
}

// Node stops, kills or restarts one node of `shield dev`.
func (s *Server) Node(ctx context.Context, r control.NodeRequest) (shield.NodeRow, error) {
	if s.cfg.Mode != control.ModeDev {
		return shield.NodeRow{}, shield.Errorf(shield.PermissionDenied, "%s %s: only `shield dev` does that to its nodes; use `shield drain %s`, or stop the process", r.Action, r.Node, r.Node)
	}
	m, err := s.member(r.Node)
	if err != nil {
		return shield.NodeRow{}, err
	}
	_, stop := s.Budget()
	switch r.Action {
	case control.NodeStop:
		_, err = s.drainNode(ctx, r.Node, "stop")
	case control.NodeKill:
		if err = m.kill(); err == nil {
			s.afterStop(m, "killed")
		}
	case control.NodeRestart:
		err = m.restart(ctx, stop)
		s.nodeChanged(node.PartNodes)
	default:
		err = shield.Errorf(shield.InvalidMethod, "node action %q: want stop, kill or restart", r.Action)
	}
	if err != nil {
		return shield.NodeRow{}, err
	}
	return s.row(r.Node), nil
}

// row is one node as it sees itself, else as the first that runs sees it.
func (s *Server) row(id shield.NodeID) shield.NodeRow {
	rows := s.stoppedRows()
	if n, err := s.on(id); err == nil {
		rows = n.Nodes()
	} else if all := s.alive(); len(all) > 0 {
		rows = all[0].Nodes()
	}
	for _, r := range rows {
		if r.Node != id {
			continue
		}
		if m, err := s.member(id); err == nil && m.endedAs() != "" {
			r.State, r.Reason = shield.Offline, m.endedAs()
		}
		return r
	}
	return shield.NodeRow{Node: id, State: shield.Offline, Gateways: []string{}}
}
