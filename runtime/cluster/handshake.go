package cluster

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// DuplicateError says that another live node holds this node's id, or that its
// epoch was surpassed.
type DuplicateError struct {
	Node          shield.NodeID
	Address       string // of this node
	PID           int
	HolderAddress string
	HolderPID     int
	HolderEpoch   shield.NodeEpoch
	Live          bool // the holder answered; false: a peer remembers a later start
}

func (e *DuplicateError) Error() string {
	if !e.Live {
		return fmt.Sprintf("node_id %s: a peer remembers a later start of this node (epoch %v, at %s); has the clock gone back? restart the node once more",
			e.Node, e.HolderEpoch, e.HolderAddress)
	}
	return fmt.Sprintf("node_id %s is in use: a live node holds it at %s (pid %d), this one is at %s (pid %d); stop one of them or give it another cluster.node_id",
		e.Node, e.HolderAddress, e.HolderPID, e.Address, e.PID)
}

// refusedError is a handshake that one end refused.
type refusedError struct {
	by      string // "it" or "we"
	verdict wire.Verdict
	peer    shield.NodeID // "" when it did not say
	trusted bool          // the verdict came with a proof
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s refused: %s: %s", e.by, e.verdict.Reason, e.verdict.Text)
}

func (c *Cluster) identity() wire.Identity {
	id := wire.Identity{
		Cluster: c.cfg.Name, Node: c.cfg.Node, Epoch: c.Epoch(), PID: uint32(os.Getpid()),
		Address: c.cfg.Advertise, Features: wire.Features, Auth: c.cfg.Auth.Mode, Time: c.cfg.Wall(),
	}
	rand.Read(id.Nonce[:])
	return id
}

func randomNonce() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

