package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// game is for what is under way while a session changes hands: its gateway is on
// node-1, a player's services are on node-2 and node-3, and a friend is on each.
var game = map[string]string{
	"shield.yaml": `
app: { name: game }
services:
  - { name: auth, script: auth.lua, nodes: [node-1] }
  - { name: player, script: player.lua, nodes: [node-2] }
  - { name: match, script: player.lua, nodes: [node-3] }
  - { name: friend, script: friend.lua }
gateways:
  - { name: main, nodes: [node-1], auth: auth, network: { tcp: "10.0.0.1:7001", protocol: { body: { provider: json } } } }
`,
	"rpc.yaml": `
routes:
  - { id: 1001, name: login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: go_on, dir: c2s, service: player, handler: go_on }
  - { id: 1003, name: slow, dir: c2s, service: player, handler: slow }
  - { id: 1004, name: finish, dir: c2s, service: player, handler: finish }
  - { id: 1005, name: lend, dir: c2s, service: player, handler: lend }
  - { id: 1006, name: hello, dir: c2s, service: player, handler: hello }
  - { id: 2001, name: welcome, dir: s2c }
  - { id: 2002, name: said, dir: s2c }
`,
	"auth.lua": `
local M = {}
function M.login(ctx, client, req)
  local player = assert(shield.cluster.query("node-2", "player"))
  local ref = assert(shield.client.bind(client, player, req.name))
  shield.client_rpc.welcome(ref, { name = req.name })
end
return M
`,
	"player.lua": `
local M = {}
local heard, refs = {}, {}
local function hear(...) heard[#heard + 1] = table.concat({ ... }, " ") end
local function say(to, text) return shield.client_rpc.said(to, { t = text }) end
local function match() return assert(shield.cluster.query("node-3", "match")) end

function M.on_client_bound(client) hear("bound", client:player_id()) refs[client:player_id()] = client:ref() end
function M.on_client_unbound(client, reason) hear("unbound", client:player_id(), reason) end
function M.on_client_disconnected(client, reason) hear("disconnected", client:player_id(), reason) end
function M.heard(ctx) return shield.array(heard) end
function M.ref(ctx, name) return refs[name] end
function M.close(ctx, name, reason) return shield.client.close(refs[name], reason) end
function M.hello(ctx, client) hear("hello", client:player_id()) say(client, "hello from " .. shield.self():node()) end

-- A bind in the middle of a handler.
function M.go_on(ctx, client)
  local ref = assert(shield.client.bind(client, match(), client:player_id()))
  hear("old push", tostring(say(client, "old")))
  say(ref, "new")
  local _, err = shield.client.bind(client, shield.self(), client:player_id())
  hear(err.code)
end

-- A handler that is suspended while somebody else binds or ends the session.
function M.slow(ctx, client)
  shield.sleep(500)
  say(client, "late")
  hear("slow is done")
end

function M.finish(ctx, client)
  for i = 1, 20 do say(client, i) end
  shield.client.close(client, "the end")
  say(client, "after the end")
end

function M.lend(ctx, client)
  for n = 1, 3 do
    assert(shield.call("node-" .. n .. ":friend", "hold", client:ref()))
  end
  say(client, "lent")
end

function M.die(ctx) shield.exit("done") end

-- Binds the session of a player to this service, or says why not.
function M.take(ctx, ref)
  local mine, err = shield.client.bind(ref, shield.self(), ref:player_id())
  return mine or err.code
end
return M
`,
	"friend.lua": `
local M = {}
local held
function M.hold(ctx, ref) held = ref end
function M.use(ctx, text) return shield.client_rpc.said(held, { t = text }) end
function M.close(ctx) local ok, err = shield.client.close(held, "by a friend") return ok, err and err.code end
return M
`,
}

// inGame runs a test in a game of three nodes, in virtual time.
func inGame(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	onNodes(t, game, 3, 3, test)
}

