package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// calls are the calls of this node that wait for a reply from another. An id
// stays taken until its reply has come or its link is gone, also when its caller
// gave up: a counter that wraps can't hand a late reply to the wrong waiter.
type calls struct {
	mask   uint64 // ids wrap here; a test makes it small
	last   atomic.Uint64
	shards [callShards]callShard
}

const callShards = 16

type callShard struct {
	mu   sync.Mutex
	open map[uint64]call
}

type call struct {
	waiter shield.Waiter // nil: the caller has given up, or was told of the failure
	conn   *conn
	// expires is when the callee has certainly dropped its record, if it keeps
	// the protocol.
	expires time.Duration
}

func (cs *calls) init(mask uint64) {
	cs.mask = mask
	for i := range cs.shards {
		cs.shards[i].open = map[uint64]call{}
	}
}

func (cs *calls) shard(id uint64) *callShard { return &cs.shards[id%callShards] }

// add takes a free id. It fails when all are taken.
func (cs *calls) add(cl call) (id uint64, ok bool) {
	for range min(cs.mask, 1<<20) {
		id = cs.last.Add(1) & cs.mask
		if id == 0 {
			continue
		}
		s := cs.shard(id)
		s.mu.Lock()
		if _, taken := s.open[id]; !taken {
			s.open[id] = cl
			s.mu.Unlock()
			return id, true
		}
		s.mu.Unlock()
	}
	return 0, false
}

// take ends the call that a reply on cn answers. w is nil when nobody waits.
func (cs *calls) take(id uint64, cn *conn) (w shield.Waiter) {
	s := cs.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	cl, ok := s.open[id]
	if !ok || cl.conn != cn {
		return nil
	}
	delete(s.open, id)
	return cl.waiter
}

// undo frees an id whose envelope was never written.
func (cs *calls) undo(id uint64) (w shield.Waiter) {
	s := cs.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	w = s.open[id].waiter
	delete(s.open, id)
	return w
}

// cancel forgets the waiter and keeps the id.
func (cs *calls) cancel(id uint64) {
	s := cs.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if cl, ok := s.open[id]; ok {
		cl.waiter = nil
		s.open[id] = cl
	}
}

// fail takes the waiters of every call on cn (nil: of every call). While the
// link lives the ids stay taken.
func (cs *calls) fail(cn *conn, linkLives bool) (waiters []shield.Waiter) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		for id, cl := range s.open {
			if cn != nil && cl.conn != cn {
				continue
			}
			if cl.waiter != nil {
				waiters = append(waiters, cl.waiter)
			}
			if linkLives {
				cl.waiter = nil
				s.open[id] = cl
			} else {
				delete(s.open, id)
			}
		}
		s.mu.Unlock()
	}
	return waiters
}

// prune frees ids that nobody waits for and whose reply can't come any more.
func (cs *calls) prune(now time.Duration) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		for id, cl := range s.open {
			if cl.waiter == nil && now > cl.expires {
				delete(s.open, id)
			}
		}
		s.mu.Unlock()
	}
}

func (cs *calls) len() (n int) {
	for i := range cs.shards {
		s := &cs.shards[i]
		s.mu.Lock()
		n += len(s.open)
		s.mu.Unlock()
	}
	return n
}

// recordSlack is how long after a call's deadline its callee keeps the record.
const recordSlack = 30 * time.Second

// inbox holds the records of the calls that came over one link and have not
// been answered. It is a list, so that keeping one costs no allocation of its
// own.
type inbox struct {
	mu   sync.Mutex
	head replier // sentinel
	n    int
}

func (in *inbox) init() { in.head.prev, in.head.next = &in.head, &in.head }

func (in *inbox) add(r *replier) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r.prev, r.next = &in.head, in.head.next
	r.prev.next, r.next.prev = r, r
	in.n++
}

func (in *inbox) remove(r *replier) {
	in.mu.Lock()
	defer in.mu.Unlock()
	r.prev.next, r.next.prev = r.next, r.prev
	r.prev, r.next = nil, nil
	in.n--
}

// expired lists the records whose time is over; they are still in the list.
func (in *inbox) expired(now time.Duration) (out []*replier) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for r := in.head.next; r != &in.head; r = r.next {
		if now > r.expires {
			out = append(out, r)
		}
	}
	return out
}

// replier answers one inbound call. It satisfies shield.Replier.
type replier struct {
	conn    *conn
	id      uint64
	expires time.Duration
	used    atomic.Bool

	prev, next *replier
}

// Reply writes the answer. Only the first one counts; an answer for a link that
// is gone is dropped, since its caller has been told.
func (r *replier) Reply(result []byte, err *shield.Error) {
	if !r.used.CompareAndSwap(false, true) {
		r.conn.c.stats.count(dropReplyTwice)
		return
	}
	r.conn.inbox.remove(r)
	r.conn.reply(r.id, result, err)
}
