package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// peer is the part of a member that senders and readers share with the owner.
// Only the owner changes state, epoch and conn.
type peer struct {
	id shield.NodeID

	mu     sync.RWMutex
	state  shield.NodeState
	reason string
	epoch  shield.NodeEpoch
	conn   *conn // nil without a link; a peer that is offline by time-out keeps it
	names  names
}

// conn is a link whose peer's identity was adopted.
type conn struct {
	c        *Cluster
	link     Link
	peer     *peer
	id       wire.Identity
	dialled  bool // by us
	features wire.Feature
	skew     time.Duration

	inbox   inbox
	strings wire.Interner // of the data stream's reader

	leaving  atomic.Bool // it said goodbye on the control stream
	draining atomic.Bool // its last heartbeat said so

	// Times since the cluster's beginning, in nanoseconds.
	heard  atomic.Int64 // when anything last came on the control stream
	mutual atomic.Int64 // when it last said that it lives and hears us
	deaf   atomic.Bool  // its last heartbeat said that it does not hear us

	beat      atomic.Pointer[wire.Heartbeat] // the last one; nil before the first
	beatAt    atomic.Int64
	gateways  atomic.Pointer[[]string]
	seq       atomic.Uint64
	mark      shield.RoutesVersion // our version at its last heartbeat; control reader only
	building  [2]building          // by stream; each used by that stream's reader only
	confirmed chan struct{}        // closed at its first control frame
	once      sync.Once

	pingMu sync.Mutex
	pings  map[uint64]chan struct{}

	farewell *time.Timer // closes the link of a peer that said goodbye; the owner's
	goneOnce sync.Once
	gone     chan struct{} // closed when it has acknowledged our goodbye
}

// names is a peer's table of published names, at its version.
type names struct {
	version shield.RoutesVersion
	byName  map[shield.Name]shield.ServiceID
}

// building is a whole table of which parts have arrived.
type building struct {
	active  bool
	version shield.RoutesVersion
	byName  map[shield.Name]shield.ServiceID
}

func (c *Cluster) newConn(l Link, id wire.Identity, dialled bool) *conn {
	cn := &conn{
		c: c, link: l, id: id, dialled: dialled, features: id.Features & wire.Features,
		skew:      id.Time.Sub(c.cfg.Wall()).Round(time.Millisecond),
		confirmed: make(chan struct{}), gone: make(chan struct{}),
	}
	cn.inbox.init()
	now := int64(c.now())
	cn.heard.Store(now)
	cn.mutual.Store(now)
	return cn
}

// alive reports whether the link has not ended.
func (cn *conn) alive() bool {
	select {
	case <-cn.link.Done():
		return false
	default:
		return true
	}
}

// write queues frames and counts what the link refuses.
func (cn *conn) write(s Stream, frames []byte) error {
	err := cn.link.Write(s, frames)
	if err != nil && cn.alive() {
		cn.c.stats.count(dropQueueFull)
	}
	return err
}

// applyTable replaces the peer's table. It is dropped silently when it is of
// another epoch than the adopted one, or not newer than what is held.
func (cn *conn) applyTable(s Stream, r *wire.Routes) bool {
	b := &cn.building[s]
	if r.Epoch != cn.id.Epoch {
		cn.c.stats.count(dropStaleTable)
		return true
	}
	if r.First {
		*b = building{active: true, version: r.Version, byName: make(map[shield.Name]shield.ServiceID, len(r.Routes))}
	}
	if !b.active || b.version != r.Version || len(b.byName)+len(r.Routes) > wire.MaxRoutes {
		return false
	}
	for _, e := range r.Routes {
		if e.ID != 0 {
			b.byName[e.Name] = e.ID
		}
	}
	if !r.Last {
		return true
	}
	done := *b
	*b = building{}
	p := cn.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != cn {
		return true
	}
	if p.names.byName != nil && done.version <= p.names.version {
		return true
	}
	p.names = names{version: done.version, byName: done.byName}
	return true
}

// applyChange applies a change to the table of version From; to any other table
// it does nothing, and the next heartbeats repair it.
func (cn *conn) applyChange(ch *wire.RouteChange) {
	p := cn.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch.Epoch != cn.id.Epoch || p.conn != cn || p.names.byName == nil || p.names.version != ch.From {
		cn.c.stats.count(dropStaleTable)
		return
	}
	for _, e := range ch.Routes {
		if e.ID == 0 {
			delete(p.names.byName, e.Name)
		} else {
			p.names.byName[e.Name] = e.ID
		}
	}
	p.names.version = ch.To
}

// held is the version of the peer's table that we have.
func (p *peer) held() shield.RoutesVersion {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.names.version
}
