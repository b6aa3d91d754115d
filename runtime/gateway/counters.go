package gateway

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// What a gateway counts. Frames that a check refuses are counted under the name
// of the check.
const (
	cConnections = "connections" // accepted, ever
	cRefusedConn = "connections_refused"
	cPerIP       = "connections_refused_ip_limit"
	cTotalLimit  = "connections_refused_connection_limit"
	cTLSFailed   = "tls_handshakes_failed"
	cWebFailed   = "websocket_handshakes_failed"
	cNoSession   = "sessions_refused" // no auth service, or the gateway was closing
	cFramesIn    = "frames_in"        // headers read: forwarded, answered (pings), or refused (ingress_...)
	cFramesOut   = "frames_out"
	cBytesIn     = "bytes_in"
	cBytesOut    = "bytes_out"
	cFlushes     = "writes"

	cInRoute     = "ingress_route_not_found"
	cInDirection = "ingress_direction_rejected"
	cInAuth      = "ingress_not_authenticated"
	cInSize      = "ingress_frame_too_large"
	cInRate      = "ingress_rate_limited"
	cInDecode    = "ingress_decode_error"
	cInLost      = "ingress_lost"          // the router refused it
	cInCut       = "ingress_cut_off"       // the connection ended inside it
	cInOver      = "ingress_session_ended" // the session was over when it was read
	cPings       = "pings"                 // and pongs, which need no answer

	cOutSession   = "egress_unknown_session"
	cOutEpoch     = "egress_stale_epoch"
	cOutOwner     = "egress_owner_mismatch"
	cOutRoute     = "egress_route_not_found"
	cOutDirection = "egress_direction_rejected"
	cOutSize      = "egress_frame_too_large"
	cOutQueue     = "egress_send_queue_full"
	cOutLost      = "egress_lost" // accepted, then the connection broke

	cBinds      = "binds"
	cBindsLost  = "binds_epoch_expired"
	cKicks      = "kicks"
	cDrops      = "disconnects"
	cNoticeLost = "notices_lost"
	cCloseLost  = "close_frames_lost"
)

var counterNames = []string{cConnections, cRefusedConn, cPerIP, cTotalLimit, cTLSFailed, cWebFailed, cNoSession, cFramesIn, cFramesOut, cBytesIn, cBytesOut, cFlushes,
	cInRoute, cInDirection, cInAuth, cInSize, cInRate, cInDecode, cInLost, cInCut, cInOver, cPings,
	cOutSession, cOutEpoch, cOutOwner, cOutRoute, cOutDirection, cOutSize, cOutQueue, cOutLost,
	cBinds, cBindsLost, cKicks, cDrops, cNoticeLost, cCloseLost}

// counters is a fixed set of names, and one more for each code that closed a
// session ("closed_idle_timeout").
type counters struct {
	fixed map[string]*atomic.Int64

	// Of the busy ones, without a look-up.
	framesIn, framesOut, bytesIn, bytesOut *atomic.Int64

	mu     sync.Mutex
	closed map[string]int64
}

func newCounters() *counters {
	c := &counters{fixed: make(map[string]*atomic.Int64, len(counterNames)), closed: map[string]int64{}}
	for _, n := range counterNames {
		c.fixed[n] = new(atomic.Int64)
	}
	c.framesIn, c.framesOut, c.bytesIn, c.bytesOut = c.fixed[cFramesIn], c.fixed[cFramesOut], c.fixed[cBytesIn], c.fixed[cBytesOut]
	return c
}

func (c *counters) add(name string, n int64) { c.fixed[name].Add(n) }

// close counts a session that the gateway ended by itself.
func (c *counters) close(code shield.Code) {
	c.mu.Lock()
	c.closed["closed_"+string(code)]++
	c.mu.Unlock()
}

func (c *counters) all() map[string]int64 {
	m := make(map[string]int64, len(c.fixed)+8)
	for n, v := range c.fixed {
		m[n] = v.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, v := range c.closed {
		m[n] = v
	}
	return m
}

// warnings lets one line of a kind through each second: a client or a service in
// a loop must not fill the log.
type warnings struct {
	mu   sync.Mutex
	last map[string]*warned
}

type warned struct {
	at      time.Time
	skipped int
}

const warnEvery = time.Second

func (w *warnings) allow(kind string, now time.Time) (skipped int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[string]*warned{}
	}
	l := w.last[kind]
	if l == nil {
		w.last[kind] = &warned{at: now}
		return 0, true
	}
	if now.Sub(l.at) < warnEvery {
		l.skipped++
		return 0, false
	}
	skipped, l.at, l.skipped = l.skipped, now, 0
	return skipped, true
}

// refuse counts what a check refused and warns of it at a civil rate.
func (g *Gateway) refuse(counter, msg string, ref shield.ClientRef, attrs ...any) {
	if skipped, ok := g.counted(counter); ok {
		g.warn(counter, skipped, msg, ref, attrs...)
	}
}

// counted counts a refusal. ok says that it is time for a line about it, which
// tells how many were passed over since the last.
func (g *Gateway) counted(counter string) (skipped int, ok bool) {
	g.count.add(counter, 1)
	return g.warned.allow(counter, time.Now())
}

func (g *Gateway) warn(counter string, skipped int, msg string, ref shield.ClientRef, attrs ...any) {
	attrs = append([]any{slog.String("service", "gateway"), slog.String("gateway", string(g.id)), slog.String("counter", counter),
		slog.String("session", string(ref.Session)), slog.Uint64("epoch", uint64(ref.Epoch))}, attrs...)
	if skipped > 0 {
		attrs = append(attrs, slog.Int("suppressed", skipped))
	}
	g.log.Warn(msg, attrs...)
}
