package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/config"
	"shield/runtime/gateway"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// Config is what a Node is made of.
type Config struct {
	// Project is the configuration for this node: cluster.node_id names it, or
	// is empty for a node without a cluster.
	Project *config.Config
	Files   luavm.Files // the project's scripts
	// Services are started beside those of Project, before them: services in Go.
	Services []service.Spec
	FS       luavm.FS                         // what scripts may touch; nil = nothing
	Getenv   func(name string) (string, bool) // os.getenv of scripts; nil = nothing
	Log      *slog.Logger
	// Conn is the UDP socket of the cluster; nil without one. Owned.
	Conn net.PacketConn
	// Listen makes the gateways' listeners; net.Listen by default.
	Listen func(network, address string) (net.Listener, error)
	Epochs cluster.EpochStore // nil: the wall clock alone decides
	Dev    bool               // waits that can't end are looked for
	Seed   int64              // of the services' math.random; 0 = random
	Sim    *Sim               // what a test of a game replaces; nil = nothing

	// Changed hears, from any goroutine, that rows of a part are different now;
	// it must not block. May be nil.
	Changed func(Part)
	// Call hears of every finished call from at most a second after Calls began
	// to say that somebody looks; until then calls are not looked at. Call must not
	// block. Both may be nil.
	Call  func(shield.CallRow)
	Calls func() bool
}

// Part is a kind of rows.
type Part string

const (
	PartNodes    Part = "nodes"
	PartRoutes   Part = "routes"
	PartServices Part = "services"
	PartSessions Part = "sessions"
)

// Node is one runtime instance. Use New.
type Node struct {
	cfg      Config
	id       shield.NodeID
	log      *slog.Logger
	services atomic.Pointer[service.Runtime] // nil until the cluster has given the epoch
	cluster  *cluster.Cluster                // nil without one
	gateways []*gateway.Gateway
	guests   guests
	waiting  waiting
	names    names
	routes   atomic.Pointer[shield.RPCTable]
	project  atomic.Pointer[config.Config] // whose services run: cfg's, or the last Respec's
	shift    atomic.Int64                  // of the business clock, nanoseconds
	intent   atomic.Pointer[shield.Intent]
	born     time.Time
	count    counters
	callRate atomic.Uint64 // calls a second, as the bits of a float64
	watching bool          // of tellPeers

	info     sync.WaitGroup // the goroutine that tells peers about this node
	stopInfo context.CancelFunc
	infoTick *time.Ticker
	life     life
}

// life lets Stop come at any moment of Start, and more than once.
type life struct {
	mu      sync.Mutex
	abort   context.CancelFunc // of a Start
	started chan struct{}      // closed when Start has done what it does; nil before it
	stopped chan struct{}      // closed when Stop has; nil before it
	err     error              // of Stop
}

type counters struct {
	lostPushes    atomic.Int64
	refusedFrames atomic.Int64
}

// ID is this node's id; shield.LocalNode without a cluster.
func (n *Node) ID() shield.NodeID { return n.id }

// Epoch is this node's epoch, final after Start.
func (n *Node) Epoch() shield.NodeEpoch {
	if n.cluster == nil {
		return 1
	}
	return n.cluster.Epoch()
}

// Runtime gives the services of this node to what reloads and inspects them; nil
// before Start.
func (n *Node) Runtime() *service.Runtime { return n.services.Load() }

// Failed is closed when the node can't go on: a peer refused it as a duplicate.
// Err then says why. It is nil without a cluster.
func (n *Node) Failed() <-chan struct{} {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.Done()
}

// Err says why Failed is closed; nil after an orderly Stop.
func (n *Node) Err() error {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.Err()
}

// Start joins the cluster, starts the services in their order, and opens the
// gateways last. On failure everything that ran is stopped again.
func (n *Node) Start(ctx context.Context) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	l := &n.life
	l.mu.Lock()
	if l.started != nil || l.stopped != nil {
		l.mu.Unlock()
		return shield.Errorf(shield.RuntimeStopping, "node %s was started or stopped before; make a new one", n.id)
	}
	done := make(chan struct{})
	l.abort, l.started = abort, done
	l.mu.Unlock()

	err := n.start(ctx)
	close(done)
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(err, n.Stop(stop))
	}
	return err
}

func (n *Node) start(ctx context.Context) error {
	if n.cluster != nil {
		if err := n.cluster.Start(ctx); err != nil {
			return fmt.Errorf("join the cluster: %w", err)
		}
	}
	if err := n.buildServices(); err != nil {
		return err
	}
	if err := n.Runtime().Start(ctx, append(slices.Clone(n.cfg.Services), specsOf(n.cfg.Project, n.id)...)); err != nil {
		return fmt.Errorf("start the services: %w", err)
	}
	if err := n.CheckHandlers(n.cfg.Project.RPC); err != nil {
		return err
	}
	for _, g := range n.gateways {
		if err := g.Start(); err != nil {
			return fmt.Errorf("open gateway %s: %w", g.ID(), err)
		}
	}
	infoCtx, cancel := context.WithCancel(context.Background())
	n.stopInfo, n.infoTick = cancel, time.NewTicker(tellEvery)
	n.info.Go(func() { n.tellPeers(infoCtx) })
	n.setIntent(shield.Serving)
	return ctx.Err()
}

// Drain leaves routing first, then stops taking clients and lets the services
// finish (on_shutdown), as long as ctx lasts. The node goes on answering what is
// addressed by handle until Stop.
func (n *Node) Drain(ctx context.Context) (err error) {
	n.setIntent(shield.Draining)
	if n.cluster != nil {
		n.cluster.Drain()
	}
	for _, g := range n.gateways {
		g.Drain()
	}
	n.log.Info("draining: services finish what they do", "service", "node", "event", "drain")
	if s := n.Runtime(); s != nil {
		err = s.Drain(ctx)
	}
	n.changed(PartNodes)
	return err
}

