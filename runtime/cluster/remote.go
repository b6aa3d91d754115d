package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// buffers are for encoding one frame before a link copies it.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= 64<<10 {
		buffers.Put(b)
	}
}

// reachable says why p takes no new work, or nil. The caller holds p.mu.
func (p *peer) reachable() *shield.Error {
	switch {
	case p.state == shield.Suspect:
		return shield.Errorf(shield.NodeSuspect, "%s is suspect: %s", p.id, p.reason)
	case p.state == shield.Removed:
		return shield.Errorf(shield.NodeRemoved, "%s was removed: %s", p.id, p.reason)
	case p.state != shield.Online || p.conn == nil:
		return shield.Errorf(shield.NodeOffline, "%s is %s: %s", p.id, p.state, p.reason)
	case p.conn.leaving.Load():
		return shield.Errorf(shield.NodeOffline, "%s is leaving", p.id)
	}
	return nil
}

// unknown is the error for a node that is no member.
func (c *Cluster) unknown(node shield.NodeID) *shield.Error {
	known := []string{string(c.cfg.Node)}
	for id := range *c.peers.Load() {
		known = append(known, string(id))
	}
	slices.Sort(known)
	hint := ""
	if near := shield.Nearest(string(node), known); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return shield.Errorf(shield.NodeNotFound, "no node %q is known here%s known: %s", node, orSemicolon(hint), strings.Join(clip(known, 16), ", "))
}

func orSemicolon(hint string) string {
	if hint == "" {
		return ";"
	}
	return hint
}

func clip(list []string, n int) []string {
	if len(list) > n {
		return append(slices.Clone(list[:n]), fmt.Sprintf("and %d more", len(list)-n))
	}
	return list
}

