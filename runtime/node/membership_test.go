package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/config"
	"shield/runtime/shield"
)

// edges is a game with a gateway and everything else on every node: what happens
// to its sessions depends on who can reach whom.
var edges = map[string]string{
	"shield.yaml": `
app: { name: edges }
services:
  - { name: auth, script: auth.lua }
  - { name: player, script: player.lua }
  - { name: caller, script: caller.lua }
gateways:
  - { name: main, auth: auth, network: { tcp: "10.0.0.1:0", max_per_ip: 1000, protocol: { body: { provider: json } } } }
`,
	"rpc.yaml": `
routes:
  - { id: 1001, name: login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: hello, dir: c2s, service: player, handler: hello }
  - { id: 2001, name: welcome, dir: s2c }
  - { id: 2002, name: said, dir: s2c }
`,
	"auth.lua": `
local M = {}
function M.login(ctx, client, req)
  local player = req.node == shield.self():node() and shield.query("player") or assert(shield.cluster.query(req.node, "player"))
  local ref = assert(shield.client.bind(client, player, req.name))
  shield.client_rpc.welcome(ref, { name = req.name })
end
return M
`,
	"player.lua": `
local M = {}
local mine, refs = {}, {}
function M.on_client_bound(client) mine[client:player_id()] = true refs[client:player_id()] = client:ref() end
function M.on_client_unbound(client) mine[client:player_id()] = nil end
function M.on_client_disconnected(client) mine[client:player_id()] = nil end
function M.mine(ctx)
  local names = shield.array({})
  for name in pairs(mine) do names[#names + 1] = name end
  return names
end
function M.hello(ctx, client) shield.client_rpc.said(client, { t = shield.self():node() }) end
function M.push(ctx, name)
  local ok, err = shield.client_rpc.said(refs[name], { t = "old" })
  return ok or err.code
end
function M.ref(ctx, name) return refs[name] end
function M.take(ctx, ref) return assert(shield.client.bind(ref, shield.self(), ref:player_id())) end
return M
`,
	"caller.lua": `
local M = {}
local ended = {}
function M.begin(ctx, target, n)
  for i = 1, n do
    shield.fork(function()
      local ok, err = shield.call_timeout(600000, target, "wait")
      local code = ok and "ok" or err.code
      ended[code] = (ended[code] or 0) + 1
    end)
  end
end
function M.wait(ctx) shield.sleep(3600000) end
function M.ended(ctx) return ended end
return M
`,
}

// onEdges runs a test on three nodes of edges, in virtual time.
func onEdges(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	onNodes(t, edges, 3, 0, test)
}

// loginAt connects to the gateway of one node as a player of another.
func (w *world) loginAt(gate, target int) *player {
	w.t.Helper()
	name := fmt.Sprintf("%d-%d", gate, target)
	p := w.connectTo(shield.NodeID(fmt.Sprintf("node-%d", gate)))
	p.send(1001, map[string]string{"name": name, "node": fmt.Sprintf("node-%d", target)})
	p.want(2001, `{"name":"`+name+`"}`)
	return p
}

// split cuts node-3 off from the two others, or ends that.
func (w *world) split(on bool) {
	for _, i := range []int{1, 2} {
		if on {
			w.net.Cut(addrOf(i), addrOf(3))
			w.net.Cut(addrOf(3), addrOf(i))
		} else {
			w.net.Heal(addrOf(i), addrOf(3))
			w.net.Heal(addrOf(3), addrOf(i))
		}
	}
}

// all reports whether every node sees every other in a state.
func (w *world) all(state shield.NodeState) bool {
	for _, n := range w.nodes {
		for _, row := range n.Nodes() {
			if !row.Self && row.State != state {
				return false
			}
		}
	}
	return true
}

// owners lists who has which player bound, by the words of the services.
func (w *world) owners() map[string][]shield.NodeID {
	w.t.Helper()
	owners := map[string][]shield.NodeID{}
	for id := range w.nodes {
		text, err := w.call(id, "player", "mine")
		if err != nil {
			w.t.Fatal(err)
		}
		var names [][]string
		if err := json.Unmarshal([]byte(text), &names); err != nil {
			w.t.Fatalf("%s: %v", text, err)
		}
		for _, name := range names[0] {
			owners[name] = append(owners[name], id)
		}
	}
	return owners
}

