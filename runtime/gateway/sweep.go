package gateway

import (
	"context"
	"time"

	"shield/runtime/shield"
)

// sweep looks after all connections on one timer: logins that take too long,
// silence, writes that are stuck, and signs of life on WebSockets.
func (g *Gateway) sweep() {
	t := time.NewTicker(g.sweepEvery())
	defer t.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-t.C:
			now := g.now()
			for _, c := range g.all() {
				g.look(c, now)
			}
		}
	}
}

const (
	maxSweep  = time.Second
	minSweep  = 5 * time.Millisecond
	sweepPart = 4 // of the shortest time-out
)

func (g *Gateway) sweepEvery() time.Duration {
	d := maxSweep
	for _, t := range []time.Duration{g.limits.HandshakeTimeout, g.limits.IdleTimeout, g.limits.WriteTimeout} {
		if t > 0 {
			d = min(d, t/sweepPart)
		}
	}
	return max(d, minSweep)
}

// look ends c if one of its times is up.
func (g *Gateway) look(c *client, now time.Duration) {
	l := &g.limits
	quiet := now - time.Duration(c.seen.Load())
	writing := time.Duration(c.out.since.Load())
	switch {
	case writing > 0 && now-writing >= l.WriteTimeout:
		c.drop(shield.SessionSendQueueFull)
		c.link.abort() // the write is stuck: no close frame can follow
	case l.HandshakeTimeout > 0 && now-c.began >= l.HandshakeTimeout && !c.loggedIn.Load():
		c.drop(shield.HandshakeTimeout)
	case l.IdleTimeout > 0 && quiet >= l.IdleTimeout:
		c.drop(shield.IdleTimeout)
	case l.IdleTimeout > 0 && c.transport == WebSocket && quiet >= l.IdleTimeout/3 && now-time.Duration(c.pinged.Load()) >= l.IdleTimeout/3:
		c.pinged.Store(int64(now))
		g.wg.Go(func() {
			ctx, cancel := context.WithTimeout(g.ctx, l.IdleTimeout)
			defer cancel()
			c.link.ping(ctx)
		})
	}
}