func refuse(r wire.RefuseReason, format string, args ...any) wire.Verdict {
	return wire.Verdict{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// checkTerms judges what needs no knowledge of members: version, cluster, auth
// mode and clock.
func (c *Cluster) checkTerms(version uint16, id *wire.Identity) wire.Verdict {
	switch {
	case version != wire.ClusterVersion:
		return refuse(wire.RefuseVersion, "wire version %d is spoken here, yours is %d; run the same release", wire.ClusterVersion, version)
	case id.Cluster != c.cfg.Name:
		return refuse(wire.RefuseCluster, "this is cluster %q, yours is %q; compare cluster.name", c.cfg.Name, id.Cluster)
	case id.Auth != c.cfg.Auth.Mode:
		return refuse(wire.RefuseAuth, "cluster.auth.type is %s here and %s there; they must be the same", c.cfg.Auth.Mode, id.Auth)
	}
	if limit := c.cfg.Auth.MaxClockSkew; limit > 0 {
		if skew := id.Time.Sub(c.cfg.Wall()); skew.Abs() > limit {
			return refuse(wire.RefuseClock, "the clocks differ by %v, max_clock_skew is %v; set them right", skew.Round(time.Millisecond), limit)
		}
	}
	return wire.Verdict{}
}

// judge decides over an identity. A live link with the same id is pinged first,
// outside the owner; one that does not answer in time may be replaced.
func (c *Cluster) judge(id *wire.Identity, in incoming) (v wire.Verdict, replaces *conn) {
	for {
		var holder *conn
		if !c.ask(func() { v, holder = c.examine(id, in, replaces) }) {
			return refuse(wire.RefuseStopping, "this node is stopping"), nil
		}
		if holder == nil {
			return v, replaces
		}
		if holder.ping(pingLimit) {
			return c.held(id, holder), nil
		}
		replaces = holder
	}
}

// held is the verdict over an id whose holder is alive.
func (c *Cluster) held(id *wire.Identity, holder *conn) wire.Verdict {
	if holder.id.Epoch == id.Epoch {
		return refuse(wire.RefuseSimultaneous, "the two nodes are connected already")
	}
	v := refuse(wire.RefuseDuplicate, "node_id %s is held by a live node at %s (pid %d)", id.Node, holder.id.Address, holder.id.PID)
	v.Address, v.PID, v.Epoch, v.Live = holder.id.Address, holder.id.PID, holder.id.Epoch, true
	return v
}

// incoming says how a handshake came about.
type incoming struct {
	accepted bool     // the peer dialled us
	remote   net.Addr // of the link
}

// waiting counts a node's accepted handshakes that have not ended.
type waiting struct {
	n     int
	since time.Duration // of the last one
}

// examine judges an identity on the owner's goroutine. holder is a link with the
// same id that has to be pinged first.
func (c *Cluster) examine(id *wire.Identity, in incoming, dead *conn) (v wire.Verdict, holder *conn) {
	o := &c.own
	if o.stopping {
		return refuse(wire.RefuseStopping, "this node is stopping"), nil
	}
	if in.accepted {
		if _, ours := o.hellos[id.Nonce]; ours {
			return refuse(wire.RefuseSelf, "this address leads back to the node itself; take it out of cluster.peers"), nil
		}
		if !o.replays.fresh(id.Nonce, c.now()) && dead == nil {
			return refuse(wire.RefuseAuth, "this challenge was used before"), nil
		}
	}
	if id.Node == c.cfg.Node {
		return c.sameID(id), nil
	}
	if cur := c.connOf(id.Node); cur != nil && cur != dead && cur.alive() {
		return v, cur
	}
	m := o.members.byID[id.Node]
	if m != nil && id.Epoch < m.epoch {
		v = refuse(wire.RefuseDuplicate, "a later start of node_id %s is known (epoch %v)", id.Node, m.epoch)
		v.Address, v.Epoch = m.address, m.epoch
		return v, nil
	}
	// Two nodes that dial each other at once would get two links. The end with
	// the higher id gives way, and it alone decides late cases, so that the two
	// can't both give way or both insist.
	if in.accepted && id.Node > c.cfg.Node && c.dialling(id, in.remote) {
		return refuse(wire.RefuseSimultaneous, "this node is dialling yours"), nil
	}
	if !in.accepted && id.Node < c.cfg.Node && c.underWay(o.incoming[id.Node].since) {
		return refuse(wire.RefuseSimultaneous, "yours is dialling this node"), nil
	}
	if in.accepted {
		o.incoming[id.Node] = waiting{o.incoming[id.Node].n + 1, max(c.now(), 1)}
	}
	return v, nil
}

// sameID is the verdict over another process with our own id: the earlier start
// keeps it.
func (c *Cluster) sameID(id *wire.Identity) wire.Verdict {
	self := c.identity()
	holder := &self
	if id.Epoch < self.Epoch {
		holder = id
	}
	v := refuse(wire.RefuseDuplicate, "node_id %s is held by a live node at %s (pid %d)", id.Node, holder.Address, holder.PID)
	v.Address, v.PID, v.Epoch, v.Live = holder.Address, holder.PID, holder.Epoch, true
	return v
}

func (c *Cluster) acceptLoop() {
	for {
		l, err := c.cfg.Transport.Accept(c.ctx)
		if err != nil {
			return
		}
		c.wg.Go(func() { c.greet(l) })
	}
}

// greet is the accepting end of a handshake.
func (c *Cluster) greet(l Link) {
	slow := time.AfterFunc(handshakeLimit, func() { l.Close("the handshake took too long") })
	defer slow.Stop()
	kind, body, err := l.Read(Control)
	if err != nil {
		c.failedHandshake(l, err)
		return
	}
	if kind != wire.KindHello {
		c.unauthenticated(l, kind, body)
		return
	}
	helloBody := bytes.Clone(body)
	hello, err := wire.DecodeHello(helloBody)
	if err != nil {
		c.failedHandshake(l, err)
		return
	}
	g := &greeting{c: c, l: l, hello: hello, helloBody: helloBody}
	v := c.checkTerms(hello.Version, &hello.Identity)
	if v.Reason == wire.Accepted {
		v, g.replaces = c.judge(&hello.Identity, incoming{accepted: true, remote: l.RemoteAddr()})
	}
	if v.Reason == wire.Accepted {
		// The place among the incoming is held until the outcome is known.
		defer c.ask(func() { c.leaveIncoming(hello.Identity.Node) })
	}
	g.finish(v)
}

func (c *Cluster) leaveIncoming(id shield.NodeID) {
	if w := c.own.incoming[id]; w.n > 1 {
		c.own.incoming[id] = waiting{w.n - 1, w.since}
	} else {
		delete(c.own.incoming, id)
	}
}

// greeting is an accepted handshake after its hello.
type greeting struct {
	c         *Cluster
	l         Link
	hello     *wire.Hello
	helloBody []byte
	replaces  *conn
}

// finish sends hello_ack, checks hello_fin and asks for adoption.
func (g *greeting) finish(v wire.Verdict) {
	c, l, peer := g.c, g.l, g.hello.Identity
	exporter, err := l.Exporter(exporterLabel)
	if err != nil {
		c.failedHandshake(l, err)
		return
	}
	signed := wire.AppendHelloAckUnsigned(nil, &wire.HelloAck{Version: wire.ClusterVersion, Identity: c.identity(), Verdict: v})
	var proofs [][wire.ProofSize]byte
	for _, key := range c.keys {
		proofs = append(proofs, proof(key, proofAck, exporter, g.helloBody, signed))
	}
	ack := wire.AppendHelloAck(nil, signed, proofs)
	if err := l.Write(Control, ack); err != nil {
		c.failedHandshake(l, err)
		return
	}
	fin, proved, err := g.readFin(exporter, ack[wire.ClusterHeader+1:])
	switch {
	case errors.Is(err, errUnexpected):
		return // it was answered
	case err != nil && v.Reason != wire.Accepted:
		c.refused(l, &refusedError{by: "we", verdict: v, peer: peer.Node})
		l.Close(v.Reason.String() + ": " + v.Text)
		return
	case err != nil:
		c.failedHandshake(l, err)
		return
	}
	// The dialling end waits for the accepting end to close, so that the last
	// words of both are read.
	var no *refusedError
	switch {
	case v.Reason != wire.Accepted:
		no = &refusedError{by: "we", verdict: v, peer: peer.Node}
		if v.Reason == wire.RefuseDuplicate && proved && peer.Node == c.cfg.Node && v.Epoch == peer.Epoch {
			c.duplicate(&v) // the peer was there first
		}
	case fin.Verdict.Reason != wire.Accepted:
		no = &refusedError{by: "it", verdict: fin.Verdict, peer: peer.Node, trusted: proved}
	case !proved:
		no = &refusedError{by: "we", peer: peer.Node, verdict: badProof()}
	default:
		_ = c.adoptOrClose(adoption{cn: c.newConn(l, peer, false), replaces: g.replaces}) // the peer is told by the close
		return
	}
	c.refused(l, no)
	l.Close(no.verdict.Reason.String() + ": " + no.verdict.Text)
}

// readFin reads hello_fin and checks its proof.
func (g *greeting) readFin(exporter, ackBody []byte) (fin *wire.HelloFin, proved bool, err error) {
	kind, body, err := g.l.Read(Control)
	if err != nil {
		return nil, false, err
	}
	if kind != wire.KindHelloFin {
		g.c.unauthenticated(g.l, kind, body)
		return nil, false, errUnexpected
	}
	if fin, err = wire.DecodeHelloFin(body); err != nil {
		return nil, false, err
	}
	proved = g.c.cfg.Auth.Mode == wire.AuthNone
	for _, key := range g.c.keys {
		want := proof(key, proofFin, exporter, g.helloBody, ackBody, body[:fin.Signed])
		proved = hmac.Equal(want[:], fin.Proof[:]) || proved
	}
	return fin, proved, nil
}

func badProof() wire.Verdict {
	return refuse(wire.RefuseAuth, "its proof fits none of our tokens; compare cluster.auth.token on both nodes")
}

func (c *Cluster) adoptOrClose(a adoption) error {
	var ok bool
	var why string
	if !c.ask(func() { ok, why = c.adopt(a) }) {
		ok, why = false, "stopping"
	}
	if !ok {
		a.cn.link.Close(why)
		return errors.New(why)
	}
	return nil
}

// failedHandshake ends a link on which no handshake came about.
func (c *Cluster) failedHandshake(l Link, err error) {
	c.stats.count(dropHandshakeFailed)
	l.Close("handshake failed: " + err.Error())
	if c.ctx.Err() == nil {
		c.civil.warn(c.log, "handshake "+hostOf(l), "a connection was closed: it did not finish its handshake", "remote", l.RemoteAddr().String(), "reason", err.Error())
	}
}

// unauthenticated answers a frame that came where the handshake should have.
func (c *Cluster) unauthenticated(l Link, kind wire.Kind, body []byte) {
	c.stats.count(dropNotAuthenticated)
	c.civil.warn(c.log, "stranger "+hostOf(l), "a connection was closed: it sent a frame before its handshake was finished", "remote", l.RemoteAddr().String(), "frame", kind.String())
	if e, err := wire.DecodeEnvelope(body, nil); kind == wire.KindEnvelope && err == nil && e.CallID != 0 {
		_ = l.Write(Control, wire.AppendReply(nil, &wire.Reply{CallID: e.CallID,
			Err: shield.Errorf(shield.PeerNotAuthenticated, "the handshake of this connection is not finished")}))
		c.linger(l)
	}
	l.Close(string(shield.PeerNotAuthenticated))
}

// linger gives the peer time to read the last words before a link is closed.
func (c *Cluster) linger(l Link) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-l.Done():
	case <-timer.C:
	case <-c.ctx.Done():
	}
}

