package cluster_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// simNode is one start of one node in a simulation, with services that check
// what reaches them.
type simNode struct {
	*testNode
	s      *history
	ctx    context.Context
	halt   context.CancelFunc // ends its work, before the node itself ends
	seed   uint64
	paused atomic.Bool

	mu        sync.Mutex
	published map[shield.Name]shield.ServiceID
	nextID    shield.ServiceID
	lastSeq   map[string]uint64                  // highest number of a send, by source and its epoch
	sent      map[shield.NodeEpoch]uint64        // numbers given to sends, by the target's epoch
	seen      map[shield.NodeID]shield.NodeEpoch // highest epoch in this node's view
	offline   map[shield.NodeID]time.Time        // since when
	pending   map[*simCall]struct{}
	old       []shield.Handle // that were good once
	narrow    narrow
}

func (s *history) newNode(sl *slot) *simNode {
	base := s.w.make(string(sl.id), sl.host, sl.peers...)
	n := &simNode{
		testNode: base, s: s, seed: s.rng.Uint64(),
		published: map[shield.Name]shield.ServiceID{}, lastSeq: map[string]uint64{}, sent: map[shield.NodeEpoch]uint64{},
		seen: map[shield.NodeID]shield.NodeEpoch{}, offline: map[shield.NodeID]time.Time{}, pending: map[*simCall]struct{}{},
	}
	n.ctx, n.halt = context.WithCancel(context.Background())
	clock := sl.clock
	base.cfg.Wall = func() time.Time { return time.Now().Add(clock) }
	epoch, err := cluster.NextEpoch(base.cfg.Wall(), sl)
	if err != nil {
		s.w.t.Fatal(err)
	}
	base.cfg.Epoch = epoch
	base.local, base.cfg.Local = n, n
	base.cfg.OnEvent = n.onEvent
	base.wrap = n.narrow.wrap
	// Ids of different starts never meet, so that a stale table shows.
	n.nextID = shield.ServiceID(epoch%1e9) << 20
	return n
}

// simNames is how many names each node publishes at most.
const simNames = 6

func simName(i int) shield.Name { return shield.Name(fmt.Sprintf("s%d", i)) }

func (n *simNode) onEvent(e cluster.Event) {
	n.s.note("%s: %s %s > %s: %s", n.id, e.Node, e.From, e.To, e.Reason)
	if e.Reason == "" || e.From == e.To {
		n.s.breaks("%s: an event without a reason or a change: %+v", n.id, e)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.offline, e.Node)
	if e.To == shield.Offline || e.To == shield.Removed {
		n.offline[e.Node] = time.Now()
	}
}

// pauseFor waits and reports whether to go on.
func (n *simNode) pauseFor(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.ctx.Done():
		return false
	}
}

// publishSome registers and unregisters names.
func (n *simNode) publishSome() {
	rng := rand.New(rand.NewPCG(n.seed, 1))
	for !n.s.settled.Load() {
		name := simName(rng.IntN(simNames))
		n.mu.Lock()
		if _, ok := n.published[name]; ok && rng.IntN(2) == 0 {
			delete(n.published, name)
			n.c.Withdraw(name)
		} else {
			n.nextID++
			n.published[name] = n.nextID
			n.s.publish(n, name, n.nextID)
			n.c.Publish(name, n.nextID)
		}
		n.mu.Unlock()
		if !n.pauseFor(time.Duration(rng.IntN(3000)) * time.Millisecond) {
			return
		}
	}
}

// publish notes the truth before anybody can learn of it.
func (s *history) publish(n *simNode, name shield.Name, id shield.ServiceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	epochs := s.truth[n.id]
	if epochs == nil {
		epochs = map[shield.NodeEpoch]map[shield.ServiceID]shield.Name{}
		s.truth[n.id] = epochs
	}
	if epochs[n.cfg.Epoch] == nil {
		epochs[n.cfg.Epoch] = map[shield.ServiceID]shield.Name{}
	}
	epochs[n.cfg.Epoch][id] = name
}

func (s *history) isTrue(h shield.Handle, name shield.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.truth[h.Node][h.Epoch][h.ID] == name
}

// hasBeen reports whether the service of h was ever published by the start of the
// node that h names.
func (s *history) hasBeen(h shield.Handle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.truth[h.Node][h.Epoch][h.ID]
	return ok
}

