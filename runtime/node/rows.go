package node

import (
	"math"
	"reflect"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// Nodes lists the cluster as this node sees it, itself first.
func (n *Node) Nodes() []shield.NodeRow {
	if n.cluster == nil {
		return []shield.NodeRow{n.own(shield.NodeRow{
			Node: n.id, State: shield.Online, Epoch: n.Epoch(), Self: true,
		})}
	}
	rows := n.cluster.Nodes()
	for i := range rows {
		if rows[i].Self {
			rows[i] = n.own(rows[i])
		}
	}
	return rows
}

// own completes this node's own row with what only it knows.
func (n *Node) own(row shield.NodeRow) shield.NodeRow {
	s := n.summary()
	row.Intent = n.Intent()
	row.Gateways = s.Gateways
	row.Services = s.Services
	row.Sessions = s.Sessions
	row.CallsPerSecond = s.CallsPerSecond
	row.Uptime = time.Since(n.born).Milliseconds()
	return row
}

// summary is what peers' tools shall see of this node.
func (n *Node) summary() cluster.Info {
	i := cluster.Info{Gateways: []string{}, CallsPerSecond: math.Float64frombits(n.callRate.Load())}
	if s := n.Runtime(); s != nil {
		i.Services = s.Count()
	}
	for _, g := range n.gateways {
		i.Gateways = append(i.Gateways, g.Addrs()...)
		i.Sessions += g.Count()
	}
	return i
}

// Routes lists what this node knows: its own names and those it learnt.
func (n *Node) Routes() []shield.RouteRow {
	if n.cluster != nil {
		return n.cluster.Routes()
	}
	s := n.Runtime()
	if s == nil {
		return []shield.RouteRow{}
	}
	names, version := s.Names()
	rows := make([]shield.RouteRow, 0, len(names))
	for _, p := range names {
		rows = append(rows, shield.RouteRow{Node: n.id, Name: p.Name, Service: p.Handle.ID, Version: shield.RoutesVersion(version)})
	}
	return rows
}

// nameOf finds a name that h is published under.
func (n *Node) nameOf(h shield.Handle) (shield.Name, bool) {
	if h.Node == n.id {
		return n.Runtime().NameOf(h)
	}
	return n.names.find(h, n.Routes)
}

// Services lists this node's services with the sessions bound to each.
func (n *Node) Services() []shield.ServiceRow {
	s := n.Runtime()
	if s == nil {
		return []shield.ServiceRow{}
	}
	rows := s.Services()
	bound := map[shield.ServiceID]int{}
	for _, g := range n.gateways {
		g.CountTargets(func(h shield.Handle) {
			if h.Node == n.id {
				bound[h.ID]++
			}
		})
	}
	n.guests.count(bound)
	for i := range rows {
		rows[i].Sessions = bound[rows[i].ID]
	}
	return rows
}

// Sessions lists the sessions of this node's gateways.
func (n *Node) Sessions() []shield.SessionRow {
	rows := []shield.SessionRow{}
	for _, g := range n.gateways {
		rows = append(rows, g.Sessions()...)
	}
	return rows
}

// Session finds one session of this node's gateways, with its history.
func (n *Node) Session(id shield.SessionID) (shield.SessionRow, bool) {
	for _, g := range n.gateways {
		if row, ok := g.Session(id); ok {
			return row, true
		}
	}
	return shield.SessionRow{}, false
}

// Counters are the six of DESIGN.md 3.6; nil without a cluster.
func (n *Node) Counters() *shield.ClusterCounters {
	if n.cluster == nil {
		return nil
	}
	c := n.cluster.Counters()
	return &c
}

// Gateway is one gateway and what it counts.
type Gateway struct {
	ID        shield.GatewayID
	Addresses []string
	Sessions  int
	Counters  map[string]int64
}

// Gateways lists this node's gateways.
func (n *Node) Gateways() []Gateway {
	all := make([]Gateway, 0, len(n.gateways))
	for _, g := range n.gateways {
		all = append(all, Gateway{ID: g.ID(), Addresses: g.Addrs(), Sessions: g.Count(), Counters: g.Counters()})
	}
	return all
}

// Totals counts everything of this node that has no row: its services, what
// the cluster dropped, and what got lost on the way to sessions.
func (n *Node) Totals() map[string]int64 {
	var services service.Counters
	if s := n.Runtime(); s != nil {
		services = s.Counters()
	}
	all := totals(services)
	if n.cluster != nil {
		for k, v := range n.cluster.Drops() {
			all["cluster_"+k] = v
		}
	}
	all["pushes_lost"] = n.count.lostPushes.Load()
	all["session_frames_refused"] = n.count.refusedFrames.Load()
	return all
}

// totals gives counters under the names they have in JSON.
func totals(c service.Counters) map[string]int64 {
	v := reflect.ValueOf(c)
	all := make(map[string]int64, v.NumField()+8)
	for i := range v.NumField() {
		all[v.Type().Field(i).Tag.Get("json")] = v.Field(i).Int()
	}
	return all
}