// wantHeard waits until a service has heard what it should, in order.
func (w *world) wantHeard(node shield.NodeID, service string, want ...string) {
	w.t.Helper()
	text := `[["` + strings.Join(want, `","`) + `"]]`
	got := ""
	for range 3000 {
		var err error
		if got, err = w.call(node, service, "heard"); err != nil {
			w.t.Fatal(err)
		}
		if got == text {
			return
		}
		time.Sleep(10 * time.Millisecond) // virtual
	}
	w.t.Fatalf("%s heard %s, want %s\nlog:\n%s", service, got, text, w.logs)
}

// wantCount waits for a counter of node-1's gateway.
func (w *world) wantCount(name string, want int64) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s is %d", name, want), func() bool { return w.nodes["node-1"].Gateways()[0].Counters[name] == want })
}

// wantNothing checks that the client gets nothing for a while.
func (p *player) wantNothing() {
	p.w.t.Helper()
	select {
	case f, ok := <-p.frames:
		p.w.t.Fatalf("client got %+v (connected: %v), want nothing", f, ok)
	case <-time.After(5 * time.Second): // virtual
	}
}

func (p *player) said(text string) {
	p.w.t.Helper()
	p.want(2002, `{"t":`+text+`}`)
}

// A bind while a handler runs: the push with the old client is refused and
// counted, its caller hears nothing of it, the new ref goes on, and the new
// target has heard of the session before its first frame.
func TestARebindInAHandlerRefusesItsOldClient(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1002, nil)
		p.want(2002, `{"t":"new"}`)
		w.wantCount("egress_stale_epoch", 1)
		p.send(1006, nil)
		p.said(`"hello from node-3"`)
		heard, err := w.call("node-3", "match", "heard")
		if err != nil || !strings.HasPrefix(heard, `[["bound ann","hello ann"`) {
			t.Errorf("match heard %s, %v; want bound before hello", heard, err)
		}
		heard, err = w.call("node-2", "player", "heard")
		if err != nil || !strings.Contains(heard, `"old push true","client_rpc.epoch_expired"`) || strings.Contains(heard, "unbound") {
			t.Errorf("player heard %s, %v; want a push that is no error, a second bind that is, and no unbound", heard, err)
		}
		if row, _ := w.nodes["node-1"].Session(w.nodes["node-1"].Sessions()[0].Session); row.Target != "node-3:match" || row.Epoch != 2 || row.Stale != 1 {
			t.Errorf("session = %+v, want node-3:match at epoch 2 with one stale push", row)
		}
	})
}

// The handler of the old target runs to its end; what it says is refused.
func TestFramesOfTheOldTargetAreHandledToTheEnd(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1003, nil)
		time.Sleep(100 * time.Millisecond)
		w.take("node-3", "match", "ann")
		w.wantHeard("node-2", "player", "bound ann", "slow is done")
		w.wantCount("egress_stale_epoch", 1)
		p.wantNothing()
	})
}

// take lets a service bind the session of a player with the ref player has.
func (w *world) take(node shield.NodeID, service, name string) string {
	w.t.Helper()
	var ref any
	w.eventually("player has the ref of "+name, func() bool {
		ref = w.ref(name)
		return ref != nil
	})
	got, err := w.call(node, service, "take", ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// Two services of two nodes bind with one ref: one wins, the other hears
// epoch_expired, and the session belongs to the winner.
func TestOneOfTwoBindsWins(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		for round := range 20 {
			name := fmt.Sprint("ann-", round)
			p := w.connect()
			p.login(name)
			results := make(chan string, 2)
			for _, at := range []struct {
				node    shield.NodeID
				service string
			}{{"node-2", "player"}, {"node-3", "match"}} {
				go func() { results <- w.take(at.node, at.service, name) }()
			}
			got := []string{<-results, <-results}
			lost := slices.Index(got, `["client_rpc.epoch_expired"]`)
			if lost < 0 || got[1-lost] == got[lost] {
				t.Fatalf("the binds gave %v, want a ref and client_rpc.epoch_expired", got)
			}
			w.wantCount("binds_epoch_expired", int64(round+1))
			p.conn.Close()
		}
	})
}

