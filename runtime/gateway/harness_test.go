package gateway

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"shield/internal/sim"
	"shield/runtime/session"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	authSvc = shield.Handle{Node: "n1", Epoch: 1, ID: 1}
	players = shield.Handle{Node: "n1", Epoch: 1, ID: 2}
	faraway = shield.Handle{Node: "n2", Epoch: 9, ID: 5}
)

const (
	rLogin   shield.RouteID = 100
	rMove    shield.RouteID = 101
	rSmall   shield.RouteID = 102
	rSlow    shield.RouteID = 103
	rLoginOK shield.RouteID = 200
	rPos     shield.RouteID = 201
)

func testRoutes() *shield.RPCTable {
	return shield.NewRPCTable([]shield.RPCRoute{
		{ID: rLogin, Name: "auth.login", Dir: shield.ClientToServer, Service: "auth", Handler: "login"},
		{ID: rMove, Name: "player.move", Dir: shield.ClientToServer, Service: "player", Handler: "move", Auth: true},
		{ID: rSmall, Name: "small", Dir: shield.ClientToServer, Service: "auth", Handler: "small", MaxBody: 8},
		{ID: rSlow, Name: "slow", Dir: shield.ClientToServer, Service: "auth", Handler: "slow", Rate: 1, Burst: 2},
		{ID: rLoginOK, Name: "auth.login_ok", Dir: shield.ServerToClient},
		{ID: rPos, Name: "player.pos", Dir: shield.ServerToClient},
	})
}

// fakeRouter is every service: it keeps what it hears in order and may answer.
type fakeRouter struct {
	mu      sync.Mutex
	g       *Gateway
	events  []event
	frames  int64 // taken, ever
	auth    shield.Handle
	authErr error
	fail    map[shield.Handle]error
	onFrame func(g *Gateway, in *shield.Ingress)
	heard   chan struct{} // one for each event, dropped when nobody listens
}

type event struct {
	kind   string // frame, or a hook
	ref    shield.ClientRef
	target shield.Handle
	route  shield.RouteID
	body   string
	reason string
}

func (r *fakeRouter) note(e event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	select {
	case r.heard <- struct{}{}:
	default:
	}
}

func (r *fakeRouter) ResolveAuth(shield.Name) (shield.Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.auth, r.authErr
}

func (r *fakeRouter) failure(h shield.Handle) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail[h]
}

func (r *fakeRouter) Ingress(in *shield.Ingress) error {
	if err := r.failure(in.Target); err != nil {
		return err
	}
	r.mu.Lock()
	r.frames++
	r.mu.Unlock()
	r.note(event{kind: "frame", ref: in.Client, target: in.Target, route: in.Route, body: string(in.Body)})
	if r.onFrame != nil {
		r.onFrame(r.g, in)
	}
	return nil
}

func (r *fakeRouter) Notice(n *shield.Notice) error {
	if err := r.failure(n.Target); err != nil {
		return err
	}
	r.note(event{kind: n.Kind.Hook(), ref: n.Client, target: n.Target, reason: n.Reason})
	return nil
}

func (r *fakeRouter) Moved(ref shield.ClientRef, last shield.Handle) {
	r.note(event{kind: "moved", ref: ref, target: last})
}

func (r *fakeRouter) TargetName(h shield.Handle) string { return h.String() }

func (r *fakeRouter) list() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event(nil), r.events...)
}

// wait gives the first event from index from on for which ok holds.
func (r *fakeRouter) wait(t testing.TB, what string, ok func(event) bool) event {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		for _, e := range r.list() {
			if ok(e) {
				return e
			}
		}
		select {
		case <-r.heard:
		case <-deadline:
			t.Fatalf("no %s; heard %+v", what, r.list())
		}
	}
}

func (r *fakeRouter) kinds(id shield.SessionID) []string {
	var k []string
	for _, e := range r.list() {
		if e.ref.Session == id {
			k = append(k, e.kind)
		}
	}
	return k
}

// rig is a gateway with one listener of one transport and its fake services.
type rig struct {
	*Gateway
	t         testing.TB
	transport string
	router    *fakeRouter
	pipes     *sim.Listener
	roots     *x509.CertPool
}

const pipe = "pipe"

var transports = []string{TCP, TLS, WebSocket, pipe}

// eachTransport runs the same test over every listener.
func eachTransport(t *testing.T, test func(t *testing.T, transport string)) {
	for _, tr := range transports {
		t.Run(tr, func(t *testing.T) { test(t, tr) })
	}
}

