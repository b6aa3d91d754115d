package memnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// dialTimeout is how long a dial waits for an address that does not answer:
// nearly as long as QUIC's, but at no moment at which something else is due.
const dialTimeout = 1970 * time.Millisecond

// Transport is one node's place on a network. It satisfies cluster.Transport.
type Transport struct {
	net      *Network
	node     shield.NodeID
	accepted chan *link
	done     chan struct{}
	once     sync.Once

	mu        sync.Mutex
	links     map[*link]bool
	unplugged bool
	dice      *rand.Rand // of dials
}

var _ cluster.Transport = (*Transport)(nil)

// Listen puts a node on the network.
func (n *Network) Listen(node shield.NodeID) (*Transport, error) {
	t := &Transport{net: n, node: node, accepted: make(chan *link, 64), done: make(chan struct{}), links: map[*link]bool{},
		dice: n.dice("dial " + string(node))}
	if err := n.join(t); err != nil {
		return nil, err
	}
	return t, nil
}

// Addr is where the transport listens.
func (t *Transport) Addr() net.Addr { return addr(t.node) }

type addr shield.NodeID

func (a addr) Network() string { return "mem" }
func (a addr) String() string  { return Address(shield.NodeID(a)) }

// Dial connects to a node. One that is down or cut off is waited for, as long as
// QUIC repeats its first packet.
func (t *Transport) Dial(ctx context.Context, address string) (cluster.Link, error) {
	to := nodeAt(address)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for {
		t.net.cfg.Turn("dial " + string(t.node) + " " + string(to))
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: no answer within %v", address, dialTimeout)
		case <-t.done:
			return nil, fmt.Errorf("dial %s: this node is stopping: %w", address, net.ErrClosed)
		default:
		}
		peer, changed := t.net.find(to)
		there, _ := t.net.open(t.node, to)
		back, _ := t.net.open(to, t.node)
		if peer != nil && there && back {
			if l := t.connect(ctx, peer); l != nil {
				return l, nil
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-t.done:
		}
	}
}

// connect makes the two ends of a link after a round trip; nil when the peer
// has gone meanwhile.
func (t *Transport) connect(ctx context.Context, peer *Transport) *link {
	t.mu.Lock()
	trip := t.net.travel(t.dice, t.node, peer.node) + t.net.travel(t.dice, peer.node, t.node)
	t.mu.Unlock()
	timer := time.NewTimer(trip)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-t.done:
	}
	// A select picks by chance where two cases are ready at once.
	if t.over(ctx) {
		return nil
	}
	t.net.cfg.Turn("dial " + string(t.node) + " " + string(peer.node))
	if t.over(ctx) {
		return nil
	}
	near, far := newPair(t, peer, t.net.number())
	if !t.keep(near) || !peer.keep(far) { // one of the two has just closed
		near.finish(net.ErrClosed)
		far.finish(net.ErrClosed)
		return nil
	}
	select {
	case peer.accepted <- far:
		return near
	default: // 64 strangers wait already
	}
	near.finish(net.ErrClosed)
	far.finish(net.ErrClosed)
	return nil
}

// over reports whether a dial has become pointless.
func (t *Transport) over(ctx context.Context) bool {
	select {
	case <-t.done:
		return true
	default:
		return ctx.Err() != nil
	}
}

func (t *Transport) keep(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.done:
		return false
	default:
		t.links[l] = true
		return true
	}
}

func (t *Transport) forget(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.links, l)
}

// Accept waits for a peer that dialled this transport.
func (t *Transport) Accept(ctx context.Context) (cluster.Link, error) {
	select {
	case l := <-t.accepted:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Unplug takes the transport off the network as a crash does: nobody is told.
// Peers learn of it by silence, or from its next life at this address.
func (t *Transport) Unplug() {
	t.mu.Lock()
	t.unplugged = true
	t.mu.Unlock()
	t.net.leave(t)
}

func (t *Transport) silent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unplugged
}

// Close ends every link and leaves the network. Peers are told, but not after
// an Unplug.
func (t *Transport) Close() error {
	t.once.Do(func() {
		t.net.leave(t)
		t.mu.Lock()
		close(t.done)
		all := make([]*link, 0, len(t.links))
		for l := range t.links {
			all = append(all, l)
		}
		t.mu.Unlock()
		slices.SortFunc(all, func(a, b *link) int { return a.number - b.number })
		for _, l := range all {
			l.Close("stopping")
		}
	})
	return nil
}
