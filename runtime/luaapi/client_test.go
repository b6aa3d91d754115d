package luaapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/service"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// sessions stands in for the gateways.
type sessions struct {
	mu     sync.Mutex
	epochs map[shield.SessionID]shield.SessionEpoch
	pushed []string
	closed []string
	mute   bool // binds are never answered
}

func (s *sessions) Bind(ref shield.ClientRef, to shield.Handle, player string, timeout time.Duration, done func(shield.ClientRef, error)) {
	s.mu.Lock()
	if s.mute {
		s.mu.Unlock()
		return
	}
	var err error
	if s.epochs[ref.Session] != ref.Epoch {
		err = shield.Errorf(shield.RPCEpochExpired, "%s is at epoch %d", ref.Session, s.epochs[ref.Session])
	} else {
		s.epochs[ref.Session]++
		ref.Epoch++
		ref.Player = player
	}
	s.mu.Unlock()
	go done(ref, err)
}

func (s *sessions) Push(p *shield.Push) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushed = append(s.pushed, fmt.Sprintf("%d %s %s", p.Route, p.Client, p.Body))
}

func (s *sessions) Close(ref shield.ClientRef, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, string(ref.Session)+" "+reason)
	return nil
}

var routes = shield.NewRPCTable([]shield.RPCRoute{
	{ID: 1001, Name: "auth.login", Dir: shield.ClientToServer, Service: "auth", Handler: "login"},
	{ID: 1002, Name: "move", Dir: shield.ClientToServer, Service: "auth", Handler: "move"},
	{ID: 1003, Name: "lost", Dir: shield.ClientToServer, Service: "auth", Handler: "lost"},
	{ID: 2001, Name: "auth.login_ok", Dir: shield.ServerToClient},
	{ID: 2002, Name: "auth.login_ok.extra", Dir: shield.ServerToClient},
	{ID: 2003, Name: "blob", Dir: shield.ServerToClient, Codec: "raw"},
})

func TestClients(t *testing.T) { synctest.Test(t, testClients) }

