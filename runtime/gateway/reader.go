package gateway

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"shield/runtime/shield"
)

const (
	// readBuffer is what an idle connection keeps for what may come.
	readBuffer = 2 << 10
	// smallBuffer is the same where the transport has a buffer of its own.
	smallBuffer = 512
	// readStep bounds the memory taken on the word of a header: a longer body
	// gets its memory as its bytes arrive.
	readStep = 4 << 10
	// patienceSpan is the time in which max refused frames end a session.
	patienceSpan = time.Minute
)

// reader is what only the reading goroutine of a client touches.
type reader struct {
	now      time.Duration
	session  bucket
	routes   map[shield.RouteID]*bucket // of the routes with a rate of their own
	decode   int                        // bodies that did not decode
	patience bucket                     // for frames that a check refuses
}

// read takes frames until the connection ends. Once the session is over it
// only waits for that, so that what was sent last is not lost to a reset.
func (c *client) read() error {
	r := &c.reader
	r.now = c.g.now()
	r.session = bucket{tokens: float64(c.g.limits.Burst), last: r.now}
	r.patience = bucket{tokens: float64(c.g.limits.MaxRefused), last: r.now}
	br := bufio.NewReaderSize(c.link, c.readBuffer())
	header := c.g.format.Header()
	for {
		waited := br.Buffered() < header
		head, err := br.Peek(header)
		if errors.Is(err, errText) {
			c.arrived(0)
			c.g.refuse(cInDecode, "client closed: it sent a WebSocket message that is not binary", c.who())
			c.drop(shield.DecodeError)
			return c.drain(br)
		}
		if err != nil {
			return err
		}
		if waited {
			r.now = c.g.now()
		}
		route, n, err := c.g.format.ParseHeader(head)
		if err != nil {
			c.arrived(0)
			c.g.refuse(cInSize, "client closed: a frame is longer than max_frame_size", c.who())
			c.drop(shield.FrameTooLarge)
			return c.drain(br)
		}
		waited = br.Buffered() < header+n
		if _, err = br.Discard(header); err != nil {
			return err
		}
		if err = c.frame(br, route, n); err != nil {
			return err
		}
		if waited {
			r.now = c.g.now()
		}
		c.seen.Store(int64(r.now))
		if c.out.isClosing() {
			return c.drain(br)
		}
	}
}

// arrived counts a frame whose header was read.
func (c *client) arrived(body int) {
	c.in.Add(1)
	c.g.count.framesIn.Add(1)
	c.g.count.bytesIn.Add(int64(body + c.g.format.Header()))
}

func (c *client) readBuffer() int {
	if c.transport == TCP {
		return readBuffer
	}
	return smallBuffer
}

// drain reads and forgets until the other side is done.
func (c *client) drain(br *bufio.Reader) error {
	_, err := io.Copy(io.Discard, br)
	return err
}

// frame takes one frame whose header has been read. Its error is the
// connection's.
func (c *client) frame(br *bufio.Reader, route shield.RouteID, n int) error {
	c.arrived(n)
	if route < shield.FirstRouteID {
		return c.ownFrame(br, route, n)
	}
	rs := c.g.routes.Load()
	rpc := rs.table.ByID(route)
	if counter, code := c.check(rpc, n); code != "" {
		c.refused(counter, code, route, n)
		_, err := br.Discard(n)
		return err
	}
	body, err := readBody(br, n)
	if err != nil {
		c.g.count.add(cInCut, 1)
		return err
	}
	codec := rs.codecs[route]
	value, err := codec.Decode(body)
	if err != nil {
		c.undecodable(rpc, err)
		return nil
	}
	c.forward(&shield.Ingress{Route: route, Codec: codec.Name(), Body: body, Decoded: value, Trace: c.g.newTrace()})
	return nil
}

func (g *Gateway) newTrace() shield.TraceID {
	random := g.rand
	if random == nil {
		random = rand.Uint64
	}
	for {
		if t := random(); t != 0 {
			return shield.TraceID(t)
		}
	}
}

// check is the checks on the way in, in their order.
func (c *client) check(rpc *shield.RPCRoute, n int) (counter string, code shield.Code) {
	switch {
	case rpc == nil:
		return cInRoute, shield.RPCRouteNotFound
	case rpc.Dir != shield.ClientToServer:
		return cInDirection, shield.RPCDirectionRejected
	case rpc.Auth && !c.loggedIn.Load():
		return cInAuth, shield.RPCNotAuthenticated
	case rpc.MaxBody > 0 && n > rpc.MaxBody:
		return cInSize, shield.FrameTooLarge
	case !c.reader.allow(rpc, &c.g.limits):
		return cInRate, shield.RateLimited
	}
	return "", ""
}

