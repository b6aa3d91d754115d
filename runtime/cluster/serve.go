package cluster

import (
	"errors"
	"net"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// readControl serves the control stream of an adopted link.
func (cn *conn) readControl() {
	for {
		kind, body, err := cn.link.Read(Control)
		if err != nil {
			cn.broken("control", err)
			return
		}
		cn.touch()
		cn.once.Do(func() { close(cn.confirmed) })
		if err := cn.onControl(kind, body); err != nil {
			cn.garbage(kind, err)
			return
		}
	}
}

func (cn *conn) onControl(kind wire.Kind, body []byte) error {
	switch kind {
	case wire.KindHeartbeat:
		h, err := wire.DecodeHeartbeat(body)
		if err == nil {
			cn.onHeartbeat(h)
		}
		return err
	case wire.KindPing:
		nonce, err := wire.DecodePing(body)
		if err == nil && nonce != 0 {
			_ = cn.write(Control, wire.AppendPing(nil, wire.KindPong, nonce)) // counted
		}
		return err
	case wire.KindPong:
		nonce, err := wire.DecodePing(body)
		if err == nil {
			cn.onPong(nonce)
		}
		return err
	case wire.KindInfo:
		info, err := wire.DecodeInfo(body)
		if err == nil {
			cn.gateways.Store(&info.Gateways)
		}
		return err
	case wire.KindRoutes:
		return cn.onRoutes(Control, body)
	case wire.KindGoodbye:
		cn.leaving.Store(true)
		return nil
	case wire.KindGoodbyeAck:
		cn.goneOnce.Do(func() { close(cn.gone) })
		return nil
	}
	return errUnexpected
}

var errUnexpected = errors.New("this kind of frame does not belong here")

// touch notes a sign of life. Only a heartbeat tells whether the peer hears us,
// so what comes between two of them keeps what the last one said.
func (cn *conn) touch() {
	now := int64(cn.c.now())
	cn.heard.Store(now)
	if !cn.deaf.Load() {
		cn.mutual.Store(now)
	}
}

func (cn *conn) onHeartbeat(h wire.Heartbeat) {
	c, p := cn.c, cn.peer
	c.stats.rxHeartbeats.Add(1)
	deaf := h.Heard >= c.lim.suspect
	late := deaf
	if deaf && c.now() < time.Duration(c.excused.Load()) {
		deaf = false
	}
	cn.deaf.Store(deaf)
	if !deaf {
		cn.mutual.Store(int64(c.now()))
	}
	cn.beat.Store(&h)
	cn.beatAt.Store(int64(c.now()))
	cn.draining.Store(h.Draining)
	c.repair(cn, h.Held)
	p.mu.RLock()
	state := p.state
	p.mu.RUnlock()
	if late || state != shield.Online {
		// Tell it at once that we hear it: then it need not wait for our next
		// heartbeat to take us back.
		c.sendHeartbeat(cn)
		c.post(func() { c.ownHeartbeat(cn, h.Heard) })
	}
}

func (cn *conn) onRoutes(s Stream, body []byte) error {
	r, err := wire.DecodeRoutes(body)
	if err != nil {
		return err
	}
	if !cn.applyTable(s, r) {
		return errors.New("parts of a table out of order, or too many names")
	}
	return nil
}

// readData serves the data stream of an adopted link.
func (cn *conn) readData() {
	for {
		kind, body, err := cn.link.Read(Data)
		if err != nil {
			cn.broken("data", err)
			return
		}
		if err := cn.onData(kind, body); err != nil {
			cn.garbage(kind, err)
			return
		}
	}
}

func (cn *conn) onData(kind wire.Kind, body []byte) error {
	switch kind {
	case wire.KindEnvelope:
		e, err := wire.DecodeEnvelope(body, &cn.strings)
		if err == nil {
			cn.onEnvelope(e)
		}
		return err
	case wire.KindReply:
		r, err := wire.DecodeReply(body)
		if err != nil {
			return err
		}
		cn.c.stats.rxMessages.Add(1)
		if w := cn.c.calls.take(r.CallID, cn); w != nil {
			w.Done(r.Result, r.Err)
		} else {
			cn.c.stats.count(dropLateReply)
		}
		return nil
	case wire.KindRoutes:
		return cn.onRoutes(Data, body)
	case wire.KindRouteChange:
		ch, err := wire.DecodeRouteChange(body)
		if err == nil {
			cn.applyChange(ch)
		}
		return err
	case wire.KindGoodbye:
		reason, err := wire.DecodeGoodbye(body)
		if err == nil {
			cn.onGoodbye(reason)
		}
		return err
	}
	if kind.Opaque() {
		cn.c.cfg.Local.Frame(cn.id.Node, cn.id.Epoch, kind, body)
		return nil
	}
	return errUnexpected
}

func (cn *conn) onEnvelope(e *shield.Envelope) {
	c := cn.c
	c.stats.rxMessages.Add(1)
	if e.Source.Node != cn.id.Node {
		c.stats.count(dropIdentityMismatch)
		c.civil.warn(c.log, "mismatch "+string(cn.id.Node), "an envelope was refused: it names another source than the node that proved itself",
			"peer", string(cn.id.Node), "claimed", string(e.Source.Node), "method", e.Method)
		if e.CallID != 0 {
			cn.reply(e.CallID, nil, shield.Errorf(shield.PeerIdentityMismatch,
				"the envelope names node %q as its source, this connection is %q's", e.Source.Node, cn.id.Node))
		}
		return
	}
	e.Source.Epoch = cn.id.Epoch
	e.Target.Node, e.Target.Epoch = c.cfg.Node, c.Epoch()
	if e.CallID == 0 {
		c.cfg.Local.Deliver(e, nil)
		return
	}
	if e.Timeout <= 0 {
		c.stats.count(dropExpired)
		cn.reply(e.CallID, nil, shield.Errorf(shield.Timeout, "%s: the deadline had passed when the call arrived at %s; it was not run", e.Method, c.cfg.Node))
		return
	}
	r := &replier{conn: cn, id: e.CallID, expires: c.now() + e.Timeout + recordSlack}
	cn.inbox.add(r)
	c.cfg.Local.Deliver(e, r)
}

// reply writes an answer, in the order of the data stream.
func (cn *conn) reply(id uint64, result []byte, rerr *shield.Error) {
	buf := getBuffer()
	defer putBuffer(buf)
	if rerr == nil && len(result) > maxBody {
		rerr = shield.Errorf(shield.MessageTooLarge, "the result has %d bytes; at most %d travel between nodes", len(result), maxBody)
	}
	*buf = wire.AppendReply((*buf)[:0], &wire.Reply{CallID: id, Result: result, Err: rerr})
	if err := cn.link.Write(Data, *buf); err != nil {
		if cn.alive() {
			cn.c.stats.count(dropQueueFull)
			// The caller's time-out will tell it; a lost reply must not go
			// unseen here.
			cn.c.civil.warn(cn.c.log, "reply "+string(cn.id.Node), "a reply was dropped: the peer reads too slowly", "peer", string(cn.id.Node), "reason", err.Error())
		} else {
			cn.c.stats.count(dropReplyGone)
		}
		return
	}
	cn.c.stats.txMessages.Add(1)
}

// onGoodbye has read everything the peer ever sent.
func (cn *conn) onGoodbye(reason string) {
	c := cn.c
	c.ask(func() {
		c.lost(cn, "it left: "+reason, true)
		// The peer closes when it has read our answer; one that does not is not
		// waited for.
		cn.farewell = time.AfterFunc(closeLimit, func() { cn.link.Close("it said goodbye") })
	})
	_ = cn.write(Control, wire.AppendGoodbye(nil, wire.KindGoodbyeAck, "")) // counted
}

// ping reports whether the peer answers on this link within limit.
func (cn *conn) ping(limit time.Duration) bool {
	nonce := randomNonce()
	ch := make(chan struct{})
	cn.pingMu.Lock()
	if cn.pings == nil {
		cn.pings = map[uint64]chan struct{}{}
	}
	cn.pings[nonce] = ch
	cn.pingMu.Unlock()
	defer func() {
		cn.pingMu.Lock()
		delete(cn.pings, nonce)
		cn.pingMu.Unlock()
	}()
	if cn.write(Control, wire.AppendPing(nil, wire.KindPing, nonce)) != nil {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-cn.link.Done():
		return false
	case <-timer.C:
		return false
	}
}

func (cn *conn) onPong(nonce uint64) {
	cn.pingMu.Lock()
	defer cn.pingMu.Unlock()
	if ch, ok := cn.pings[nonce]; ok {
		close(ch)
		delete(cn.pings, nonce)
	}
}

// broken ends a link whose stream can't be read. When the link itself has ended
// its watcher tells the owner.
func (cn *conn) broken(stream string, err error) {
	if cn.alive() && !errors.Is(err, net.ErrClosed) {
		cn.c.stats.count(dropGarbage)
		cn.c.log.Warn("a link was cut: its "+stream+" stream can't be read", "peer", string(cn.id.Node), "reason", err.Error())
	}
	cn.link.Close("the " + stream + " stream can't be read")
}

// garbage cuts a peer off that breaks the protocol.
func (cn *conn) garbage(kind wire.Kind, err error) {
	cn.c.stats.count(dropGarbage)
	cn.c.log.Warn("a link was cut: its peer breaks the protocol", "peer", string(cn.id.Node), "frame", kind.String(), "reason", err.Error())
	cn.link.Close("protocol broken: " + kind.String() + ": " + err.Error())
}
