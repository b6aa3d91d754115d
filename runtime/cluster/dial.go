package cluster

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

const (
	firstRedial = 50 * time.Millisecond
	maxRedial   = 500 * time.Millisecond
	dialLimit   = 2 * time.Second
	// hedge starts another attempt while one waits for an answer: a peer that
	// comes up meets a fresh packet within this time, whatever back-off the
	// waiting attempt is in.
	hedge = 500 * time.Millisecond
)

// dialer keeps trying one address for as long as nothing links us to the node
// there.
type dialer struct {
	addr       string
	cancel     context.CancelFunc
	discovered bool

	first     chan struct{} // closed at the first verdict
	firstOnce sync.Once
	silent    chan struct{} // wakes the dialler when the node is offline on a link that still stands

	// Owned by the owner.
	id     shield.NodeID      // of whoever answered there last
	linked time.Duration      // since when a dial that has reached a node is under way; 0 = none
	giveUp context.CancelFunc // of a dial under way that has reached nobody yet; or nil
}

func (d *dialer) settle() { d.firstOnce.Do(func() { close(d.first) }) }

// addDialer begins to dial addr. It returns nil for an address that is our own
// or is dialled already.
func (c *Cluster) addDialer(addr string, id shield.NodeID, static bool) *dialer {
	o := &c.own
	if o.stopping || addr == c.cfg.Advertise || sameAddr(addr, c.cfg.Transport.Addr()) {
		return nil
	}
	if d := o.dialers[addr]; d != nil {
		d.discovered = d.discovered && !static
		return nil
	}
	ctx, cancel := context.WithCancel(c.ctx)
	d := &dialer{addr: addr, id: id, cancel: cancel, discovered: !static, first: make(chan struct{}), silent: make(chan struct{}, 1)}
	o.dialers[addr] = d
	if id == "" {
		o.members.placeholder(addr, c.now())
	} else if o.members.byID[id] == nil {
		// Discovery knows its id: until it answers, calls fail with node_offline
		// and not as if nobody had ever heard of it.
		m := o.members.identify(id, c.now(), addr)
		m.address, m.reason = addr, "dialling"
		c.makePeer(id)
	}
	c.publishViews()
	c.wg.Go(func() {
		defer cancel()
		defer d.settle()
		c.keepDialling(ctx, d)
	})
	return d
}

// dropDialer stops to dial addr; a link that it made stays.
func (c *Cluster) dropDialer(d *dialer) {
	d.cancel()
	if c.own.dialers[d.addr] == d {
		delete(c.own.dialers, d.addr)
	}
}

// underWay reports whether a handshake that began at since (0 = none) can be
// believed to go on. One that takes longer may have lost its other end, which
// must not keep a node out that has restarted meanwhile.
func (c *Cluster) underWay(since time.Duration) bool {
	return since != 0 && c.now()-since < pingLimit
}

// dialling reports whether a dial of ours has reached the node that dialled us
// from remote.
func (c *Cluster) dialling(id *wire.Identity, remote net.Addr) bool {
	for _, d := range c.own.dialers {
		if !c.underWay(d.linked) {
			continue
		}
		if d.id == id.Node || d.addr == id.Address || sameAddr(d.addr, remote) {
			return true
		}
	}
	return false
}

// leadsTo reports whether d's address is that of the node behind cn.
func (d *dialer) leadsTo(cn *conn) bool {
	if d.id != "" {
		return d.id == cn.id.Node
	}
	return d.addr == cn.id.Address || sameAddr(d.addr, cn.link.RemoteAddr())
}

// leads notes who answered at d's address; a placeholder for it is no longer
// needed when that node is a member.
func (c *Cluster) leads(d *dialer, id shield.NodeID) {
	d.id = id
	if c.own.members.byID[id] != nil {
		c.own.members.identify(id, c.now(), d.addr)
		c.publishViews()
	}
}

// linkedBy ends the dials that have become pointless because the node has
// dialled us.
func (c *Cluster) linkedBy(cn *conn) {
	for _, d := range c.own.dialers {
		if d.giveUp != nil && d.leadsTo(cn) {
			d.giveUp()
		}
	}
}

// wentSilent makes the diallers of a node try again beside its link: the link may
// be dead for good (an address that changed on the way), and nothing would tell.
// If it is not, the peer refuses the second one.
func (c *Cluster) wentSilent(cn *conn) {
	for _, d := range c.own.dialers {
		if d.leadsTo(cn) {
			select {
			case d.silent <- struct{}{}:
			default:
			}
		}
	}
}

