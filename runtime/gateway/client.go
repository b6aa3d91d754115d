package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/session"
	"shield/runtime/shield"
)

// client is one connection and its session.
type client struct {
	g         *Gateway
	id        shield.SessionID
	link      link
	transport string
	addr      string
	began     time.Duration // when the connection was accepted
	seen      atomic.Int64  // g.now() of the last whole frame or pong
	pinged    atomic.Int64  // g.now() of the last ping
	in        atomic.Int64  // frames
	outN      atomic.Int64
	stale     atomic.Int64
	loggedIn  atomic.Bool // it was bound once, for the reader; the end of the session changes nothing
	reader    reader

	// Guarded by g.mu: the list of clients with the same target.
	at         shield.Handle
	prev, next *client

	// mu guards the session and what waits to be written: a push is checked and
	// queued in one step, so none can slip behind a kick.
	mu  sync.Mutex
	s   *session.Session
	ref shield.ClientRef // s.Ref(), kept because every frame needs it
	out outbox
}

// newID makes a session id that nobody can guess.
func (g *Gateway) newID() shield.SessionID {
	var b [12]byte
	if g.rand != nil {
		binary.BigEndian.PutUint64(b[4:], g.rand())
	} else {
		_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	}
	return shield.SessionID("s-" + hex.EncodeToString(b[:]))
}

func (g *Gateway) newClient(l link, transport string, raw *slotConn) *client {
	c := &client{g: g, id: g.newID(), link: l, transport: transport, addr: raw.RemoteAddr().String(), began: raw.began}
	c.seen.Store(int64(g.now()))
	return c
}

// run is the life of a connection: open, read to the end, clean up.
func (c *client) run() {
	defer c.link.abort()
	if !c.open() {
		return
	}
	err := c.read()
	c.ended(err)
	c.out.settle()
	c.link.abort()
	c.g.oracle.Forget(c.id)
}

// open begins the session with the auth service as its target.
func (c *client) open() bool {
	auth, err := c.g.router.ResolveAuth(c.g.auth)
	if err != nil {
		c.g.refuse(cNoSession, "client refused: no auth service", shield.ClientRef{Session: c.id}, slog.String("auth", string(c.g.auth)), slog.Any("err", err))
		code := shield.CodeOf(err)
		if code == "" {
			code = shield.ServiceNotFound
		}
		c.farewell(code)
		return false
	}
	c.s = session.Open(c.g.id, c.id, auth, c.g.profile, time.Now())
	c.ref = c.s.Ref()
	c.g.oracle.Opened(c.ref, auth)
	if !c.g.enter(c, auth) {
		c.g.oracle.Ended(c.id)
		c.g.oracle.Forget(c.id)
		c.g.count.add(cNoSession, 1)
		c.farewell(shield.RuntimeStopping)
		return false
	}
	c.g.notifyChanged(c.id)
	return true
}

// farewell tells a client that never had a session why.
func (c *client) farewell(code shield.Code) {
	t := time.AfterFunc(c.g.limits.CloseTimeout, c.link.abort)
	defer t.Stop()
	if b, err := c.g.format.Append(nil, shield.RouteClose, []byte(code)); err == nil {
		if _, err := c.link.Write(b); err != nil {
			c.g.count.add(cCloseLost, 1)
		}
	}
	c.link.finish(string(code))
	// Closing with bytes unread would reset the connection and could take the
	// close frame with it.
	_, _ = io.Copy(io.Discard, c.link)
}

// bind is the compare-and-set. The registry is written before the new target
// hears, and the target hears before the lock lets its first frame through. One
// that can't hear leaves the session to the last.
func (c *client) bind(ref shield.ClientRef, target shield.Handle, player string) (shield.ClientRef, error) {
	c.mu.Lock()
	before := c.s.Binding()
	n, err := c.s.Bind(ref.Epoch, target, player, time.Now(), func(n *shield.Notice) error {
		c.g.retarget(c, target) // first: the target may end as soon as it has heard
		err := c.g.router.Notice(n)
		if err != nil {
			c.g.retarget(c, before.Target)
			c.g.count.add(cNoticeLost, 1)
		}
		return err
	})
	if err != nil {
		c.mu.Unlock()
		if errors.Is(err, shield.RPCEpochExpired) {
			c.g.refuse(cBindsLost, "bind refused: another bind won", ref, slog.String("player", player))
		}
		return shield.ClientRef{}, err
	}
	c.ref = n.Client
	c.loggedIn.Store(true)
	c.g.oracle.Noticed(&n)
	if before.Epoch > 0 && before.Target.Node != target.Node {
		c.g.router.Moved(n.Client, before.Target)
	}
	c.mu.Unlock()

	c.g.count.add(cBinds, 1)
	c.logEpoch(slog.LevelInfo, session.CauseBind, before.Target, n)
	c.g.notifyChanged(c.id)
	return n.Client, nil
}

// gone reports whether a router's code means that the target will not come back.
func gone(code shield.Code) bool {
	switch code {
	case shield.ServiceDead, shield.NodeOffline, shield.NodeRemoved, shield.NodeNotFound:
		return true
	}
	return false
}

