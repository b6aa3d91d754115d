package cluster_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		begin := time.Now()
		a := w.make("a", 1, 2, 3)
		b := w.make("b", 2, 1, 3)
		c := w.make("c", 3, 1, 2)
		var starts sync.WaitGroup
		for _, n := range []*testNode{a, b, c} {
			starts.Go(func() {
				if err := n.start(); err != nil {
					t.Errorf("start %s: %v", n.id, err)
				}
			})
			synctest.Wait()
		}
		starts.Wait()
		a.wantStates(time.Second, "b online", "c online")
		b.wantStates(time.Second, "a online", "c online")
		c.wantStates(time.Second, "a online", "b online")
		t.Logf("all online after %v", time.Since(begin))
		if d := time.Since(begin); d > 150*time.Millisecond {
			t.Errorf("all online after %v, want 150ms", d)
		}
		a.c.Publish("room", 7)
		b.wantResolve(50*time.Millisecond, "a", "room", 7)
		c.wantResolve(50*time.Millisecond, "a", "room", 7)
		if got, err := b.call(a, "echo", time.Second); got != "args of echo" || err != nil {
			t.Errorf("call = %q, %v", got, err)
		}
		if _, err := b.call(a, "fail", time.Second); !errors.Is(err, shield.HandlerError) || err.Error() != "handler_error: room.lua:3: boom" {
			t.Errorf("failing call = %v", err)
		}
		if n := a.c.Counters().Connections; n != 2 {
			t.Errorf("a has %d connections, want 2", n)
		}
	})
}

// One configured direction is enough, and the acceptor resolves as well.
func TestJoinOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1)
		b := w.start("b", 2, 1)
		a.c.Publish("x", 3)
		a.wantStates(100*time.Millisecond, "b online")
		b.wantStates(100*time.Millisecond, "a online")
		b.wantResolve(100*time.Millisecond, "a", "x", 3)
		if got, err := a.call(b, "echo", time.Second); got != "args of echo" || err != nil {
			t.Errorf("call = %q, %v", got, err)
		}
	})
}

func TestCrashAndRestart(t *testing.T) {
	for _, tt := range []struct {
		name           string
		aPeers, bPeers []int
		end            func(n *testNode)
	}{
		{"both dial", []int{2}, []int{1}, (*testNode).crash},
		{"survivor dials", []int{2}, nil, (*testNode).crash},
		{"restarted dials", nil, []int{1}, (*testNode).crash},
		{"survivor dials after a stop", []int{2}, nil, (*testNode).stop},
		{"restarted dials after a stop", nil, []int{1}, (*testNode).stop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.close()
				a := w.start("a", 1, tt.aPeers...)
				b := w.start("b", 2, tt.bPeers...)
				a.wantStates(time.Second, "b online")
				time.Sleep(4100*time.Millisecond - time.Since(w.begin)) // the next heartbeat is too late to tell of the restart
				first := b.c.Epoch()
				tt.end(b)
				time.Sleep(300 * time.Millisecond)
				b2 := b.again()
				begin := time.Now()
				if err := b2.start(); err != nil {
					t.Fatal(err)
				}
				b2.c.Publish("y", 9)
				a.wantResolve(time.Until(begin.Add(time.Second)), "b", "y", 9)
				b2.wantStates(10*time.Millisecond, "a online")
				if b2.c.Epoch() <= first {
					t.Errorf("epoch %v after %v", b2.c.Epoch(), first)
				}
				if _, err := a.call(b2, "echo", time.Second); err != nil {
					t.Errorf("call of its new life: %v", err)
				}
				if _, err := a.callHandle(shield.Handle{Node: "b", Epoch: first, ID: 7}, "echo", time.Second); !errors.Is(err, shield.ServiceDead) {
					t.Errorf("call of an old handle: %v, want service_dead", err)
				}
			})
		})
	}
}

// The last node standing serves without waiting for ghosts.
func TestStartAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		begin := time.Now()
		a := w.start("a", 1, 2, 3)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("start took %v", d)
		}
		a.wantStates(0, "10.0.0.2:9000 connecting", "10.0.0.3:9000 connecting")
		time.Sleep(11 * time.Second)
		a.wantStates(0, "10.0.0.2:9000 offline", "10.0.0.3:9000 offline")
		time.Sleep(2 * time.Minute)
		a.wantStates(0, "10.0.0.2:9000 removed", "10.0.0.3:9000 removed")
		if n := a.log.count("can't be reached"); n < 2 || n > 10 {
			t.Errorf("%d lines of two peers in two minutes", n)
		}
		b := w.start("b", 2)
		a.wantStates(time.Second, "10.0.0.3:9000 removed", "b online")
		b.wantStates(time.Second, "a online")
	})
}

