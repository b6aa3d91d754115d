package control

import (
	"slices"

	"shield/runtime/shield"
)

// table remembers which rows of one topic a watcher was sent, and tells what is
// different now.
type table[T any] struct {
	topic   Topic
	load    func() ([]T, error)
	key     func(T) string
	sort    func([]T)
	same    func(a, b *T) bool
	notable func(a, b *T) bool
	inSnap  func(*Snapshot) *[]T
	inDelta func(*Delta) *[]T

	sent  map[string]*sent[T]
	round uint64          // of delta, to see which rows are gone
	rows  map[string]bool // keys whose counted changes are wanted; nil = all
}

// sent is a row as the watcher has it.
type sent[T any] struct {
	row   T
	round uint64
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
	t.sent = map[string]*sent[T]{}
	rows, err := t.load()
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []T{} // asked for and empty is not the same as not asked for
	}
	t.sort(rows)
	for _, r := range rows {
		t.sent[t.key(r)] = &sent[T]{row: r}
	}
	*t.inSnap(s) = rows
	return nil
}

func (t *table[T]) delta(onlyNotable bool) (*Delta, error) {
	rows, err := t.load()
	if err != nil {
		return nil, err
	}
	t.round++
	d := &Delta{Topic: t.topic}
	var set []T
	for i := range rows {
		r := &rows[i]
		k := t.key(*r)
		was := t.sent[k]
		if was == nil {
			was = new(sent[T])
			t.sent[k] = was
			d.Notable = true
		} else if !t.changed(k, &was.row, r, onlyNotable, &d.Notable) {
			was.round = t.round
			continue
		}
		was.row, was.round = *r, t.round
		set = append(set, *r)
	}
	for k, was := range t.sent {
		if was.round != t.round {
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

// changed reports whether a row has to be sent again, and notes in notable
// whether a person waits for it.
func (t *table[T]) changed(k string, was, now *T, onlyNotable bool, notable *bool) bool {
	if t.notable(was, now) {
		*notable = true
		return true
	}
	if onlyNotable || t.rows != nil && !t.rows[k] {
		return false
	}
	return !t.same(was, now)
}

// track makes the tracker of a topic, nil for one that only grows.
func track(h Host, topic Topic, from shield.NodeID, rows map[string]bool) tracker {
	switch topic {
	case TopicNodes:
		return &table[shield.NodeRow]{topic: topic, key: NodeKey, sort: SortNodes, same: sameNode, notable: notableNode, rows: rows,
			load:    func() ([]shield.NodeRow, error) { return h.Nodes(from) },
			inSnap:  func(s *Snapshot) *[]shield.NodeRow { return &s.Nodes },
			inDelta: func(d *Delta) *[]shield.NodeRow { return &d.Nodes }}
	case TopicRoutes:
		return &table[shield.RouteRow]{topic: topic, key: RouteKey, sort: SortRoutes, same: sameRoute, notable: notableRoute, rows: rows,
			load:    func() ([]shield.RouteRow, error) { return h.Routes(from) },
			inSnap:  func(s *Snapshot) *[]shield.RouteRow { return &s.Routes },
			inDelta: func(d *Delta) *[]shield.RouteRow { return &d.Routes }}
	case TopicServices:
		return &table[shield.ServiceRow]{topic: topic, key: ServiceKey, sort: SortServices, same: sameService, notable: notableService, rows: rows,
			load:    h.Services,
			inSnap:  func(s *Snapshot) *[]shield.ServiceRow { return &s.Services },
			inDelta: func(d *Delta) *[]shield.ServiceRow { return &d.Services }}
	case TopicSessions:
		return &table[shield.SessionRow]{topic: topic, key: SessionKey, sort: SortSessions, same: sameSession, notable: notableSession, rows: rows,
			load:    h.Sessions,
			inSnap:  func(s *Snapshot) *[]shield.SessionRow { return &s.Sessions },
			inDelta: func(d *Delta) *[]shield.SessionRow { return &d.Sessions }}
	case TopicStatus:
		return &table[NodeStatus]{topic: topic, key: StatusKey, sort: SortStatus, same: sameStatus, notable: notableStatus, rows: rows,
			load:    h.Status,
			inSnap:  func(s *Snapshot) *[]NodeStatus { return &s.Status },
			inDelta: func(d *Delta) *[]NodeStatus { return &d.Status }}
	}
	return nil
}