// Stop ends everything, in the reverse order of Start, and waits for it as long
// as ctx lasts. It may be called at any moment and more than once.
func (n *Node) Stop(ctx context.Context) error {
	l := &n.life
	l.mu.Lock()
	if done := l.stopped; done != nil {
		l.mu.Unlock()
		select {
		case <-done:
			return l.err
		case <-ctx.Done():
			return fmt.Errorf("stop node %s: %w", n.id, ctx.Err())
		}
	}
	done, started := make(chan struct{}), l.started
	l.stopped = done
	if l.abort != nil {
		l.abort()
	}
	l.mu.Unlock()
	if started != nil {
		<-started // it heeds its context
	}
	l.err = n.stop(ctx)
	close(done)
	return l.err
}

func (n *Node) stop(ctx context.Context) error {
	if n.stopInfo != nil {
		n.stopInfo()
		n.info.Wait()
	}
	var errs []error
	// Clients get half of the time to hear why they are sent away; the rest is for
	// what comes after them.
	polite, cancel := halfOf(ctx)
	for _, g := range n.gateways {
		errs = append(errs, g.Close(polite))
	}
	cancel()
	if s := n.Runtime(); s != nil {
		errs = append(errs, s.Stop(ctx))
	}
	if n.cluster != nil {
		errs = append(errs, n.cluster.Close(ctx))
	}
	return errors.Join(errs...)
}

// halfOf gives a context that ends in half the time that ctx has left.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if d, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(d)/2)
	}
	return context.WithCancel(ctx)
}

// Kill ends the node as a crash would be seen from outside: its socket is gone
// at once and nobody is told. What lives in this process is still cleaned up.
func (n *Node) Kill() error {
	if n.cfg.Conn != nil {
		n.cfg.Conn.Close()
	}
	if n.cfg.Sim != nil {
		n.cfg.Sim.Unplug()
	}
	for _, g := range n.gateways {
		g.Cut()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return n.Stop(ctx)
}

func (n *Node) setIntent(i shield.Intent) {
	n.intent.Store(&i)
	n.changed(PartNodes)
}

// Intent is what the node means to do.
func (n *Node) Intent() shield.Intent {
	if i := n.intent.Load(); i != nil {
		return *i
	}
	return shield.Serving
}

func (n *Node) changed(p Part) {
	if n.cfg.Changed != nil {
		n.cfg.Changed(p)
	}
}

// tellEvery is how often peers may be told of new figures.
const tellEvery = time.Second

// tellPeers measures the rate of calls and keeps what other nodes' tools show
// of this node up to date. The cluster sends it only when it differs.
func (n *Node) tellPeers(ctx context.Context) {
	t := n.infoTick
	defer t.Stop()
	at, total := time.Now(), n.Runtime().Counters().Calls
	for {
		n.watchCalls()
		if n.cluster != nil {
			n.cluster.SetInfo(n.summary())
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, calls := time.Now(), n.Runtime().Counters().Calls
		n.callRate.Store(math.Float64bits(float64(calls-total) / now.Sub(at).Seconds()))
		at, total = now, calls
	}
}

// watchCalls has calls looked at while somebody wants to see them.
func (n *Node) watchCalls() {
	want := n.cfg.Calls != nil && n.cfg.Calls()
	if want == n.watching {
		return
	}
	n.watching = want
	if want {
		n.Runtime().OnCall(n.cfg.Call)
	} else {
		n.Runtime().OnCall(nil)
	}
}

// onMember hears of every change of another node's state.
func (n *Node) onMember(ev cluster.Event) {
	n.changed(PartNodes)
	n.changed(PartRoutes)
	switch {
	case ev.Node == "": // a placeholder has no sessions
	case ev.To == shield.Offline:
		n.lost(ev)
	case ev.To == shield.Online:
		edge{n}.resume(ev.Node)
	case ev.To == shield.Removed:
		n.lost(ev) // a bind may have come while it was offline, just before its link broke
		n.waiting.take(ev.Node)
	}
}

// lost ends the sessions between this node and another that is offline. The other
// may live and not know of it, so it is told when it is back.
func (n *Node) lost(ev cluster.Event) {
	for _, g := range n.gateways {
		g.NodeGone(ev.Node, ev.Epoch, shield.NodeOffline)
	}
	for _, nt := range n.guests.leave(ev.Node, ev.Time, string(shield.NodeOffline)) {
		if err := n.Runtime().Notice(nt); err != nil {
			n.log.Debug("notice not delivered", "service", "node", "session", string(nt.Client.Session), "err", err)
		}
		if err := (edge{n}).closeAt(ev.Node, nt.Client, shield.NodeOffline); err != nil {
			n.log.Debug("session not closed", "service", "node", "session", string(nt.Client.Session), "err", err)
		}
	}
}

// onName feeds the table of names that peers see.
func (n *Node) onName(name shield.Name, id shield.ServiceID, published bool) {
	if n.cluster != nil {
		if published {
			n.cluster.Publish(name, id)
		} else {
			n.cluster.Withdraw(name)
		}
	}
	n.changed(PartRoutes)
	n.changed(PartServices)
}

// onDead closes the sessions of a service that has ended, here and on the nodes
// whose gateways own them.
func (n *Node) onDead(h shield.Handle, code shield.Code) {
	for _, g := range n.gateways {
		g.TargetGone(h, code)
	}
	for _, c := range n.guests.dead(h) {
		if err := (edge{n}).closeAt(c.Gateway.Node(), c, code); err != nil {
			n.log.Debug("session not closed", "service", "node", "session", string(c.Session), "err", err)
		}
	}
	n.changed(PartServices)
}
