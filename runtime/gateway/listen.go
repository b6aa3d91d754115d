package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"shield/runtime/shield"
)

const (
	acceptPause  = 5 * time.Millisecond // after a failed accept, doubled up to
	acceptPauses = time.Second
	maxRefusing  = 64 // refused connections that are told why, at once
	maxWebHeader = 8 << 10
)

func (l *Listener) path() string {
	if l.Path == "" {
		return "/"
	}
	return l.Path
}

// serve starts the goroutine that accepts on l.
func (g *Gateway) serve(l *Listener) {
	in := &admitting{Listener: l.Net, g: g, transport: l.Transport, tls: l.TLS != nil, refusing: make(chan struct{}, maxRefusing)}
	if l.Transport == WebSocket {
		g.serveWeb(l, in)
		return
	}
	g.wg.Go(func() {
		for {
			conn, err := in.Accept()
			if err != nil {
				return
			}
			raw := conn.(*slotConn)
			g.wg.Go(func() { g.serveStream(l, raw) })
		}
	})
}

func (g *Gateway) serveStream(l *Listener, raw *slotConn) {
	if l.Transport == TCP {
		defer raw.Close()
		g.newClient(&streamLink{Conn: raw, raw: raw}, TCP, raw).run()
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.shake())
	conn := tls.Server(raw, l.TLS)
	err := conn.HandshakeContext(ctx)
	cancel()
	if err != nil {
		g.count.add(cTLSFailed, 1)
		g.log.Debug("TLS handshake failed", "service", "gateway", "gateway", string(g.id), "address", raw.RemoteAddr().String(), "err", err)
		_ = raw.Close() // as in streamLink
		return
	}
	// The handshake has grown a stack that an idle session does not need.
	g.wg.Go(func() {
		defer raw.Close()
		g.newClient(&streamLink{Conn: conn, raw: raw}, TLS, raw).run()
	})
}

// admitting is a listener that gives out connections which hold a slot, and
// tells the others why they don't.
type admitting struct {
	net.Listener
	g         *Gateway
	transport string
	tls       bool
	refusing  chan struct{}
}

func (a *admitting) Accept() (net.Conn, error) {
	pause := acceptPause
	for {
		conn, err := a.Listener.Accept()
		if err != nil && (errors.Is(err, net.ErrClosed) || a.g.isDraining()) {
			return nil, net.ErrClosed
		}
		if err != nil {
			// Out of file descriptors, most likely: the connections there are must
			// not suffer, and it passes.
			a.g.log.Error("can't accept a client", "service", "gateway", "gateway", string(a.g.id), "err", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-a.g.ctx.Done():
				return nil, net.ErrClosed
			}
			pause = min(2*pause, acceptPauses)
			continue
		}
		pause = acceptPause
		slot, code := a.g.slots.take(conn, a.g.now())
		if code == "" {
			a.g.count.add(cConnections, 1)
			return slot, nil
		}
		a.refuse(conn, code)
	}
}

func (a *admitting) refuse(conn net.Conn, code shield.Code) {
	a.g.count.add(cRefusedConn, 1)
	counter := cTotalLimit
	if code == shield.IPLimit {
		counter = cPerIP
	}
	a.g.refuse(counter, "client refused: "+string(code), shield.ClientRef{}, slog.String("address", conn.RemoteAddr().String()))
	select {
	case a.refusing <- struct{}{}:
	default:
		_ = conn.Close() // a flood is not told
		return
	}
	a.g.wg.Go(func() {
		defer func() { <-a.refusing }()
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(a.g.limits.CloseTimeout))
		if a.transport == WebSocket && !a.tls {
			// An answer that comes before its question confuses HTTP clients.
			_, _ = conn.Read(make([]byte, maxWebHeader))
		}
		// Whether the client reads it is up to the client. As in farewell, what it
		// has sent is read before the connection closes.
		_, _ = conn.Write(a.refusal(code))
		if w, ok := conn.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
}

// refusal is what a client without a slot is told: a close frame, or its like
// before a WebSocket is open. Inside TLS nothing can be said yet.
func (a *admitting) refusal(code shield.Code) []byte {
	switch {
	case a.tls:
		return nil
	case a.transport == WebSocket:
		return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(code), code)
	}
	b, err := a.g.format.Append(nil, shield.RouteClose, []byte(code))
	if err != nil {
		return nil // a format whose frames are too short for a reason
	}
	return b
}

// connKey finds the slot of a request's connection in its context.
type connKey struct{}

// serveWeb runs an HTTP server whose only page is the WebSocket.
func (g *Gateway) serveWeb(l *Listener, in *admitting) {
	var outer net.Listener = in
	if l.TLS != nil {
		outer = tls.NewListener(in, l.TLS)
	}
	server := &http.Server{
		Handler:        http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serveRequest(l, w, r) }),
		ReadTimeout:    g.limits.shake(), // also of a body, which nobody wants
		MaxHeaderBytes: maxWebHeader,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, ok := c.(*tls.Conn); ok {
				c = t.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
		// Close waits for the server's goroutines too: each connection counts
		// from its first state to its last, or to the hand-over.
		ConnState: func(c net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				g.wg.Add(1)
			case http.StateIdle:
				// Its request opened no WebSocket and has been answered: one that goes on
				// asking would hold a place for ever.
				_ = c.Close()
			case http.StateClosed: // it never became a WebSocket
				g.count.add(cWebFailed, 1)
				g.wg.Done()
			case http.StateHijacked:
				g.wg.Done()
			}
		},
	}
	g.webs = append(g.webs, server)
	g.wg.Go(func() { _ = server.Serve(outer) }) // it ends when the listener does
}

func (g *Gateway) serveRequest(l *Listener, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != l.path() {
		http.NotFound(w, r)
		return
	}
	raw := r.Context().Value(connKey{}).(*slotConn)
	web := &webLink{raw: raw}
	c := g.newClient(web, WebSocket, raw)
	// The hand-over in Accept ends what ConnState counts; from here on this does.
	g.wg.Add(1)
	conn, err := websocket.Accept(lean{w}, r, &websocket.AcceptOptions{
		OriginPatterns: l.Origins,
		OnPongReceived: func(context.Context, []byte) { c.seen.Store(int64(g.now())) },
	})
	if err != nil {
		g.wg.Done()
		g.log.Debug("no WebSocket", "service", "gateway", "gateway", string(g.id), "address", raw.RemoteAddr().String(), "err", err)
		return // Accept has answered
	}
	// Frames are checked one by one as they are read; a message may hold many.
	conn.SetReadLimit(-1)
	web.conn = conn
	// The server's goroutine has grown a stack that an idle session does not need.
	go func() {
		defer g.wg.Done()
		defer raw.Close()
		defer conn.CloseNow() // the library's own state; the socket is closed by then
		c.run()
	}()
}
