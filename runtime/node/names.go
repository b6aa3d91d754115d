package node

import (
	"sync"
	"time"

	"shield/runtime/shield"
)

// names finds what services of other nodes are called. It keeps the table of
// routes turned round for a moment: to read all of it for each of many sessions
// would take the product of both.
type names struct {
	mu    sync.Mutex
	built time.Time
	of    map[place]shield.Name
}

type place struct {
	node    shield.NodeID
	service shield.ServiceID
}

const (
	namesLast  = time.Second            // how long a name is believed
	namesPause = 100 * time.Millisecond // between two searches for names that are not there
)

// find looks h up; routes lists the table.
func (x *names) find(h shield.Handle, routes func() []shield.RouteRow) (shield.Name, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := place{h.Node, h.ID}
	age := time.Since(x.built)
	name, ok := x.of[at]
	if ok && age < namesLast || !ok && x.of != nil && age < namesPause {
		return name, ok
	}
	rows := routes()
	x.of, x.built = make(map[place]shield.Name, len(rows)), time.Now()
	for _, r := range rows {
		if _, taken := x.of[place{r.Node, r.Service}]; !taken { // the first by name
			x.of[place{r.Node, r.Service}] = r.Name
		}
	}
	name, ok = x.of[at]
	return name, ok
}