// Resolve turns another node's name into a handle: reachability first, then
// service_not_found.
func (c *Cluster) Resolve(node shield.NodeID, name shield.Name) (shield.Handle, error) {
	p := c.peer(node)
	if p == nil {
		return shield.Handle{}, c.unknown(node)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.reachable(); err != nil {
		return shield.Handle{}, err
	}
	id, ok := p.names.byName[name]
	if !ok {
		return shield.Handle{}, p.noName(name)
	}
	return shield.Handle{Node: node, Epoch: p.epoch, ID: id}, nil
}

// noName is the error for a name that p, which is reachable, does not publish. The
// caller holds p.mu.
func (p *peer) noName(name shield.Name) *shield.Error {
	published := make([]string, 0, len(p.names.byName))
	for n := range p.names.byName {
		published = append(published, string(n))
	}
	slices.Sort(published)
	switch near := shield.Nearest(string(name), published); {
	case near != "":
		return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q; did you mean %s:%s?", p.id, name, p.id, near)
	case len(published) == 0 && p.conn.draining.Load():
		return shield.Errorf(shield.ServiceNotFound, "%s is draining and publishes nothing any more", p.id)
	case len(published) == 0:
		return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q, nor anything else", p.id, name)
	}
	return shield.Errorf(shield.ServiceNotFound, "%s publishes no %q; it has: %s", p.id, name, strings.Join(clip(published, 16), ", "))
}

// route finds the link for an envelope. The caller holds the lock of p.
func (p *peer) route(h shield.Handle) (*conn, *shield.Error) {
	if err := p.reachable(); err != nil {
		return nil, err
	}
	if h.ID != 0 && h.Epoch != p.epoch { // id 0 is the node itself, whichever its start
		return nil, shield.Errorf(shield.ServiceDead, "the handle is from another start of %s than the present one", p.id)
	}
	return p.conn, nil
}

// Send hands an envelope to the link of its target's node. nil means accepted
// for delivery, no more.
func (c *Cluster) Send(e *shield.Envelope) error {
	p := c.peer(e.Target.Node)
	if p == nil {
		return c.unknown(e.Target.Node)
	}
	if err := checkSize(e); err != nil {
		return err
	}
	p.mu.RLock()
	cn, rerr := p.route(e.Target)
	p.mu.RUnlock()
	if rerr != nil {
		return rerr
	}
	e.CallID = 0
	return c.writeEnvelope(cn, e)
}

// Call is Send for an envelope that wants a reply; it sets e.CallID. w hears the
// reply or the loss of the peer, once, unless Call failed or Cancel came first;
// it may hear it before Call has returned.
func (c *Cluster) Call(e *shield.Envelope, w shield.Waiter) (callID uint64, err error) {
	p := c.peer(e.Target.Node)
	if p == nil {
		return 0, c.unknown(e.Target.Node)
	}
	if err := checkSize(e); err != nil {
		return 0, err
	}
	if e.Timeout <= 0 {
		return 0, shield.Errorf(shield.Timeout, "the deadline of %s has passed; nothing was sent", e.Method)
	}
	// The call is entered while the state can't change: a verdict that comes
	// later finds it.
	p.mu.RLock()
	cn, rerr := p.route(e.Target)
	var ok bool
	if rerr == nil {
		callID, ok = c.calls.add(call{waiter: w, conn: cn, expires: c.now() + e.Timeout + 2*recordSlack})
	}
	p.mu.RUnlock()
	if rerr != nil {
		return 0, rerr
	}
	if !ok {
		return 0, shield.Errorf(shield.PendingCallLimit, "this node waits for %d replies from other nodes", c.calls.len())
	}
	e.CallID = callID
	if err := c.writeEnvelope(cn, e); err != nil {
		if c.calls.undo(callID) == nil {
			return callID, nil // the loss of the link was quicker and w has heard of it
		}
		return 0, err
	}
	return callID, nil
}

func checkSize(e *shield.Envelope) error {
	if len(e.Args) > maxBody {
		return shield.Errorf(shield.MessageTooLarge, "%s has %d bytes of arguments; at most %d travel between nodes", e.Method, len(e.Args), maxBody)
	}
	if e.Method == "" || len(e.Method) > wire.MaxMethod {
		return shield.Errorf(shield.InvalidMethod, "a method's name has 1 to %d bytes, this one %d", wire.MaxMethod, len(e.Method))
	}
	return nil
}

func (c *Cluster) writeEnvelope(cn *conn, e *shield.Envelope) error {
	buf := getBuffer()
	defer putBuffer(buf)
	e.Source.Node = c.cfg.Node
	*buf = wire.AppendEnvelope((*buf)[:0], e)
	if err := cn.write(Data, *buf); err != nil {
		return writeError(cn, err)
	}
	c.stats.txMessages.Add(1)
	return nil
}

func writeError(cn *conn, err error) *shield.Error {
	if errors.Is(err, ErrQueueFull) {
		return shield.Errorf(shield.MailboxFull, "%s reads too slowly: %w", cn.id.Node, err)
	}
	return shield.Errorf(shield.NodeOffline, "%s went offline: %w", cn.id.Node, err)
}

// Cancel forgets a call; a reply that still comes is counted as late.
func (c *Cluster) Cancel(callID uint64) { c.calls.cancel(callID) }

// SendFrame hands one frame of session traffic to the data stream of a node.
// Frames pass a suspect: the sessions were bound before.
func (c *Cluster) SendFrame(node shield.NodeID, kind wire.Kind, body []byte) error {
	if !kind.Opaque() {
		return fmt.Errorf("cluster: %v is no frame of session traffic", kind)
	}
	if len(body) > maxBody {
		return shield.Errorf(shield.MessageTooLarge, "the frame has %d bytes; at most %d travel between nodes", len(body), maxBody)
	}
	p := c.peer(node)
	if p == nil {
		return c.unknown(node)
	}
	p.mu.RLock()
	cn, err := p.conn, p.reachable()
	p.mu.RUnlock()
	if err != nil && (err.Code != shield.NodeSuspect || cn == nil) {
		return err
	}
	buf := getBuffer()
	defer putBuffer(buf)
	*buf = wire.AppendClusterFrame((*buf)[:0], kind, body)
	if err := cn.write(Data, *buf); err != nil {
		return writeError(cn, err)
	}
	return nil
}
