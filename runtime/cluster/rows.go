package cluster

import (
	"cmp"
	"slices"
	"time"

	"shield/runtime/shield"
)

// view is a member as the owner last published it.
type view struct {
	id      shield.NodeID
	epoch   shield.NodeEpoch
	address string
	state   shield.NodeState
	reason  string
}

func (c *Cluster) publishViews() {
	views := make([]view, 0, len(c.own.members.all))
	for _, m := range c.own.members.all {
		v := view{m.id, m.epoch, m.address, m.state, m.reason}
		if m.id == "" {
			// A placeholder goes by its address (DESIGN.md 3.2).
			v.id = shield.NodeID(m.address)
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b view) int { return cmp.Compare(a.id, b.id) })
	c.views.Store(&views)
}

// Nodes lists this node first, then every other by id.
func (c *Cluster) Nodes() []shield.NodeRow {
	views := *c.views.Load()
	rows := make([]shield.NodeRow, 0, 1+len(views))
	rows = append(rows, c.selfRow())
	for i := range views {
		rows = append(rows, c.peerRow(&views[i]))
	}
	return rows
}

func (c *Cluster) selfRow() shield.NodeRow {
	info := c.info.Load()
	return shield.NodeRow{
		Node: c.cfg.Node, State: shield.Online, Intent: intent(c.draining.Load()), Epoch: c.Epoch(),
		Address: c.cfg.Advertise, Gateways: nonNil(info.Gateways), Services: info.Services, Sessions: info.Sessions,
		RoutesVersion: c.table.current(), Self: true, Uptime: c.now().Milliseconds(), CallsPerSecond: info.CallsPerSecond,
	}
}

func (c *Cluster) peerRow(v *view) shield.NodeRow {
	row := shield.NodeRow{Node: v.id, State: v.state, Intent: shield.Serving, Epoch: v.epoch, Address: v.address, Reason: v.reason, Gateways: []string{}}
	p := c.peer(v.id)
	if p == nil {
		return row
	}
	p.mu.RLock()
	cn := p.conn
	row.RoutesVersion = p.names.version
	p.mu.RUnlock()
	if cn == nil {
		return row
	}
	row.Intent = intent(cn.draining.Load())
	if gw := cn.gateways.Load(); gw != nil {
		row.Gateways = nonNil(*gw)
	}
	skew := cn.skew.Milliseconds()
	row.ClockSkew = &skew
	st := cn.link.Stats()
	row.RTTMicros = st.RTT.Microseconds()
	if st.PacketsSent > 0 {
		row.LossPercent = 100 * float64(st.PacketsLost) / float64(st.PacketsSent)
	}
	h := cn.beat.Load()
	if h == nil {
		return row
	}
	at := time.Duration(cn.beatAt.Load())
	last, age := at.Milliseconds(), (c.now() - at).Milliseconds()
	row.LastHeartbeat, row.HeartbeatAge = &last, &age
	row.Services, row.Sessions = int(h.Services), int(h.Sessions)
	row.CallsPerSecond = float64(h.Calls) / 100
	row.Uptime = h.Uptime.Milliseconds() + age
	row.RoutesBehind = h.Version > row.RoutesVersion
	return row
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return slices.Clone(list)
}

func intent(draining bool) shield.Intent {
	if draining {
		return shield.Draining
	}
	return shield.Serving
}

// Routes lists every published name that is known, this node's included, by node
// and name.
func (c *Cluster) Routes() []shield.RouteRow {
	var rows []shield.RouteRow
	c.table.mu.Lock()
	for _, r := range c.table.list() {
		rows = append(rows, shield.RouteRow{Node: c.cfg.Node, Name: r.Name, Service: r.ID, Version: c.table.version})
	}
	c.table.mu.Unlock()
	for id, p := range *c.peers.Load() {
		p.mu.RLock()
		if p.state == shield.Online || p.state == shield.Suspect {
			for name, service := range p.names.byName {
				rows = append(rows, shield.RouteRow{Node: id, Name: name, Service: service, Version: p.names.version})
			}
		}
		p.mu.RUnlock()
	}
	slices.SortFunc(rows, func(a, b shield.RouteRow) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// Published lists what online peers publish under names that match, by node and
// name. This node's own names are not among them.
func (c *Cluster) Published(match func(shield.Name) bool) []shield.Published {
	var rows []shield.Published
	for id, p := range *c.peers.Load() {
		p.mu.RLock()
		if p.reachable() == nil && !p.conn.draining.Load() {
			for name, service := range p.names.byName {
				if match(name) {
					rows = append(rows, shield.Published{Node: id, Name: name, Handle: shield.Handle{Node: id, Epoch: p.epoch, ID: service}})
				}
			}
		}
		p.mu.RUnlock()
	}
	slices.SortFunc(rows, func(a, b shield.Published) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return rows
}
