package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	stdio "io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// The gateway is on node-1, the players' service on node-2: accepted frames
// cross the cluster.
const hostileYAML = `
app: { name: hostile }
services:
  - { name: auth, script: auth.lua, nodes: [node-1] }
  - { name: player, script: player.lua, nodes: [node-2] }
gateways:
  - name: main
    nodes: [node-1]
    auth: auth
    network:
      tcp: 127.0.0.1:0
      tls: 127.0.0.1:0
      ws: 127.0.0.1:0
      wss: 127.0.0.1:0
      cert: cert.pem
      key: key.pem
      max_per_ip: 250
      rate: 500/s
      handshake_timeout_ms: 10000
`

const hostileRPC = `
routes:
  - { id: 1001, name: login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: knock, dir: c2s, service: auth, handler: knock, auth: false, max_body: 64 }
  - { id: 1010, name: echo, dir: c2s, service: player, handler: echo }
  - { id: 1011, name: spam, dir: c2s, service: auth, handler: spam, auth: false }
  - { id: 2001, name: welcome, dir: s2c }
  - { id: 2002, name: echoed, dir: s2c }
`

const hostileAuth = `
local M = {}
local seen = 0
function M.login(ctx, client, request)
  seen = seen + 1
  local ref = shield.client.bind(client, shield.cluster.query("node-2", "player"), request.name)
  shield.client_rpc.welcome(ref, { name = request.name })
end
function M.knock(ctx, client) seen = seen + 1 end
function M.spam(ctx, client)
  seen = seen + 1
  local ref = shield.client.bind(client, shield.self(), "deaf")
  for i = 1, 300 do shield.client_rpc.echoed(ref, string.rep("x", 60000)) end
end
function M.seen(ctx) return seen end
return M
`

const hostilePlayer = `
local M = {}
local seen = 0
function M.echo(ctx, client, request) seen = seen + 1 shield.client_rpc.echoed(client, request) end
function M.seen(ctx) return seen end
return M
`