func TestCrashedIsOffline(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		b.crash()
		time.Sleep(7 * time.Second)
		a.wantStates(0, "b suspect")
		if _, err := a.call(b, "echo", time.Second); !errors.Is(err, shield.NodeSuspect) {
			t.Errorf("call of a suspect: %v", err)
		}
		time.Sleep(4 * time.Second)
		a.wantStates(0, "b offline")
		if _, err := a.c.Resolve("b", "x"); !errors.Is(err, shield.NodeOffline) {
			t.Errorf("resolve on an offline node: %v", err)
		}
		time.Sleep(61 * time.Second)
		a.wantStates(0, "b removed")
		if _, err := a.c.Resolve("b", "x"); !errors.Is(err, shield.NodeRemoved) {
			t.Errorf("resolve on a removed node: %v", err)
		}
		if err := b.again().start(); err != nil {
			t.Fatal(err)
		}
		a.wantStates(time.Second, "b online")
	})
}

func TestCutAndHeal(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		b.c.Publish("x", 3)
		a.wantResolve(time.Second, "b", "x", 3)
		for _, d := range []time.Duration{3 * time.Second, 8 * time.Second, 30 * time.Second} {
			w.cut(a, b, false)
			time.Sleep(d)
			b.c.Publish("during", shield.ServiceID(d))
			w.net.HealAll()
			a.wantStates(2*time.Second+100*time.Millisecond, "b online")
			b.wantStates(2*time.Second+100*time.Millisecond, "a online")
			a.wantResolve(100*time.Millisecond, "b", "during", shield.ServiceID(d))
			if got, err := a.call(b, "echo", time.Second); got != "args of echo" {
				t.Errorf("call after %v of cut = %q, %v", d, got, err)
			}
		}
	})
}

// A node that crashes in the middle of a handshake, having acknowledged what it
// got, and restarts at once is not kept out by the half of it that is left.
func TestCrashInHandshake(t *testing.T) {
	for delay := range 30 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			a := w.make("a", 1, 2)
			a.cfg.Settle = -1
			b := w.start("b", 2)
			if err := a.start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(delay) * time.Millisecond / 2)
			b.crash()
			b2 := b.again()
			b2.cfg.Peers = []string{a.addr}
			if err := b2.start(); err != nil {
				t.Fatal(err)
			}
			a.wantStates(time.Second, "b online")
			b2.wantStates(10*time.Millisecond, "a online")
		})
	}
}

// A link that is dead for good, of which neither end hears, is replaced.
func TestDeadLinkIsReplaced(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		time.Sleep(3 * time.Second)
		w.net.Bury()
		time.Sleep(9 * time.Second)
		a.wantStates(4*time.Second, "b online")
		b.wantStates(time.Second, "a online")
		if got := a.reasons("b", shield.Offline); len(got) == 0 {
			t.Error("the silence was not noticed")
		}
		if _, err := a.call(b, "echo", time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		a.wantStates(0, "b online")
		if n := a.c.Counters(); n.Connections != 1 || n.Reconnects != 1 {
			t.Errorf("counters %+v", n)
		}
	})
}

func TestOneWayCut(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		w.cut(a, b, true)
		time.Sleep(9 * time.Second)
		b.wantStates(0, "a suspect")
		a.wantStates(0, "b suspect")
		time.Sleep(5 * time.Second)
		b.wantStates(0, "a offline")
		a.wantStates(0, "b offline")
		w.net.HealAll()
		a.wantStates(3*time.Second, "b online")
		b.wantStates(100*time.Millisecond, "a online")
	})
}

func TestDuplicateID(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, w *world, holder *testNode) error
	}{
		{"newcomer dials a third", func(t *testing.T, w *world, holder *testNode) error {
			return w.make("b", 3, 1).start()
		}},
		{"newcomer dials the holder", func(t *testing.T, w *world, holder *testNode) error {
			return w.make("b", 3, 2).start()
		}},
		{"the holder dials the newcomer", func(t *testing.T, w *world, holder *testNode) error {
			n := w.make("b", 4)
			if err := n.start(); err != nil {
				return err
			}
			time.Sleep(3 * time.Second)
			return n.c.Err()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.close()
				a := w.start("a", 1)
				b := w.start("b", 2, 1, 4)
				a.wantStates(time.Second, "b online")
				begin := time.Now()
				err := tt.run(t, w, b)
				var dup *cluster.DuplicateError
				if !errors.As(err, &dup) || !dup.Live || dup.HolderAddress != b.addr || dup.HolderPID == 0 || dup.Address == b.addr || dup.PID == 0 {
					t.Fatalf("start of a duplicate = %v", err)
				}
				if d := time.Since(begin); d > 4*time.Second {
					t.Errorf("refused after %v", d)
				}
				t.Log(err)
				time.Sleep(time.Minute)
				if got := a.events(); len(got) != 1 {
					t.Errorf("the others noticed: %q", got)
				}
				if b.c.Err() != nil {
					t.Errorf("the holder ended: %v", b.c.Err())
				}
				a.wantStates(0, "b online")
			})
		})
	}
}

