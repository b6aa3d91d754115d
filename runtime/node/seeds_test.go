package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

// races is three services, one on each node, that take, kick and push to each
// other's sessions. The gateway is on node-1.
var races = map[string]string{
	"shield.yaml": `
app: { name: races }
services:
  - { name: auth, script: auth.lua, nodes: [node-1] }
  - { name: racer, script: racer.lua }
gateways:
  - { name: main, nodes: [node-1], auth: auth, network: { tcp: "10.0.0.1:7001", max_per_ip: 10000, protocol: { body: { provider: json } } } }
`,
	"rpc.yaml": `
routes:
  - { id: 1001, name: login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: hello, dir: c2s, service: racer, handler: hello }
  - { id: 2001, name: welcome, dir: s2c }
  - { id: 2002, name: said, dir: s2c }
`,
	"auth.lua": `
local M = {}
function M.login(ctx, client, req)
  local to = req.node == shield.self():node() and shield.query("racer") or shield.cluster.query(req.node, "racer")
  assert(shield.client.bind(client, to, req.name))
end
return M
`,
	"racer.lua": `
local M = {}
local heard, last = {}, {}
local function hear(what, client)
  local ref = client:ref()
  heard[#heard + 1] = { what = what, session = client:session(), ref = tostring(ref) }
  if what == "bound" then last[client:player_id()] = ref end
end
function M.on_client_bound(client) hear("bound", client) end
function M.on_client_unbound(client) hear("unbound", client) end
function M.on_client_disconnected(client) hear("disconnected", client) end
function M.heard(ctx) return shield.array(heard) end
function M.last(ctx, name) return last[name] end
function M.push(ctx, ref) return shield.client_rpc.said(ref, { ref = tostring(ref) }) end
function M.kick(ctx, ref) local ok, err = shield.client.close(ref, "kicked") return ok end
function M.hello(ctx, client) hear("hello", client) M.push(ctx, client:ref()) end
function M.take(ctx, ref)
  local mine, err = shield.client.bind(ref, shield.self(), ref:player_id())
  if mine then
    M.push(ctx, ref) -- stale by now
    M.push(ctx, mine)
  end
  return mine or err.code
end
return M
`,
}

// Binds, rebinds, kicks, drops, pushes and frames race for sessions from three
// nodes, over a network that delays, loses and doubles packets. The oracle is on.
// One world takes a few seeds, one after the other.
func TestSeedsOfRacingSessions(t *testing.T) {
	c := loadFiles(t, races, 3)
	const perWorld = 20
	all := seedsOr(200)
	for first := uint64(0); first < all && !t.Failed(); first += perWorld {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, c, races, first)
			w.names = 1 // auth
			defer w.stop()
			w.start(3)
			for seed := first; seed < min(first+perWorld, all); seed++ {
				newSessionRace(w, seed).run()
				if t.Failed() {
					t.Fatalf("seed %d; again: go test ./runtime/node -run SeedsOfRacingSessions -count 20", seed)
				}
			}
			wantEpochs(t, w, int(min(perWorld, all-first)))
		})
	}
}

// sessionRace is what one seed decides for one session.
type sessionRace struct {
	w    *world
	seed uint64
	rng  *rand.Rand
	name string
	p    *player

	mu   sync.Mutex
	refs []shield.ClientRef // of every epoch, as far as they are known
}

func newSessionRace(w *world, seed uint64) *sessionRace {
	return &sessionRace{w: w, seed: seed, rng: rand.New(rand.NewPCG(seed, 11)), name: fmt.Sprint("racer-", seed)}
}

func (r *sessionRace) anyNode() shield.NodeID {
	return shield.NodeID(fmt.Sprint("node-", 1+r.rng.IntN(3)))
}

func (r *sessionRace) run() {
	w := r.w
	w.net.Faults(0.03*r.rng.Float64(), 0.03*r.rng.Float64(), time.Duration(r.rng.IntN(4000))*time.Microsecond)
	r.login()
	var wg sync.WaitGroup
	for range 8 + r.rng.IntN(12) {
		act, pause := r.act(), time.Duration(r.rng.IntN(20_000))*time.Microsecond
		wg.Go(func() {
			time.Sleep(pause) // virtual
			act()
		})
	}
	wg.Wait()
	r.p.conn.Close()
	w.net.Faults(0, 0, 0)
	time.Sleep(2 * time.Second) // for what is lost to be sent again
	r.check()
}

