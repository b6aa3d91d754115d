package luaapi_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
)

// pair is two nodes that reach each other by function calls.
type pair struct {
	mu    sync.Mutex
	nodes map[shield.NodeID]*node
	down  map[shield.NodeID]bool
	calls map[uint64]*pairCall
	last  uint64
	late  int
}

type pairCall struct {
	p  *pair
	id uint64
	to shield.NodeID
	w  shield.Waiter
}

func (c *pairCall) Reply(result []byte, err *shield.Error) {
	c.p.mu.Lock()
	_, pending := c.p.calls[c.id]
	delete(c.p.calls, c.id)
	if !pending {
		c.p.late++
	}
	c.p.mu.Unlock()
	if pending {
		c.w.Done(result, err)
	}
}

// end is one node's view of the pair.
type end struct {
	p    *pair
	self shield.NodeID
}

func (e *end) peer(id shield.NodeID) (*node, error) {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	n := e.p.nodes[id]
	switch {
	case n == nil:
		return nil, shield.Errorf(shield.NodeNotFound, "no node %q is known", id)
	case e.p.down[id]:
		return nil, shield.Errorf(shield.NodeOffline, "%s is offline", id)
	}
	return n, nil
}

func (e *end) Resolve(id shield.NodeID, name shield.Name) (shield.Handle, error) {
	n, err := e.peer(id)
	if err != nil {
		return shield.Handle{}, err
	}
	h, ok := n.Lookup(name)
	if !ok {
		return h, shield.Errorf(shield.ServiceNotFound, "%s publishes no %q", id, name)
	}
	return h, nil
}

func (e *end) Send(env *shield.Envelope) error {
	n, err := e.peer(env.Target.Node)
	if err != nil {
		return err
	}
	n.Deliver(env, nil)
	return nil
}

func (e *end) Call(env *shield.Envelope, w shield.Waiter) (uint64, error) {
	n, err := e.peer(env.Target.Node)
	if err != nil {
		return 0, err
	}
	e.p.mu.Lock()
	e.p.last++
	c := &pairCall{p: e.p, id: e.p.last, to: env.Target.Node, w: w}
	e.p.calls[c.id] = c
	e.p.mu.Unlock()
	env.CallID = c.id
	n.Deliver(env, c)
	return c.id, nil
}

func (e *end) Cancel(id uint64) {
	e.p.mu.Lock()
	delete(e.p.calls, id)
	e.p.mu.Unlock()
}

func (e *end) Nodes() []shield.NodeRow {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	var rows []shield.NodeRow
	for _, id := range []shield.NodeID{"node-1", "node-2"} {
		state := shield.Online
		if e.p.down[id] {
			state = shield.Offline
		}
		rows = append(rows, shield.NodeRow{Node: id, State: state, Epoch: 1<<60 + 1, Self: id == e.self})
	}
	return rows
}