func (n *simNode) names() map[shield.Name]shield.ServiceID {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[shield.Name]shield.ServiceID{}
	for k, v := range n.published {
		out[k] = v
	}
	return out
}

// simCall is a call under way; it checks that it ends once, with its own answer.
type simCall struct {
	n      *simNode
	token  uint64
	target shield.Handle
	begun  time.Time
	ends   atomic.Int32
	done   chan struct{}
}

func (sc *simCall) Done(result []byte, err *shield.Error) {
	n := sc.n
	if sc.ends.Add(1) != 1 {
		n.s.breaks("%s: call %d to %v ended twice", n.id, sc.token, sc.target)
		return
	}
	if err == nil {
		want := fmt.Sprintf("%d %s %v", sc.token, sc.target.Node, sc.target.Epoch)
		if string(result) != want {
			n.s.breaks("%s: call %q was answered with %q", n.id, want, result)
		}
	} else if err.Code != shield.NodeOffline && err.Code != shield.Timeout && err.Code != shield.RuntimeStopping {
		n.s.breaks("%s: call %d to %v ended with %v", n.id, sc.token, sc.target, err)
	}
	close(sc.done)
}

// callOthers resolves names and calls what is behind them; now and then it
// sends.
func (n *simNode) callOthers() {
	rng := rand.New(rand.NewPCG(n.seed, 2))
	for n.pauseFor(time.Duration(rng.IntN(300)) * time.Millisecond) {
		if n.paused.Load() {
			continue
		}
		to := n.s.slots[rng.IntN(len(n.s.slots))].id
		name := simName(rng.IntN(simNames))
		if to == n.id {
			continue
		}
		h, err := n.c.Resolve(to, name)
		if err != nil {
			n.mustBeExpected("resolve", err)
			continue
		}
		if !n.s.isTrue(h, name) {
			n.s.breaks("%s resolved %s:%s to %v epoch %v, which was never published there", n.id, to, name, h, h.Epoch)
		}
		// Now and then with a handle that was kept, over restarts of its node.
		if len(n.old) == keptHandles {
			n.old[rng.IntN(keptHandles)], h = h, n.old[rng.IntN(keptHandles)]
		} else {
			n.old = append(n.old, h)
		}
		if rng.IntN(3) == 0 {
			n.send(h)
			continue
		}
		n.beginCall(h, time.Duration(rng.IntN(400))*time.Millisecond, time.Duration(50+rng.IntN(3000))*time.Millisecond)
	}
}

// keptHandles is how many handles a node holds on to.
const keptHandles = 8

func (n *simNode) mustBeExpected(what string, err error) {
	for _, c := range []shield.Code{shield.NodeNotFound, shield.NodeOffline, shield.NodeSuspect, shield.NodeRemoved, shield.ServiceNotFound, shield.ServiceDead, shield.MailboxFull} {
		if errors.Is(err, c) {
			return
		}
	}
	n.s.breaks("%s: %s: %v", n.id, what, err)
}

func (n *simNode) send(h shield.Handle) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[h.Epoch]++
	if err := n.c.Send(&shield.Envelope{Target: h, Method: "send", Args: binary.BigEndian.AppendUint64(nil, n.sent[h.Epoch])}); err != nil {
		n.mustBeExpected("send", err)
	}
}

func (n *simNode) beginCall(h shield.Handle, slow, timeout time.Duration) {
	n.s.mu.Lock()
	n.s.token++
	sc := &simCall{n: n, token: n.s.token, target: h, begun: time.Now(), done: make(chan struct{})}
	n.s.mu.Unlock()
	args := binary.BigEndian.AppendUint64(nil, sc.token)
	args = binary.BigEndian.AppendUint64(args, uint64(slow))
	id, err := n.c.Call(&shield.Envelope{Target: h, Method: "call", Args: args, Timeout: timeout}, sc)
	if err != nil {
		n.mustBeExpected("call", err)
		return
	}
	n.mu.Lock()
	n.pending[sc] = struct{}{}
	n.mu.Unlock()
	n.s.work.Go(func() {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-sc.done:
		case <-timer.C:
			n.c.Cancel(id)
		case <-n.ctx.Done():
			n.c.Cancel(id)
		}
		n.mu.Lock()
		delete(n.pending, sc)
		n.mu.Unlock()
	})
}