// standing finds the link to the node that d leads to, unless that node is
// offline on it.
func (c *Cluster) standing(d *dialer) *conn {
	cn := c.linkTo(d)
	if cn == nil {
		return nil
	}
	cn.peer.mu.RLock()
	defer cn.peer.mu.RUnlock()
	if s := cn.peer.state; cn.alive() && (s == shield.Offline || s == shield.Removed) {
		return nil
	}
	return cn
}

// linkTo finds the link to the node that d leads to.
func (c *Cluster) linkTo(d *dialer) (cn *conn) {
	c.ask(func() {
		for _, other := range c.conns() {
			if d.leadsTo(other) {
				cn = other
			}
		}
	})
	return cn
}

func (c *Cluster) keepDialling(ctx context.Context, d *dialer) {
	delay := firstRedial
	for ctx.Err() == nil {
		if cn := c.standing(d); cn != nil {
			d.settle()
			c.civil.settle("dial " + d.addr)
			delay = firstRedial
			select {
			case <-cn.link.Done():
			case <-d.silent:
				continue
			case <-ctx.Done():
				return
			}
			// The owner hears of the end as well; until it has, the link is
			// still there.
			c.ask(func() { c.lost(cn, cn.link.Err().Error(), false) })
			continue
		}
		err := c.dialOnce(ctx, d)
		if ctx.Err() != nil {
			return
		}
		var no *refusedError
		switch {
		case err == nil, errors.Is(err, context.Canceled):
			continue // the peer may have dialled us in the meantime
		case errors.As(err, &no) && no.verdict.Reason == wire.RefuseSelf:
			c.log.Info("a configured peer is this node itself; it is left out", "peer", d.addr)
			c.ask(func() { c.forgetSelf(d) })
			return
		case errors.As(err, &no) && no.verdict.Reason == wire.RefuseDuplicate && c.Err() == nil && c.raised(no):
			continue // with the higher epoch, at once
		case errors.As(err, &no):
			// It was logged where it was found.
		case errors.Is(err, net.ErrClosed):
			// This node's own socket is gone: the node is being ended.
		default:
			c.civil.warn(c.log, "dial "+d.addr, "a peer can't be reached; is it started, and does UDP get through to it? it is dialled again until it answers",
				"peer", d.addr, "reason", err.Error())
		}
		d.settle()
		if !sleep(ctx, delay/2+c.cfg.Jitter(delay/2)) {
			return
		}
		delay = min(2*delay, maxRedial)
	}
}

// raised reports whether the refusal made this node take a higher epoch.
func (c *Cluster) raised(no *refusedError) bool {
	return no.trusted && !no.verdict.Live && c.Epoch() > no.verdict.Epoch
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Cluster) forgetSelf(d *dialer) {
	c.dropDialer(d)
	for _, m := range c.own.members.all {
		if m.id == "" && m.address == d.addr {
			c.own.members.drop(m)
			break
		}
	}
	c.publishViews()
}

// dialOnce connects to d's address and goes through the handshake. Nil means
// that the link was adopted.
func (c *Cluster) dialOnce(ctx context.Context, d *dialer) error {
	dialCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ask(func() { d.giveUp = cancel })
	l, err := c.reach(dialCtx, d.addr)
	c.ask(func() {
		d.giveUp = nil
		if err == nil {
			d.linked = max(c.now(), 1)
		}
	})
	if err != nil {
		return err
	}
	slow := time.AfterFunc(handshakeLimit, func() { l.Close("the handshake took too long") })
	cn, err := c.introduce(l, d)
	if !slow.Stop() && err != nil {
		err = fmt.Errorf("handshake with %s: it did not finish it within %v", d.addr, handshakeLimit)
	}
	c.ask(func() { d.linked = 0 })
	if err != nil {
		l.Close(err.Error())
		return err
	}
	c.confirmed(cn)
	return nil
}

