package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shield/runtime/config"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// Call calls a service as shield.call does, with the default call_timeout: by a
// name of this node, else "node:name". Runtime().Call has more to choose from.
func (n *Node) Call(ctx context.Context, target, method string, args ...any) (value.Payload, error) {
	s := n.Runtime()
	if s == nil {
		return value.Payload{}, shield.Errorf(shield.ServiceDead, "call %s: node %s has not been started", target, n.id)
	}
	payload, err := value.PayloadOf(args...)
	if err != nil {
		return value.Payload{}, err
	}
	values, _, err := s.Call(ctx, service.CallRequest{Target: service.Target{Name: target}, Method: method, Args: payload, From: "program"})
	return values, err
}

// Kick closes one session of this node's gateways.
func (n *Node) Kick(id shield.SessionID, reason string) error {
	for _, g := range n.gateways {
		if g.CloseSession(shield.ClientRef{Session: id}, reason) == nil {
			return nil
		}
	}
	return shield.Errorf(shield.SessionClosed, "kick %s: node %s has no such session", id, n.id)
}

// ClockShift is how far the business clock is from the wall clock.
func (n *Node) ClockShift() time.Duration { return time.Duration(n.shift.Load()) }

// SetClockShift moves the business clock: shield.now, os.time and os.date.
// Timers and deadlines never move.
func (n *Node) SetClockShift(d time.Duration) {
	n.shift.Store(int64(d))
	if s := n.Runtime(); s != nil {
		s.SetClockOffset(d)
	}
}

// Now is the business clock.
func (n *Node) Now() time.Time { return time.Now().Add(n.ClockShift()) }

// SetRoutes swaps the RPC routes of every gateway and of client_rpc, or of none.
func (n *Node) SetRoutes(t *shield.RPCTable) error {
	old := n.routes.Load()
	for i, g := range n.gateways {
		if err := g.SetRoutes(t); err != nil {
			for _, back := range n.gateways[:i] {
				err = errors.Join(err, back.SetRoutes(old))
			}
			return err
		}
	}
	n.routes.Store(t)
	return nil
}

// Respec makes the services of p this node's: only those that differ start
// afresh.
func (n *Node) Respec(ctx context.Context, p *config.Config) (service.Respecced, error) {
	d, err := n.Runtime().Respec(ctx, append(slices.Clone(n.cfg.Services), specsOf(p, n.id)...))
	if err == nil {
		n.project.Store(p)
	}
	n.changed(PartServices)
	return d, err
}

// RPCRoutes is the table of this moment.
func (n *Node) RPCRoutes() *shield.RPCTable { return n.routes.Load() }

// CheckHandlers finds routes of rpc.yaml whose handler is missing in the script
// that must have it, all at once.
func (n *Node) CheckHandlers(routes []config.Route) error {
	scripts := map[shield.Name]string{} // of the services that this node runs; others are for their own nodes to check
	for _, s := range n.project.Load().ServicesOn(n.id) {
		scripts[s.Name] = s.Script
	}
	methods := map[shield.Name][]string{}
	var problems config.Problems
	for _, r := range routes {
		if r.Dir != shield.ClientToServer || scripts[r.Service] == "" {
			continue
		}
		of, ok := methods[r.Service]
		if !ok {
			var err error
			if of, err = n.Runtime().ModuleMethods(r.Service); err != nil {
				return fmt.Errorf("look for the handlers of rpc.yaml in %s: %w", scripts[r.Service], err)
			}
			methods[r.Service] = of
		}
		if p, missing := r.Missing(scripts[r.Service], of); missing {
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}