// TestHostileClients lets clients of every bad kind loose on a live gateway,
// over every transport, while good clients play. No good client notices, and the
// counters tell of every connection and every frame, to the last one.
func TestHostileClients(t *testing.T) {
	cert, key := certificate(t)
	p := startDev(t, map[string]string{"shield.yaml": hostileYAML, "rpc.yaml": hostileRPC, "auth.lua": hostileAuth, "player.lua": hostilePlayer,
		"cert.pem": cert, "key.pem": key}, "--nodes", "2")
	s := newSiege(t, p, cert)

	// The good ones are in before the others come: how long a login may take is
	// a limit by the clock, and a busy machine would break it for them.
	stop := make(chan struct{})
	var in, good, bad sync.WaitGroup
	for scheme := range s.at {
		in.Add(1)
		good.Go(func() { s.play(scheme, in.Done, stop) })
	}
	in.Wait()
	for scheme := range s.at {
		for _, a := range attacks {
			for range a.times() {
				bad.Go(func() { s.attack(scheme, a) })
			}
		}
	}
	for range 3 {
		bad.Go(func() { s.knock("tls", "GET / HTTP/1.1\r\n\r\n", "tls_handshakes_failed") })
		bad.Go(func() {
			s.knock("ws", "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "websocket_handshakes_failed")
		})
		bad.Go(func() {
			s.knock("ws", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "websocket_handshakes_failed")
		})
	}
	bad.Wait()
	s.flood()
	close(stop)
	good.Wait()
	s.checkCounters()
}

// attack is one kind of bad client: what it sends, and what must be counted.
type attack struct {
	name   string
	frames func(f wire.Client) []byte
	sent   int64            // frames in it that have a whole header
	counts map[string]int64 // by the names of the gateway's counters
	hold   bool             // wait for the gateway to end it
	deaf   bool             // read nothing until the gateway ends it
}

// times is how often each transport is attacked. One deaf client makes a service
// push 18 MB.
func (a attack) times() int {
	if a.deaf {
		return 1
	}
	return 3
}

const unknownRoute = 4242

var attacks = []attack{
	{name: "early close"},
	{name: "half a header", frames: func(wire.Client) []byte { return []byte{0, 0, 3} }},
	{name: "half a frame", frames: func(f wire.Client) []byte { return frames(f, 1, 1002, `{"a":1}`)[:11] }, sent: 1,
		counts: map[string]int64{"ingress_cut_off": 1}},
	{name: "garbage", frames: func(wire.Client) []byte { return []byte("GET / HTTP/1.1\r\n\r\n") }, sent: 1, hold: true,
		counts: map[string]int64{"ingress_frame_too_large": 1, "closed_frame_too_large": 1}},
	{name: "an oversized length", frames: func(wire.Client) []byte { return []byte{0, 0, 3, 234, 255, 255, 255, 255, 1} }, sent: 1, hold: true,
		counts: map[string]int64{"ingress_frame_too_large": 1, "closed_frame_too_large": 1}},
	{name: "bodies beyond the route's", frames: func(f wire.Client) []byte { return frames(f, 20, 1002, strings.Repeat(" ", 65)) }, sent: 20,
		counts: map[string]int64{"ingress_frame_too_large": 20}},
	{name: "the wrong direction", frames: func(f wire.Client) []byte { return frames(f, 30, 2001, "{}") }, sent: 30,
		counts: map[string]int64{"ingress_direction_rejected": 30}},
	{name: "unknown routes", frames: func(f wire.Client) []byte {
		return append(frames(f, 15, unknownRoute, "{}"), frames(f, 15, shield.RouteClose, "x")...)
	},
		sent: 30, counts: map[string]int64{"ingress_route_not_found": 30}},
	{name: "routes behind a login", frames: func(f wire.Client) []byte { return frames(f, 30, 1010, "{}") }, sent: 30,
		counts: map[string]int64{"ingress_not_authenticated": 30}},
	{name: "bodies that don't decode", frames: func(f wire.Client) []byte { return frames(f, 10, 1002, "{{{") }, sent: 10, hold: true,
		counts: map[string]int64{"ingress_decode_error": 10, "closed_decode_error": 1}},
	{name: "a flood", frames: func(f wire.Client) []byte { return frames(f, 1900, 1002, "{}") }, sent: 1900},
	{name: "pings", frames: func(f wire.Client) []byte { return frames(f, 50, shield.RoutePing, "hi") }, sent: 50, counts: map[string]int64{"pings": 50}},
	{name: "no login", hold: true, counts: map[string]int64{"closed_handshake_timeout": 1}},
	{name: "no end of a frame", frames: func(f wire.Client) []byte { return frames(f, 1, 1002, `{"a":1}`)[:12] }, sent: 1, hold: true,
		counts: map[string]int64{"closed_handshake_timeout": 1, "ingress_cut_off": 1}},
	{name: "a deaf client", frames: func(f wire.Client) []byte { return frames(f, 1, 1011, "") }, sent: 1, deaf: true,
		counts: map[string]int64{"closed_session_send_queue_full": 1}},
}

func frames(f wire.Client, n int, route shield.RouteID, body string) (all []byte) {
	for range n {
		var err error
		if all, err = f.Append(all, route, []byte(body)); err != nil {
			panic(err)
		}
	}
	return all
}

// siege is the gateway under attack and what must have been counted.
type siege struct {
	t     *testing.T
	p     *live
	at    map[string]string
	trust *tls.Config
	f     wire.Client

	mu      sync.Mutex
	dials   int64
	sent    int64
	want    map[string]int64
	slowest time.Duration
	echoes  int
}

func newSiege(t *testing.T, p *live, cert string) *siege {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert))
	f, err := wire.Client{}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	return &siege{t: t, p: p, at: p.addresses(), trust: &tls.Config{RootCAs: roots}, f: f, want: map[string]int64{}}
}

