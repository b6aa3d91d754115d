package cluster

import "time"

// tick is how often the owner looks at its members.
func (c *Cluster) tick() time.Duration {
	return min(max(c.cfg.Heartbeat/4, 10*time.Millisecond), 200*time.Millisecond)
}

// Rest lets the membership stand still: no heartbeats, no verdicts, until it is
// called with false. Everything else goes on. It is for tests that let days pass
// in virtual time on a network where nothing is wrong: all nodes must rest and
// wake together, and then nobody holds the silence against anybody.
func (c *Cluster) Rest(on bool) {
	c.ask(func() {
		o := &c.own
		if o.resting == on {
			return
		}
		now := c.now()
		if o.resting = on; on {
			o.ticker.Stop()
			o.rested = now
			return
		}
		for _, m := range o.members.all {
			m.excuse(now-o.rested, now)
		}
		c.excused.Store(int64(now + c.lim.suspect))
		for _, cn := range c.conns() {
			cn.heard.Store(int64(now))
			cn.mutual.Store(int64(now))
			c.sendHeartbeat(cn)
		}
		o.ticker.Reset(c.tick())
	})
}
