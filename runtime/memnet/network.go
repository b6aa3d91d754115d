package memnet

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"shield/runtime/shield"
)

// Config is what a Network is made of.
type Config struct {
	Seed    uint64        // of losses
	Latency time.Duration // one way, where Delay says nothing else; 0 = 1 ms
	// Turn returns when who may hand something over; nil = at once.
	Turn func(who string)
}

// Network joins the transports and the listeners of one test. Its methods may
// be called from any goroutine.
type Network struct {
	cfg Config

	mu      sync.Mutex
	ways    map[way]fault
	all     fault // where ways says nothing
	live    map[shield.NodeID]*Transport
	changed chan struct{} // closed when anything above is different
	links   int           // made so far
	conns   int
}

// way is one direction between two nodes.
type way struct{ from, to shield.NodeID }

// fault is what frames meet on a way.
type fault struct {
	cut   bool
	delay time.Duration // 0 = the network's latency
	loss  float64       // 0 to below 1
}

// New makes a network with nobody on it.
func New(cfg Config) *Network {
	if cfg.Latency <= 0 {
		cfg.Latency = time.Millisecond
	}
	if cfg.Turn == nil {
		cfg.Turn = func(string) {}
	}
	return &Network{
		cfg: cfg, ways: map[way]fault{},
		live: map[shield.NodeID]*Transport{}, changed: make(chan struct{}),
	}
}

// Address is where a node's transport listens.
func Address(node shield.NodeID) string { return string(node) + ":9000" }

// nodeAt is Address backwards.
func nodeAt(addr string) shield.NodeID {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return shield.NodeID(host)
}

// Cut loses everything from one node to another until Heal. What was sent
// meanwhile arrives after it, as long as the link lived.
func (n *Network) Cut(from, to shield.NodeID) {
	n.set(from, to, func(f *fault) { f.cut = true })
}

// Heal ends a Cut.
func (n *Network) Heal(from, to shield.NodeID) {
	n.set(from, to, func(f *fault) { f.cut = false })
}

// HealAll ends every cut, delay and loss.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ways, n.all = map[way]fault{}, fault{}
	n.changedLocked()
}

// Delay makes frames take d from one node to another; 0 is the usual latency.
// Without names it holds for all.
func (n *Network) Delay(from, to shield.NodeID, d time.Duration) {
	n.set(from, to, func(f *fault) { f.delay = d })
}

// Loss loses packets at a rate of 0 to below 1. Links repeat what was lost, so
// frames come later, in order.
func (n *Network) Loss(from, to shield.NodeID, rate float64) {
	n.set(from, to, func(f *fault) { f.loss = min(max(rate, 0), 0.99) })
}

func (n *Network) set(from, to shield.NodeID, change func(*fault)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if from == "" && to == "" {
		change(&n.all)
		for w, f := range n.ways {
			change(&f)
			n.ways[w] = f
		}
	} else {
		f := n.faultLocked(from, to)
		change(&f)
		n.ways[way{from, to}] = f
	}
	n.changedLocked()
}

// Faulty reports whether anything is cut, delayed or lossy.
func (n *Network) Faulty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.ways {
		if f != (fault{}) {
			return true
		}
	}
	return n.all != fault{}
}

func (n *Network) changedLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *Network) faultLocked(from, to shield.NodeID) fault {
	if f, ok := n.ways[way{from, to}]; ok {
		return f
	}
	return n.all
}

// repeatAfter is how long a sender waits before it repeats a lost packet.
const repeatAfter = 25 * time.Millisecond

// dice are the chances of one stream. Each has its own, so that it does not matter
// in which order different streams are written to at the same moment.
func (n *Network) dice(who string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(who))
	return rand.New(rand.NewPCG(n.cfg.Seed, h.Sum64()))
}

// travel is how long a frame that is sent now takes.
func (n *Network) travel(dice *rand.Rand, from, to shield.NodeID) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.faultLocked(from, to)
	d := n.latencyLocked(f)
	wait := max(repeatAfter, 3*d)
	for range 16 {
		if f.loss <= 0 || dice.Float64() >= f.loss {
			break
		}
		d += wait
		wait *= 2
	}
	return d
}

func (n *Network) latencyLocked(f fault) time.Duration {
	if f.delay > 0 {
		return f.delay
	}
	return n.cfg.Latency
}

// Reaches reports whether nothing is cut between two nodes, either way.
func (n *Network) Reaches(a, b shield.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.faultLocked(a, b).cut && !n.faultLocked(b, a).cut
}

// open reports whether frames get from one node to another, and what to wait
// on for a change.
func (n *Network) open(from, to shield.NodeID) (ok bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.faultLocked(from, to).cut, n.changed
}

// find gives the transport that listens at a node now.
func (n *Network) find(node shield.NodeID) (*Transport, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[node], n.changed
}

// join puts t on the network, unless its place is taken.
func (n *Network) join(t *Transport) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live[t.node] != nil {
		return fmt.Errorf("listen at %s: the address is in use", Address(t.node))
	}
	n.live[t.node] = t
	n.changedLocked()
	return nil
}

func (n *Network) leave(t *Transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live[t.node] == t {
		delete(n.live, t.node)
		n.changedLocked()
	}
}

func (n *Network) number() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links++
	return n.links
}