// A peer is configured under a name that it does not know itself, and dials first:
// it is one node all the same.
func TestAnotherNameOfAPeer(t *testing.T) {
	pair(t, func(_ *world, a, b *testNode) {
		a.cfg.Peers, a.cfg.Settle = []string{addrOf(8)}, -1
		a.wrap = func(t cluster.Transport) cluster.Transport { return forwarded{t, addrOf(8), b.addr, time.Second} }
	}, func(_ *world, a, b *testNode) {
		a.wantStates(2*time.Second, "b online")
		time.Sleep(time.Minute)
		a.wantStates(0, "b online")
		if got := append(a.events(), b.events()...); len(got) != 2 {
			t.Errorf("events %q", got)
		}
	})
}

// A holder that does not answer a ping gives its id up.
func TestDeadHolderIsReplaced(t *testing.T) {
	pair(t, nil, func(w *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		first := b.c.Epoch()
		w.net.Down(b.addr, true)
		time.Sleep(time.Millisecond)
		b2 := w.make("b", 3, 1)
		begin := time.Now()
		if err := b2.start(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("start took %v", d)
		}
		a.wantStates(600*time.Millisecond, "b online")
		if got := a.c.Nodes()[1]; got.Epoch != b2.c.Epoch() || got.Epoch <= first || got.Address != b2.addr {
			t.Errorf("a sees %+v", got)
		}
		// The old holder comes back, and ends when it is told.
		w.net.Down(b.addr, false)
		time.Sleep(5 * time.Second)
		var dup *cluster.DuplicateError
		if !errors.As(b.c.Err(), &dup) {
			t.Errorf("the old holder: %v", b.c.Err())
		}
		a.wantStates(0, "b online")
	})
}

func TestEpochRisesWhenTheClockWentBack(t *testing.T) {
	dialled(t, 1, func(_ *world, a, b *testNode) {
		first := b.c.Epoch()
		b.crash()
		b2 := b.again()
		b2.cfg.Peers = []string{a.addr}
		b2.cfg.Wall = func() time.Time { return time.Now().Add(-time.Hour) }
		if err := b2.start(); err != nil {
			t.Fatal(err)
		}
		if got := b2.c.Epoch(); got != first+1 {
			t.Errorf("epoch %v, want %v", got, first+1)
		}
		a.wantStates(time.Second, "b online")
	})
}

func TestSimultaneousDials(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.close()
			w.net.Faults(0, 0, 10*time.Millisecond)
			a := w.make("a", 1, 2)
			b := w.make("b", 2, 1)
			errs := make(chan error, 2)
			go func() { errs <- a.start() }()
			synctest.Wait()
			go func() { errs <- b.start() }()
			for range 2 {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
			a.wantStates(time.Second, "b online")
			b.wantStates(time.Second, "a online")
			time.Sleep(30 * time.Second)
			for _, n := range []*testNode{a, b} {
				if got := n.events(); len(got) != 1 {
					t.Errorf("seed %d: %s saw %q\n%s", seed, n.id, got, n.log)
				}
				if got := n.c.Counters().Connections; got != 1 {
					t.Errorf("seed %d: %s has %d connections", seed, n.id, got)
				}
			}
		})
	}
}

// What a start has to say about its configuration.
func TestWarningsAtStart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *testNode)
		want   string
	}{
		{"no authentication", func(n *testNode) { n.cfg.Auth = cluster.Auth{} }, "cluster.auth is none"},
		{"loopback told to remote peers", func(n *testNode) { n.cfg.Advertise = "127.0.0.1:9000" }, "set cluster.advertise"},
		{"nothing", func(n *testNode) {}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			n := w.make("a", 1, 2)
			tt.change(n)
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
			if got := n.log.has("level=WARN"); got != (tt.want != "") || !n.log.has(tt.want) {
				t.Errorf("%s: the log says\n%s", tt.name, n.log)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		good := w.start("a", 1)
		for _, tt := range []struct {
			name   string
			change func(c *cluster.Config)
			want   string
		}{
			{"heartbeat too fast", func(c *cluster.Config) { c.Heartbeat = 49 * time.Millisecond }, "less than 50 ms"},
			{"heartbeat above suspect", func(c *cluster.Config) { c.Heartbeat = 7 * time.Second }, "must rise"},
			{"suspect above offline", func(c *cluster.Config) { c.Suspect = 11 * time.Second }, "must rise"},
			{"a colon in the id", func(c *cluster.Config) { c.Node = "a:b" }, "cluster.node_id"},
			{"no token", func(c *cluster.Config) { c.Auth = cluster.Auth{Mode: wire.AuthToken} }, "token is empty"},
			{"mtls", func(c *cluster.Config) { c.Auth = cluster.Auth{Mode: wire.AuthMTLS} }, "not built yet"},
			{"no transport", func(c *cluster.Config) { c.Transport = nil }, "Transport"},
		} {
			cfg := good.cfg
			tt.change(&cfg)
			if _, err := cluster.New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: New = %v, want %q", tt.name, err, tt.want)
			}
		}
	})
}
