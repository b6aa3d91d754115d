// Package transport gives a cluster its links: QUIC connections on one injected
// net.PacketConn, each with a control and a data stream of frames. It proves
// nothing about peers; the cluster's handshake does, bound to the connection by
// Link.Exporter.
//
// Writing never blocks: frames go into a bounded queue of their stream, and one
// goroutine a stream writes at once when it is idle and whole batches when it is
// busy; nothing waits for a timer. Close stops every goroutine and waits for
// them. All methods may be called from any goroutine.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// ALPN is the protocol that both ends must speak.
const ALPN = "shield-cluster/2"

// Config is what a Transport is made of. Zero means the default.
type Config struct {
	Conn net.PacketConn // owned: Close closes it
	Node shield.NodeID
	// Token is the cluster's key. A restarted node must have the same one, so
	// that peers learn of the restart at once (stateless reset).
	Token string

	MaxFrame     int           // bytes of one frame: 16 MiB
	DataQueue    int           // bytes that may wait on a data stream: 16 MiB
	ControlQueue int           // on a control stream: 32 MiB
	DialTimeout  time.Duration // 2 s
	// IdleTimeout ends a link on which nothing arrives. The cluster decides much
	// sooner that a peer is offline, but keeps its link (DESIGN.md 3.2): 10 min.
	IdleTimeout time.Duration
	// MaxStrangers bounds the connections that have proved nothing yet: 128.
	MaxStrangers int

	Log *slog.Logger
}

func (c *Config) setDefaults() {
	setDefault(&c.MaxFrame, 16<<20)
	setDefault(&c.DataQueue, 16<<20)
	setDefault(&c.ControlQueue, 32<<20)
	setDefault(&c.DialTimeout, 2*time.Second)
	setDefault(&c.IdleTimeout, 10*time.Minute)
	setDefault(&c.MaxStrangers, 128)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Transport makes links on one socket. It satisfies cluster.Transport.
type Transport struct {
	cfg  Config
	quic *quic.Transport
	ln   *quic.Listener
	tls  *tls.Config

	ctx      context.Context // ends at Close
	stop     context.CancelFunc
	wg       sync.WaitGroup
	accepted chan *link
	strays   strays

	mu        sync.Mutex
	closed    bool
	strangers int               // connections that have proved nothing yet
	outside   cluster.Strangers // Datagrams is counted by strays
}

var _ cluster.Transport = (*Transport)(nil)

// quic-go warns of a small UDP buffer through the standard log package, whose
// output would land in the middle of a console. checkBuffers says it through
// Config.Log instead; this variable is the switch that quic-go documents, and it
// offers no other.
var quietQUIC = sync.OnceFunc(func() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		os.Setenv(name, "true")
	}
})

// New starts to listen on cfg.Conn.
func New(cfg Config) (*Transport, error) {
	if cfg.Conn == nil {
		return nil, errors.New("transport: Config.Conn is missing")
	}
	cfg.setDefaults()
	quietQUIC()
	checkBuffers(cfg.Conn, cfg.Log)
	conf, err := tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("transport: make a certificate: %w", err)
	}
	t := &Transport{cfg: cfg, tls: conf, accepted: make(chan *link)}
	key := resetKey(cfg.Token, cfg.Node)
	t.quic = &quic.Transport{
		Conn:                cfg.Conn,
		ConnectionIDLength:  8,
		StatelessResetKey:   &key,
		VerifySourceAddress: t.crowded,
		ConnContext:         t.admit,
		Tracer:              &t.strays,
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.ln, err = t.quic.Listen(conf, t.quicConfig())
	if err != nil {
		t.stop()
		return nil, fmt.Errorf("transport: listen on %v: %w", cfg.Conn.LocalAddr(), err)
	}
	t.spawn(t.acceptLoop)
	t.spawn(t.countNoise)
	return t, nil
}

func (t *Transport) quicConfig() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: t.cfg.DialTimeout,
		MaxIdleTimeout:       t.cfg.IdleTimeout,
		// A reader that stops reading the data stream must not take the whole
		// window of the connection from the control stream: the connection's
		// window is always larger than the stream's.
		InitialStreamReceiveWindow:     256 << 10,
		MaxStreamReceiveWindow:         6 << 20,
		InitialConnectionReceiveWindow: 512 << 10,
		MaxConnectionReceiveWindow:     16 << 20,
		MaxIncomingStreams:             2,
		MaxIncomingUniStreams:          -1,
	}
}

