package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// Cluster is one node's membership in a cluster.
type Cluster struct {
	cfg  Config
	log  *slog.Logger
	lim  timeouts
	keys [][]byte
	base time.Time

	epoch atomic.Uint64
	ctx   context.Context // ends when the node leaves; everything but the owner watches it
	stop  context.CancelFunc
	wg    sync.WaitGroup // everything but the owner and the event loop

	cmds      chan func()
	ownerStop chan struct{}
	ownerDone chan struct{}

	startMu sync.Mutex
	started bool
	closed  bool

	doneOnce sync.Once
	done     chan struct{}
	err      error // readable once done is closed
	// settling is true while Start waits; only then may the epoch rise, once.
	settling atomic.Bool

	peers    atomic.Pointer[map[shield.NodeID]*peer]
	views    atomic.Pointer[[]view]
	table    table
	calls    calls
	info     atomic.Pointer[Info]
	draining atomic.Bool
	closing  atomic.Bool
	excused  atomic.Int64 // until when peers' word that they don't hear us counts for nothing
	stats    stats
	events   *events
	civil    civil

	own owned
}

// owned is the state of the owner's goroutine.
type owned struct {
	members  *members
	dialers  map[string]*dialer
	incoming map[shield.NodeID]waiting // accepted handshakes that wait for hello_fin
	replays  *replays
	hellos   map[[wire.NonceSize]byte]struct{} // our own, under way: tells a connection to ourselves
	stopping bool
	ticker   *time.Ticker
	resting  bool          // see Rest
	rested   time.Duration // when that began
	lastRun  time.Duration
	lastWall time.Time // without its monotonic reading
	told     Strangers // what the log has of them
	nextBeat time.Duration
	nextPoke time.Duration
	nextTidy time.Duration
}

const (
	pingLimit      = 500 * time.Millisecond // within which a live holder of an id answers
	handshakeLimit = 3 * time.Second
	pokeInterval   = 400 * time.Millisecond
	maxBody        = 15 << 20 // of arguments, results and opaque frames
)

// New checks cfg and makes a Cluster that is not running yet.
func New(cfg Config) (*Cluster, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Log.With("service", "cluster"), base: time.Now(),
		lim:       timeouts{cfg.Suspect, cfg.Offline, cfg.Removed},
		keys:      cfg.Auth.keys(),
		cmds:      make(chan func()),
		ownerStop: make(chan struct{}),
		ownerDone: make(chan struct{}),
		done:      make(chan struct{}),
		events:    newEvents(),
		own: owned{
			members: newMembers(), dialers: map[string]*dialer{}, incoming: map[shield.NodeID]waiting{},
			replays: newReplays(), hellos: map[[wire.NonceSize]byte]struct{}{},
		},
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.epoch.Store(uint64(cfg.Epoch))
	c.table.init()
	c.calls.init(1<<63 - 1)
	c.peers.Store(&map[shield.NodeID]*peer{})
	c.views.Store(&[]view{})
	c.info.Store(&Info{})
	return c, nil
}

// complete fills in the defaults and checks what would not work.
func (cfg *Config) complete() error {
	setDefault(&cfg.Heartbeat, 2*time.Second)
	setDefault(&cfg.Suspect, 6*time.Second)
	setDefault(&cfg.Offline, 10*time.Second)
	setDefault(&cfg.Removed, 60*time.Second)
	setDefault(&cfg.AnnounceEvery, 3*time.Second)
	setDefault(&cfg.ScanEvery, 3*time.Second)
	setDefault(&cfg.Settle, 600*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.N[time.Duration]
	}
	if cfg.Epoch == 0 {
		cfg.Epoch, _ = NextEpoch(cfg.Wall(), nil)
	}
	cfg.Peers = slices.Clone(cfg.Peers)
	switch {
	case shield.CheckName(string(cfg.Node)) != nil:
		return fmt.Errorf("cluster.node_id: %w", shield.CheckName(string(cfg.Node)))
	case cfg.Transport == nil || cfg.Local == nil:
		return errors.New("cluster: Config.Transport and Config.Local are needed")
	case cfg.Heartbeat < 50*time.Millisecond:
		return fmt.Errorf("cluster.heartbeat_interval_ms: %v is less than 50 ms", cfg.Heartbeat)
	case cfg.Suspect <= cfg.Heartbeat || cfg.Offline <= cfg.Suspect:
		return fmt.Errorf("cluster: heartbeat %v, suspect %v and offline %v must rise", cfg.Heartbeat, cfg.Suspect, cfg.Offline)
	case cfg.Auth.Mode == wire.AuthToken && cfg.Auth.Token == "":
		return errors.New("cluster.auth.token is empty: every node of the cluster needs the same secret")
	case cfg.Auth.Mode == wire.AuthMTLS:
		return errors.New("cluster.auth.type: mtls is not built yet; use token")
	}
	if cfg.Advertise == "" {
		cfg.Advertise = advertised(cfg.Transport.Addr())
	}
	return nil
}

