package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"shield/runtime/shield"
)

func (r *rig) webAddr() string { return "ws://" + r.listeners[0].Net.Addr().String() }

func TestWebSocketDoor(t *testing.T) {
	r := newRig(t, WebSocket, func(c *Config) {
		c.Listeners[0].Path = "/game"
		c.Listeners[0].Origins = []string{"*.example.com"}
	})
	for _, tt := range []struct {
		name, path, origin string
		status             int
	}{
		{"no origin: not a browser", "/game", "", http.StatusSwitchingProtocols},
		{"an allowed origin", "/game", "https://play.example.com", http.StatusSwitchingProtocols},
		{"another origin", "/game", "https://evil.test", http.StatusForbidden},
		{"another path", "/", "", http.StatusNotFound},
	} {
		opts := &websocket.DialOptions{HTTPHeader: http.Header{}}
		if tt.origin != "" {
			opts.HTTPHeader.Set("Origin", tt.origin)
		}
		ws, resp, err := websocket.Dial(context.Background(), r.webAddr()+tt.path, opts)
		if resp == nil || resp.StatusCode != tt.status {
			t.Errorf("%s: %v, %v, want status %d", tt.name, resp, err, tt.status)
		}
		if err == nil {
			_ = ws.CloseNow() // the test is over for this one
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestWebSocketMessages(t *testing.T) {
	r := newRig(t, WebSocket, nil)
	ws, _, err := websocket.Dial(context.Background(), r.webAddr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	frame := func(body string) []byte {
		b, err := r.format.Append(nil, rLogin, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// Two frames in one message, one frame in two messages.
	both := append(frame("one"), frame("two")...)
	for _, m := range [][]byte{both, frame("three")[:5], frame("three")[5:]} {
		if err := ws.Write(context.Background(), websocket.MessageBinary, m); err != nil {
			t.Fatal(err)
		}
	}
	ref := r.router.wait(t, "third frame", func(e event) bool { return e.body == "three" }).ref
	for i, want := range []string{"one", "two", "three"} {
		if got := r.router.list()[i].body; got != want {
			t.Errorf("frame %d is %q, want %q", i, got, want)
		}
	}
	if err := ws.Write(context.Background(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	e := r.router.wait(t, "disconnect", func(e event) bool { return e.kind == "on_client_disconnected" && e.ref == ref })
	if e.reason != "decode_error" {
		t.Errorf("the target hears %q, want decode_error", e.reason)
	}
	bye, err := r.format.Append(nil, shield.RouteClose, []byte("decode_error"))
	if err != nil {
		t.Fatal(err)
	}
	if kind, got, err := ws.Read(context.Background()); err != nil || kind != websocket.MessageBinary || !bytes.Equal(got, bye) {
		t.Errorf("after a text message the client reads %v %q, %v, want the close frame", kind, got, err)
	}
	_, _, err = ws.Read(context.Background())
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.StatusNormalClosure || closed.Reason != "decode_error" {
		t.Errorf("the WebSocket ends with %v, want its close frame to say decode_error", err)
	}
	r.gone()
	r.wantCount(cFramesIn, 4)
	r.wantCount(cInDecode, 1)
	r.wantCount("closed_decode_error", 1)
}

// A WebSocket that its client closes has ended as a TCP connection does; one that
// breaks is lost.
func TestHowAWebSocketEnds(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		end        func(ws *websocket.Conn)
	}{
		{"closed", "closed", func(ws *websocket.Conn) { _ = ws.Close(websocket.StatusNormalClosure, "") }},
		{"closed without a code, as browsers do", "closed", func(ws *websocket.Conn) { _ = ws.Close(websocket.StatusNoStatusRcvd, "") }},
		{"the tab is closed", "closed", func(ws *websocket.Conn) { _ = ws.Close(websocket.StatusGoingAway, "") }},
		{"cut", "connection lost", func(ws *websocket.Conn) { _ = ws.CloseNow() }},
	} {
		r := newRig(t, WebSocket, nil)
		ws, _, err := websocket.Dial(context.Background(), r.webAddr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &bot{t: t, conn: websocket.NetConn(context.Background(), ws, websocket.MessageBinary), f: r.format}
		ref := r.login(b, "ada")
		tt.end(ws)
		e := r.router.wait(t, "disconnect", func(e event) bool { return e.kind == "on_client_disconnected" && e.ref == ref })
		if e.reason != tt.want {
			t.Errorf("%s: the target hears %q, want %q", tt.name, e.reason, tt.want)
		}
		r.gone()
	}
}

// A browser that has nothing to say answers the gateway's pings and stays; one
// that does not answer is closed.
func TestWebSocketPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		r := newRig(t, WebSocket, func(c *Config) {
			_ = c.Listeners[0].Net.Close() // the pipes take its place
			c.Listeners[0].Net = pipes
		})
		dial := func() *websocket.Conn {
			tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return pipes.Dial() }}
			ws, _, err := websocket.Dial(context.Background(), "ws://pipe/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
			if err != nil {
				t.Fatal(err)
			}
			return ws
		}
		alive, dead := dial(), dial()
		var wg sync.WaitGroup
		for _, ws := range []*websocket.Conn{alive, dead} {
			if err := ws.Write(context.Background(), websocket.MessageBinary, []byte{0, 0, 0, 100, 0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, row := range r.Sessions() {
			if _, err := r.Bind(shield.ClientRef{Session: row.Session}, players, "ada"); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() {
			for {
				if _, _, err := alive.Read(context.Background()); err != nil {
					return
				}
			}
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := r.Count(); n != 1 {
			t.Errorf("%d sessions after five silent minutes, want the one that answers pings", n)
		}
		_ = alive.CloseNow() // ends the reading goroutine
		_ = dead.CloseNow()
		wg.Wait()
		r.close()
	})
}

// The time for a login begins with the connection, not with the request for a
// WebSocket.
func TestASlowRequestGetsNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipes()
		r := newRig(t, WebSocket, func(c *Config) {
			_ = c.Listeners[0].Net.Close() // the pipes take its place
			c.Listeners[0].Net = pipes
		})
		start := time.Now()
		conn, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		time.Sleep(8 * time.Second)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		if d := time.Since(start); d < 10*time.Second || d > 12*time.Second { // the sweep and the close take up to a second each
			t.Errorf("closed %v after the connection, want 10s", d)
		}
		r.close()
		r.wantCount("closed_handshake_timeout", 1)
	})
}

// Every change of an epoch is one line that says why, from where to where.
func TestEpochLines(t *testing.T) {
	var mu sync.Mutex
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	}), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "address" {
			return slog.Attr{}
		}
		return a
	}}))
	r := newRig(t, TCP, func(c *Config) { c.Log = log })
	b := r.dial()
	ref := r.login(b, "ada")
	if err := r.CloseSession(ref, "logged in elsewhere"); err != nil {
		t.Fatal(err)
	}
	b.wantClose("logged in elsewhere")
	r.gone()
	mu.Lock()
	defer mu.Unlock()
	got := strings.ReplaceAll(text.String(), string(ref.Session), "S")
	got = strings.ReplaceAll(got, ref.Session.Short(), "S")
	want := `level=INFO msg="S epoch 0 -> 1: bind ada to n1#2" service=gateway event=epoch gateway=n1:main session=S player=ada from=0 to=1 cause=bind reason="" target="n1#1 -> n1#2"
level=INFO msg="S epoch 1 -> 2: kick ada (logged in elsewhere)" service=gateway event=epoch gateway=n1:main session=S player=ada from=1 to=2 cause=kick reason="logged in elsewhere" target=n1#2
`
	if got != want {
		t.Errorf("the log reads\n%swant\n%s", got, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWebSocketInsideTLS(t *testing.T) {
	serverTLS, roots := testTLS(t)
	r := newRig(t, WebSocket, func(c *Config) { c.Listeners[0].TLS = serverTLS })
	if got := r.Addrs()[0]; !strings.HasPrefix(got, "wss://127.0.0.1:") {
		t.Errorf("Addrs() = %s, want wss", got)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	defer tr.CloseIdleConnections()
	ws, _, err := websocket.Dial(context.Background(), r.Addrs()[0], &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	conn := websocket.NetConn(context.Background(), ws, websocket.MessageBinary)
	b := &bot{t: t, conn: conn, br: newReader(conn), f: r.format}
	ref := r.login(b, "ada")
	r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("hi")})
	b.want(rPos, "hi")
	if err := r.CloseSession(ref, "bye"); err != nil {
		t.Fatal(err)
	}
	b.wantClose("bye")
	r.gone()

	// A plain client is turned away, and the next one is served.
	if _, _, err := websocket.Dial(context.Background(), "ws://"+r.listeners[0].Net.Addr().String(), nil); err == nil {
		t.Error("a client without TLS gets in")
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client may send frames behind its request without waiting for the answer.
func TestWebSocketFramesBehindTheRequest(t *testing.T) {
	r := newRig(t, WebSocket, nil)
	for _, size := range []int{1, 1000, 3000} {
		conn, err := net.Dial("tcp", r.listeners[0].Net.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", size)
		frame, err := r.format.Append(nil, rLogin, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		// One binary message, masked with zeros, in one packet with the request.
		out := []byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		out = append(out, 0x82, 0x80|126, byte(len(frame)>>8), byte(len(frame)), 0, 0, 0, 0)
		if _, err := conn.Write(append(out, frame...)); err != nil {
			t.Fatal(err)
		}
		e := r.router.wait(t, "frame behind the request", func(e event) bool { return len(e.body) == size })
		if e.body != body {
			t.Errorf("a body of %d bytes arrived changed", size)
		}
		conn.Close()
	}
	r.gone()
}
