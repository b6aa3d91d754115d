package gateway

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"shield/runtime/shield"
)

// Seeds fix what is tried, not how goroutines interleave.
var seeds = flag.Uint64("seeds", 200, "how many seeds the races run")

// Binds, kicks, drops, pushes and frames race for one session; the oracle of the
// rig watches every step.
func TestRacesKeepThePromises(t *testing.T) {
	r := newRig(t, pipe, nil)
	for seed := range *seeds {
		raceOnce(t, r, seed)
	}
}

func raceOnce(t *testing.T, r *rig, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := r.dial()
	ref := r.enter(b)
	var wg sync.WaitGroup
	var won atomic.Int64
	go func() { // the client reads whatever comes
		for {
			if _, _, err := b.recv(); err != nil {
				return
			}
		}
	}()
	racers := []func(i int){
		func(i int) {
			bound, err := r.Bind(ref, shield.Handle{Node: "n1", Epoch: 1, ID: shield.ServiceID(10 + i)}, fmt.Sprint(i))
			switch {
			case err == nil:
				won.Add(1)
				r.Push(&shield.Push{Client: bound, Route: rLoginOK})
				_, _ = r.Bind(bound, players, "again") // may lose against a kick
			case !errors.Is(err, shield.RPCEpochExpired) && !errors.Is(err, shield.SessionClosed):
				t.Errorf("seed %d: Bind = %v", seed, err)
			}
		},
		func(int) { r.Push(&shield.Push{Client: ref, Route: rPos}) },
		func(int) { _, _ = b.conn.Write([]byte{0, 0, 0, 100, 0, 0, 0, 1, 'x'}) }, // may be closed already
	}
	ends := []func(){
		func() { _ = r.CloseSession(ref, "") }, // may come second
		func() { b.conn.Close() },
		func() { r.TargetGone(players, shield.ServiceDead) },
		func() { r.TargetGone(authSvc, shield.ServiceDead) },
	}
	for i := range 8 {
		f := racers[rng.IntN(len(racers))]
		wg.Go(func() { f(i) })
	}
	for range 1 + rng.IntN(3) {
		wg.Go(ends[rng.IntN(len(ends))])
	}
	wg.Wait()
	b.conn.Close()
	r.gone()

	if n := won.Load(); n > 1 {
		t.Errorf("seed %d: %d binds at one epoch won", seed, n)
	}
	over := 0
	for _, k := range r.router.kinds(ref.Session) {
		if k == "on_client_unbound" || k == "on_client_disconnected" {
			over++
		}
	}
	if over > 1 {
		t.Errorf("seed %d: the targets heard %v", seed, r.router.kinds(ref.Session))
	}
}

// Every push is written, refused or lost, and counted as that, however its session
// ends: the client leaves, reads too slowly, is kicked, or its target dies.
func TestEveryPushIsAccountedFor(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, func(c *Config) { c.Limits.SendQueue, c.Limits.CloseTimeout = 100, 50*time.Millisecond })
		var pushed atomic.Int64
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 6))
			b := r.dial()
			ref := r.login(b, "ada")
			reads, body := rng.IntN(400), make([]byte, rng.IntN(4000))
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for range 200 {
						r.Push(&shield.Push{Client: ref, Route: rPos, Body: body})
						pushed.Add(1)
					}
				})
			}
			for range reads {
				if _, _, err := b.recv(); err != nil {
					break
				}
			}
			switch seed % 4 {
			case 0:
				_ = r.CloseSession(ref, "") // may be over: it read too slowly
			case 1:
				r.TargetGone(players, shield.ServiceDead)
			}
			b.conn.Close()
			wg.Wait()
		}
		r.close() // waits for whoever writes
		n := r.Counters()
		told := n[cFramesOut] + n[cOutLost]
		for _, refused := range []string{cOutSession, cOutEpoch, cOutOwner, cOutRoute, cOutDirection, cOutSize, cOutQueue} {
			told += n[refused]
		}
		if told != pushed.Load() {
			t.Errorf("of %d pushes the counters tell %d: %v", pushed.Load(), told, n)
		}
	})
}

// 100 logins race for one session: one wins, the others are told.
func TestOneOfManyBindsWins(t *testing.T) {
	r := newRig(t, TCP, nil)
	b := r.dial()
	ref := r.enter(b)
	var wg sync.WaitGroup
	var won, lost atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			_, err := r.Bind(ref, players, fmt.Sprint(i))
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, shield.RPCEpochExpired):
				lost.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 99 {
		t.Errorf("%d binds won and %d lost, want 1 and 99", won.Load(), lost.Load())
	}
	r.wantCount(cBindsLost, 99)
	r.wantCount(cBinds, 1)
}