// login connects the client and binds its session to the racer of any node.
func (r *sessionRace) login() {
	w := r.w
	r.p = w.connectTo("node-1")
	home := r.anyNode()
	r.p.send(1001, map[string]any{"name": r.name, "node": home})
	w.eventually("the first bind is heard", func() bool {
		ref, ok, err := w.refFrom(home, "racer", "last", r.name)
		if ok {
			r.refs = append(r.refs, ref)
		}
		return ok || err != nil
	})
	if len(r.refs) == 0 {
		w.t.Fatalf("seed %d: no login", r.seed)
	}
}

// act chooses what one of the racers does. Everything may lose.
func (r *sessionRace) act() func() {
	node, pick := r.anyNode(), r.rng.IntN(1<<20)
	ref := func() shield.ClientRef {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.refs[len(r.refs)-1-pick%min(len(r.refs), 3)] // mostly a new one
	}
	call := func(method string) {
		with := ref()
		got, ok, err := r.w.refFrom(node, "racer", method, with)
		if err != nil {
			r.w.t.Errorf("seed %d: %s on %s: %v", r.seed, method, node, err)
		}
		if ok {
			if got.Epoch != with.Epoch+1 {
				r.w.t.Errorf("seed %d: a bind with epoch %d won and gave %d", r.seed, with.Epoch, got.Epoch)
			}
			r.mu.Lock()
			r.refs = append(r.refs, got)
			r.mu.Unlock()
		}
	}
	switch n := r.rng.IntN(100); {
	case n < 50:
		return func() { call("take") }
	case n < 70:
		return func() { call("push") }
	case n < 90:
		return func() { r.p.send(1002, nil) }
	case n < 96:
		return func() { call("kick") }
	default:
		return func() { r.p.conn.Close() }
	}
}

type heardEvent struct{ What, Session, Ref string }

// check asks the services and the client what they heard.
func (r *sessionRace) check() {
	t, w := r.w.t, r.w
	id := r.refs[0].Session
	bound, ends := map[string]string{}, []string{}
	last := r.refs[0].Epoch
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		heard := r.heardOn(node)
		for i, e := range heard {
			if e.Session != string(id) {
				continue
			}
			switch e.What {
			case "bound":
				if other, twice := bound[e.Ref]; twice {
					t.Errorf("seed %d: %s and %s are both bound to %s", r.seed, other, node, e.Ref)
				}
				bound[e.Ref] = node
				last = max(last, epochOf(e.Ref))
			case "hello":
				if !slices.ContainsFunc(heard[:i], func(b heardEvent) bool { return b.What == "bound" && b.Ref == e.Ref }) {
					t.Errorf("seed %d: %s got a frame of %s before it heard that it is bound", r.seed, node, e.Ref)
				}
			default:
				ends = append(ends, node+" "+e.Ref)
			}
		}
	}
	if len(bound) != int(last) {
		t.Errorf("seed %d: binds to %v, want one of each epoch to %d", r.seed, bound, last)
	}
	final := fmt.Sprintf("%s@%d %s", id, last, r.name)
	if want := []string{bound[final] + " " + final}; !slices.Equal(ends, want) {
		t.Errorf("seed %d: of the end heard %v, want %v", r.seed, ends, want)
	}
	at, closed := shield.SessionEpoch(0), false
	for f := range r.p.frames {
		if closed {
			t.Errorf("seed %d: client got %+v after the close frame", r.seed, f)
		}
		closed = f.route == shield.RouteClose
		if closed {
			continue
		}
		var said struct{ Ref string }
		if err := json.Unmarshal([]byte(f.body), &said); err != nil {
			t.Errorf("seed %d: client got %+v: %v", r.seed, f, err)
		}
		if e := epochOf(said.Ref); e < at {
			t.Errorf("seed %d: client got a push of epoch %d after one of %d", r.seed, e, at)
		} else {
			at = e
		}
	}
	if rows := w.sessions(); len(rows) != 0 {
		t.Errorf("seed %d: left over: %+v", r.seed, rows)
	}
}

// epochOf reads the epoch off a ref as Lua prints it: "s-1@3 ann".
func epochOf(ref string) (e shield.SessionEpoch) {
	_, digits, _ := strings.Cut(ref, "@")
	_, _ = fmt.Sscan(digits, &e) // 0 stands out where it is used
	return e
}