// kick ends the session for a service: unbound to the target with the last
// epoch, then the binding is invalid, then the registry forgets it, then the
// socket closes. It reports whether there was anything left to end.
func (c *client) kick(reason string) bool {
	c.mu.Lock()
	n, ok := c.s.Kick(reason, time.Now())
	if ok {
		c.announce(&n)
		c.g.count.add(cKicks, 1)
		c.leaving(n.Reason)
	}
	c.mu.Unlock()
	if ok {
		c.logEpoch(slog.LevelInfo, session.CauseKick, n.Target, n)
		c.g.notifyChanged(c.id)
	}
	return ok
}

// drop ends the session because the gateway says so: a limit, a time-out, a
// shutdown.
func (c *client) drop(code shield.Code) {
	c.mu.Lock()
	n, ok := c.s.Drop(string(code), time.Now())
	if ok {
		c.announce(&n)
		c.dropping(code)
	}
	c.mu.Unlock()
	if ok {
		c.dropped(n)
	}
}

// targetGone ends the session if h is still its target.
func (c *client) targetGone(h shield.Handle, code shield.Code) {
	c.bindingGone(func(b session.Binding) bool { return b.Target == h }, code)
}

func (c *client) bindingGone(is func(session.Binding) bool, code shield.Code) {
	c.mu.Lock()
	if !is(c.s.Binding()) {
		c.mu.Unlock()
		return
	}
	n, ok := c.s.Drop(string(code), time.Now())
	switch {
	case !ok:
	case code == shield.ServiceDead: // nobody is left to hear of it
		c.g.oracle.Ended(c.id)
		c.dropping(code)
	default: // a target out of reach lives on, perhaps
		c.announce(&n)
		c.dropping(code)
	}
	c.mu.Unlock()
	if ok {
		c.dropped(n)
	}
}

// dropping is leaving because of the gateway, and counted before the client can
// know of it. Needs mu.
func (c *client) dropping(code shield.Code) {
	c.g.count.add(cDrops, 1)
	c.g.count.close(code)
	c.leaving(string(code))
}

func (c *client) dropped(n shield.Notice) {
	c.logEpoch(slog.LevelInfo, session.CauseDrop, n.Target, n)
	c.g.notifyChanged(c.id)
}

// ended is the natural disconnect: the connection broke or the client left. If
// the session is over already its target has heard, and nothing happens.
func (c *client) ended(err error) {
	reason := "closed"
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		reason = "connection lost"
	}
	c.mu.Lock()
	n, ok := c.s.Drop(reason, time.Now())
	if ok {
		c.announce(&n)
		c.g.count.add(cDrops, 1)
		c.g.leave(c)
		c.out.discard(c)
	}
	c.mu.Unlock()
	if !ok {
		return
	}
	level := slog.LevelInfo
	if n.Client.Player == "" {
		level = slog.LevelDebug // a visitor that never logged in is no news
	}
	c.logEpoch(level, session.CauseDrop, n.Target, n)
	c.g.notifyChanged(c.id)
}

// announce tells the target. Needs mu: a bind of another goroutine must not come
// between.
func (c *client) announce(n *shield.Notice) {
	c.g.oracle.Noticed(n)
	if err := c.g.router.Notice(n); err != nil {
		c.g.count.add(cNoticeLost, 1)
	}
}

// leaving takes the session out of the registry and begins to close the socket,
// with a deadline. Needs mu.
func (c *client) leaving(reason string) {
	c.g.leave(c)
	c.out.close(c, reason)
}

// logEpoch writes the one line that every change of an epoch is: why, and from
// where to where. before is the target until then.
func (c *client) logEpoch(level slog.Level, cause string, before shield.Handle, n shield.Notice) {
	if !c.g.log.Enabled(context.Background(), level) {
		return
	}
	from, to := n.Client.Epoch, n.Client.Epoch+1
	where, player := c.g.router.TargetName(before), n.Client.Player
	if n.Kind == shield.NoticeBound {
		from, to = n.Client.Epoch-1, n.Client.Epoch
		where += " -> " + c.g.router.TargetName(n.Target)
	}
	text := fmt.Sprintf("%s epoch %d -> %d: %s", c.id.Short(), from, to, strings.TrimSpace(cause+" "+player))
	if n.Kind == shield.NoticeBound {
		text += " to " + strings.TrimPrefix(c.g.router.TargetName(n.Target), string(c.g.id.Node())+":")
	}
	if n.Reason != "" {
		text += " (" + n.Reason + ")"
	}
	c.g.log.LogAttrs(context.Background(), level, text,
		slog.String("service", "gateway"), slog.String("event", "epoch"), slog.String("gateway", string(c.g.id)),
		slog.String("session", string(c.id)), slog.String("player", player),
		slog.Uint64("from", uint64(from)), slog.Uint64("to", uint64(to)), slog.String("cause", cause),
		slog.String("reason", n.Reason), slog.String("target", where), slog.String("address", c.addr))
}
