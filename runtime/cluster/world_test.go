package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shield/internal/sim"
	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/transport"
	"shield/runtime/wire"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("SHIELD_TEST_NODE"); child != "" {
		runChild(child)
		return
	}
	goleak.VerifyTestMain(m)
}

// world is a simulated network with nodes on it. It lives inside one synctest
// bubble: all time in it is virtual.
type world struct {
	t     testing.TB
	net   *sim.Network
	rng   *rand.Rand
	token string
	begin time.Time
	mu    sync.Mutex
	nodes []*testNode
	ends  []func() error // of what else is on the network
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{t: t, net: sim.New(seed, 2*time.Millisecond), rng: rand.New(rand.NewPCG(seed, 2)), token: "0123456789abcdef", begin: time.Now()}
}

// endpoint puts a socket at addr onto the network.
func (w *world) endpoint(addr string) net.PacketConn {
	w.t.Helper()
	conn, err := w.net.Listen(addr)
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// testNode is one node: a cluster on QUIC with a local end that tests look into.
type testNode struct {
	w       *world
	id      shield.NodeID
	addr    string
	cfg     cluster.Config
	c       *cluster.Cluster
	local   localEnd
	wrap    func(cluster.Transport) cluster.Transport // nil = as it is
	log     *logBuffer
	dead    bool
	mu      sync.Mutex
	history []cluster.Event
}

func (n *testNode) onEvent(e cluster.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.history = append(n.history, e)
}

func (n *testNode) events() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, e := range n.history {
		out = append(out, fmt.Sprintf("%s %s>%s", e.Node, e.From, e.To))
	}
	return out
}

// reasons lists why peer came into state.
func (n *testNode) reasons(peer shield.NodeID, state shield.NodeState) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, e := range n.history {
		if e.Node == peer && e.To == state {
			out = append(out, e.Reason)
		}
	}
	return out
}

// make prepares a node at 10.0.0.<host>:9000 without starting it.
func (w *world) make(id string, host int, peers ...int) *testNode {
	w.t.Helper()
	n := &testNode{w: w, id: shield.NodeID(id), addr: addrOf(host), local: newLocal(), log: &logBuffer{}}
	n.cfg = cluster.Config{
		Name: "test", Node: n.id, Local: n.local, OnEvent: n.onEvent,
		Auth: cluster.Auth{Mode: wire.AuthToken, Token: w.token},
		Log:  slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if w.token == "" {
		n.cfg.Auth = cluster.Auth{}
	}
	for _, p := range peers {
		n.cfg.Peers = append(n.cfg.Peers, addrOf(p))
	}
	return n
}

// start starts a node and waits for Start.
func (n *testNode) start() error {
	n.w.t.Helper()
	n.prepare()
	return n.c.Start(context.Background())
}

// prepare gives the node its socket and its cluster.
func (n *testNode) prepare() {
	n.w.t.Helper()
	tr, err := transport.New(transport.Config{Conn: n.w.endpoint(n.addr), Node: n.id, Token: n.cfg.Auth.Token, Log: n.cfg.Log})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.cfg.Transport = tr
	if n.wrap != nil {
		n.cfg.Transport = n.wrap(tr)
	}
	n.c, err = cluster.New(n.cfg)
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.local.bind(n.c)
	n.w.mu.Lock()
	n.w.nodes = append(n.w.nodes, n)
	n.w.mu.Unlock()
}

func (w *world) start(id string, host int, peers ...int) *testNode {
	w.t.Helper()
	n := w.make(id, host, peers...)
	if err := n.start(); err != nil {
		w.t.Fatalf("start %s: %v", id, err)
	}
	return n
}

// dialled runs check on two nodes that are online to each other; a dialled b.
func dialled(t *testing.T, seed uint64, check func(w *world, a, b *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		defer w.close()
		b := w.start("b", 2)
		a := w.start("a", 1, 2)
		a.wantStates(time.Second, "b online")
		b.wantStates(time.Second, "a online")
		check(w, a, b)
	})
}

// crash ends a node as kill -9 does: not one packet tells of it.
func (n *testNode) crash() {
	n.w.net.Down(n.addr, true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.c.Close(ctx)
	n.dead = true
	time.Sleep(time.Microsecond) // until the network has swallowed the last packet
	n.w.net.Down(n.addr, false)
}

func (n *testNode) stop() {
	n.w.t.Helper()
	if n.dead {
		return
	}
	n.dead = true
	if err := n.c.Close(context.Background()); err != nil {
		n.w.t.Errorf("close %s: %v", n.id, err)
	}
}

// again is a new start of the same node at the same address.
func (n *testNode) again() *testNode {
	m := &testNode{w: n.w, id: n.id, addr: n.addr, cfg: n.cfg, local: newLocal(), log: &logBuffer{}}
	m.cfg.Local, m.cfg.OnEvent, m.cfg.Epoch = m.local, m.onEvent, 0
	m.cfg.Log = slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return m
}

// logs are the logs of all nodes, for a failure.
func (w *world) logs() string {
	var b strings.Builder
	for _, n := range w.nodes {
		fmt.Fprintf(&b, "--- %s at %s\n%s", n.id, n.addr, n.log)
	}
	return b.String()
}

func (w *world) close() {
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		wg.Go(n.stop)
	}
	wg.Wait()
	for _, end := range w.ends {
		if err := end(); err != nil {
			w.t.Error(err)
		}
	}
	w.net.Close()
}