func setDefault(p *time.Duration, d time.Duration) {
	if *p == 0 {
		*p = d
	}
}

// Node is this node's id.
func (c *Cluster) Node() shield.NodeID { return c.cfg.Node }

// Epoch is this node's epoch; final once Start has returned.
func (c *Cluster) Epoch() shield.NodeEpoch { return shield.NodeEpoch(c.epoch.Load()) }

// Advertise is where others are told to dial this node.
func (c *Cluster) Advertise() string { return c.cfg.Advertise }

// now is the time since the cluster's beginning, on the monotonic clock.
func (c *Cluster) now() time.Duration { return time.Since(c.base) }

// Start joins: it accepts and dials, and waits for the first verdict of every
// configured peer, at most Config.Settle. A node whose id is held by a live node
// elsewhere fails here with a *DuplicateError; one whose epoch a peer remembers
// as surpassed takes a higher one, once, so Epoch is final only after Start.
// After an error, Close still has to be called.
func (c *Cluster) Start(ctx context.Context) error {
	c.startMu.Lock()
	if c.started || c.closed {
		c.startMu.Unlock()
		return errors.New("cluster: started twice, or after Close")
	}
	c.started = true
	c.warnAtStart()
	c.settling.Store(c.cfg.Settle > 0)
	c.own.lastRun, c.own.lastWall = c.now(), c.cfg.Wall().Round(0)
	go c.runOwner()
	c.wg.Go(c.acceptLoop)
	var firsts []chan struct{}
	c.ask(func() {
		for _, addr := range c.cfg.Peers {
			if d := c.addDialer(addr, "", true); d != nil {
				firsts = append(firsts, d.first)
			}
		}
	})
	if c.cfg.Discovery != nil {
		c.wg.Go(c.discover)
	}
	c.startMu.Unlock()
	return c.settle(ctx, firsts)
}

