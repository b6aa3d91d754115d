package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// registry is a discovery backend in memory with a time to live.
type registry struct {
	mu    sync.Mutex
	ttl   time.Duration
	down  bool
	nodes map[shield.NodeID]registration
}

type registration struct {
	cluster.Candidate
	until time.Time
}

func newRegistry() *registry {
	return &registry{ttl: 10 * time.Second, nodes: map[shield.NodeID]registration{}}
}

var errDown = errors.New("connection refused")

func (r *registry) Announce(_ context.Context, c cluster.Candidate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errDown
	}
	r.nodes[c.Node] = registration{c, time.Now().Add(r.ttl)}
	return nil
}

func (r *registry) Scan(context.Context) (list []cluster.Candidate, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errDown
	}
	for _, n := range r.nodes {
		if time.Now().Before(n.until) {
			list = append(list, n.Candidate)
		}
	}
	return list, nil
}

func (r *registry) Withdraw(_ context.Context, node shield.NodeID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errDown
	}
	delete(r.nodes, node)
	return nil
}

func (r *registry) Close() error { return nil }

func (r *registry) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

func (r *registry) forget(id shield.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, id)
}

func (r *registry) has(id shield.NodeID) bool {
	list, _ := r.Scan(context.Background())
	for _, c := range list {
		if c.Node == id {
			return true
		}
	}
	return false
}

// found starts nodes that know each other only through the registry.
func found(t *testing.T, check func(w *world, r *registry, a, b *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		r := newRegistry()
		a, b := w.make("a", 1), w.make("b", 2)
		for _, n := range []*testNode{a, b} {
			n.cfg.Discovery = r
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond) // one scans between the other's renewals
		}
		check(w, r, a, b)
	})
}

func TestDiscovered(t *testing.T) {
	found(t, func(w *world, r *registry, a, b *testNode) {
		a.wantStates(4*time.Second, "b online")
		b.wantStates(100*time.Millisecond, "a online")
		b.stop()
		if r.has("b") {
			t.Error("a clean stop left the registration")
		}
		a.wantStates(100*time.Millisecond, "b offline")
	})
}

// A node that discovery lists and that does not answer is known, and offline.
func TestDiscoveredButSilent(t *testing.T) {
	found(t, func(w *world, r *registry, a, b *testNode) {
		ghost := cluster.Candidate{Node: "ghost", Addr: addrOf(99)}
		r.mu.Lock()
		r.nodes["ghost"] = registration{ghost, time.Now().Add(time.Hour)}
		r.mu.Unlock()
		a.wantStates(4*time.Second, "b online", "ghost connecting")
		if _, err := a.c.Resolve("ghost", "x"); !errors.Is(err, shield.NodeOffline) {
			t.Errorf("Resolve on a connecting node = %v, want node_offline", err)
		}
		a.wantStates(11*time.Second, "b online", "ghost offline")
		r.forget("ghost")
		time.Sleep(70 * time.Second)
		a.wantStates(0, "b online", "ghost removed")
	})
}

// Another process has registered under this node's id: that is for the handshake
// to settle, not a peer. Nor is what can't be an id, or has no address.
func TestListedNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		r := newRegistry()
		a := w.make("a", 1)
		a.cfg.Discovery, a.cfg.AnnounceEvery = r, time.Hour
		if err := a.start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.mu.Lock()
		for node, addr := range map[shield.NodeID]string{"a": addrOf(97), "b:c": addrOf(98), "": addrOf(99), "nowhere": ""} {
			r.nodes[node] = registration{cluster.Candidate{Node: node, Addr: addr}, time.Now().Add(time.Hour)}
		}
		r.mu.Unlock()
		time.Sleep(10 * time.Second)
		a.wantStates(0)
	})
}

// Where nobody is listed any more nobody is dialled.
func TestVanishedIsNotDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		r := newRegistry()
		r.nodes["ghost"] = registration{cluster.Candidate{Node: "ghost", Addr: addrOf(99)}, time.Now().Add(20 * time.Second)}
		a, times := w.make("a", 1), &dialTimes{}
		a.cfg.Discovery = r
		a.wrap = func(t cluster.Transport) cluster.Transport { times.Transport = t; return times }
		if err := a.start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * time.Second)
		if n := times.count(); n < 10 {
			t.Errorf("%d dials in 19 s", n)
		}
		time.Sleep(5 * time.Second) // until the next scan
		n := times.count()
		time.Sleep(time.Minute)
		if got := times.count(); got != n {
			t.Errorf("%d dials more when it had vanished", got-n)
		}
	})
}

// A node that vanishes from the backend is demoted once; its next heartbeat
// takes it back.
func TestVanishedIsSuspectOnce(t *testing.T) {
	found(t, func(w *world, r *registry, a, b *testNode) {
		a.wantStates(4*time.Second, "b online")
		time.Sleep(10 * time.Second)
		r.mu.Lock()
		r.ttl = 0 // b renews, but is never listed again
		r.mu.Unlock()
		r.forget("b")
		// A heartbeat may take it back within a moment.
		for end := time.Now().Add(4 * time.Second); len(a.reasons("b", shield.Suspect)) == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		a.wantStates(2100*time.Millisecond, "b online")
		time.Sleep(30 * time.Second)
		if got := a.reasons("b", shield.Suspect); len(got) != 1 {
			t.Errorf("demoted %d times: %q", len(got), got)
		}
	})
}

func TestBackendDown(t *testing.T) {
	found(t, func(w *world, r *registry, a, b *testNode) {
		a.wantStates(4*time.Second, "b online")
		r.setDown(true)
		time.Sleep(5 * time.Minute)
		if got := a.events(); len(got) != 1 {
			t.Errorf("a backend that is down demoted a peer: %q", got)
		}
		if n := a.log.count("can't"); n < 2 || n > 15 {
			t.Errorf("%d lines in five minutes", n)
		}
		// The next to come is a's scan: b's registration has expired by now.
		time.Sleep(2*time.Second - time.Since(w.begin)%(3*time.Second) + 3*time.Second)
		r.setDown(false)
		time.Sleep(10 * time.Second)
		if !a.log.has("answers again") {
			t.Error("its return is not told")
		}
		if got := a.events(); len(got) != 1 {
			t.Errorf("its return changed a peer: %q", got)
		}
		r.setDown(true)
		begin := time.Now()
		b.stop()
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("a stop without the backend took %v", d)
		}
	})
}

func TestCrashedLeavesDiscovery(t *testing.T) {
	found(t, func(w *world, r *registry, a, b *testNode) {
		a.wantStates(4*time.Second, "b online")
		// A crash can't withdraw.
		b.cfg.Discovery = nil
		r.setDown(true)
		b.crash()
		r.setDown(false)
		if !r.has("b") {
			t.Fatal("the crash withdrew its registration")
		}
		time.Sleep(13 * time.Second)
		if r.has("b") {
			t.Error("the registration outlived its time to live")
		}
		a.wantStates(0, "b offline")
		// It returns at another address.
		b2 := w.make("b", 5)
		b2.cfg.Discovery = r
		if err := b2.start(); err != nil {
			t.Fatal(err)
		}
		a.wantStates(4*time.Second, "b online")
		if got := a.c.Nodes()[1].Address; got != b2.addr {
			t.Errorf("a sees b at %s, want %s", got, b2.addr)
		}
	})
}