func newRig(t testing.TB, transport string, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, transport: transport, router: &fakeRouter{auth: authSvc, fail: map[shield.Handle]error{}, heard: make(chan struct{}, 1)}}
	l := Listener{Transport: transport}
	if transport == pipe {
		l.Transport = TCP
		r.pipes = newPipes()
		l.Net = r.pipes
	} else {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Net = ln
	}
	if transport == TLS {
		l.TLS, r.roots = testTLS(t)
	}
	cfg := Config{ID: "n1:main", Auth: "auth", Listeners: []Listener{l}, Routes: testRoutes(), Protocol: Protocol{Name: "test.v1", Provider: "raw"},
		Router: r.router, Limits: Limits{Rate: -1}, Oracle: session.NewOracle(func(breach string) { t.Error(breach) })}
	if change != nil {
		change(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Gateway, r.router.g = g, g
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	if r.Gateway.router == Router(r.router) { // a benchmark has its own, which counts nothing
		r.books(0)
	}
}

// books checks that the counters account for every connection and every frame,
// when there are so many connections left, and returns them.
func (r *rig) books(left int) map[string]int64 {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // connections end on goroutines of the gateway
		n := r.Counters()
		there := n[cConnections] - n[cKicks] - n[cDrops] - n[cTLSFailed] - n[cWebFailed] - n[cNoSession]
		refused := n[cInRoute] + n[cInDirection] + n[cInAuth] + n[cInSize] + n[cInRate] + n[cInDecode] + n[cInLost] + n[cInCut] + n[cInOver] + n[cPings]
		r.router.mu.Lock()
		taken := r.router.frames
		r.router.mu.Unlock()
		if there == int64(left) && r.open() == left && n[cFramesIn] == taken+refused {
			return n
		}
		if time.Now().After(deadline) {
			r.t.Errorf("by the counters %d connections are there, by the slots %d, want %d; %d frames came in, %d were refused and %d taken",
				there, r.open(), left, n[cFramesIn], refused, taken)
			return n
		}
	}
}

func (r *rig) wantCount(name string, want int64) {
	r.t.Helper()
	if got := r.Counters()[name]; got != want {
		r.t.Errorf("counter %s = %d, want %d", name, got, want)
	}
}

// bot is a client.
type bot struct {
	t    testing.TB
	conn net.Conn
	br   *bufio.Reader
	f    wire.Client
}

// dialConn opens a connection that carries frames.
func (r *rig) dialConn() (net.Conn, error) {
	addr := r.listeners[0].Net.Addr().String()
	switch r.transport {
	case pipe:
		return r.pipes.Dial()
	case TCP:
		return net.Dial("tcp", addr)
	case TLS:
		return tls.Dial("tcp", addr, &tls.Config{RootCAs: r.roots, ServerName: "localhost"})
	}
	ws, _, err := websocket.Dial(context.Background(), "ws://"+addr+"/", nil)
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
}

func (r *rig) dial() *bot {
	r.t.Helper()
	conn, err := r.dialConn()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &bot{t: r.t, conn: conn, br: bufio.NewReader(conn), f: r.format}
}

func (b *bot) send(route shield.RouteID, body string) {
	b.t.Helper()
	frame, err := b.f.Append(nil, route, []byte(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.conn.Write(frame); err != nil {
		b.t.Fatalf("send: %v", err)
	}
}

func (b *bot) recv() (shield.RouteID, string, error) {
	head := make([]byte, b.f.Header())
	if _, err := io.ReadFull(b.br, head); err != nil {
		return 0, "", err
	}
	route, n, err := b.f.ParseHeader(head)
	if err != nil {
		return 0, "", err
	}
	body := make([]byte, n)
	_, err = io.ReadFull(b.br, body)
	return route, string(body), err
}

func (b *bot) want(route shield.RouteID, body string) {
	b.t.Helper()
	r, s, err := b.recv()
	if err != nil || r != route || s != body {
		b.t.Fatalf("received route %d %q, %v; want route %d %q", r, s, err, route, body)
	}
}

// wantClose expects the close frame and then the end of the connection.
func (b *bot) wantClose(reason string) {
	b.t.Helper()
	b.want(shield.RouteClose, reason)
	if r, s, err := b.recv(); err == nil {
		b.t.Fatalf("route %d %q after the close frame", r, s)
	}
	b.conn.Close()
}

var hellos atomic.Int64

// enter opens a session and gives its ref: the auth service hears a login.
func (r *rig) enter(b *bot) shield.ClientRef {
	r.t.Helper()
	tag := fmt.Sprintf(`"hello %d"`, hellos.Add(1)) // JSON too
	b.send(rLogin, tag)
	return r.router.wait(r.t, "login", func(e event) bool { return e.kind == "frame" && e.body == tag }).ref
}

func (r *rig) login(b *bot, player string) shield.ClientRef {
	r.t.Helper()
	ref, err := r.Bind(r.enter(b), players, player)
	if err != nil {
		r.t.Fatalf("Bind: %v", err)
	}
	return ref
}

// open counts the connections.
func (r *rig) open() int {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	return len(r.slots.conns)
}

// gone waits until the gateway has let go of the connection.
func (r *rig) gone() {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // connections end on their own goroutines: nothing to wait on
		n := r.open()
		if n == 0 && r.Count() == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d connections are still there", n)
		}
	}
}

// newPipes makes a listener in memory: it works in virtual time, and a write waits
// for its reader.
func newPipes() *sim.Listener {
	return sim.NewListener(net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7001})
}

var testCert = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
})

func testTLS(t testing.TB) (*tls.Config, *x509.CertPool) {
	cert, err := testCert()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, pool
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
