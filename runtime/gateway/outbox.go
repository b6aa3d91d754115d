package gateway

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// outbox is what waits to be written to a client. Frames are put behind each
// other in one buffer; while a write is under way the next buffer fills. An idle
// client holds no buffer and no goroutine: the first frame starts one, which
// ends when there is nothing left. All fields but the atomics need client.mu.
type outbox struct {
	pending *[]byte // whole frames, nil when there are none
	frames  int     // in pending
	flying  int     // frames in the write under way
	writing bool    // the goroutine is there

	closing atomic.Bool  // no more frames; the close frame is next
	since   atomic.Int64 // g.now() at which the write under way began, 0 = none
	reason  string
	saidBye bool
	timer   *time.Timer   // cuts a close that takes too long
	settled chan struct{} // closed when the last write is over; made by close
}

// idleBuffer is the largest buffer that goes back to the pool.
const idleBuffer = 64 << 10

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 1<<10)
	return &b
}}

func recycle(b *[]byte) {
	if cap(*b) <= idleBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

func (o *outbox) isClosing() bool { return o.closing.Load() }

// push is the checks on the way out, in their order, and the queueing.
func (c *client) push(p *shield.Push) {
	rpc := c.g.routes.Load().table.ByID(p.Route)
	c.mu.Lock()
	counter, text := c.checkPush(p, rpc)
	if counter == "" {
		counter, text = c.enqueue(p.Route, p.Body)
	}
	if counter == "" {
		c.g.oracle.Pushed(p.Client)
	}
	c.mu.Unlock()
	switch counter {
	case "":
		c.outN.Add(1)
		return
	case cOutEpoch:
		c.stale.Add(1)
	}
	name := ""
	if rpc != nil {
		name = rpc.Name
	}
	c.g.refuse(counter, "push refused: "+text, p.Client, slog.Uint64("route", uint64(p.Route)), slog.String("name", name))
	if counter == cOutQueue {
		// A stream with a hole is worth nothing to a game.
		c.drop(shield.SessionSendQueueFull)
	}
}

func (c *client) checkPush(p *shield.Push, rpc *shield.RPCRoute) (counter, text string) {
	switch c.s.CheckPush(p.Client) {
	case shield.SessionClosed:
		return cOutSession, "the session is gone"
	case shield.RPCEpochExpired:
		return cOutEpoch, "its client or ref is from before the last bind"
	case shield.RPCOwnerMismatch:
		return cOutOwner, "the session belongs to another player"
	}
	switch {
	case rpc == nil:
		return cOutRoute, "no such route"
	case rpc.Dir != shield.ServerToClient:
		return cOutDirection, "the route goes from client to server"
	}
	return "", ""
}

// enqueue puts a frame into the buffer and sees to it that somebody writes.
// Needs mu.
func (c *client) enqueue(route shield.RouteID, body []byte) (counter, text string) {
	o, l := &c.out, &c.g.limits
	if len(body) > c.g.format.MaxBody() { // before the queue, which it may not fit into
		return cOutSize, wire.ErrClientFrameSize.Error()
	}
	size := len(body) + c.g.format.Header()
	queued := 0
	if o.pending != nil {
		queued = len(*o.pending)
	}
	if o.frames+o.flying >= l.SendQueue || queued+size > l.SendQueueBytes {
		return cOutQueue, "the client reads too slowly"
	}
	if o.pending == nil {
		o.pending = buffers.Get().(*[]byte)
	}
	var err error
	if *o.pending, err = c.g.format.Append(*o.pending, route, body); err != nil {
		return cOutSize, err.Error()
	}
	o.frames++
	c.wake()
	return "", ""
}

// pong answers a ping. A client that sends pings and reads nothing fills its
// queue as any slow reader does.
func (c *client) pong(body []byte) {
	c.mu.Lock()
	counter := ""
	if !c.s.Over() {
		counter, _ = c.enqueue(shield.RoutePong, body)
	}
	c.mu.Unlock()
	if counter == cOutQueue {
		c.g.count.add(cOutQueue, 1)
		c.drop(shield.SessionSendQueueFull)
	}
}

// wake starts the writing goroutine unless it is there. Needs mu.
func (c *client) wake() {
	if c.out.writing {
		return
	}
	c.out.writing = true
	c.g.wg.Add(1)
	go c.write()
}

// write writes until there is nothing left. Others get a turn first: what they
// push meanwhile goes out in the same system call.
func (c *client) write() {
	defer c.g.wg.Done()
	for {
		runtime.Gosched()
		buf, frames, bye, last := c.take()
		if buf == nil {
			if last {
				c.link.finish(c.out.reason)
				close(c.out.settled)
			}
			return
		}
		c.out.since.Store(int64(c.g.now()) | 1)
		_, err := c.link.Write(*buf)
		c.out.since.Store(0)
		n := len(*buf)
		recycle(buf)
		if err != nil {
			c.writeFailed(frames, bye)
			return
		}
		c.g.count.framesOut.Add(int64(frames))
		c.g.count.bytesOut.Add(int64(n))
		c.g.count.add(cFlushes, 1)
	}
}

// take hands over everything that waits, the close frame (bye) behind it. A nil
// buffer means that there is nothing and the goroutine ends; last, that nothing
// will ever come.
func (c *client) take() (buf *[]byte, frames int, bye, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &c.out
	buf, frames = o.pending, o.frames
	o.pending, o.frames, o.flying = nil, 0, frames
	if o.closing.Load() && !o.saidBye {
		o.saidBye = true
		if buf == nil {
			buf = buffers.Get().(*[]byte)
		}
		reason := clip(o.reason, c.g.format.MaxBody())
		if b, err := c.g.format.Append(*buf, shield.RouteClose, []byte(reason)); err == nil {
			*buf, bye = b, true
		}
	}
	if buf == nil || len(*buf) == 0 {
		// The last goroutine stays counted as writing: nobody may start another.
		last = o.closing.Load()
		o.writing = last
		return nil, 0, false, last
	}
	return buf, frames, bye, false
}

// writeFailed counts what is lost and ends the connection.
func (c *client) writeFailed(frames int, bye bool) {
	c.link.abort()
	c.mu.Lock()
	o := &c.out
	lost := frames + o.frames
	if o.pending != nil {
		recycle(o.pending)
	}
	o.pending, o.frames, o.flying = nil, 0, 0
	closing := o.closing.Load()
	if closing && !o.saidBye || bye {
		o.saidBye = true
		c.g.count.add(cCloseLost, 1)
	}
	o.writing = closing
	if closing {
		close(o.settled)
	}
	c.mu.Unlock()
	c.g.count.add(cOutLost, int64(lost))
}

// close makes the close frame the last one and sets a deadline for all of it.
// Needs mu.
func (o *outbox) close(c *client, reason string) {
	o.reason = reason
	o.settled = make(chan struct{})
	o.timer = time.AfterFunc(c.g.limits.CloseTimeout, c.link.abort)
	o.closing.Store(true)
	c.wake()
}

// discard forgets what waits for a client that has left. Needs mu.
func (o *outbox) discard(c *client) {
	if o.pending != nil {
		recycle(o.pending)
	}
	c.g.count.add(cOutLost, int64(o.frames))
	o.pending, o.frames = nil, 0
}

// settle waits, at the end of a connection, until the last write is over.
func (o *outbox) settle() {
	if !o.isClosing() {
		return
	}
	<-o.settled
	o.timer.Stop()
}
