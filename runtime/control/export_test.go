package control

import "shield/runtime/shield"

// Scanner gives a benchmark one comparison of a watcher without its stream.
func Scanner(topic Topic, load func() []shield.SessionRow) func() {
	t := &table[shield.SessionRow]{topic: topic, key: SessionKey, sort: SortSessions, same: sameSession, notable: notableSession,
		load:    func() ([]shield.SessionRow, error) { return load(), nil },
		inSnap:  func(s *Snapshot) *[]shield.SessionRow { return &s.Sessions },
		inDelta: func(d *Delta) *[]shield.SessionRow { return &d.Sessions }}
	if err := t.snapshot(new(Snapshot)); err != nil {
		panic(err)
	}
	return func() {
		if _, err := t.delta(false); err != nil {
			panic(err)
		}
	}
}

// Comparers are the functions that compare rows, for the test that they forget
// no field.
var (
	SameNode, SameRoute, SameService = sameNode, sameRoute, sameService
	SameSession, SameStatus          = sameSession, sameStatus
)