func testClients(t *testing.T) {
	gw := &sessions{epochs: map[shield.SessionID]shield.SessionEpoch{}}
	n := newNode(t, scripts{"auth.lua": `
local M = {}
local heard = {}
local function hear(...) heard[#heard + 1] = table.concat({...}, " ") end
function M.login(ctx, client, req)
  kept = client
  hear("login", tostring(client:player_id()), client:session(), req.name, ctx.method)
  local ref, e = shield.client.bind(client, shield.self(), req.name)
  if not ref then hear("bind", e.code) return end
  hear("bound", ref:player_id(), tostring(ref), tostring(ref == client:ref()))
  hear("push", tostring(shield.client_rpc.auth.login_ok(ref, {ok = true})))
  hear("push", tostring(shield.client_rpc.auth.login_ok.extra(ref, "raw bytes")))
  local bad, e2 = shield.client_rpc.auth.login_ok(ref, {f = print})
  hear(tostring(bad), e2.code)
  M.ref = ref
end
function M.on_client_bound(client) hear("on_bound", client:player_id()) end
function M.on_client_unbound(client, reason) hear("unbound", client:ref():player_id(), reason) end
function M.on_client_disconnected(client, reason) hear("gone", client:player_id(), reason) end
function M.move(ctx, client, x) hear("move", tostring(x)) error("oops") end
function M.heard() local h = heard heard = {} return h end
function M.expired() local ok, e = pcall(function() return kept:player_id() end) local r, e2 = shield.client.close(kept) return ok, e.code, r, e2.code end
function M.wrong()
  local function why(f) local ok, e = pcall(f) return e.code, e.message end
  local c1, m1 = why(function() return shield.client_rpc.auth.login(M.ref, 1) end)
  local c2, m2 = why(function() return shield.client_rpc.auth.login_okk(M.ref, 1) end)
  local c3 = why(function() return shield.client_rpc.nothing.at.all end)
  local ok, e4 = shield.client_rpc.blob(M.ref, {[true] = 1})
  local ok5, e5 = shield.client_rpc.blob("s-1", "x")
  return c1, m1:find("from client to server") ~= nil, c2, m2:find("did you mean auth.login_ok%?") ~= nil, c3, e4.code, e5.code
end
function M.kick() return shield.client.close(M.ref, "bye") end
function M.keys() local t = {[M.ref] = 1} return t[M.ref] end
return M`}, func(c *service.Config) {
		c.Clients = gw
		c.Routes = func() *shield.RPCTable { return routes }
	})
	n.start(service.Spec{Name: "auth", Script: "auth.lua", Instances: 1})
	h, _ := n.Lookup("auth")
	client := shield.ClientRef{Gateway: "node-1:main", Session: "s-1", Profile: "game.v1/json"}
	in := func(route shield.RouteID, body string) error {
		return n.Ingress(&shield.Ingress{Client: client, Target: h, Route: route, Codec: "json", Body: []byte(body)})
	}
	heard := func(want ...string) {
		t.Helper()
		time.Sleep(10 * time.Millisecond) // bind answers on a goroutine of its own
		got, _ := n.call("auth", "heard")
		if d := cmp.Diff(`[["`+strings.Join(want, `","`)+`"]]`, got); d != "" {
			t.Errorf("heard (-want +got):\n%s\n%s", d, n.log.text())
		}
	}
	if err := in(1001, `{"name":"ann"}`); err != nil {
		t.Fatal(err)
	}
	heard("login nil s-1 ann login", "bound ann s-1@1 ann false", "push true", "push true", "false encode_failed")
	if err := in(1001, `{"name":"bob"}`); err != nil { // the frame was under way when ann was bound
		t.Fatal(err)
	}
	heard("login nil s-1 bob login", "bind client_rpc.epoch_expired")
	client.Epoch, client.Player = 1, "ann"
	for _, notice := range []shield.Notice{{Kind: shield.NoticeBound}, {Kind: shield.NoticeUnbound, Reason: "kicked"}, {Kind: shield.NoticeDisconnected, Reason: "node_offline"}} {
		notice.Client, notice.Target = client, h
		if err := n.Notice(&notice); err != nil {
			t.Error(err)
		}
	}
	if err := in(1002, `[`); shield.CodeOf(err) != shield.DecodeError {
		t.Errorf("a broken body = %v, want decode_error", err)
	}
	if err := in(1002, `3`); err != nil {
		t.Error(err)
	}
	if err := in(1003, ``); err != nil {
		t.Error(err)
	}
	if err := in(2001, ``); shield.CodeOf(err) != shield.RPCRouteNotFound {
		t.Errorf("an s2c route = %v, want route_not_found", err)
	}
	heard("on_bound ann", "unbound ann kicked", "gone ann node_offline", "move 3")
	n.want(`[false,"context_expired",false,"context_expired"]`, "auth", "expired")
	n.want(`["client_rpc.direction_rejected",true,"client_rpc.route_not_found",true,"client_rpc.route_not_found","encode_failed","invalid_target"]`, "auth", "wrong")
	n.want(`[true]`, "auth", "kick")
	n.want(`[1]`, "auth", "keys")
	gw.mu.Lock()
	defer gw.mu.Unlock()
	if d := cmp.Diff([]string{`2001 s-1@1 ann {"ok":true}`, `2002 s-1@1 ann raw bytes`}, gw.pushed); d != "" {
		t.Errorf("pushes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"s-1 bye"}, gw.closed); d != "" {
		t.Errorf("closed (-want +got):\n%s", d)
	}
	c := n.Counters()
	if c.HandlerMissing != 1 || c.DecodeErrors != 1 || c.Errors != 1 {
		t.Errorf("handler_missing %d, decode_errors %d, errors %d, want 1 each", c.HandlerMissing, c.DecodeErrors, c.Errors)
	}
	for _, line := range []string{"oops", "dead letter: client frame"} { // whose frame it was
		if log := n.log.text(); !regexp.MustCompile(line + `.*session=s-1\b`).MatchString(log) {
			t.Errorf("no line of %q names the session:\n%s", line, log)
		}
	}
}

// Notices are not counted against max_mailbox, frames are.
func TestNoticesPassAFullMailbox(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	n := newNode(t, scripts{"s.lua": `
local M = {n = 0}
function M.spin(ctx) while shield.busy() do end end
function M.on_client_bound() M.n = M.n + 1 end
function M.move() end
function M.get() return M.n end
return M`}, func(c *service.Config) {
		c.API.Shield["busy"] = func(L *lua.LState) int { L.Push(lua.LBool(busy.Load())); return 1 }
		c.Routes = func() *shield.RPCTable {
			return shield.NewRPCTable([]shield.RPCRoute{{ID: 20, Name: "move", Dir: shield.ClientToServer, Handler: "move"}})
		}
	})
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Limits: service.Limits{MaxMailbox: 2}})
	h, _ := n.Lookup("s")
	spun := make(chan struct{})
	go func() { defer close(spun); n.want(`[]`, "s", "spin") }()
	for n.Counters().Calls == 0 {
		time.Sleep(100 * time.Microsecond) // until it spins
	}
	full := 0
	for range 5 {
		if err := n.Ingress(&shield.Ingress{Target: h, Route: 20}); shield.CodeOf(err) == shield.MailboxFull {
			full++
		}
		if err := n.Notice(&shield.Notice{Kind: shield.NoticeBound, Target: h}); err != nil {
			t.Error(err)
		}
	}
	if full != 3 {
		t.Errorf("%d frames were refused, want 3", full)
	}
	busy.Store(false)
	<-spun
	for {
		if _, err := n.call("s", "get"); shield.CodeOf(err) != shield.MailboxFull {
			break // the two frames have been handled
		}
	}
	n.want(`[5]`, "s", "get")
}

func TestWithoutAGatewayOrCluster(t *testing.T) {
	n := start(t, scripts{"s.lua": `
local M = {}
function M.go()
  local r = {}
  for _, f in ipairs{shield.cluster.nodes, shield.cluster.node_id, shield.cluster.node_epoch, function() return shield.cluster.query("a", "b") end} do
    local v, e = f() r[#r + 1] = tostring(v) .. " " .. e.code
  end
  return r
end
return M`}, nil)
	n.want(`[["nil module_unavailable","nil module_unavailable","nil module_unavailable","nil module_unavailable"]]`, "s", "go")
}

// A bind that no gateway answers ends with the deadline.
func TestBindTimesOut(t *testing.T) { synctest.Test(t, testBindTimesOut) }

func testBindTimesOut(t *testing.T) {
	gw := &sessions{mute: true}
	n := newNode(t, scripts{"s.lua": `
local M = {}
function M.login(ctx, client) local ref, e = shield.client.bind(client, shield.self(), "ann") M.code = e.code end
function M.get() return M.code end
return M`}, func(c *service.Config) {
		c.Clients, c.Limits.CallTimeout = gw, 20*time.Millisecond
		c.Routes = func() *shield.RPCTable { return routes }
	})
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1})
	h, _ := n.Lookup("s")
	if err := n.Ingress(&shield.Ingress{Target: h, Route: 1001}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(60 * time.Millisecond) // the time-out
	n.want(`["timeout"]`, "s", "get")
}
