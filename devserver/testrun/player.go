package testrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/config"
	"shield/runtime/play"
	"shield/runtime/shield"
	"shield/runtime/value"
	"shield/runtime/wire"
)

// player is a client of a test: the same game client as `shield client`, on a
// connection in memory.
type player struct {
	r      *runner
	number int
	conn   *play.Conn
	done   sync.WaitGroup

	mu     sync.Mutex
	got    []heard       // that no expect has taken yet
	all    []string      // what came, for messages: the last few
	closed *string       // the reason, once it is closed
	more   chan struct{} // closed when anything above is different
}

type heard struct {
	route string
	body  lua.LValue
	text  string
}

// shown is how many of the pushes that came last a message lists.
const shown = 8

// expectLimit is how long expect and its like wait, in virtual time.
const expectLimit = 5 * time.Second

// connect opens a client to a gateway of a node; "" means the first gateway
// there is.
func (r *runner) connect(nodeID shield.NodeID) (*player, error) {
	m, g, err := r.world.gateway(nodeID)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	l := m.gates[g.Network.TCP]
	m.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("gateway %s of %s has no listener", g.Name, m.id)
	}
	conn, err := l.Dial()
	if err != nil {
		return nil, err
	}
	p := g.Network.Protocol
	c, err := play.On(conn, play.Config{
		Format: wire.Client{RouteIDBytes: p.Envelope.RouteIDBytes, LengthBytes: p.Envelope.LengthBytes,
			LittleEndian: p.Envelope.Endian == "little", MaxFrameSize: p.Envelope.MaxFrameSize},
		Codec: p.Body.Provider, Routes: r.world.project.Table(),
	})
	if err != nil {
		return nil, err
	}
	pl := &player{r: r, conn: c, number: len(r.players) + 1, more: make(chan struct{})}
	r.players = append(r.players, pl)
	pl.done.Go(pl.listen)
	return pl, nil
}

// gateway finds a node that runs and has a gateway.
func (w *world) gateway(id shield.NodeID) (*member, *config.Gateway, error) {
	if _, err := w.find(id); err != nil {
		return nil, nil, err
	}
	for _, m := range w.members {
		if !m.alive || id != "" && m.id != id {
			continue
		}
		if all := m.project.GatewaysOn(m.id); len(all) > 0 {
			return m, &all[0], nil
		}
	}
	if id != "" {
		return nil, nil, fmt.Errorf("%s has no gateway: see gateways in shield.yaml", id)
	}
	return nil, nil, errors.New("no running node has a gateway: see gateways in shield.yaml")
}

// listen keeps what comes.
func (p *player) listen() {
	for {
		push, err := p.conn.Recv(context.Background())
		p.mu.Lock()
		if err != nil {
			reason := ""
			var c *play.Closed
			if errors.As(err, &c) {
				switch reason = c.Reason; {
				case reason != "" || c.Err == nil:
				case errors.Is(c.Err, net.ErrClosed):
					reason = "closed" // by us; the gateway calls it that too
				default:
					reason = c.Err.Error()
				}
			}
			p.closed = &reason
		} else {
			h := heard{route: push.Name, body: lua.LNil, text: push.Name + " " + string(push.Body)}
			if len(push.Body) > 0 {
				if v, err := value.ParseJSON(push.Body); err == nil {
					h.body = v
				}
			}
			p.got = append(p.got, h)
			p.all = append(p.all[max(0, len(p.all)-shown+1):], strings.TrimSpace(h.text))
		}
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take waits for the oldest push that fits and that nobody has taken; it is nil
// when none came in time, or the connection has ended.
func (p *player) take(fits func(*heard) bool, limit time.Duration) *heard {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for late := false; ; {
		p.mu.Lock()
		for i := range p.got {
			if h := p.got[i]; fits(&h) {
				p.got = append(p.got[:i:i], p.got[i+1:]...)
				p.mu.Unlock()
				return &h
			}
		}
		closed, more := p.closed != nil, p.more
		p.mu.Unlock()
		if closed || late {
			return nil
		}
		select {
		case <-more:
		case <-timer.C:
			late = true
		}
	}
}

// state waits until the connection has ended or limit is over.
func (p *player) state(limit time.Duration) (reason string, closed bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for late := limit <= 0; ; {
		p.mu.Lock()
		c, more := p.closed, p.more
		p.mu.Unlock()
		if c != nil {
			return *c, true
		}
		if late {
			return "", false
		}
		select {
		case <-more:
		case <-timer.C:
			late = true
		}
	}
}

// seen lists what came last, for a message.
func (p *player) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	if len(p.all) == 0 {
		lines = append(lines, "it got nothing")
	} else {
		lines = append(lines, "it got, last:")
		for _, text := range p.all {
			lines = append(lines, "  "+clip(text, 200))
		}
	}
	if p.closed != nil {
		lines = append(lines, "and was closed: "+or(*p.closed, "without a reason"))
	}
	return strings.Join(lines, "\n")
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}

// hangUp closes what a test has left open. What was opened outside of an it
// belongs to the whole file.
func (r *runner) hangUp() { r.hangUpThose(func(p *player) bool { return !p.shared() }) }

func (r *runner) hangUpAll() { r.hangUpThose(func(*player) bool { return true }) }

func (r *runner) hangUpThose(which func(*player) bool) {
	r.players = slices.DeleteFunc(r.players, func(p *player) bool {
		if which(p) {
			p.conn.Close()
			p.done.Wait()
			return true
		}
		return false
	})
}

// shared reports whether p was made outside of an it.
func (p *player) shared() bool { return p.number < 0 }

// playerLib is what a client can do.
func (r *runner) playerLib() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"send":         r.playerSend,
		"expect":       r.playerExpect,
		"next":         r.playerNext,
		"expect_none":  r.playerNone,
		"expect_close": r.playerExpectClose,
		"closed":       r.playerClosed,
		"close":        r.playerClose,
	}
}