func (w *world) cut(a, b *testNode, oneWay bool) {
	w.net.Cut(a.addr, b.addr)
	if !oneWay {
		w.net.Cut(b.addr, a.addr)
	}
}

// sees is how n sees the node id.
func (n *testNode) sees(id shield.NodeID) shield.NodeState {
	for _, row := range n.c.Nodes() {
		if row.Node == id && !row.Self {
			return row.State
		}
	}
	return ""
}

// wantStates waits until n sees every peer as wanted, at most limit.
func (n *testNode) wantStates(limit time.Duration, want ...string) {
	n.w.t.Helper()
	var got []string
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		got = nil
		for _, row := range n.c.Nodes() {
			if !row.Self {
				got = append(got, string(row.Node)+" "+string(row.State))
			}
		}
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			n.w.t.Fatalf("after %v %s sees %q, want %q\nevents %q\n%s", limit, n.id, got, want, n.events(), n.w.logs())
		}
	}
}

func (n *testNode) wantResolve(limit time.Duration, node, name string, id shield.ServiceID) {
	n.w.t.Helper()
	var h shield.Handle
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if h, err = n.c.Resolve(shield.NodeID(node), shield.Name(name)); h.ID == id && (id == 0) == (err != nil) {
			return
		}
	}
	n.w.t.Fatalf("%s: Resolve(%s, %s) = %v, %v, want id %d", n.id, node, name, h, err, id)
}

// call makes a call and waits for its end.
func (n *testNode) call(to *testNode, method string, timeout time.Duration) (string, error) {
	return n.callHandle(shield.Handle{Node: to.id, Epoch: to.c.Epoch(), ID: 7}, method, timeout)
}

func (n *testNode) callHandle(h shield.Handle, method string, timeout time.Duration) (string, error) {
	w := make(waiter, 2)
	id, err := n.c.Call(&shield.Envelope{Target: h, Method: method, Args: []byte("args of " + method), Timeout: timeout}, w)
	if err != nil {
		return "", err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case r := <-w:
		if r.err != nil {
			return "", r.err
		}
		return string(r.result), nil
	case <-timer.C:
		n.c.Cancel(id)
		return "", shield.Timeout
	}
}

type outcome struct {
	result []byte
	err    *shield.Error
}

type waiter chan outcome

func (w waiter) Done(result []byte, err *shield.Error) { w <- outcome{bytes.Clone(result), err} }

// localEnd is what stands behind a cluster in a test.
type localEnd interface {
	cluster.Local
	bind(c *cluster.Cluster)
}

// services is n's end, for tests that look into it.
func (n *testNode) services() *local { return n.local.(*local) }

// local is the node behind a cluster: it answers "echo" at once, "slow..." after
// that time, "large n" with n bytes more than fit, "size" with that of the
// arguments, keeps "hold" for ever, and records the sends.
type local struct {
	c      *cluster.Cluster
	mu     sync.Mutex
	sends  []string
	frames []string
	held   []shield.Replier
	calls  int
}

func (l *local) bind(c *cluster.Cluster) { l.c = c }

func newLocal() *local { return &local{} }

func (l *local) Deliver(e *shield.Envelope, reply shield.Replier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reply == nil {
		l.sends = append(l.sends, e.Method)
		return
	}
	l.calls++
	if d, err := time.ParseDuration(strings.TrimPrefix(e.Method, "slow ")); err == nil {
		args := bytes.Clone(e.Args)
		time.AfterFunc(d, func() { reply.Reply(args, nil) })
		return
	}
	if more, ok := strings.CutPrefix(e.Method, "large "); ok {
		n, _ := strconv.Atoi(more)
		reply.Reply(make([]byte, 15<<20+n), nil)
		return
	}
	switch e.Method {
	case "size":
		reply.Reply(fmt.Append(nil, len(e.Args)), nil)
	case "hold":
		l.held = append(l.held, reply)
	case "fail":
		reply.Reply(nil, shield.Errorf(shield.HandlerError, "room.lua:3: boom"))
	default:
		reply.Reply(e.Args, nil)
	}
}

func (l *local) Frame(from shield.NodeID, _ shield.NodeEpoch, kind wire.Kind, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, fmt.Sprintf("%s %s %s", from, kind, body))
}

func (l *local) ran() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *local) framed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.frames)
}

func (l *local) kept(i int) shield.Replier {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[i]
}

func (l *local) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sends)
}

// logBuffer keeps a log for a failure to print.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) has(text string) bool { return strings.Contains(b.String(), text) }

func (b *logBuffer) count(text string) int { return strings.Count(b.String(), text) }

func addrOf(host int) string { return fmt.Sprintf("10.0.0.%d:9000", host) }

func mustUDP(s string) *net.UDPAddr { return net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