// dial opens a connection that carries frames.
func (s *siege) dial(scheme string) (net.Conn, error) {
	s.count(func() { s.dials++ })
	address := s.at[scheme]
	host := strings.TrimSuffix(strings.TrimPrefix(address, scheme+"://"), "/")
	switch scheme {
	case "tcp":
		return net.Dial("tcp", host)
	case "tls":
		return tls.Dial("tcp", host, s.trust)
	}
	tr := &http.Transport{TLSClientConfig: s.trust, DisableKeepAlives: true}
	ws, _, err := websocket.Dial(context.Background(), address, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
}

func (s *siege) count(add func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add()
}

func (s *siege) attack(scheme string, a attack) {
	conn, err := s.dial(scheme)
	if err != nil {
		s.t.Errorf("%s over %s: %v", a.name, scheme, err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Error(err)
	}
	s.count(func() {
		s.sent += a.sent
		for name, n := range a.counts {
			s.want[name] += n
		}
	})
	if a.frames != nil {
		// The gateway may have closed it before the end of what it refuses.
		if _, err := conn.Write(a.frames(s.f)); err != nil && !a.hold {
			s.t.Errorf("%s over %s: %v", a.name, scheme, err)
		}
	}
	if a.deaf {
		s.until(func(n map[string]int64) bool { return n["closed_session_send_queue_full"] >= int64(len(s.at)) })
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && !a.hold && !a.deaf {
		if err := half.CloseWrite(); err != nil {
			s.t.Errorf("%s over %s: %v", a.name, scheme, err)
		}
	} else if !a.hold && !a.deaf {
		return // a WebSocket's Close says goodbye behind what was sent
	}
	// Closing with bytes unread would reset the connection, and the reset would
	// overtake what was sent.
	_, _ = stdio.Copy(stdio.Discard, conn)
}

// login waits until the gateway has bound conn to the player service.
func (s *siege) login(conn net.Conn, name string) {
	s.count(func() { s.sent++ })
	if _, err := conn.Write(frames(s.f, 1, 1001, `{"name":"`+name+`"}`)); err != nil {
		s.t.Error(err)
	}
	if route, body := s.read(conn); route != 2001 {
		s.t.Errorf("login of %s answered %d %s", name, route, body)
	}
}

func (s *siege) read(conn net.Conn) (shield.RouteID, string) {
	head := make([]byte, s.f.Header())
	if _, err := stdio.ReadFull(conn, head); err != nil {
		return 0, err.Error()
	}
	route, n, err := s.f.ParseHeader(head)
	if err != nil {
		return 0, err.Error()
	}
	body := make([]byte, n)
	if _, err := stdio.ReadFull(conn, body); err != nil {
		return 0, err.Error()
	}
	return route, string(body)
}

// knock sends what is no handshake.
func (s *siege) knock(scheme, text, counter string) {
	s.count(func() { s.dials++; s.want[counter]++ })
	conn, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(s.at[scheme], scheme+"://"), "/"))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := stdio.WriteString(conn, text); err != nil {
		s.t.Error(err)
	}
	_, _ = stdio.Copy(stdio.Discard, conn)
}

// flood opens more connections than one address may have, and holds them.
func (s *siege) flood() {
	var held []net.Conn
	for range 500 {
		conn, err := s.dial("tcp")
		if err != nil {
			s.t.Error(err)
			continue
		}
		held = append(held, conn)
	}
	// A connection that is closed before it is accepted would not be refused.
	s.until(func(n map[string]int64) bool { return n["connections"]+n["connections_refused"] >= s.dials })
	for _, conn := range held {
		conn.Close()
	}
}

// until waits for something that the gateway counts.
func (s *siege) until(ok func(map[string]int64) bool) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // another process counts
		if n, _ := s.counters(); ok(n) {
			return
		}
	}
}