func checkPlayer(L *lua.LState) *player {
	if ud, ok := L.Get(1).(*lua.LUserData); ok {
		if p, ok := ud.Value.(*player); ok {
			return p
		}
	}
	L.ArgError(1, "client expected: write c:send(...), with a colon")
	return nil
}

func (r *runner) clientConnect(L *lua.LState) int {
	id := shield.NodeID(L.OptString(1, ""))
	var p *player
	var err error
	r.wait(L, "client.connect", func() { p, err = r.connect(id) })
	if err != nil {
		raise(L, err)
	}
	if r.current == nil {
		p.number = -p.number
	}
	L.Push(&lua.LUserData{Value: p, Metatable: r.playerMeta()})
	return 1
}

func (r *runner) playerMeta() *lua.LTable {
	t := newTable(2)
	t.RawSetString("__index", library(r.playerLib()))
	t.RawSetString("__tostring", goFunc(func(L *lua.LState) int {
		L.Push(lua.LString(fmt.Sprintf("client %d", max(checkPlayer(L).number, -checkPlayer(L).number))))
		return 1
	}))
	return t
}

// route checks that the project has a route.
func (r *runner) route(L *lua.LState, n int, dir shield.Direction) string {
	name := L.CheckString(n)
	table := r.world.project.Table()
	if rt := table.ByName(name); rt != nil {
		if rt.Dir != dir {
			L.RaiseError("route %q goes the other way (%s)", name, rt.Dir)
		}
		return name
	}
	var known []string
	for _, rt := range table.All() {
		if rt.Dir == dir {
			known = append(known, rt.Name)
		}
	}
	if near := shield.Nearest(name, known); near != "" {
		L.RaiseError("rpc.yaml has no route %q (did you mean %q?)", name, near)
	}
	if strings.Trim(name, "0123456789") != "" {
		L.RaiseError("rpc.yaml has no route %q; there are %s", name, strings.Join(known, ", "))
	}
	return name
}

func (r *runner) playerSend(L *lua.LState) int {
	p := checkPlayer(L)
	name := r.route(L, 2, shield.ClientToServer)
	var body []byte
	if v := L.Get(3); v != lua.LNil {
		plain, err := value.CopyValue(v, value.Args, 1<<20)
		if err != nil {
			raise(L, err)
		}
		body = value.AppendJSON(nil, plain)
	}
	var err error
	r.wait(L, "client:send", func() { err = p.conn.Send(name, body) })
	var closed *play.Closed
	switch {
	case errors.As(err, &closed):
		L.Push(lua.LFalse)
		L.Push(lua.LString("the connection is closed"))
		return 2
	case err != nil:
		raise(L, err)
	}
	L.Push(lua.LTrue)
	return 1
}

