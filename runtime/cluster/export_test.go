package cluster

import (
	"fmt"
	"time"

	"shield/runtime/wire"
)

// SetCallIDBits makes call ids wrap early.
func (c *Cluster) SetCallIDBits(bits int) { c.calls.mask = 1<<bits - 1 }

// OpenCalls counts ids that are taken.
func (c *Cluster) OpenCalls() int { return c.calls.len() }

// Leftovers tells what is held for calls, handshakes and links that are over.
func (c *Cluster) Leftovers() (left string) {
	count := func(what string, n int) {
		if n != 0 {
			left += fmt.Sprintf(" %d %s", n, what)
		}
	}
	c.ask(func() {
		conns := c.conns()
		count("ids of calls", c.calls.len())
		count("hellos", len(c.own.hellos))
		count("handshakes", len(c.own.incoming))
		c.table.mu.Lock()
		count("links too many that hear of names", len(c.table.conns)-len(conns))
		c.table.mu.Unlock()
		for _, cn := range conns {
			cn.inbox.mu.Lock()
			count("records of calls", cn.inbox.n)
			cn.inbox.mu.Unlock()
			cn.pingMu.Lock()
			count("pings", len(cn.pings))
			cn.pingMu.Unlock()
		}
	})
	return left
}

// Pause keeps the owner from running for d, as SIGSTOP does.
func (c *Cluster) Pause(d time.Duration) { c.post(func() { time.Sleep(d) }) }

// LinkTo is the live link to a node, for tests that break the protocol.
func (c *Cluster) LinkTo(id string) Link {
	for _, cn := range c.conns() {
		if string(cn.id.Node) == id {
			return cn.link
		}
	}
	return nil
}

// ControlOf handles a frame as the reader of the present link to a node does, for
// tests in which that is late.
func (c *Cluster) ControlOf(id string) func(wire.Kind, []byte) error {
	for _, cn := range c.conns() {
		if string(cn.id.Node) == id {
			return cn.onControl
		}
	}
	return nil
}
