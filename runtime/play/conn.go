package play

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// Config is what a client has to know of its server.
type Config struct {
	// Address is tcp://HOST:PORT, tls://HOST:PORT, ws:// or wss:// with a path;
	// a bare HOST:PORT is tcp.
	Address string
	TLS     *tls.Config // for tls and wss; nil = the system's roots
	Format  wire.Client // frame format; zero = the default
	Codec   string      // the listener's provider; "" = each route's codec
	Routes  *shield.RPCTable
}

// Push is one frame from the server.
type Push struct {
	ID   shield.RouteID
	Name string          // the id in decimal where rpc.yaml does not have it
	Body json.RawMessage // the body as JSON; nil for an empty one
}

// Closed is how a connection ended.
type Closed struct {
	Reason string // what the server said; "" when it said nothing
	Err    error  // what broke, when the server did not say goodbye

	expected bool // a line of the script waited for it
}

func (c *Closed) Error() string {
	switch {
	case c.Reason != "":
		return "closed: " + c.Reason
	case c.Err != nil:
		return "connection lost: " + c.Err.Error()
	default:
		return "closed without a reason"
	}
}

func (c *Closed) Unwrap() error { return c.Err }

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 5 * time.Second
	// pingEvery keeps a silent client from looking idle.
	pingEvery = 15 * time.Second
	// inbox is how many pushes wait for a reader before TCP holds the server
	// back, as it would with a real client.
	inbox = 256
)

// Conn is one connection to a gateway.
type Conn struct {
	cfg   Config
	net   net.Conn
	local string
	in    chan Push
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup

	closed error // why in was closed; read after it was

	write sync.Mutex
	buf   []byte
}

// Dial connects.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	var err error
	if cfg.Format, err = cfg.Format.Normal(); err != nil {
		return nil, fmt.Errorf("protocol envelope: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, local, err := dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := start(conn, cfg)
	c.local = local
	return c, nil
}

// On is Dial for a connection that is open already.
func On(conn net.Conn, cfg Config) (*Conn, error) {
	var err error
	if cfg.Format, err = cfg.Format.Normal(); err != nil {
		return nil, fmt.Errorf("protocol envelope: %w", err)
	}
	return start(conn, cfg), nil
}

// start runs the client on a connection that is open.
func start(conn net.Conn, cfg Config) *Conn {
	c := &Conn{cfg: cfg, net: conn, in: make(chan Push, inbox), stop: make(chan struct{})}
	c.wg.Go(c.read)
	c.wg.Go(c.stayAlive)
	return c
}

// Local is the address of our end, or "" where the transport hides it.
func (c *Conn) Local() string {
	if a, ok := c.net.LocalAddr().(*net.TCPAddr); ok {
		return a.String()
	}
	return c.local
}

// dial opens the transport that the address names. local is our address on the
// connection below a WebSocket.
func dial(ctx context.Context, cfg Config) (conn net.Conn, local string, err error) {
	u, err := ParseAddress(cfg.Address)
	if err != nil {
		return nil, "", err
	}
	switch u.Scheme {
	case "tcp":
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		return conn, "", err
	case "tls":
		conn, err = (&tls.Dialer{Config: cfg.TLS}).DialContext(ctx, "tcp", u.Host)
		return conn, "", err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { local = i.Conn.LocalAddr().String() }})
	opts := &websocket.DialOptions{}
	if cfg.TLS != nil {
		opts.HTTPClient = tlsClient(cfg.TLS)
	}
	ws, _, err := websocket.Dial(ctx, u.String(), opts)
	if err != nil {
		return nil, "", err
	}
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), local, nil
}

// ParseAddress reads what Config.Address may be.
func ParseAddress(s string) (*url.URL, error) {
	if host, port, err := net.SplitHostPort(s); err == nil && port != "" && !strings.Contains(s, "://") {
		return &url.URL{Scheme: "tcp", Host: net.JoinHostPort(host, port)}, nil
	}
	u, err := url.Parse(s)
	if err == nil && u.Hostname() != "" {
		switch u.Scheme {
		case "tcp", "tls":
			if u.Port() != "" && (u.Path == "" || u.Path == "/") {
				return u, nil
			}
		case "ws", "wss": // these have ports of their own, 80 and 443
			return u, nil
		}
	}
	return nil, fmt.Errorf("address %q: want HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT, ws://HOST[:PORT]/PATH or wss://HOST[:PORT]/PATH", s)
}

// Send sends one frame. body is JSON, or empty for no body.
func (c *Conn) Send(name string, body []byte) error {
	id, codec, err := c.route(name)
	if err != nil {
		return err
	}
	raw, err := encode(codec, body)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.frame(id, raw)
}

func (c *Conn) frame(id shield.RouteID, body []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	b, err := c.cfg.Format.Append(c.buf[:0], id, body)
	if err != nil {
		return fmt.Errorf("frame of %d bytes: %w", len(body), err)
	}
	c.buf = b
	if err := c.net.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return &Closed{Err: err}
	}
	if _, err := c.net.Write(b); err != nil {
		return &Closed{Err: err}
	}
	return nil
}

// Recv waits for the next push. Its last error is a *Closed.
func (c *Conn) Recv(ctx context.Context) (Push, error) {
	select {
	case p, ok := <-c.in:
		if !ok {
			return Push{}, c.closed
		}
		return p, nil
	case <-ctx.Done():
		return Push{}, ctx.Err()
	}
}

// Close ends the connection and waits for its goroutines.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.stop)
		_ = c.net.Close() // whatever the peer thinks of it
	})
	c.wg.Wait()
	return nil
}

// stayAlive pings until Close.
func (c *Conn) stayAlive() {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
			if c.frame(shield.RoutePing, nil) != nil {
				return // the reader will say why
			}
		}
	}
}

// read takes frames until the connection ends.
func (c *Conn) read() {
	defer close(c.in)
	r := bufio.NewReaderSize(c.net, 16<<10)
	for {
		id, body, err := readFrame(r, c.cfg.Format)
		switch {
		case err != nil:
			c.closed = c.ended(err)
			return
		case id == shield.RouteClose:
			c.closed = &Closed{Reason: reasonOf(body)}
			return
		case id == shield.RoutePing:
			if err := c.frame(shield.RoutePong, body); err != nil {
				c.closed = err
				return
			}
			continue
		case id == shield.RoutePong:
			continue
		}
		select {
		case c.in <- c.push(id, body):
		case <-c.stop:
			c.closed = &Closed{Err: net.ErrClosed}
			return
		}
	}
}

// ended finds the reason of a stream's end: a WebSocket carries one.
func (c *Conn) ended(err error) *Closed {
	var ws websocket.CloseError
	switch {
	case errors.As(err, &ws):
		return &Closed{Reason: ws.Reason}
	case errors.Is(err, io.EOF):
		return &Closed{}
	default:
		return &Closed{Err: err}
	}
}

func reasonOf(body []byte) string {
	if len(body) == 0 {
		return "kicked" // what an empty reason means
	}
	return string(body)
}

// readFrame reads one frame. The length is checked before memory is taken.
func readFrame(r io.Reader, f wire.Client) (shield.RouteID, []byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:f.Header()]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("it ended inside a frame: %w", err)
		}
		return 0, nil, err
	}
	id, n, err := f.ParseHeader(head[:f.Header()])
	if err != nil {
		return 0, nil, fmt.Errorf("frame on route %d: %w", id, err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("it ended inside a frame: %w", err)
	}
	return id, body, nil
}
