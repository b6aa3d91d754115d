package cluster

import (
	"cmp"
	"slices"
	"sync"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// table is this node's own table of published names, and the links that hear of
// its changes. Frames are queued under its lock, so that every link sees the
// versions in order.
type table struct {
	mu      sync.Mutex
	version shield.RoutesVersion
	byName  map[shield.Name]shield.ServiceID
	hidden  bool // draining: peers are shown an empty table
	conns   map[*conn]struct{}
}

func (t *table) init() {
	t.version = 1
	t.byName = map[shield.Name]shield.ServiceID{}
	t.conns = map[*conn]struct{}{}
}

// Publish makes name known to every peer, at once.
func (c *Cluster) Publish(name shield.Name, id shield.ServiceID) {
	if !c.publish(name, id) {
		c.civil.error(c.log, "names", "too many published names: this one stays unknown to other nodes", "name", string(name), "limit", wire.MaxRoutes)
	}
}

// publish reports false when the table is full.
func (c *Cluster) publish(name shield.Name, id shield.ServiceID) bool {
	t := &c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.byName[name]
	switch {
	case known && old == id:
		return true
	case !known && len(t.byName) >= wire.MaxRoutes:
		return false
	}
	t.byName[name] = id
	c.tableChanged(wire.Route{Name: name, ID: id})
	return true
}

// Withdraw takes name back, at once.
func (c *Cluster) Withdraw(name shield.Name) {
	t := &c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byName[name]; !ok {
		return
	}
	delete(t.byName, name)
	c.tableChanged(wire.Route{Name: name})
}

// tableChanged tells every link of one change. The caller holds the lock.
func (c *Cluster) tableChanged(r wire.Route) {
	t := &c.table
	if t.hidden {
		return
	}
	from := t.version
	t.version++
	var change, whole []byte
	for cn := range t.conns {
		if cn.features&wire.FeatureRouteChange == 0 {
			if whole == nil {
				whole = wire.AppendRoutes(nil, c.Epoch(), t.version, t.list())
			}
			_ = cn.write(Data, whole) // counted; the heartbeats repair it
			continue
		}
		if change == nil {
			change = wire.AppendRouteChange(nil, &wire.RouteChange{
				Epoch: c.Epoch(), From: from, To: t.version, Routes: []wire.Route{r}})
		}
		_ = cn.write(Data, change) // likewise
	}
}

// hide shows peers an empty table from now on.
func (c *Cluster) hideTable() {
	t := &c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hidden {
		return
	}
	t.hidden = true
	t.version++
	frames := wire.AppendRoutes(nil, c.Epoch(), t.version, nil)
	for cn := range t.conns {
		_ = cn.write(Data, frames) // counted; the heartbeats repair it
	}
}

// join makes cn hear of changes, after the whole table.
func (c *Cluster) joinTable(cn *conn) {
	t := &c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[cn] = struct{}{}
	_ = cn.write(Data, wire.AppendRoutes(nil, c.Epoch(), t.version, t.list()))
}

func (c *Cluster) leaveTable(cn *conn) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	delete(c.table.conns, cn)
}

// repair sends the whole table on the control stream when the peer has been
// behind since its heartbeat before.
func (c *Cluster) repair(cn *conn, held shield.RoutesVersion) {
	t := &c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if held < cn.mark {
		c.stats.count(dropRepaired)
		_ = cn.write(Control, wire.AppendRoutes(nil, c.Epoch(), t.version, t.list()))
	}
	cn.mark = t.version
}

func (t *table) current() shield.RoutesVersion {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// list is the table as peers are shown it, sorted.
func (t *table) list() []wire.Route {
	if t.hidden {
		return nil
	}
	list := make([]wire.Route, 0, len(t.byName))
	for n, id := range t.byName {
		list = append(list, wire.Route{Name: n, ID: id})
	}
	slices.SortFunc(list, func(a, b wire.Route) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
