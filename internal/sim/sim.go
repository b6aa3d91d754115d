// Package sim is a network in memory for tests: packets between sockets that
// can be lost, doubled, late or cut off, from one seed, and listeners for
// clients. It works inside testing/synctest bubbles, where all its time is
// virtual. It is for tests only and knows nothing of the runtime.
package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// Network carries packets between the sockets that Listen made. A zero rate
// means never.
type Network struct {
	router router
	mu     sync.Mutex
	links  []*simnet.SimulatedLink
}

// New makes a network whose chances come from seed. Every packet takes latency.
func New(seed uint64, latency time.Duration) *Network {
	return &Network{router: router{
		rng: rand.New(rand.NewPCG(seed, 1)), latency: latency,
		cut: map[[2]string]bool{}, down: map[string]bool{}, known: map[string]bool{},
	}}
}

// Listen makes a socket at addr, such as 10.0.0.1:9000.
func (n *Network) Listen(addr string) (net.PacketConn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("simulated socket: %w", err)
	}
	u := net.UDPAddrFromAddrPort(ap)
	link := &simnet.SimulatedLink{LatencyFunc: n.router.delay, UploadPacket: &n.router}
	conn := simnet.NewBlockingSimConn(u, link)
	link.Start()
	n.router.AddNode(u, link) // not before: packets may wait for this address
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, link)
	return conn, nil
}

// Close ends the network. The sockets must be closed before.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.Close()
	}
	n.links = nil
}

// Cut loses every packet from one address to another, one way, until Heal.
func (n *Network) Cut(from, to string) { n.set(func(r *router) { r.cut[[2]string{from, to}] = true }) }

// Heal ends a Cut.
func (n *Network) Heal(from, to string) {
	n.set(func(r *router) { delete(r.cut, [2]string{from, to}) })
}

// HealAll ends every Cut.
func (n *Network) HealAll() { n.set(func(r *router) { clear(r.cut) }) }

// Bury ends every QUIC connection of now without telling anybody: its packets
// vanish, those of new connections pass.
func (n *Network) Bury() {
	n.set(func(r *router) { r.buried, r.known = r.known, map[string]bool{} })
}

// Latency is what every packet takes from now on.
func (n *Network) Latency(d time.Duration) { n.set(func(r *router) { r.latency = d }) }

// Down takes an address off the network, or puts it back.
func (n *Network) Down(addr string, down bool) { n.set(func(r *router) { r.down[addr] = down }) }

// Faults makes packets get lost or doubled at a rate of 0 to 1, and arrive up to
// jitter later, so also out of order.
func (n *Network) Faults(loss, double float64, jitter time.Duration) {
	n.set(func(r *router) { r.loss, r.double, r.jitter = loss, double, jitter })
}

// Traffic counts what was sent so far.
func (n *Network) Traffic() (packets, bytes int) {
	n.set(func(r *router) { packets, bytes = r.packets, r.bytes })
	return packets, bytes
}

func (n *Network) set(change func(*router)) {
	n.router.mu.Lock()
	defer n.router.mu.Unlock()
	change(&n.router)
}

// router decides what becomes of every packet.
type router struct {
	simnet.PerfectRouter
	mu      sync.Mutex
	rng     *rand.Rand
	cut     map[[2]string]bool // from, to
	down    map[string]bool
	loss    float64
	double  float64
	latency time.Duration
	jitter  time.Duration
	packets int
	bytes   int
	known   map[string]bool // the connection ids that packets were sent to
	buried  map[string]bool
}

// connectionID is where a packet after the handshake of QUIC goes: both ends use
// ids of 8 bytes.
func connectionID(p []byte) string {
	if len(p) < 9 || p[0]&0x80 != 0 {
		return ""
	}
	return string(p[1:9])
}

// SendPacket is called by the links.
func (r *router) SendPacket(p simnet.Packet) error {
	r.mu.Lock()
	from, to := p.From.String(), p.To.String()
	lost := r.cut[[2]string{from, to}] || r.down[from] || r.down[to] || r.loss > 0 && r.rng.Float64() < r.loss
	if id := connectionID(p.Data); id != "" {
		lost = lost || r.buried[id]
		r.known[id] = true
	}
	twice := r.double > 0 && r.rng.Float64() < r.double
	r.packets++
	r.bytes += len(p.Data)
	r.mu.Unlock()
	if lost {
		return nil
	}
	if twice {
		again := p
		again.Data = bytes.Clone(p.Data)
		_ = r.PerfectRouter.SendPacket(again) // an unknown address is a machine that is off
	}
	_ = r.PerfectRouter.SendPacket(p)
	return nil
}

func (r *router) delay(simnet.Packet) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.latency
	if r.jitter > 0 {
		d += time.Duration(r.rng.Int64N(int64(r.jitter)))
	}
	return d
}
