package control

import (
	"reflect"
	"slices"

	"shield/runtime/shield"
)

// table remembers which rows of one topic a watcher was sent, and tells what is
// different now.
type table[T any] struct {
	topic Topic
	load  func() ([]T, error)
	key   func(T) string
	sort  func([]T)
	// still cuts a row down to what a person waits for: while that is equal, a
	// change is merely counted. ageless clears what changes by itself.
	still   func(T) T
	ageless func(*T)
	inSnap  func(*Snapshot) *[]T
	inDelta func(*Delta) *[]T

	sent map[string]T
	rows map[string]bool // keys whose counted changes are wanted; nil = all
}

// tracker is a table whatever its rows are.
type tracker interface {
	name() Topic
	snapshot(*Snapshot) error
	// delta gives what changed since the last snapshot or delta, nil for
	// nothing. With onlyNotable, counted changes stay unsent for a later delta.
	delta(onlyNotable bool) (*Delta, error)
}

func (t *table[T]) name() Topic { return t.topic }

func (t *table[T]) snapshot(s *Snapshot) error {
	rows, err := t.load()
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []T{} // asked for and empty is not the same as not asked for
	}
	t.sort(rows)
	t.sent = make(map[string]T, len(rows))
	for _, r := range rows {
		t.sent[t.key(r)] = r
	}
	*t.inSnap(s) = rows
	return nil
}

func (t *table[T]) delta(onlyNotable bool) (*Delta, error) {
	rows, err := t.load()
	if err != nil {
		return nil, err
	}
	d := &Delta{Topic: t.topic}
	var set []T
	seen := make(map[string]bool, len(rows))
	for _, r := range rows {
		k := t.key(r)
		seen[k] = true
		send, notable := t.changed(k, r, onlyNotable)
		if send {
			set = append(set, r)
			t.sent[k] = r
		}
		d.Notable = d.Notable || notable
	}
	for k := range t.sent {
		if !seen[k] {
			delete(t.sent, k)
			d.Gone = append(d.Gone, k)
			d.Notable = true
		}
	}
	if len(set) == 0 && len(d.Gone) == 0 {
		return nil, nil
	}
	slices.Sort(d.Gone)
	t.sort(set)
	*t.inDelta(d) = set
	return d, nil
}

func (t *table[T]) changed(k string, now T, onlyNotable bool) (send, notable bool) {
	was, known := t.sent[k]
	if !known || !reflect.DeepEqual(t.still(was), t.still(now)) {
		return true, true
	}
	if onlyNotable || t.rows != nil && !t.rows[k] {
		return false, false
	}
	if t.ageless != nil {
		t.ageless(&was)
		t.ageless(&now)
	}
	return !reflect.DeepEqual(was, now), false
}

// track makes the tracker of a topic, nil for one that only grows.
func track(h Host, topic Topic, from shield.NodeID, rows map[string]bool) tracker {
	switch topic {
	case TopicNodes:
		return &table[shield.NodeRow]{topic: topic, key: NodeKey, sort: SortNodes, still: stillNode, rows: rows,
			load:    func() ([]shield.NodeRow, error) { return h.Nodes(from) },
			ageless: func(r *shield.NodeRow) { r.Uptime = 0 },
			inSnap:  func(s *Snapshot) *[]shield.NodeRow { return &s.Nodes },
			inDelta: func(d *Delta) *[]shield.NodeRow { return &d.Nodes }}
	case TopicRoutes:
		return &table[shield.RouteRow]{topic: topic, key: RouteKey, sort: SortRoutes, still: stillRoute, rows: rows,
			load:    func() ([]shield.RouteRow, error) { return h.Routes(from) },
			inSnap:  func(s *Snapshot) *[]shield.RouteRow { return &s.Routes },
			inDelta: func(d *Delta) *[]shield.RouteRow { return &d.Routes }}
	case TopicServices:
		return &table[shield.ServiceRow]{topic: topic, key: ServiceKey, sort: SortServices, still: stillService, rows: rows,
			load:    h.Services,
			inSnap:  func(s *Snapshot) *[]shield.ServiceRow { return &s.Services },
			inDelta: func(d *Delta) *[]shield.ServiceRow { return &d.Services }}
	case TopicSessions:
		return &table[shield.SessionRow]{topic: topic, key: SessionKey, sort: SortSessions, still: stillSession, rows: rows,
			load:    h.Sessions,
			ageless: func(r *shield.SessionRow) { r.IdleMS, r.OpenedMS = 0, 0 },
			inSnap:  func(s *Snapshot) *[]shield.SessionRow { return &s.Sessions },
			inDelta: func(d *Delta) *[]shield.SessionRow { return &d.Sessions }}
	case TopicStatus:
		return &table[NodeStatus]{topic: topic, key: StatusKey, sort: SortStatus, still: stillStatus, rows: rows,
			load:    h.Status,
			ageless: agelessStatus,
			inSnap:  func(s *Snapshot) *[]NodeStatus { return &s.Status },
			inDelta: func(d *Delta) *[]NodeStatus { return &d.Status }}
	}
	return nil
}

func stillNode(r shield.NodeRow) shield.NodeRow {
	return shield.NodeRow{Node: r.Node, State: r.State, Intent: r.Intent, Epoch: r.Epoch, Address: r.Address,
		Gateways: r.Gateways, Reason: r.Reason, Services: r.Services, RoutesBehind: r.RoutesBehind}
}

// A route's version is that of its node's whole table: it rises with every
// route, and is no news of this one.
func stillRoute(r shield.RouteRow) shield.RouteRow {
	return shield.RouteRow{Node: r.Node, Name: r.Name, Service: r.Service}
}

func stillService(r shield.ServiceRow) shield.ServiceRow {
	return shield.ServiceRow{Name: r.Name, Names: r.Names, Node: r.Node, ID: r.ID, State: r.State, Generation: r.Generation,
		Code: r.Code, Restarts: r.Restarts, Reason: r.Reason, Reload: r.Reload, ReloadTime: r.ReloadTime}
}

func stillSession(r shield.SessionRow) shield.SessionRow {
	return shield.SessionRow{Session: r.Session, Player: r.Player, Epoch: r.Epoch, Target: r.Target, State: r.State}
}

func stillStatus(s NodeStatus) NodeStatus {
	return NodeStatus{NodeRow: stillNode(s.NodeRow)}
}

// agelessStatus copies before it clears: the rows inside are shared with what
// was sent.
func agelessStatus(s *NodeStatus) {
	s.Uptime = 0
	if s.Cluster != nil {
		c := *s.Cluster
		c.Nodes = slices.Clone(c.Nodes)
		for i := range c.Nodes {
			c.Nodes[i].Uptime = 0
		}
		s.Cluster = &c
	}
	if s.Clock != nil {
		s.Clock = &ClockRow{Node: s.Clock.Node, Shift: s.Clock.Shift}
	}
}