// The new target hears bound before its first frame, whatever the client sends
// meanwhile; frames read before the bind go to the old target.
func TestBoundComesBeforeFrames(t *testing.T) {
	r := newRig(t, TCP, nil)
	for range 10 {
		b := r.dial()
		ref := r.enter(b)
		var wg sync.WaitGroup
		wg.Go(func() {
			frame, _ := b.f.Append(nil, rLogin, []byte("more"))
			for range 200 {
				if _, err := b.conn.Write(frame); err != nil {
					t.Error(err)
				}
			}
		})
		if _, err := r.Bind(ref, players, "ada"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		b.send(rLogin, "the last")
		r.router.wait(t, "the last frame", func(e event) bool { return e.ref.Session == ref.Session && e.body == "the last" })
		b.conn.Close()
		bound := false
		for _, e := range r.router.list() {
			if e.ref.Session != ref.Session {
				continue
			}
			bound = bound || e.kind == "on_client_bound"
			if e.kind == "frame" && (e.target == players) != (e.ref.Epoch == 1) {
				t.Fatalf("frame of epoch %d went to %s", e.ref.Epoch, e.target)
			}
			if e.kind == "frame" && e.target == players && !bound {
				t.Fatal("the new target got a frame before it heard of the session")
			}
		}
		r.router.mu.Lock()
		r.router.events = nil
		r.router.mu.Unlock()
	}
}

// A handler that pushes, binds or kicks while it holds up the reading goroutine
// does not deadlock.
func TestRouterMayCallBack(t *testing.T) {
	r := newRig(t, TCP, nil)
	r.router.onFrame = func(g *Gateway, in *shield.Ingress) {
		bound, err := g.Bind(in.Client, players, "ada")
		if err != nil {
			t.Error(err)
		}
		g.Push(&shield.Push{Client: bound, Route: rLoginOK, Body: []byte("hi")})
		if err := g.CloseSession(bound, "done"); err != nil {
			t.Error(err)
		}
	}
	b := r.dial()
	b.send(rLogin, "x")
	b.want(rLoginOK, "hi")
	b.wantClose("done")
	r.gone()
	e := r.router.list()
	var kinds []string
	for _, x := range e {
		kinds = append(kinds, x.kind)
	}
	if diff := cmp.Diff([]string{"frame", "on_client_bound", "on_client_unbound"}, kinds); diff != "" {
		t.Errorf("the services heard (-want +got):\n%s", diff)
	}
}

// Close may come at any moment of Start, and of a client's arrival.
func TestCloseAtAnyMoment(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		for range 20 {
			// On a pipe a farewell and a client's write wait for each other.
			r := newRig(t, transport, func(c *Config) { c.Limits.CloseTimeout = 20 * time.Millisecond })
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if conn, err := r.dialConn(); err == nil {
						_, _ = conn.Write([]byte{0, 0, 0, 100, 0, 0, 0, 0}) // may be closed already
						conn.Close()
					}
				})
			}
			wg.Go(r.close)
			wg.Wait()
			if n := r.Count(); n != 0 {
				t.Fatalf("%d sessions are left after Close", n)
			}
		}
	})
	for range 20 {
		l := newPipes()
		g, err := New(Config{ID: "n1:main", Auth: "auth", Router: &fakeRouter{}, Listeners: []Listener{{Transport: TCP, Net: l}}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.Start() }) // refused when Close was first
		wg.Go(func() {
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	}
}

func TestWhomAConnectionCountsFor(t *testing.T) {
	for _, tt := range []struct{ addr, want string }{
		{"192.0.2.7:1", "192.0.2.7"},
		{"[::ffff:192.0.2.7]:1", "192.0.2.7"},
		{"[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::]:1", "2001:db8:1:2::/64"},
	} {
		a, err := net.ResolveTCPAddr("tcp", tt.addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := ipOf(a); got != tt.want {
			t.Errorf("ipOf(%s) = %s, want %s", tt.addr, got, tt.want)
		}
	}
	if got := ipOf(&net.UnixAddr{Name: "pipe"}); got != "pipe" {
		t.Errorf("ipOf(pipe) = %s", got)
	}
}
