package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"shield/runtime/session"
	"shield/runtime/shield"
	"shield/runtime/value"
	"shield/runtime/wire"
)

// Router takes what comes from clients to the services. No method may block or
// wait for the gateway. Notice is called with the session locked: it may only
// hand the notice on, not run a hook on the calling goroutine. Ingress is called
// with nothing locked.
type Router interface {
	// ResolveAuth finds the service that new sessions start with.
	ResolveAuth(name shield.Name) (shield.Handle, error)
	// Ingress takes one frame to its target. service_dead and the node's codes
	// close the session; any other error is counted and the frame dropped.
	Ingress(in *shield.Ingress) error
	// Notice tells a target what became of a session. It must arrive before any
	// Ingress that follows it. The end of a session that a lost node has to hear of
	// is the Router's to keep until that node is back.
	Notice(n *shield.Notice) error
	// Moved tells the node of a session's last target that the session is bound on
	// another node now. The target itself hears nothing. Called as Notice is, after
	// the new target's.
	Moved(ref shield.ClientRef, last shield.Handle)
	// TargetName is how people call a target, for rows: "node:name".
	TargetName(h shield.Handle) string
}

// The transports a Listener may speak.
const (
	TCP       = "tcp"
	TLS       = "tls"
	WebSocket = "ws"
)

// Listener is one address that clients connect to.
type Listener struct {
	Transport string       // TCP, TLS or WebSocket
	Net       net.Listener // owned by the gateway from New on
	TLS       *tls.Config  // for TLS, and for a WebSocket inside TLS
	Path      string       // of a WebSocket; "/" by default
	Origins   []string     // hosts whose pages may open a WebSocket, "*.example.com"; nil = the same host only
}

// Protocol is the frame format of all listeners. Zero fields stand for the
// defaults.
type Protocol struct {
	Name         string // told to services in a client's profile
	Provider     string // codec of every body; "" = each route's
	RouteIDBytes int
	LengthBytes  int
	LittleEndian bool
	MaxFrameSize int
}

// Limits defend the gateway. Zero stands for the default, a negative number for
// no limit where that makes sense.
type Limits struct {
	MaxConnections   int           // 10000
	MaxPerIP         int           // 256
	HandshakeTimeout time.Duration // 10 s from the connection to the first bind; negative = no limit
	IdleTimeout      time.Duration // 60 s without a whole frame; negative = never
	SendQueue        int           // 512 frames that wait for a slow reader
	SendQueueBytes   int           // 1 MiB, and always room for one frame
	MaxDecodeErrors  int           // 10 in one session; negative = no limit
	MaxRefused       int           // 1000 refused frames of one session in a minute; negative = no limit
	Rate             float64       // 200 frames a second and session; negative = no limit
	Burst            int           // twice the rate
	WriteTimeout     time.Duration // 5 s that one write may be stuck
	CloseTimeout     time.Duration // 1 s for the last frames and the close frame
}

// Config is what a Gateway is made of.
type Config struct {
	ID        shield.GatewayID
	Auth      shield.Name // the service every new session starts with
	Listeners []Listener
	Routes    *shield.RPCTable
	Protocol  Protocol
	Limits    Limits
	Router    Router
	Log       *slog.Logger // nil = none
	// Changed hears, from any goroutine, that a session came, went or was bound.
	// It must not block. May be nil.
	Changed func(shield.SessionID)
	// Rand makes session ids and trace ids; nil = crypto/rand and math/rand. Tests
	// that must repeat hand in their own.
	Rand func() uint64
	// Oracle checks the session rules as they run; nil = off.
	Oracle *session.Oracle
}

const (
	defaultProtocol  = "game.v1"
	minQueueBytes    = 1 << 20
	defaultHandshake = 10 * time.Second
)

// shake is the time for a TLS or HTTP handshake, which has an end even where a
// login has none.
func (l *Limits) shake() time.Duration {
	if l.HandshakeTimeout > 0 {
		return l.HandshakeTimeout
	}
	return defaultHandshake
}

func (l Limits) withDefaults(maxFrame int) Limits {
	orInt := func(p *int, d int) {
		if *p == 0 {
			*p = d
		}
	}
	orTime := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	orInt(&l.MaxConnections, 10000)
	orInt(&l.MaxPerIP, 256)
	orTime(&l.HandshakeTimeout, defaultHandshake)
	orTime(&l.IdleTimeout, time.Minute)
	orInt(&l.SendQueue, 512)
	orInt(&l.SendQueueBytes, minQueueBytes)
	l.SendQueueBytes = max(l.SendQueueBytes, maxFrame)
	orInt(&l.MaxDecodeErrors, 10)
	orInt(&l.MaxRefused, 1000)
	if l.Rate == 0 {
		l.Rate = 200
	}
	orInt(&l.Burst, max(1, int(2*l.Rate)))
	orTime(&l.WriteTimeout, 5*time.Second)
	orTime(&l.CloseTimeout, time.Second)
	return l
}

// frameFormat checks p and fills its defaults in.
func (p *Protocol) frameFormat() (wire.Client, error) {
	if p.Name == "" {
		p.Name = defaultProtocol
	}
	if p.Provider != "" && value.CodecByName(p.Provider) == nil {
		return wire.Client{}, unknownCodec("network.protocol.body.provider", p.Provider)
	}
	return wire.Client{RouteIDBytes: p.RouteIDBytes, LengthBytes: p.LengthBytes,
		LittleEndian: p.LittleEndian, MaxFrameSize: p.MaxFrameSize}.Normal()
}

func unknownCodec(where, name string) error {
	near := shield.Nearest(name, value.CodecNames())
	if near != "" {
		return fmt.Errorf("%s: unknown codec %q (did you mean %q?)", where, name, near)
	}
	return fmt.Errorf("%s: unknown codec %q (this release has %v)", where, name, value.CodecNames())
}

// routes is a table and the codec of each of its routes.
type routes struct {
	table  *shield.RPCTable
	codecs map[shield.RouteID]value.Codec
}

func newRoutes(t *shield.RPCTable, provider string) (*routes, error) {
	r := &routes{table: t, codecs: map[shield.RouteID]value.Codec{}}
	for _, route := range t.All() {
		name := provider
		if name == "" {
			name = route.Codec
		}
		c := value.CodecByName(name)
		if c == nil {
			return nil, unknownCodec("route "+route.Name, name)
		}
		r.codecs[route.ID] = c
	}
	return r, nil
}