// reach makes a link, with more than one attempt at a time.
func (c *Cluster) reach(ctx context.Context, addr string) (Link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	type result struct {
		l   Link
		err error
	}
	results := make(chan result)
	running := 0
	attempt := func() {
		running++
		c.wg.Go(func() {
			l, err := c.cfg.Transport.Dial(ctx, addr)
			results <- result{l, err}
		})
	}
	attempt()
	ticker := time.NewTicker(hedge)
	defer ticker.Stop()
	var won Link
	var failed error
	for running > 0 {
		select {
		case r := <-results:
			running--
			switch {
			case r.err != nil && failed == nil:
				failed = r.err
			case r.err == nil && won == nil:
				won = r.l
				cancel()
			case r.err == nil:
				r.l.Close("another attempt was faster")
			}
			if r.err != nil {
				cancel() // a resolver's or a socket's error won't get better at once
			}
		case <-ticker.C:
			if won == nil && ctx.Err() == nil {
				attempt()
			}
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, failed
}

// introduce is the dialling end of a handshake.
func (c *Cluster) introduce(l Link, d *dialer) (*conn, error) {
	exporter, err := l.Exporter(exporterLabel)
	if err != nil {
		return nil, err
	}
	self := c.identity()
	if !c.ask(func() { c.own.hellos[self.Nonce] = struct{}{} }) {
		return nil, net.ErrClosed
	}
	defer c.ask(func() { delete(c.own.hellos, self.Nonce) })
	hello := wire.AppendHello(nil, &wire.Hello{Version: wire.ClusterVersion, Identity: self})
	if err := l.Write(Control, hello); err != nil {
		return nil, err
	}
	kind, body, err := l.Read(Control)
	if err != nil {
		return nil, fmt.Errorf("handshake with %s: %w", d.addr, err)
	}
	if kind != wire.KindHelloAck {
		c.stats.count(dropNotAuthenticated)
		return nil, fmt.Errorf("handshake with %s: it answered with %v instead of hello_ack", d.addr, kind)
	}
	in := &introduction{c: c, l: l, d: d, exporter: exporter, helloBody: hello[wire.ClusterHeader+1:], ackBody: bytes.Clone(body)}
	ack, err := wire.DecodeHelloAck(in.ackBody)
	if err != nil {
		c.stats.count(dropHandshakeFailed)
		return nil, fmt.Errorf("handshake with %s: %w", d.addr, err)
	}
	return in.answer(ack)
}

// introduction is a dialled handshake after its hello_ack.
type introduction struct {
	c         *Cluster
	l         Link
	d         *dialer
	exporter  []byte
	helloBody []byte
	ackBody   []byte
	key       []byte // the one that the peer proved to have
}

// answer checks hello_ack, sends hello_fin and asks for adoption.
func (in *introduction) answer(ack *wire.HelloAck) (*conn, error) {
	c, l, id := in.c, in.l, &ack.Identity
	proved := in.proves(ack)
	by, v := "we", c.checkTerms(ack.Version, id)
	var replaces *conn
	switch {
	case v.Reason == wire.RefuseVersion:
	case ack.Verdict.Reason != wire.Accepted:
		by, v = "it", ack.Verdict
	case v.Reason != wire.Accepted:
	case !proved:
		v = badProof()
	default:
		v, replaces = c.judge(id, incoming{remote: l.RemoteAddr()})
	}
	if proved {
		c.ask(func() { c.leads(in.d, id.Node) })
	}
	told := v
	if by == "it" {
		told = wire.Verdict{} // it knows
	}
	if err := in.sendFin(&told); err != nil {
		return nil, err
	}
	if v.Reason == wire.Accepted {
		cn := c.newConn(l, *id, true)
		return cn, c.adoptOrClose(adoption{cn: cn, replaces: replaces, dialled: in.d.addr})
	}
	no := &refusedError{by: by, verdict: v, peer: id.Node, trusted: proved}
	c.refused(l, no)
	c.linger(l)
	return nil, no
}

// proves finds the key with which the peer has proved itself.
func (in *introduction) proves(ack *wire.HelloAck) bool {
	if in.c.cfg.Auth.Mode == wire.AuthNone {
		return ack.Identity.Auth == wire.AuthNone
	}
	for _, key := range in.c.keys {
		want := proof(key, proofAck, in.exporter, in.helloBody, in.ackBody[:ack.Signed])
		for i := range ack.Proofs {
			if hmac.Equal(want[:], ack.Proofs[i][:]) {
				in.key = key
				return true
			}
		}
	}
	return false
}

// sendFin proves this node with the key that the peer has, or, when it proved
// none, with our own: it fails there as it did here.
func (in *introduction) sendFin(v *wire.Verdict) error {
	signed := wire.AppendHelloFinUnsigned(nil, v)
	var p [wire.ProofSize]byte
	key := in.key
	if key == nil && len(in.c.keys) > 0 {
		key = in.c.keys[0]
	}
	if key != nil {
		p = proof(key, proofFin, in.exporter, in.helloBody, in.ackBody, signed)
	}
	return in.l.Write(Control, wire.AppendHelloFin(nil, signed, p))
}

// confirmed waits until the peer has adopted us too: its first frame says so.
// Only then has a starting node heard its verdict.
func (c *Cluster) confirmed(cn *conn) {
	timer := time.NewTimer(handshakeLimit)
	defer timer.Stop()
	select {
	case <-cn.confirmed:
	case <-cn.link.Done():
	case <-timer.C:
	case <-c.ctx.Done():
	}
}
