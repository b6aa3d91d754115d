package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/session"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// Gateway is one gateway of one node.
type Gateway struct {
	id        shield.GatewayID
	auth      shield.Name
	listeners []Listener
	format    wire.Client
	profile   string // of every client: "protocol/provider"
	provider  string
	limits    Limits
	router    Router
	log       *slog.Logger
	changed   func(shield.SessionID)
	oracle    *session.Oracle
	rand      func() uint64 // nil = the system's
	routes    atomic.Pointer[routes]
	count     *counters
	warned    warnings
	begun     time.Time // what durations count from

	slots slots
	ctx   context.Context // done when Close begins
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.RWMutex
	started  bool
	draining bool
	closed   bool
	clients  map[shield.SessionID]*client
	byTarget map[shield.Handle]*client // head of a list of all clients bound there
	webs     []*http.Server
}

// New checks c and makes a gateway that does not accept yet. The listeners are
// its own from here on, also when New fails.
func New(c Config) (*Gateway, error) {
	g, err := build(c)
	if err != nil {
		for _, l := range c.Listeners {
			if l.Net != nil {
				_ = l.Net.Close() // the error that matters is being returned
			}
		}
		return nil, fmt.Errorf("gateway %s: %w", c.ID, err)
	}
	return g, nil
}

func build(c Config) (*Gateway, error) {
	format, err := c.Protocol.frameFormat()
	if err != nil {
		return nil, err
	}
	if c.Router == nil || c.ID == "" || c.Auth == "" {
		return nil, errors.New("it needs an id, an auth service and a router")
	}
	for _, l := range c.Listeners {
		if l.Net == nil || l.Transport != TCP && l.Transport != TLS && l.Transport != WebSocket {
			return nil, fmt.Errorf("listener %q: this release has %s, %s and %s", l.Transport, TCP, TLS, WebSocket)
		}
		if l.Transport == TLS && l.TLS == nil {
			return nil, errors.New("a tls listener needs a certificate")
		}
	}
	r, err := newRoutes(c.Routes, c.Protocol.Provider)
	if err != nil {
		return nil, err
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{id: c.ID, auth: c.Auth, listeners: append([]Listener(nil), c.Listeners...), format: format,
		profile: c.Protocol.Name + "/" + c.Protocol.Provider, provider: c.Protocol.Provider,
		limits: c.Limits.withDefaults(format.MaxFrameSize), router: c.Router, log: log, changed: c.Changed, oracle: c.Oracle, rand: c.Rand,
		count: newCounters(), begun: time.Now(), clients: map[shield.SessionID]*client{}, byTarget: map[shield.Handle]*client{}}
	g.routes.Store(r)
	g.slots = slots{total: g.limits.MaxConnections, perIP: g.limits.MaxPerIP, ips: map[string]int{}, conns: map[*slotConn]struct{}{}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g, nil
}

// ID names the gateway.
func (g *Gateway) ID() shield.GatewayID { return g.id }

// now is the time since the gateway was made: monotonic and cheap to keep.
func (g *Gateway) now() time.Duration { return time.Since(g.begun) }

// Start begins to accept clients.
func (g *Gateway) Start() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || g.closed {
		return shield.Errorf(shield.RuntimeStopping, "gateway %s was started or closed before", g.id)
	}
	g.started = true
	for i := range g.listeners {
		g.serve(&g.listeners[i])
	}
	g.wg.Go(g.sweep)
	return nil
}

// Addrs lists the addresses as clients dial them: "tcp://127.0.0.1:7001".
func (g *Gateway) Addrs() []string {
	all := make([]string, 0, len(g.listeners))
	for _, l := range g.listeners {
		scheme, path := l.Transport, ""
		if l.Transport == WebSocket {
			path = l.path()
			if l.TLS != nil {
				scheme = "wss"
			}
		}
		all = append(all, scheme+"://"+l.Net.Addr().String()+path)
	}
	return all
}

// SetRoutes swaps the table of RPC routes. Frames are checked against one table
// or the other, never a mixture. A table with a codec this release does not have
// is refused whole.
func (g *Gateway) SetRoutes(t *shield.RPCTable) error {
	r, err := newRoutes(t, g.provider)
	if err != nil {
		return fmt.Errorf("gateway %s keeps its routes: %w", g.id, err)
	}
	g.routes.Store(r)
	return nil
}

// Drain stops accepting; the sessions that are there go on.
func (g *Gateway) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return
	}
	g.draining = true
	for _, l := range g.listeners {
		_ = l.Net.Close() // a listener that is closed already is what we want
	}
}

func (g *Gateway) isDraining() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.draining
}

// Cut stops accepting and ends every connection at once, as a crash would: no
// client is told why. Close still has to follow.
func (g *Gateway) Cut() {
	g.Drain()
	g.slots.cut()
}

// Close stops accepting, ends every session with a close frame that says
// runtime_stopping, and waits for the connections to be gone; when ctx ends it
// cuts them. It may be called more than once.
func (g *Gateway) Close(ctx context.Context) error {
	g.Drain()
	g.mu.Lock()
	g.closed = true
	webs := g.webs
	g.mu.Unlock()
	for _, c := range g.all() {
		c.drop(shield.RuntimeStopping)
	}
	g.stop()
	for _, w := range webs {
		_ = w.Close() // it only reports the listener, closed by Drain
	}
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		g.slots.cut()
	}
	<-done
	return nil
}