// playerExpect is c:expect(route[, body or function][, timeout]).
func (r *runner) playerExpect(L *lua.LState) int {
	p := checkPlayer(L)
	name := r.route(L, 2, shield.ServerToClient)
	var want lua.LValue = lua.LNil
	limit, at := expectLimit, 3
	switch v := L.Get(3).(type) {
	case *lua.LTable, *lua.LFunction:
		want, at = v, 4
	}
	if v := L.Get(at); v != lua.LNil {
		limit = duration(L, at)
	}
	fn, _ := want.(*lua.LFunction)
	var h *heard
	for end := time.Now().Add(limit); ; {
		left := max(time.Until(end), 0)
		r.wait(L, "client:expect", func() {
			h = p.take(func(h *heard) bool {
				return h.route == name && (want == lua.LNil || fn != nil || holds(h.body, want))
			}, left)
		})
		if h == nil || fn == nil || r.accepts(L, fn, h.body) {
			break
		}
	}
	if h == nil {
		what := "expected a push " + name
		if want != lua.LNil && fn == nil {
			what += " with " + value.Text(want)
		} else if fn != nil {
			what += " that the function accepts"
		}
		throw(L, &Failure{Message: fmt.Sprintf("%s within %v\n%s", what, limit, p.seen())})
	}
	L.Push(h.body)
	return 1
}

func (r *runner) accepts(L *lua.LState, fn *lua.LFunction, body lua.LValue) bool {
	L.Push(fn)
	L.Push(body)
	L.Call(1, 1)
	v := L.Get(-1)
	L.Pop(1)
	return lua.LVAsBool(v)
}

// playerNext is c:next([timeout]): the next push, whatever it is.
func (r *runner) playerNext(L *lua.LState) int {
	p := checkPlayer(L)
	limit := expectLimit
	if L.Get(2) != lua.LNil {
		limit = duration(L, 2)
	}
	var h *heard
	r.wait(L, "client:next", func() { h = p.take(func(*heard) bool { return true }, limit) })
	if h == nil {
		throw(L, &Failure{Message: fmt.Sprintf("expected a push within %v\n%s", limit, p.seen())})
	}
	L.Push(lua.LString(h.route))
	L.Push(h.body)
	return 2
}

// playerNone is c:expect_none(route[, time]): nothing of that route comes, and
// none was left from before.
func (r *runner) playerNone(L *lua.LState) int {
	p := checkPlayer(L)
	name := r.route(L, 2, shield.ServerToClient)
	limit := time.Second
	if L.Get(3) != lua.LNil {
		limit = duration(L, 3)
	}
	var h *heard
	r.wait(L, "client:expect_none", func() { h = p.take(func(h *heard) bool { return h.route == name }, limit) })
	if h != nil {
		throw(L, &Failure{Message: fmt.Sprintf("expected no push %s for %v\nit got:\n  %s", name, limit, clip(h.text, 400))})
	}
	return 0
}

// playerExpectClose is c:expect_close([reason][, timeout]).
func (r *runner) playerExpectClose(L *lua.LState) int {
	p := checkPlayer(L)
	want := L.OptString(2, "")
	limit := expectLimit
	if L.Get(3) != lua.LNil {
		limit = duration(L, 3)
	}
	var reason string
	var closed bool
	r.wait(L, "client:expect_close", func() { reason, closed = p.state(limit) })
	switch {
	case !closed:
		throw(L, &Failure{Message: fmt.Sprintf("expected the server to close the connection within %v\n%s", limit, p.seen())})
	case want != "" && reason != want:
		throw(L, &Failure{Message: "the connection was closed for another reason", Expected: fmt.Sprintf("%q", want), Actual: fmt.Sprintf("%q", reason)})
	}
	L.Push(lua.LString(reason))
	return 1
}

// playerClosed is c:closed(): the reason, or nil while it is open.
func (r *runner) playerClosed(L *lua.LState) int {
	p := checkPlayer(L)
	var reason string
	var closed bool
	r.wait(L, "client:closed", func() { reason, closed = p.state(0) })
	if !closed {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(lua.LString(reason))
	return 1
}

func (r *runner) playerClose(L *lua.LState) int {
	p := checkPlayer(L)
	r.wait(L, "client:close", func() {
		p.conn.Close()
		p.done.Wait()
	})
	return 0
}