// A kick and a broken connection at the same moment: the target, on another
// node, hears exactly one of them.
func TestAKickAndADropSpeakOnce(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		for i := range 40 {
			name := fmt.Sprint("ann-", i)
			p := w.connect()
			p.login(name)
			w.eventually("player has heard of "+name, func() bool { return w.ref(name) != nil })
			go func() { _, _ = w.call("node-2", "player", "close", name, "out") }() // may come second
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			p.conn.Close()
			time.Sleep(time.Second)
			heard, err := w.call("node-2", "player", "heard")
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(heard, "unbound "+name+" ") + strings.Count(heard, "disconnected "+name+" "); n != 1 {
				t.Fatalf("round %d: the target heard of the end %d times, want once: %s", i, n, heard)
			}
		}
		if n := w.nodes["node-1"].Gateways()[0].Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// A frame read just before the end may reach its target after the notice; its
// push goes nowhere.
func TestAFrameFromBeforeTheEndIsHandled(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1003, nil)
		time.Sleep(100 * time.Millisecond)
		p.conn.Close()
		w.wantHeard("node-2", "player", "bound ann", "disconnected ann closed", "slow is done")
		w.wantCount("egress_unknown_session", 1)
	})
}

// What was pushed before a kick arrives, in order, and then the close frame.
func TestPushesBeforeAKickArrive(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1004, nil)
		for i := range 20 {
			p.said(fmt.Sprint(i + 1))
		}
		p.want(shield.RouteClose, "the end")
		if f, ok := <-p.frames; ok {
			t.Errorf("client got %+v after the close frame", f)
		}
		w.wantHeard("node-2", "player", "bound ann", "unbound ann the end")
		w.wantCount("egress_unknown_session", 1)
		w.wantCount("kicks", 1)
	})
}

// A second connection of a player is a session of its own, from epoch 0, and
// does not touch the first; when the first one ends late nothing of the second
// changes.
func TestASecondConnectionIsASessionOfItsOwn(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p, q := w.connect(), w.connect()
		p.login("ann")
		q.login("ann")
		for _, row := range w.nodes["node-1"].Sessions() {
			if row.Player != "ann" || row.Epoch != 1 || row.Target != "node-2:player" {
				t.Errorf("session = %+v, want ann at epoch 1", row)
			}
		}
		p.conn.Close()
		w.wantHeard("node-2", "player", "bound ann", "bound ann", "disconnected ann closed")
		q.send(1006, nil)
		q.said(`"hello from node-2"`)
	})
}

// A ref may be kept and sent to services of any node: they push with it until
// the next bind. After that they are refused and counted; a close needs no epoch.
func TestALentRefWorksUntilTheNextBind(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1005, nil)
		p.said(`"lent"`)
		use := func() {
			t.Helper()
			for i := range 3 {
				node := shield.NodeID(fmt.Sprint("node-", i+1))
				if got, err := w.call(node, "friend", "use", string(node)); err != nil || got != `[true]` {
					t.Errorf("friend on %s: use = %s, %v, want true: a push is never an error", node, got, err)
				}
			}
		}
		use()
		var got []string
		for range 3 {
			got = append(got, (<-p.frames).body)
		}
		slices.Sort(got)
		if want := []string{`{"t":"node-1"}`, `{"t":"node-2"}`, `{"t":"node-3"}`}; !slices.Equal(got, want) {
			t.Errorf("the client heard %v, want %v", got, want)
		}

		w.take("node-3", "match", "ann")
		use()
		w.wantCount("egress_stale_epoch", 3)
		p.wantNothing()

		if got, err := w.call("node-2", "friend", "close"); err != nil || got != `[true,null]` {
			t.Errorf("close with an old ref = %s, %v, want true", got, err)
		}
		p.want(shield.RouteClose, "by a friend")
		w.wantHeard("node-3", "match", "bound ann", "unbound ann by a friend")
		use()
		w.wantCount("egress_unknown_session", 3)
	})
}