// Deliver is what the node's services do.
func (n *simNode) Deliver(e *shield.Envelope, reply shield.Replier) {
	if e.Target.Node != n.id || e.Target.Epoch != n.cfg.Epoch {
		n.s.breaks("%s epoch %v was handed an envelope for %v epoch %v", n.id, n.cfg.Epoch, e.Target, e.Target.Epoch)
	}
	if !n.s.hasBeen(e.Target) {
		n.s.breaks("%s epoch %v was handed an envelope for service %d, which this start never had", n.id, n.cfg.Epoch, e.Target.ID)
	}
	if reply == nil {
		key := fmt.Sprintf("%s %v", e.Source.Node, e.Source.Epoch)
		seq := binary.BigEndian.Uint64(e.Args)
		n.mu.Lock()
		if seq <= n.lastSeq[key] {
			n.s.breaks("%s: send %d of %s came after %d", n.id, seq, key, n.lastSeq[key])
		}
		n.lastSeq[key] = seq
		n.mu.Unlock()
		return
	}
	token, slow := binary.BigEndian.Uint64(e.Args), time.Duration(binary.BigEndian.Uint64(e.Args[8:]))
	time.AfterFunc(slow, func() { reply.Reply(fmt.Appendf(nil, "%d %s %v", token, n.id, n.cfg.Epoch), nil) })
}

// Frame is not used here.
func (n *simNode) Frame(from shield.NodeID, _ shield.NodeEpoch, kind wire.Kind, _ []byte) {
	n.s.breaks("%s got a %v frame from %s", n.id, kind, from)
}

// bind satisfies localEnd; the node knows its cluster already.
func (n *simNode) bind(*cluster.Cluster) {}

// checkView checks what must hold in this node's view at every moment.
func (n *simNode) checkView() {
	rows := n.c.Nodes()
	ids := map[shield.NodeID]bool{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, row := range rows {
		if ids[row.Node] {
			n.s.breaks("%s sees two holders of %s", n.id, row.Node)
		}
		ids[row.Node] = true
		if row.Epoch < n.seen[row.Node] {
			n.s.breaks("%s saw %s at epoch %v and then at %v", n.id, row.Node, n.seen[row.Node], row.Epoch)
		}
		n.seen[row.Node] = row.Epoch
	}
	for _, p := range n.c.Published(func(shield.Name) bool { return true }) {
		if !n.s.isTrue(p.Handle, p.Name) {
			n.s.breaks("%s takes %s:%s for %v epoch %v, which was never published there", n.id, p.Node, p.Name, p.Handle, p.Handle.Epoch)
		}
	}
	if n.paused.Load() {
		return
	}
	for sc := range n.pending {
		since, down := n.offline[sc.target.Node]
		if down && sc.begun.Before(since) && time.Since(since) > 100*time.Millisecond && sc.ends.Load() == 0 {
			n.s.breaks("%s: call %d to %v waits %v after its node went offline", n.id, sc.token, sc.target, time.Since(since))
		}
	}
	if err := n.c.Err(); err != nil {
		n.s.breaks("%s ended: %v", n.id, err)
	}
}

// narrow makes the data queues of a node's links refuse what is put into them,
// as they do when no peer reads.
type narrow struct{ end atomic.Int64 }

func (w *narrow) until(t time.Time) { w.end.Store(t.UnixNano()) }
func (w *narrow) full() bool        { return time.Now().UnixNano() < w.end.Load() }
func (w *narrow) wrap(t cluster.Transport) cluster.Transport {
	return narrowTransport{t, w}
}

type narrowTransport struct {
	cluster.Transport
	narrow *narrow
}

func (t narrowTransport) Dial(ctx context.Context, addr string) (cluster.Link, error) {
	return t.narrower(t.Transport.Dial(ctx, addr))
}

func (t narrowTransport) Accept(ctx context.Context) (cluster.Link, error) {
	return t.narrower(t.Transport.Accept(ctx))
}

func (t narrowTransport) narrower(l cluster.Link, err error) (cluster.Link, error) {
	if err != nil {
		return nil, err
	}
	return narrowLink{l, t.narrow}, nil
}

type narrowLink struct {
	cluster.Link
	narrow *narrow
}

func (l narrowLink) Write(s cluster.Stream, frames []byte) error {
	if s == cluster.Data && l.narrow.full() {
		return fmt.Errorf("%w: nobody reads", cluster.ErrQueueFull)
	}
	return l.Link.Write(s, frames)
}