// Addr is where the transport listens.
func (t *Transport) Addr() net.Addr { return t.cfg.Conn.LocalAddr() }

// Dial connects to addr.
func (t *Transport) Dial(ctx context.Context, addr string) (cluster.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	udp, err := resolve(ctx, addr, t.Addr())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	conn, err := t.quic.Dial(ctx, udp, t.tls, t.quicConfig())
	var idle *quic.IdleTimeoutError
	if errors.As(err, &idle) {
		err = context.DeadlineExceeded // during a handshake it is the same
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, t.explain(err))
	}
	l := newLink(t, conn)
	for _, s := range []cluster.Stream{cluster.Control, cluster.Data} {
		str, err := conn.OpenStream()
		if err != nil {
			l.Close("a stream can't be opened")
			return nil, fmt.Errorf("dial %s: open stream: %w", addr, err)
		}
		l.attach(s, str)
	}
	return l, nil
}

// Accept waits for a peer that dialled this transport.
func (t *Transport) Accept(ctx context.Context) (cluster.Link, error) {
	select {
	case l := <-t.accepted:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (t *Transport) acceptLoop() {
	for {
		conn, err := t.ln.Accept(t.ctx)
		if err != nil {
			return
		}
		t.spawn(func() { t.welcome(conn) })
	}
}

// welcome waits for a new connection's first stream: before it there is nothing
// to hand over.
func (t *Transport) welcome(conn *quic.Conn) {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.DialTimeout)
	defer cancel()
	str, err := conn.AcceptStream(ctx)
	if err != nil {
		if conn.Context().Err() == nil && t.ctx.Err() == nil {
			t.mu.Lock()
			t.outside.Silent++
			t.outside.Last = conn.RemoteAddr().String()
			t.mu.Unlock()
		}
		_ = conn.CloseWithError(codeClosed, "no handshake came")
		return
	}
	l := newLink(t, conn)
	l.attach(cluster.Control, str)
	t.spawn(l.acceptData)
	select {
	case t.accepted <- l:
	case <-t.ctx.Done():
		l.Close("stopping")
	}
}

// countNoise counts the datagrams that are no QUIC at all; quic-go tells its
// tracer only of the others.
func (t *Transport) countNoise() {
	var nothing [0]byte
	for {
		if _, _, err := t.quic.ReadNonQUICPacket(t.ctx, nothing[:]); err != nil {
			return
		}
		t.strays.n.Add(1)
	}
}

// Strangers counts what never became a link.
func (t *Transport) Strangers() cluster.Strangers {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.outside
	s.Datagrams = t.strays.n.Load()
	return s
}

// spawn starts a goroutine that Close waits for. It reports false when Close has
// begun; a dial may still be under way then.
func (t *Transport) spawn(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(fn)
	return true
}

// Close ends every link, frees the socket and waits for all goroutines.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	err := t.ln.Close()
	err = errors.Join(err, t.quic.Close(), t.cfg.Conn.Close())
	t.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// stranger is a connection's place among those that have proved nothing.
type stranger struct {
	t    *Transport
	once sync.Once
}

type strangerKey struct{}

func (s *stranger) leave() {
	s.once.Do(func() {
		s.t.mu.Lock()
		s.t.strangers--
		s.t.mu.Unlock()
	})
}

// admit gives an incoming connection a place, before it costs a TLS handshake.
func (t *Transport) admit(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strangers >= t.cfg.MaxStrangers {
		t.outside.Refused++
		t.outside.Last = from.RemoteAddr.String()
		return nil, errors.New("too many connections without a finished handshake")
	}
	t.strangers++
	s := &stranger{t: t}
	context.AfterFunc(ctx, s.leave)
	return context.WithValue(ctx, strangerKey{}, s), nil
}

// crowded makes addresses prove themselves (QUIC Retry) once half the places of
// strangers are taken.
func (t *Transport) crowded(net.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.strangers >= t.cfg.MaxStrangers/2
}

// strays counts the packets that quic-go drops before they reach a connection.
type strays struct{ n atomic.Int64 }

func (s *strays) RecordEvent(e qlogwriter.Event) {
	if e.Name() == "transport:packet_dropped" {
		s.n.Add(1)
	}
}

func (s *strays) Close() error { return nil }