// refused logs and counts a refusal, and acts on one that concerns this node
// itself.
func (c *Cluster) refused(l Link, e *refusedError) {
	c.stats.refusal(e.verdict.Reason)
	attrs := []any{"event", "refused", "peer", string(e.peer), "remote", l.RemoteAddr().String(),
		"refusal", e.verdict.Reason.String(), "reason", e.Error()}
	switch e.verdict.Reason {
	case wire.RefuseSimultaneous, wire.RefuseStopping, wire.RefuseSelf:
		c.log.Debug("a handshake was refused", attrs...)
	default:
		c.civil.error(c.log, "refused "+e.verdict.Reason.String()+" "+hostOf(l), "a handshake was refused", attrs...)
	}
	if e.by == "it" && e.trusted && e.verdict.Reason == wire.RefuseDuplicate {
		c.duplicate(&e.verdict)
	}
}

// duplicate acts on a proved word that this node's id is another's. It reports
// whether the handshake may be tried again.
func (c *Cluster) duplicate(v *wire.Verdict) (again bool) {
	if v.Epoch == c.Epoch() {
		return true // we are the holder they speak of
	}
	if !v.Live && (v.Epoch < c.Epoch() || c.raiseEpoch(v.Epoch+1)) {
		return true
	}
	c.end(&DuplicateError{Node: c.cfg.Node, Address: c.cfg.Advertise, PID: os.Getpid(),
		HolderAddress: v.Address, HolderPID: int(v.PID), HolderEpoch: v.Epoch, Live: v.Live})
	return false
}