// settle waits until every configured peer has given its first verdict.
func (c *Cluster) settle(ctx context.Context, firsts []chan struct{}) error {
	if c.cfg.Settle < 0 {
		return nil
	}
	defer c.settling.Store(false)
	timer := time.NewTimer(c.cfg.Settle)
	defer timer.Stop()
	for _, first := range firsts {
		select {
		case <-first:
		case <-timer.C:
			return c.Err()
		case <-c.done:
			return c.Err()
		case <-c.ctx.Done():
			return net.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.Err()
}

// raiseEpoch takes a higher epoch while Start still waits. It reports false when
// it is too late for that. Links made with the old epoch are ended; they are
// dialled again.
func (c *Cluster) raiseEpoch(to shield.NodeEpoch) bool {
	if !c.settling.CompareAndSwap(true, false) {
		return false
	}
	c.log.Warn("a peer remembers a later start of this node; taking a higher epoch", "old", c.Epoch().String(), "new", to.String())
	c.epoch.Store(uint64(to))
	for _, cn := range c.conns() {
		cn.link.Close("this node takes a higher epoch")
	}
	return true
}

func (c *Cluster) warnAtStart() {
	if c.cfg.Auth.Mode == wire.AuthNone {
		c.log.Warn("cluster.auth is none: whoever reaches the cluster port can join and run code; set cluster.auth.type: token")
	}
	if !isLoopback(c.cfg.Advertise) {
		return
	}
	for _, p := range c.cfg.Peers {
		if !isLoopback(p) {
			c.log.Warn("this node tells its peers a loopback address, which a peer on another machine can't dial; set cluster.advertise",
				"advertise", c.cfg.Advertise, "peer", p)
			return
		}
	}
}

// Done is closed when the cluster has ended; Err then says why. It ends by
// itself when a peer refuses this running node as a duplicate; Close is still
// needed then.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil while the cluster runs and after an orderly Close.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func (c *Cluster) end(err error) {
	c.doneOnce.Do(func() {
		c.err = err
		close(c.done)
	})
}

// Drain leaves routing: peers see the intent draining and an empty table of
// names, while what is addressed by handle goes on.
func (c *Cluster) Drain() {
	if c.draining.Swap(true) {
		return
	}
	c.hideTable()
	for _, cn := range c.conns() {
		c.sendHeartbeat(cn)
	}
}

// SetInfo says what peers' tools shall see of this node. New gateways are told
// at once, numbers with the next heartbeat.
func (c *Cluster) SetInfo(i Info) {
	i.Gateways = slices.Clone(i.Gateways)
	old := c.info.Swap(&i)
	if slices.Equal(old.Gateways, i.Gateways) {
		return
	}
	frame := wire.AppendInfo(nil, &wire.Info{Gateways: i.Gateways})
	for _, cn := range c.conns() {
		_ = cn.write(Control, frame) // counted
	}
}

// conns lists the adopted links.
func (c *Cluster) conns() []*conn {
	var out []*conn
	for _, p := range *c.peers.Load() {
		p.mu.RLock()
		if p.conn != nil {
			out = append(out, p.conn)
		}
		p.mu.RUnlock()
	}
	// In one order every time, so that a run can be repeated.
	slices.SortFunc(out, func(a, b *conn) int { return strings.Compare(string(a.peer.id), string(b.peer.id)) })
	return out
}

// closeLimit bounds how long Close waits for peers that don't answer, also when
// its context has no end.
const closeLimit = 2 * time.Second

// Close says goodbye to every peer, waits until they have read all that was
// written before, withdraws from discovery and frees everything. ctx bounds the
// polite part. It may be called at any moment, also twice.
func (c *Cluster) Close(ctx context.Context) error {
	c.startMu.Lock()
	if c.closed {
		c.startMu.Unlock()
		<-c.ownerDone
		return nil
	}
	c.closed = true
	started := c.started
	c.startMu.Unlock()
	if !started {
		close(c.ownerDone)
		c.stop()
		c.end(nil)
		c.closeDiscovery()
		return c.cfg.Transport.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	c.draining.Store(true)
	c.closing.Store(true)
	c.ask(func() { c.own.stopping = true })
	c.sayGoodbye(ctx)
	c.stop()
	err := c.cfg.Transport.Close()
	c.wg.Wait()
	c.ask(c.releaseAll)
	close(c.ownerStop)
	<-c.ownerDone
	c.end(nil)
	return err
}

func (c *Cluster) sayGoodbye(ctx context.Context) {
	conns := c.conns()
	frame := wire.AppendGoodbye(nil, wire.KindGoodbye, "stopping")
	for _, cn := range conns {
		// Data first: when the control stream's copy makes the peer refuse new
		// work, everything before it is on its way.
		_ = cn.write(Data, frame)
		_ = cn.write(Control, frame)
	}
	for _, cn := range conns {
		select {
		case <-cn.gone:
		case <-cn.link.Done():
		case <-ctx.Done():
		}
		cn.link.Close("stopping")
	}
}

// releaseAll ends what still waits when every link is gone.
func (c *Cluster) releaseAll() {
	for _, w := range c.calls.fail(nil, false) {
		w.Done(nil, shield.Errorf(shield.RuntimeStopping, "this node is stopping"))
	}
}
