package cluster

import (
	"fmt"
	"net"
	"slices"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// runOwner is the goroutine that owns the membership. Nothing in it blocks.
func (c *Cluster) runOwner() {
	defer close(c.ownerDone)
	evented := make(chan struct{})
	go func() {
		defer close(evented)
		c.events.run(c.deliverEvent)
	}()
	defer func() {
		c.events.close()
		<-evented
	}()
	tick := c.tick()
	ticker := time.NewTicker(tick)
	c.own.ticker = ticker
	defer ticker.Stop()
	for {
		select {
		case <-c.ownerStop:
			return
		case cmd := <-c.cmds:
			c.notice(tick)
			cmd()
		case <-ticker.C:
			c.notice(tick)
			c.onTick()
		}
	}
}

// ask runs fn on the owner's goroutine and waits for it. It reports false when
// the owner has ended.
func (c *Cluster) ask(fn func()) bool {
	done := make(chan struct{})
	select {
	case c.cmds <- func() { defer close(done); fn() }:
		<-done
		return true
	case <-c.ownerDone:
		return false
	}
}

// post runs fn on the owner's goroutine some time later.
func (c *Cluster) post(fn func()) {
	select {
	case c.cmds <- fn:
	case <-c.ownerDone:
	}
}

// notice sees that this goroutine, and so the process, did not run for a while,
// before it handles anything that came meanwhile. The monotonic clock tells of a
// SIGSTOP or a debugger, but stands still while most machines sleep; then the
// wall clock has gone on alone.
func (c *Cluster) notice(tick time.Duration) {
	o := &c.own
	now, wall := c.now(), c.cfg.Wall().Round(0)
	gap, jump := now-o.lastRun, wall.Sub(o.lastWall)
	o.lastRun, o.lastWall = now, wall
	if o.resting {
		return
	}
	switch limit := max(4*tick, c.lim.suspect/4); {
	case gap > limit:
		c.wokeUp(gap-tick, now, "this process was paused", gap-tick)
	case jump-gap > limit:
		c.wokeUp(0, now, "the wall clock is ahead of the time that passed here: this machine slept, or its clock was set", jump-gap)
	}
}

func (c *Cluster) onTick() {
	o := &c.own
	now := c.now()
	for _, m := range slices.Clone(o.members.all) {
		c.checkMember(m, now)
	}
	if now >= o.nextBeat {
		// In steps of the interval, so that ticks that come a little late do not
		// add up.
		if o.nextBeat += c.cfg.Heartbeat; o.nextBeat <= now {
			o.nextBeat = now + c.cfg.Heartbeat
		}
		for _, cn := range c.conns() {
			c.sendHeartbeat(cn)
		}
	}
	if now >= o.nextPoke {
		o.nextPoke = now + pokeInterval
		c.poke()
	}
	if now >= o.nextTidy {
		o.nextTidy = now + time.Second
		c.tidy(now)
	}
}

// wokeUp is called when this process did not run for a while (SIGSTOP, a
// sleeping laptop, a debugger): what it did not hear it can't hold against
// anybody. gap is the part of it that the deadlines of members have counted.
func (c *Cluster) wokeUp(gap, now time.Duration, what string, missed time.Duration) {
	c.stats.count(dropPaused)
	c.log.Warn(what+"; nobody is accused for what was missed", "event", "pause", "for", missed.Round(time.Millisecond).String())
	for _, m := range c.own.members.all {
		m.excuse(gap, now)
	}
	// What peers have to say about our silence is our own fault until they had
	// time to hear us again.
	c.excused.Store(int64(now + c.lim.suspect))
	for _, cn := range c.conns() {
		cn.heard.Store(int64(now))
		cn.mutual.Store(int64(now))
		c.sendHeartbeat(cn)
	}
}

func (c *Cluster) checkMember(m *member, now time.Duration) {
	if cn := c.connOf(m.id); cn != nil {
		m.mutual = max(m.mutual, time.Duration(cn.mutual.Load()))
	}
	t, reason, ok := m.due(c.lim, now)
	if !ok {
		return
	}
	if cn := c.connOf(m.id); cn != nil && cn.deaf.Load() && t != onForgotten {
		reason = "it lives but has not heard us: one direction is cut"
	}
	c.move(m, t, reason)
	if t != onForgotten {
		return
	}
	if cn := c.connOf(m.id); cn != nil {
		cn.link.Close("removed after " + c.lim.removed.String() + " offline")
	}
	gone := c.own.members.prune()
	for _, m := range gone {
		c.forget(m.id)
	}
	if len(gone) > 0 {
		c.publishViews()
	}
}

// poke writes a packet to every peer that we dialled. If it restarted, its new
// life answers with a stateless reset and we dial it again long before its
// heartbeat is missed; only the dialling end has to do so.
func (c *Cluster) poke() {
	frame := wire.AppendPing(nil, wire.KindPing, 0)
	for _, cn := range c.conns() {
		if cn.dialled {
			_ = cn.link.Write(Control, frame) // the next one will do
		}
	}
}

// tidy drops records that have outlived their calls.
func (c *Cluster) tidy(now time.Duration) {
	c.calls.prune(now)
	c.tellOfStrangers()
	for _, cn := range c.conns() {
		for _, r := range cn.inbox.expired(now) {
			c.stats.count(dropRecordExpired)
			r.Reply(nil, shield.Errorf(shield.Timeout, "no reply within %v after the deadline", recordSlack))
		}
	}
}

// move applies t to m and publishes what changed.
func (c *Cluster) move(m *member, t trigger, reason string) {
	from, changed := m.apply(t, reason, c.now())
	if !changed {
		return
	}
	if p := c.peer(m.id); p != nil {
		p.mu.Lock()
		p.state, p.reason = m.state, m.reason
		cn := p.conn
		if m.state == shield.Offline && cn == nil {
			p.names = names{}
		}
		p.mu.Unlock()
		if m.state == shield.Offline && cn != nil {
			c.failCalls(cn, m, cn.alive())
			c.wentSilent(cn)
		}
	}
	if !c.events.push(Event{Time: time.Now(), Node: m.id, Address: m.address, Epoch: m.epoch, From: from, To: m.state, Reason: m.reason}) {
		c.stats.count(dropEvents)
	}
	c.publishViews()
}

// failCalls ends every call that waits for a reply on cn.
func (c *Cluster) failCalls(cn *conn, m *member, linkLives bool) {
	for _, w := range c.calls.fail(cn, linkLives) {
		w.Done(nil, shield.Errorf(shield.NodeOffline, "%s went offline while the call waited: %s", m.id, m.reason))
	}
}

// ownHeartbeat handles a heartbeat that may change a state.
func (c *Cluster) ownHeartbeat(cn *conn, heard time.Duration) {
	p := cn.peer
	if c.connOf(p.id) != cn {
		return
	}
	m := c.own.members.byID[p.id]
	if c.now() < time.Duration(c.excused.Load()) {
		heard = 0
	}
	switch {
	case heard >= c.lim.offline:
		c.move(m, onSilent, fmt.Sprintf("it lives but has not heard us for %v: one direction is cut", heard))
	case heard >= c.lim.suspect:
		c.move(m, onDeaf, fmt.Sprintf("it lives but has not heard us for %v: one direction is cut", heard))
	default:
		c.move(m, onHeartbeat, "heartbeat")
	}
}

// lost handles the end of an adopted link. A peer that said goodbye keeps it
// until it closes it.
func (c *Cluster) lost(cn *conn, reason string, goodbye bool) {
	p := cn.peer
	p.mu.Lock()
	if p.conn != cn {
		p.mu.Unlock()
		return
	}
	p.conn = nil
	p.names = names{}
	p.mu.Unlock()
	c.stats.connections.Add(-1)
	c.leaveTable(cn)
	m := c.own.members.byID[p.id]
	c.move(m, onClosed, reason)
	// Offline by time-out before: the calls were failed then, and the link's end
	// frees their ids.
	c.failCalls(cn, m, false)
	if !goodbye {
		cn.link.Close(reason)
	}
	c.publishViews()
}

// adoption is a finished handshake that asks to be adopted.
type adoption struct {
	cn *conn
	// replaces is the link that did not answer a ping when this handshake
	// began; only that one may be replaced.
	replaces *conn
	dialled  string // the address, when we dialled
}

// adopt makes cn the link of its peer. It reports why not.
func (c *Cluster) adopt(a adoption) (ok bool, why string) {
	cn, now := a.cn, c.now()
	if c.own.stopping {
		return false, "stopping"
	}
	id := cn.id.Node
	m := c.own.members.byID[id]
	if cur := c.connOf(id); cur != nil {
		if cur != a.replaces && cur.alive() {
			return false, wire.RefuseSimultaneous.String()
		}
		why := "its old connection does not answer"
		if !cur.alive() {
			why = cur.link.Err().Error()
		}
		c.lost(cur, why, false)
	}
	if m != nil && m.epoch > cn.id.Epoch {
		return false, wire.RefuseDuplicate.String() + ": a later start of this node is known"
	}
	m = c.own.members.identify(id, now, a.dialled, cn.id.Address, cn.link.RemoteAddr().String())
	again := m.linked
	p := c.makePeer(id)
	m.epoch, m.address, m.linked = cn.id.Epoch, cn.id.Address, true
	cn.peer = p
	p.mu.Lock()
	p.conn, p.epoch, p.names = cn, cn.id.Epoch, names{}
	p.mu.Unlock()
	c.stats.connections.Add(1)
	if cn.dialled && again {
		c.stats.reconnects.Add(1)
	}
	cn.link.Trust()
	c.joinTable(cn)
	if gw := c.info.Load().Gateways; len(gw) > 0 {
		_ = cn.write(Control, wire.AppendInfo(nil, &wire.Info{Gateways: gw})) // counted
	}
	c.sendHeartbeat(cn)
	how := "it dialled us"
	if cn.dialled {
		how = "we dialled it"
	}
	c.move(m, onHandshake, how)
	c.publishViews()
	c.linkedBy(cn)
	c.wg.Go(cn.readControl)
	c.wg.Go(cn.readData)
	c.wg.Go(func() {
		<-cn.link.Done()
		c.post(func() {
			c.lost(cn, cn.link.Err().Error(), false)
			if cn.farewell != nil {
				cn.farewell.Stop()
			}
		})
	})
	return true, ""
}

func (c *Cluster) sendHeartbeat(cn *conn) {
	now := c.now()
	info := c.info.Load()
	h := wire.Heartbeat{
		Seq: cn.seq.Add(1), Version: c.table.current(), Held: cn.peer.held(),
		Heard: now - time.Duration(cn.heard.Load()), Uptime: now,
		Services: uint32(info.Services), Sessions: uint32(info.Sessions),
		Calls: uint32(info.CallsPerSecond * 100), Draining: c.draining.Load(),
	}
	if cn.write(Control, wire.AppendHeartbeat(nil, &h)) == nil {
		c.stats.txHeartbeats.Add(1)
	}
}

func (c *Cluster) peer(id shield.NodeID) *peer { return (*c.peers.Load())[id] }

func (c *Cluster) connOf(id shield.NodeID) *conn {
	p := c.peer(id)
	if p == nil {
		return nil
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.conn
}

// makePeer finds or adds the shared part of a member. The map is copied: readers
// hold the old one without a lock.
func (c *Cluster) makePeer(id shield.NodeID) *peer {
	if p := c.peer(id); p != nil {
		return p
	}
	p := &peer{id: id, state: shield.Connecting, reason: "no handshake yet"}
	c.changePeers(func(m map[shield.NodeID]*peer) { m[id] = p })
	return p
}

func (c *Cluster) forget(id shield.NodeID) {
	c.changePeers(func(m map[shield.NodeID]*peer) { delete(m, id) })
}

func (c *Cluster) changePeers(change func(map[shield.NodeID]*peer)) {
	old := *c.peers.Load()
	next := make(map[shield.NodeID]*peer, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	change(next)
	c.peers.Store(&next)
}

// sameAddr compares host:port texts with a link's address.
func sameAddr(text string, addr net.Addr) bool { return addr != nil && text == addr.String() }