// all lists the clients whose session is not over.
func (g *Gateway) all() []*client {
	g.mu.RLock()
	defer g.mu.RUnlock()
	list := make([]*client, 0, len(g.clients))
	for _, c := range g.clients {
		list = append(list, c)
	}
	if g.rand != nil { // a run that must repeat
		slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	}
	return list
}

func (g *Gateway) find(id shield.SessionID) *client {
	g.mu.RLock()
	c := g.clients[id]
	g.mu.RUnlock()
	return c
}

// Bind moves a session to a new target and player if it is still at ref's epoch.
// The new target has heard of it when Bind returns.
func (g *Gateway) Bind(ref shield.ClientRef, target shield.Handle, player string) (shield.ClientRef, error) {
	c := g.find(ref.Session)
	if c == nil {
		return shield.ClientRef{}, shield.Errorf(shield.SessionClosed, "bind %s: gateway %s has no such session: the client has left", ref.Session, g.id)
	}
	return c.bind(ref, target, player)
}

// Push sends one frame to a client, if every check on the way out passes; what
// is refused is counted and logged, nothing else. The body may be reused when
// Push returns.
func (g *Gateway) Push(p *shield.Push) {
	c := g.find(p.Client.Session)
	if c == nil {
		g.refuse(cOutSession, "push refused: the session is gone", p.Client)
		return
	}
	c.push(p)
}

// CloseSession ends a session for a service (shield.client.close), whatever
// epoch its ref has. An empty reason reads "kicked".
func (g *Gateway) CloseSession(ref shield.ClientRef, reason string) error {
	if c := g.find(ref.Session); c != nil && c.kick(reason) {
		return nil
	}
	return shield.Errorf(shield.SessionClosed, "close %s: the session is gone already", ref.Session)
}

// TargetGone ends the sessions bound to a service that has ended, with code.
func (g *Gateway) TargetGone(h shield.Handle, code shield.Code) {
	g.mu.RLock()
	var bound []*client
	for c := g.byTarget[h]; c != nil; c = c.next {
		bound = append(bound, c)
	}
	g.mu.RUnlock()
	for _, c := range bound {
		c.targetGone(h, code)
	}
}

// BindingGone ends a session whose target has ended, with code, if it is still
// at ref's epoch: a target that ends after the session moved on is no reason.
func (g *Gateway) BindingGone(ref shield.ClientRef, code shield.Code) {
	if c := g.find(ref.Session); c != nil {
		c.bindingGone(func(b session.Binding) bool { return b.Epoch == ref.Epoch }, code)
	}
}

// NodeGone ends the sessions whose target lived on a node that is gone, with
// code. Epoch 0 means any start of the node.
func (g *Gateway) NodeGone(node shield.NodeID, epoch shield.NodeEpoch, code shield.Code) {
	g.mu.RLock()
	var gone []shield.Handle
	for h := range g.byTarget {
		if h.Node == node && (epoch == 0 || h.Epoch == epoch) {
			gone = append(gone, h)
		}
	}
	g.mu.RUnlock()
	slices.SortFunc(gone, func(a, b shield.Handle) int { return cmp.Compare(a.ID, b.ID) }) // as in all
	for _, h := range gone {
		g.TargetGone(h, code)
	}
}

// Count is how many sessions there are.
func (g *Gateway) Count() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.clients)
}

// CountTargets calls each once for every session, with its target.
func (g *Gateway) CountTargets(each func(shield.Handle)) {
	g.mu.RLock()
	var all []shield.Handle
	for h, c := range g.byTarget {
		for ; c != nil; c = c.next {
			all = append(all, h)
		}
	}
	g.mu.RUnlock()
	for _, h := range all {
		each(h)
	}
}

// Counters gives everything the gateway counts, since it was made.
func (g *Gateway) Counters() map[string]int64 { return g.count.all() }

// enter puts a client into the registry, unless the gateway closes.
func (g *Gateway) enter(c *client, target shield.Handle) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.clients[c.id] = c
	g.attach(c, target)
	return true
}

// leave takes a client out of the registry.
func (g *Gateway) leave(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.clients, c.id)
	g.detach(c)
}

// retarget moves a client to its new target in the registry.
func (g *Gateway) retarget(c *client, target shield.Handle) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.detach(c)
	g.attach(c, target)
}

func (g *Gateway) attach(c *client, target shield.Handle) {
	c.at, c.prev, c.next = target, nil, g.byTarget[target]
	if c.next != nil {
		c.next.prev = c
	}
	g.byTarget[target] = c
}

func (g *Gateway) detach(c *client) {
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case c.next != nil:
		g.byTarget[c.at] = c.next
	default:
		delete(g.byTarget, c.at)
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

func (g *Gateway) notifyChanged(id shield.SessionID) {
	if g.changed != nil {
		g.changed(id)
	}
}