// The gateway's node dies: the target's own node tells the target, once.
func TestAGatewaysNodeThatDiesIsToldByTheTargetsNode(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p, q := w.connect(), w.connect()
		p.login("ann")
		q.login("bob")
		w.wantHeard("node-2", "player", "bound ann", "bound bob")
		w.take("node-3", "match", "bob") // moved on: player must not hear of bob
		w.kill("node-1")
		if f, ok := <-p.frames; ok {
			t.Errorf("the client of a node that crashed is told %+v", f)
		}
		w.wantHeard("node-2", "player", "bound ann", "bound bob", "disconnected ann node_offline")
		w.wantHeard("node-3", "match", "bound bob", "disconnected bob node_offline")
	})
}

// The target's node dies: its sessions close with node_offline, others stay.
func TestATargetsNodeThatDiesClosesItsSessions(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p, q := w.connect(), w.connect()
		p.login("ann")
		q.login("bob")
		w.take("node-3", "match", "bob")
		w.kill("node-2")
		p.want(shield.RouteClose, "node_offline")
		q.send(1006, nil)
		q.said(`"hello from node-3"`)
		w.wantCount("closed_node_offline", 1)
	})
}

// A target that ends after the session moved on takes nobody with it, also when
// frames for it were still under way.
func TestATargetThatDiesAfterAMoveTakesNobodyWithIt(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		w.wantHeard("node-2", "player", "bound ann")
		w.take("node-3", "match", "ann")
		time.Sleep(100 * time.Millisecond)
		for _, s := range w.nodes["node-2"].Services() {
			if s.Sessions != 0 {
				t.Errorf("node-2 counts %d sessions of %s", s.Sessions, s.Name)
			}
		}
		if _, err := w.call("node-2", "player", "die"); err != nil && !errors.Is(err, shield.ServiceDead) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.send(1006, nil)
		p.said(`"hello from node-3"`)
	})
}

// The same with frames that reach a dead target after the session has moved.
func TestLateFramesForADeadTargetCloseNothing(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		w.wantHeard("node-2", "player", "bound ann")
		w.net.Cut(addrOf(1), addrOf(2)) // frames to the old target wait in the link
		for range 5 {
			p.send(1006, nil)
		}
		time.Sleep(50 * time.Millisecond)
		w.take("node-3", "match", "ann")
		if _, err := w.call("node-2", "player", "die"); err != nil && !errors.Is(err, shield.ServiceDead) {
			t.Fatal(err)
		}
		w.net.Heal(addrOf(1), addrOf(2))
		time.Sleep(3 * time.Second)
		p.send(1006, nil)
		p.said(`"hello from node-3"`)
	})
}

// kill ends a node as a crash would.
func (w *world) kill(id shield.NodeID) {
	w.t.Helper()
	if err := w.nodes[id].Kill(); err != nil {
		w.t.Fatal(err)
	}
}

// A bind whose gateway is on a node that is gone fails, at once where that is
// known.
func TestABindWithoutItsGatewayFails(t *testing.T) {
	inGame(t, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		w.wantHeard("node-2", "player", "bound ann")
		ref := w.ref("ann")
		w.kill("node-1")
		w.wantHeard("node-2", "player", "bound ann", "disconnected ann node_offline")
		start := time.Now()
		got, err := w.call("node-3", "match", "take", ref)
		if err != nil || got != `["node_offline"]` {
			t.Errorf("take = %s, %v, want node_offline", got, err)
		}
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// ref asks player for the ref it keeps of somebody; nil when it has none.
func (w *world) ref(name string) any {
	w.t.Helper()
	ref, ok, err := w.refFrom("node-2", "player", "ref", name)
	if err != nil {
		w.t.Fatal(err)
	}
	if !ok {
		return nil
	}
	return ref
}

// refFrom calls a service for a ref; it may give something else.
func (w *world) refFrom(on shield.NodeID, target, method string, args ...any) (ref shield.ClientRef, ok bool, err error) {
	values, err := w.nodes[on].Call(context.Background(), target, method, args...)
	if err != nil {
		return ref, false, err
	}
	ref, ok = value.AsClientRef(values.At(0))
	return ref, ok, nil
}