func (e *end) Published(match func(shield.Name) bool) (all []service.Published) {
	for _, id := range []shield.NodeID{"node-1", "node-2"} {
		if id == e.self {
			continue
		}
		if n, err := e.peer(id); err == nil {
			rows, _ := n.Names()
			for _, r := range rows {
				if match(r.Name) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// fail ends every call to a node, as a cluster does when it goes offline.
func (p *pair) fail(id shield.NodeID) {
	p.mu.Lock()
	p.down[id] = true
	var ended []*pairCall
	for k, c := range p.calls {
		if c.to == id {
			ended = append(ended, c)
			delete(p.calls, k)
		}
	}
	p.mu.Unlock()
	for _, c := range ended {
		c.w.Done(nil, shield.Errorf(shield.NodeOffline, "%s went offline", id))
	}
}

// newPair starts files on two nodes: those below 1/ and 2/ on one of them.
func newPair(t *testing.T, files scripts) (*pair, *node, *node) {
	t.Helper()
	p := &pair{nodes: map[shield.NodeID]*node{}, down: map[shield.NodeID]bool{}, calls: map[uint64]*pairCall{}}
	for _, id := range []shield.NodeID{"node-2", "node-1"} {
		mine := scripts{}
		for path, text := range files {
			if rest, ok := strings.CutPrefix(path, string(id[len(id)-1:])+"/"); ok {
				mine[rest] = text
			}
		}
		n := newNode(t, mine, func(c *service.Config) { c.Node, c.Epoch, c.Remote = id, 1<<60+1, &end{p, id} })
		p.mu.Lock()
		p.nodes[id] = n
		p.mu.Unlock()
		n.start(specs(mine)...)
	}
	return p, p.nodes["node-1"], p.nodes["node-2"]
}

func TestRemoteCalls(t *testing.T) { synctest.Test(t, testRemoteCalls) }

func testRemoteCalls(t *testing.T) {
	p, n, n2 := newPair(t, scripts{
		"2/room.lua": `
local M = {}
local seen = {}
function M.echo(ctx, ...) return ... end
function M.who(ctx) return ctx.sender, ctx.sender:node(), ctx.trace, ctx.deadline end
function M.note(ctx, h) seen[h] = (seen[h] or 0) + 1 return seen[h] end
function M.boom() error("far away") end
function M.slow(ctx, ms) shield.sleep(ms) return "late" end
function M.back(ctx) return shield.call(ctx.sender, "ping") end
function M.fn() return print end
return M`,
		"1/a.lua": `
local M = {}
function M.ping() return "pong" end
function M.call(ctx, ...) local r = {shield.call(...)} return r[1], r[2], r[3] end
function M.err(ctx, ...) local ok, e = shield.call(...) return ok, e.code, e.message end
function M.sent(ctx, ...) local ok, e = shield.send(...) return ok, e and e.code end
function M.who(ctx)
  local ok, sender, node, trace, left = shield.call("node-2:room", "who")
  return sender == shield.self(), node, trace == ctx.trace, left > 4000
end
function M.note()
  local h = assert(shield.cluster.query("node-2", "room"))
  shield.call(h, "note", h) local _, n = shield.call(h, "note", shield.cluster.query("node-2", "room"))
  local _, back = shield.call(h, "echo", h)
  return n, back == h, h:node(), h:valid(), tostring(h)
end
function M.timeout() local ok, e = shield.call_timeout(20, "node-2:room", "slow", 60) return ok, e.code end
function M.cluster() local rows = shield.cluster.nodes() return shield.cluster.node_id(), shield.cluster.node_epoch(), #rows, rows[2].epoch, rows[2].state end
function M.argc() return select("#", shield.call("node-2:room", "echo", 1, nil, nil)) end
return M`,
	})
	n.want(`[true,{"x":[1,"a"]},true]`, "a", "call", "node-2:room", "echo", map[string]any{"x": []any{1, "a"}}, true)
	n.want(`[4]`, "a", "argc")
	n.want(`[true,"node-1",true,true]`, "a", "who")
	n.want(`[2,true,"node-2",true,"node-2#1"]`, "a", "note")
	n.want(`[true,true,"pong"]`, "a", "call", "node-2:room", "back")
	n.want(`[true,null]`, "a", "sent", "node-2:room", "echo")
	n.want(`["node-1","1152921504606846977",2,"1152921504606846977","online"]`, "a", "cluster")
	for _, tt := range []struct{ target, method, code string }{
		{"node-2:room", "boom", "handler_error"}, {"node-2:room", "none", "method_not_found"}, {"node-2:none", "x", "service_not_found"},
		{"node-9:room", "x", "node_not_found"}, {"node-2:room", "fn", "encode_failed"}, {"node-1:none", "x", "service_not_found"},
		{"room", "x", "service_not_found"}, {"node 2:room", "x", "invalid_target"}, {"node-2:room", "on_exit", "invalid_method"},
	} {
		got, err := n.call("a", "err", tt.target, tt.method)
		if err != nil || !strings.HasPrefix(got, `[false,"`+tt.code+`"`) {
			t.Errorf("call %s %s = %s, %v, want %s", tt.target, tt.method, got, err, tt.code)
		}
	}
	if got, _ := n.call("a", "err", "room", "x"); !strings.Contains(got, `node-2 does: use \"node-2:room\"`) {
		t.Errorf("the error must say where the name is: %s", got)
	}
	n.want(`[false,"timeout"]`, "a", "timeout")
	time.Sleep(70 * time.Millisecond) // the late reply comes
	p.mu.Lock()
	if p.late != 1 || len(p.calls) != 0 {
		t.Errorf("late %d, pending %d, want 1 and 0: a call that timed out must be cancelled", p.late, len(p.calls))
	}
	p.mu.Unlock()
	// The tools' way.
	n.want(`[7]`, "node-2:room", "echo", 7)
	n.wantError(shield.HandlerError, "far away", "node-2:room", "boom")

	done := make(chan string)
	go func() { got, _ := n.call("a", "err", "node-2:room", "slow", 60000); done <- got }()
	for n2.Counters().Calls < 15 {
		time.Sleep(time.Millisecond) // until node-2 has it
		if n2.Waits(t.Context()) != nil {
			break
		}
	}
	p.fail("node-2")
	if got := <-done; !strings.HasPrefix(got, `[false,"node_offline"`) {
		t.Errorf("a call to a node that went offline ended with %s", got)
	}
	n.want(`[false,"node_offline"]`, "a", "sent", "node-2:room", "echo")
}

// What a service takes does not depend on where the message comes from.
func TestLocalAndRemoteTakeTheSame(t *testing.T) {
	ask := `
local M = {}
function M.go(ctx, to)
  local codes = {}
  for i, v in ipairs{("x"):rep(90), ("x"):rep(110), {a = {}, b = {1, 2, {}}}, print, {[1.5] = 1}, {[true] = 1}, shield.null, {shield.self()}, 0/0, 2^53} do
    local ok, e = shield.call(to, "echo", v)
    codes[i] = ok and type(e) or e.code
  end
  local ok, big = shield.call(to, "big")
  return codes, ok, #big
end
return M`
	echo := `local M = {} function M.echo(ctx, v) return v end function M.big() return ("x"):rep(1500000) end return M`
	p := &pair{nodes: map[shield.NodeID]*node{}, down: map[shield.NodeID]bool{}, calls: map[uint64]*pairCall{}}
	for _, id := range []shield.NodeID{"node-2", "node-1"} {
		n := newNode(t, scripts{"ask.lua": ask, "echo.lua": echo}, func(c *service.Config) {
			c.Node, c.Remote = id, &end{p, id}
			c.Limits.MaxMessageSize = 2 << 20
		})
		n.start(service.Spec{Name: "ask", Script: "ask.lua", Instances: 1},
			service.Spec{Name: "echo", Script: "echo.lua", Instances: 1, Limits: service.Limits{MaxMessageSize: 100}},
			service.Spec{Name: "big", Script: "echo.lua", Instances: 1})
		p.mu.Lock()
		p.nodes[id] = n
		p.mu.Unlock()
	}
	for _, to := range []string{"echo", "big"} {
		local, err := p.nodes["node-1"].call("ask", "go", to)
		if err != nil {
			t.Error(err)
		}
		p.nodes["node-1"].want(local, "ask", "go", "node-2:"+to)
	}
}

func TestDeliverChecks(t *testing.T) {
	_, n, n2 := newPair(t, scripts{"1/a.lua": `return {}`, "2/b.lua": `return {m = function() end}`})
	h, _ := n2.Lookup("b")
	reply := func(env shield.Envelope) (err *shield.Error) {
		done := make(chan *shield.Error, 1)
		n2.Deliver(&env, replierFunc(func(_ []byte, err *shield.Error) { done <- err }))
		return <-done
	}
	old := h
	old.Epoch--
	gone := h
	gone.ID = 99
	for _, tt := range []struct {
		name string
		env  shield.Envelope
		code shield.Code
	}{
		{"deadline passed", shield.Envelope{Target: h, Method: "m", Args: []byte{0x90}}, shield.Timeout},
		{"older epoch", shield.Envelope{Target: old, Method: "m", Args: []byte{0x90}, Timeout: time.Second}, shield.ServiceDead},
		{"gone", shield.Envelope{Target: gone, Method: "m", Args: []byte{0x90}, Timeout: time.Second}, shield.ServiceDead},
		{"hook", shield.Envelope{Target: h, Method: "on_exit", Args: []byte{0x90}, Timeout: time.Second}, shield.InvalidMethod},
		{"garbage", shield.Envelope{Target: h, Method: "m", Args: []byte{0xc1}, Timeout: time.Second}, shield.DecodeError},
		{"other node", shield.Envelope{Target: shield.Handle{Node: "node-1", Epoch: 1, ID: 1}, Method: "m", Args: []byte{0x90}, Timeout: time.Second}, shield.InvalidTarget},
	} {
		if err := reply(tt.env); err == nil || err.Code != tt.code {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
	}
	_ = n
}

type replierFunc func([]byte, *shield.Error)

func (f replierFunc) Reply(result []byte, err *shield.Error) { f(result, err) }

func TestPool(t *testing.T) { synctest.Test(t, testPool) }

func testPool(t *testing.T) {
	p, n, _ := newPair(t, scripts{
		"2/w.1.lua": `local M = {} function M.who(ctx, k) return "2/1" end function M.slow() shield.sleep(30) return "2/1" end return M`,
		"2/w.2.lua": `local M = {} function M.who(ctx, k) return "2/2" end function M.slow() shield.sleep(1) return "2/2" end return M`,
		"1/w.1.lua": `local M = {} function M.who(ctx, k) return "1/1" end function M.slow() shield.sleep(1) return "1/1" end return M`,
		"1/a.lua": `
local M = {}
local rr, hash = shield.pool("w.*"), shield.pool("w.*", {policy = "consistent_hash"})
local weighted = shield.pool("w.*", {policy = "weighted", weights = {["node-2:w.2"] = 2, ["node-1"] = 0.5}})
local least = shield.pool("w.*", {policy = "least_pending"})
local function spread(p, n, key) local c = {} for i = 1, n do local ok, w = p:call("who", key and key(i)) assert(ok, w) c[w] = (c[w] or 0) + 1 end return c end
local function row(c) return c["1/1"], c["2/1"], c["2/2"] end
function M.rr() return row(spread(rr, 6)) end
function M.weighted() return row(spread(weighted, 14)) end
function M.hash()
  local c = spread(hash, 300, function(i) return "player-" .. i end)
  local a, b = hash:pick("player-7"), hash:pick("player-7")
  return c["1/1"] > 60 and c["2/1"] > 60 and c["2/2"] > 60, a == b
end
function M.least()
  local slow = 0
  local done = 0
  for i = 1, 3 do shield.fork(function() least:call("slow") done = done + 1 end) end
  shield.sleep(10)
  for i = 1, 6 do local ok, w = least:call("who") if w == "2/1" then slow = slow + 1 end end
  while done < 3 do shield.sleep(1) end
  return slow
end
function M.none() local ok, e = shield.pool("none.*"):call("x") local h, e2 = shield.pool("none.*"):pick() local s, e3 = shield.pool("none"):send("x") return ok, e.code, h, e2.code, s, e3.code end
function M.bad() local ok, e = pcall(shield.pool, "w.*", {policy = "round_robbin"}) return ok, (e:match("did you mean round_robin")) end
return M`,
	})
	n.want(`[2,2,2]`, "a", "rr")
	n.want(`[2,4,8]`, "a", "weighted")
	n.want(`[true,true]`, "a", "hash")
	n.want(`[0]`, "a", "least")
	n.want(`[false,"pool_empty",null,"pool_empty",false,"pool_empty"]`, "a", "none")
	n.want(`[false,"did you mean round_robin"]`, "a", "bad")
	p.fail("node-2")
	time.Sleep(250 * time.Millisecond) // what a picker knows of other nodes is 200 ms old at most
	n.want(`[6,null,null]`, "a", "rr")
}