// play is a good client: every frame comes back, in order and within ten seconds,
// which a machine with much else to do may need. It calls in once it has tried to
// log in.
func (s *siege) play(scheme string, in func(), stop <-chan struct{}) {
	conn, err := s.dial(scheme)
	if err != nil {
		s.t.Error(err)
		in()
		return
	}
	defer conn.Close()
	s.login(conn, "good-"+scheme)
	in()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond): // a player's pace
		}
		body := fmt.Sprintf(`{"n":%d}`, n)
		start := time.Now()
		s.count(func() { s.sent++ })
		if err := conn.SetDeadline(start.Add(10 * time.Second)); err != nil {
			s.t.Error(err)
		}
		if _, err := conn.Write(frames(s.f, 1, 1010, body)); err != nil {
			s.t.Errorf("good-%s: frame %d: %v", scheme, n, err)
			return
		}
		if route, got := s.read(conn); route != 2002 || got != body {
			s.t.Errorf("good-%s: frame %d came back as %d %.60s", scheme, n, route, got)
			return
		}
		s.count(func() { s.slowest = max(s.slowest, time.Since(start)); s.echoes++ })
	}
}

// counters asks the gateway.
func (s *siege) counters() (counters map[string]int64, sessions int64) {
	c, err := attach(s.t.Context(), &IO{Dir: s.p.dir})
	if err != nil {
		s.t.Error(err)
		return nil, 0
	}
	defer c.Close()
	status, err := c.Status(s.t.Context())
	if err != nil {
		s.t.Error(err)
		return nil, 0
	}
	for _, n := range status.Nodes {
		for _, g := range n.Gateway {
			return g.Counters, int64(g.Sessions)
		}
	}
	s.t.Error("the status has no gateway")
	return nil, 0
}

// seen asks the services how many frames they got.
func (s *siege) seen() (total int64) {
	s.t.Helper()
	for _, target := range []string{"node-1:auth", "node-2:player"} {
		got := s.p.shield("", "call", target, "seen")
		var n int64
		if _, err := fmt.Sscan(got.out, &n); err != nil {
			s.t.Fatalf("call %s seen = %+v", target, got)
		}
		total += n
	}
	return total
}

func (s *siege) checkCounters() {
	t := s.t
	t.Helper()
	refused := func(n map[string]int64) (sum int64) {
		for name, v := range n {
			if strings.HasPrefix(name, "ingress_") || name == "pings" {
				sum += v
			}
		}
		return sum
	}
	var n map[string]int64
	var sessions, accepted int64
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // the last connections end on their own
		n, sessions = s.counters()
		accepted = s.seen()
		if sessions == 0 && accepted+refused(n) == s.sent && n["connections"] == n["kicks"]+n["disconnects"]+n["tls_handshakes_failed"]+n["websocket_handshakes_failed"] || time.Now().After(end) {
			break
		}
	}
	s.want["frames_in"] = s.sent
	s.want["connections_refused"] = s.dials - n["connections"]
	s.want["connections_refused_ip_limit"] = s.dials - n["connections"]
	for _, name := range slices.Sorted(maps.Keys(s.want)) {
		if n[name] != s.want[name] {
			t.Errorf("%s = %d, want %d", name, n[name], s.want[name])
		}
	}
	for name, v := range n { // nothing was refused that should not have been
		if _, known := s.want[name]; !known && v != 0 && (strings.HasPrefix(name, "closed_") || strings.HasPrefix(name, "ingress_") && name != "ingress_rate_limited") {
			t.Errorf("%s = %d, want none", name, v)
		}
	}
	if got := accepted + refused(n); got != s.sent {
		t.Errorf("%d frames were sent; the services got %d and %d were refused, together %d", s.sent, accepted, refused(n), got)
	}
	if ended := n["kicks"] + n["disconnects"] + n["tls_handshakes_failed"] + n["websocket_handshakes_failed"]; n["connections"] != ended || sessions != 0 {
		t.Errorf("%d connections, %d of them ended in a way that is counted, %d sessions are left", n["connections"], ended, sessions)
	}
	if n["connections_refused"] < 200 || n["ingress_rate_limited"] == 0 || s.echoes < 100 {
		t.Errorf("the siege was none: %d connections refused, %d frames above the rate, %d echoes", n["connections_refused"], n["ingress_rate_limited"], s.echoes)
	}
	t.Logf("%d connections (%d refused), %d frames: %d accepted, %d refused; %d echoes of good clients, the slowest took %v",
		s.dials, n["connections_refused"], s.sent, accepted, refused(n), s.echoes, s.slowest)
}
