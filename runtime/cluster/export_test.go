package cluster

import "time"

// SetCallIDBits makes call ids wrap early.
func (c *Cluster) SetCallIDBits(bits int) { c.calls.mask = 1<<bits - 1 }

// OpenCalls counts ids that are taken.
func (c *Cluster) OpenCalls() int { return c.calls.len() }

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