// A4: a partition of two and one nodes, longer than any grace. What it parted
// ends, what it did not goes on; healed, everything is one cluster within 5 s,
// every session has one owner and is at its own gateway, and who lost a session
// can write to it no more.
func TestAPartitionOfTwoAndOneHeals(t *testing.T) {
	onEdges(t, func(t *testing.T, w *world) {
		clients := map[string]*player{}
		for gate := 1; gate <= 3; gate++ {
			for target := 1; target <= 3; target++ {
				clients[fmt.Sprintf("%d-%d", gate, target)] = w.loginAt(gate, target)
			}
		}
		// One that node-3 had and lost to node-2 before.
		moved := w.loginAt(1, 3)
		var ref shield.ClientRef
		w.eventually("node-3 has the ref", func() (ok bool) {
			ref, ok, _ = w.refFrom("node-3", "player", "ref", "1-3") // asked again
			return ok
		})
		if _, err := w.call("node-2", "player", "take", ref); err != nil {
			t.Fatal(err)
		}

		w.split(true)
		parted := []string{"1-3", "2-3", "3-1", "3-2"}
		for _, name := range parted {
			clients[name].want(shield.RouteClose, "node_offline")
		}
		time.Sleep(20 * time.Second)
		if _, err := w.call("node-3", "player", "push", "1-3"); err != nil || w.nodes["node-3"].Totals()["pushes_lost"] != 1 {
			t.Errorf("a push over the cut: %v, counted %d", err, w.nodes["node-3"].Totals()["pushes_lost"])
		}

		w.split(false)
		healed := time.Now()
		w.eventually("everybody is online", func() bool { return w.all(shield.Online) })
		if d := time.Since(healed); d > 5*time.Second {
			t.Errorf("healed after %v, want 5 s", d)
		}
		want := map[string][]shield.NodeID{"1-1": {"node-1"}, "1-2": {"node-2"}, "2-1": {"node-1"}, "2-2": {"node-2"}, "3-3": {"node-3"}, "1-3": {"node-2"}}
		if got := w.owners(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("owners after the partition %v, want %v", got, want)
		}
		at := map[shield.SessionID]shield.NodeID{}
		for id, n := range w.nodes {
			for _, row := range n.Sessions() {
				if other, twice := at[row.Session]; twice || !strings.HasPrefix(string(row.Gateway), string(id)+":") {
					t.Errorf("session %s of %s is at %s and %q", row.Session, row.Gateway, id, other)
				}
				at[row.Session] = id
			}
		}
		if len(at) != len(want) {
			t.Errorf("%d sessions are left, want %d", len(at), len(want))
		}
		// Those that lost a session push to it once more.
		for _, tt := range []struct {
			node    shield.NodeID
			name    string
			gate    shield.NodeID
			refused string
		}{
			{"node-3", "2-3", "node-2", "egress_unknown_session"},
			{"node-1", "3-1", "node-3", "egress_unknown_session"},
			{"node-3", "1-3", "node-1", "egress_stale_epoch"},
		} {
			before := w.nodes[tt.gate].Gateways()[0].Counters[tt.refused]
			if _, err := w.call(tt.node, "player", "push", tt.name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if got := w.nodes[tt.gate].Gateways()[0].Counters[tt.refused]; got != before+1 {
				t.Errorf("%s pushed to %s, which it has lost: %s of %s went from %d to %d", tt.node, tt.name, tt.refused, tt.gate, before, got)
			}
		}
		for name, p := range clients {
			if !slices.Contains(parted, name) {
				p.send(1002, nil)
				p.want(2002, `{"t":"node-`+name[2:]+`"}`)
			}
		}
		moved.send(1002, nil)
		moved.want(2002, `{"t":"node-2"}`)
	})
}

// A5: nothing is left of the others but their addresses, and nobody waits for
// them.
func TestOneOfThreeServesAlone(t *testing.T) {
	onEdges(t, func(t *testing.T, w *world) {
		for _, n := range w.nodes {
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		clear(w.nodes)
		begin := time.Now()
		n := w.make(2, 3)
		if err := n.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.loginAt(2, 2)
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("it served after %v, want 5 s", d)
		}
		if _, err := w.call("node-2", "node-1:player", "mine"); shield.CodeOf(err) != shield.NodeNotFound {
			t.Errorf("a call to a ghost = %v", err)
		}
	})
}

// E2: whoever waits for a node hears of its end with the verdict, not at the
// deadline.
func TestWaitingCallsFailWithTheVerdict(t *testing.T) {
	onEdges(t, func(t *testing.T, w *world) {
		const n = 1000
		if _, err := w.call("node-1", "caller", "begin", "node-2:caller", n); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.net.Down(addrOf(2), true)
		w.eventually("node-2 is offline", func() bool { return w.sees("node-1", "node-2") == shield.Offline })
		verdict := time.Now()
		w.eventually("every call has ended", func() bool {
			got, err := w.call("node-1", "caller", "ended")
			return err == nil && got == fmt.Sprintf(`[{"node_offline":%d}]`, n)
		})
		if d := time.Since(verdict); d > 100*time.Millisecond {
			t.Errorf("the last call ended %v after the verdict, want 100 ms", d)
		}
		w.net.Down(addrOf(2), false)
	})
}

// E1: a call to what is not there says so at once, and what there is.
func TestUnknownTargetsAreNamedAtOnce(t *testing.T) {
	onEdges(t, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			target string
			code   shield.Code
			words  []string
		}{
			{"playr", shield.ServiceNotFound, []string{"playr", `did you mean "player"?`, "auth"}},
			{"node-2:playr", shield.ServiceNotFound, []string{"playr", "did you mean node-2:player?"}},
			{"node-22:player", shield.NodeNotFound, []string{"node-22", "did you mean node-2?", "node-3"}},
		} {
			begin := time.Now()
			_, err := w.call("node-1", tt.target, "mine")
			if shield.CodeOf(err) != tt.code || time.Since(begin) > 0 {
				t.Errorf("call %s = %v after %v, want %s", tt.target, err, time.Since(begin), tt.code)
				continue
			}
			for _, word := range tt.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("call %s = %q, want %q in it", tt.target, err, word)
				}
			}
		}
	})
}