func (r *reader) allow(rpc *shield.RPCRoute, l *Limits) bool {
	if l.Rate > 0 && !r.session.take(r.now, l.Rate, l.Burst) {
		return false
	}
	if rpc == nil || rpc.Rate <= 0 {
		return true
	}
	burst := rpc.Burst
	if burst <= 0 {
		burst = max(1, int(2*rpc.Rate))
	}
	b := r.routes[rpc.ID]
	if b == nil {
		if r.routes == nil {
			r.routes = map[shield.RouteID]*bucket{}
		}
		b = &bucket{tokens: float64(burst), last: r.now}
		r.routes[rpc.ID] = b
	}
	return b.take(r.now, rpc.Rate, burst)
}

// refused counts a frame that a check refused. It is dropped, nothing answers
// it; a client that goes on and on is closed. What is refused now and then, over
// days, adds up to nothing.
func (c *client) refused(counter string, code shield.Code, route shield.RouteID, n int) {
	if skipped, ok := c.g.counted(counter); ok {
		c.g.warn(counter, skipped, "frame refused: "+string(code)+": "+c.why(code, route, n), c.who(), slog.String("route", c.routeText(route)))
	}
	most := c.g.limits.MaxRefused
	if most > 0 && !c.reader.patience.take(c.reader.now, float64(most)/patienceSpan.Seconds(), most) {
		c.drop(code)
	}
}

// who is the client with the epoch it is bound at, for the log.
func (c *client) who() shield.ClientRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shield.ClientRef{Session: c.id, Epoch: c.ref.Epoch}
}

// routeText names a route; one that rpc.yaml does not have has only its number.
func (c *client) routeText(id shield.RouteID) string {
	if rpc := c.g.routes.Load().table.ByID(id); rpc != nil {
		return rpc.Name
	}
	return strconv.FormatUint(uint64(id), 10)
}

func (c *client) undecodable(rpc *shield.RPCRoute, err error) {
	c.g.refuse(cInDecode, "frame refused: decode_error: its body does not decode", c.who(), slog.String("route", rpc.Name), slog.Any("err", err))
	if c.reader.decode++; c.g.limits.MaxDecodeErrors > 0 && c.reader.decode >= c.g.limits.MaxDecodeErrors {
		c.drop(shield.DecodeError)
	}
}

// forward hands a frame to the session's target, with the binding of this
// moment.
func (c *client) forward(in *shield.Ingress) {
	c.mu.Lock()
	over := c.s.Over()
	in.Client, in.Target = c.ref, c.s.Binding().Target
	c.mu.Unlock()
	if over {
		c.g.count.add(cInOver, 1)
		return
	}
	err := c.g.router.Ingress(in)
	if err == nil {
		return
	}
	code := shield.CodeOf(err)
	c.g.refuse(cInLost, "frame lost: its target does not take it", in.Client, slog.Uint64("route", uint64(in.Route)), slog.Any("err", err))
	if gone(code) {
		c.targetGone(in.Target, code)
	}
}

// maxPing is the longest body of a ping.
const maxPing = 128

// ownFrame takes a frame that is for the gateway itself.
func (c *client) ownFrame(br *bufio.Reader, route shield.RouteID, n int) error {
	switch {
	case route != shield.RoutePing && route != shield.RoutePong:
		c.refused(cInRoute, shield.RPCRouteNotFound, route, n)
	case n > maxPing:
		c.refused(cInSize, shield.FrameTooLarge, route, n)
	case !c.reader.allow(nil, &c.g.limits):
		c.refused(cInRate, shield.RateLimited, route, n)
	default:
		body, err := readBody(br, n)
		if err != nil {
			c.g.count.add(cInCut, 1)
			return err
		}
		c.g.count.add(cPings, 1)
		if route == shield.RoutePing {
			c.pong(body)
		}
		return nil
	}
	_, err := br.Discard(n)
	return err
}

// readBody takes n bytes. Its memory follows the bytes that arrive.
func readBody(br *bufio.Reader, n int) ([]byte, error) {
	body := make([]byte, min(n, readStep))
	if _, err := io.ReadFull(br, body); err != nil {
		return nil, err
	}
	for len(body) < n {
		have := len(body)
		step := min(n-have, max(readStep, have))
		body = append(body, make([]byte, step)...)
		if _, err := io.ReadFull(br, body[have:]); err != nil {
			return nil, err
		}
	}
	return body, nil
}