// L2: an address that only this machine can dial is of no use to another.
func TestALoopbackAddressForRemotePeersIsTold(t *testing.T) {
	c := loadFiles(t, edges, 2)
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, c, edges, 1)
		defer w.stop()
		w.change = func(c *config.Config) { c.Cluster.Advertise = "127.0.0.1:9000" }
		if err := w.make(1, 2).Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		log := w.logs.String()
		for _, word := range []string{"level=WARN", "loopback", "set cluster.advertise", "127.0.0.1:9000", addrOf(2)} {
			if !strings.Contains(log, word) {
				t.Errorf("the log has no %q:\n%s", word, log)
			}
		}
	})
}

// K2: a discovery backend that takes connections and never answers keeps nobody
// from starting or stopping. It is real, and so is the time.
func TestStopWhileDiscoveryHangs(t *testing.T) {
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var held sync.Map
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := hole.Accept()
			if err != nil {
				return
			}
			held.Store(conn, nil)
		}
	})
	defer func() {
		hole.Close()
		wg.Wait()
		held.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
	}()
	c := loadFiles(t, edges, 1)
	w := newWorldOf(t, c, edges, 1)
	defer w.net.Close()
	w.change = func(c *config.Config) {
		c.Cluster.Discovery.Type, c.Cluster.Discovery.Host = "redis", "127.0.0.1"
		c.Cluster.Discovery.Port = hole.Addr().(*net.TCPAddr).Port
	}
	n := w.make(1, 1)
	begin := time.Now()
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.call("node-1", "player", "mine"); err != nil {
		t.Errorf("a call while discovery hangs: %v", err)
	}
	started := time.Now()
	if err := n.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
	// 2 s for the request that is under way, 1 s for taking the registration away.
	if a, b := started.Sub(begin), time.Since(started); a > 2*time.Second || b > 4*time.Second {
		t.Errorf("start took %v and stop %v, want 2 s and 4 s at most", a, b)
	}
}

// sees is how one node sees another.
func (w *world) sees(node, peer shield.NodeID) shield.NodeState {
	for _, row := range w.nodes[node].Nodes() {
		if row.Node == peer {
			return row.State
		}
	}
	return ""
}
