package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

func TestUnknownTargets(t *testing.T) {
	pair(t, nil, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		b.c.Publish("room.public", 4)
		a.wantResolve(time.Second, "b", "room.public", 4)
		for _, tt := range []struct{ node, name, code, text string }{
			{"bb", "x", "node_not_found", "did you mean b?"},
			{"zzzzzzzz", "x", "node_not_found", "known: a, b"},
			{"b", "room.pubilc", "service_not_found", "did you mean b:room.public?"},
			{"b", "zzzzz", "service_not_found", "it has: room.public"},
		} {
			_, err := a.c.Resolve(shield.NodeID(tt.node), shield.Name(tt.name))
			if !errors.Is(err, shield.Code(tt.code)) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Resolve(%s, %s) = %v, want %s with %q", tt.node, tt.name, err, tt.code, tt.text)
			}
		}
	})
}

// Sends, calls, route changes and frames of one sender arrive in their order.
func TestOrder(t *testing.T) {
	pair(t, func(w *world, a, b *testNode) {
		w.net.Faults(0.05, 0.05, 20*time.Millisecond)
	}, func(_ *world, a, b *testNode) {
		a.wantStates(5*time.Second, "b online")
		var want []string
		for i := range 500 {
			m := fmt.Sprint("m", i)
			if err := a.c.Send(&shield.Envelope{Target: shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}, Method: m}); err != nil {
				t.Fatal(err)
			}
			want = append(want, m)
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if _, err := a.call(b, "last", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := b.services().sent(); !slices.Equal(got, want) {
			t.Errorf("got %d sends, out of order or incomplete", len(got))
		}
	})
}

func TestFrames(t *testing.T) {
	pair(t, nil, func(w *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		if err := a.c.SendFrame("b", wire.KindIngress, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := a.c.SendFrame("b", wire.KindEnvelope, nil); err == nil {
			t.Error("an envelope passed for a frame of a session")
		}
		// They pass a suspect in both directions.
		b.c.Pause(7 * time.Second)
		w.net.Down(b.addr, true)
		time.Sleep(6500 * time.Millisecond)
		a.wantStates(0, "b suspect")
		if err := a.c.SendFrame("b", wire.KindPush, []byte("late")); err != nil {
			t.Errorf("a frame to a suspect: %v", err)
		}
		w.net.Down(b.addr, false)
		a.wantStates(3*time.Second, "b online")
		time.Sleep(time.Second)
		if want := []string{"a ingress hello", "a push late"}; !slices.Equal(b.services().framed(), want) {
			t.Errorf("frames %q, want %q", b.services().framed(), want)
		}
	})
}

func TestCallsEndWhenTheNodeDoes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(w *world, a, b *testNode)
		limit time.Duration
	}{
		{"crash and restart", func(w *world, a, b *testNode) { b.crash(); b.again().start() }, time.Second},
		{"stop", func(w *world, a, b *testNode) { b.stop() }, 100 * time.Millisecond},
		{"silence", func(w *world, a, b *testNode) { w.cut(a, b, false) }, 11 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pair(t, func(_ *world, a, b *testNode) { a.cfg.Peers = []string{b.addr} }, func(w *world, a, b *testNode) {
				a.wantStates(time.Second, "b online")
				const n = 1000
				waiters := make(waiter, n+10)
				for range n {
					if _, err := a.c.Call(&shield.Envelope{Target: shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}, Method: "hold", Timeout: time.Minute}, waiters); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				begin := time.Now()
				tt.end(w, a, b)
				for i := range n {
					select {
					case r := <-waiters:
						if r.err == nil || r.err.Code != shield.NodeOffline {
							t.Fatalf("call %d ended with %v", i, r.err)
						}
					case <-time.After(time.Minute):
						t.Fatalf("%d calls still wait", n-i)
					}
				}
				if d := time.Since(begin); d > tt.limit {
					t.Errorf("the last call ended after %v, want %v", d, tt.limit)
				}
				time.Sleep(time.Minute)
				if len(waiters) != 0 {
					t.Errorf("%d calls ended twice", len(waiters))
				}
				if tt.name != "silence" && a.c.OpenCalls() != 0 {
					t.Errorf("%d ids are still taken", a.c.OpenCalls())
				}
			})
		})
	}
}

// A reply that comes after its caller gave up is counted and reaches nobody,
// however often the counter of ids wraps.
func TestLateRepliesWithWrappingIDs(t *testing.T) {
	pair(t, func(_ *world, a, b *testNode) {}, func(_ *world, a, b *testNode) {
		a.c.SetCallIDBits(4)
		a.wantStates(time.Second, "b online")
		for i := range 200 {
			if _, err := a.call(b, "slow 50ms", 10*time.Millisecond); err != shield.Timeout && !errors.Is(err, shield.PendingCallLimit) {
				t.Fatalf("slow call = %v", err)
			}
			arg := fmt.Sprint("echo", i)
			got, err := a.call(b, arg, time.Second)
			if errors.Is(err, shield.PendingCallLimit) {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			if got != "args of "+arg || err != nil {
				t.Fatalf("call %d = %q, %v", i, got, err)
			}
		}
		time.Sleep(time.Second)
		if n := a.c.Drops()["late_replies"]; n < 100 {
			t.Errorf("%d late replies counted", n)
		}
		if n := a.c.OpenCalls(); n != 0 {
			t.Errorf("%d ids are still taken", n)
		}
	})
}

// The counter of 16 bits that E5 asks for: 200 000 calls, each with its own
// answer.
func TestCallIDsOf16Bits(t *testing.T) {
	if testing.Short() {
		t.Skip("200 000 calls")
	}
	pair(t, nil, func(_ *world, a, b *testNode) {
		a.c.SetCallIDBits(16)
		a.wantStates(time.Second, "b online")
		const batch = 2000
		h := shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}
		for i := range 100 {
			var ws [batch]waiter
			for j := range ws {
				ws[j] = make(waiter, 1)
				method := "echo"
				if j%100 == 0 {
					method = "slow 100ms"
				}
				id, err := a.c.Call(&shield.Envelope{Target: h, Method: method, Args: fmt.Append(nil, i, j), Timeout: time.Second}, ws[j])
				if err != nil {
					t.Fatal(err)
				}
				if method != "echo" {
					a.c.Cancel(id)
				}
			}
			time.Sleep(10 * time.Millisecond)
			for j, w := range ws {
				if j%100 == 0 {
					if len(w) != 0 {
						t.Fatal("a cancelled call was answered")
					}
					continue
				}
				if r := <-w; string(r.result) != fmt.Sprint(i, j) {
					t.Fatalf("call %d %d got %q, %v", i, j, r.result, r.err)
				}
			}
		}
	})
}

func TestDeadlineOnArrival(t *testing.T) {
	pair(t, nil, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		h := shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}
		if _, err := a.c.Call(&shield.Envelope{Target: h, Method: "echo"}, make(waiter, 1)); !errors.Is(err, shield.Timeout) {
			t.Errorf("a call without time = %v", err)
		}
		frame := wire.AppendEnvelope(nil, &shield.Envelope{Source: shield.Handle{Node: "a"}, Target: h, Method: "echo", CallID: 99})
		if err := a.c.LinkTo("b").Write(cluster.Data, frame); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if b.services().ran() != 0 || b.c.Drops()["expired_on_arrival"] != 1 {
			t.Errorf("an expired call ran: %d, %v", b.services().ran(), b.c.Drops())
		}
	})
}

// The callee keeps the record of a call at most 30 s past its deadline, and then
// says so.
func TestRecordExpires(t *testing.T) {
	pair(t, nil, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		if _, err := a.call(b, "hold", time.Second); err != shield.Timeout {
			t.Fatal(err)
		}
		time.Sleep(28 * time.Second)
		if n := b.c.Drops()["call_records_expired"]; n != 0 {
			t.Errorf("expired too early: %d", n)
		}
		time.Sleep(4 * time.Second)
		if n := b.c.Drops()["call_records_expired"]; n != 1 {
			t.Errorf("%d records expired", n)
		}
		if a.c.OpenCalls() != 0 {
			t.Errorf("%d ids are taken", a.c.OpenCalls())
		}
		b.services().kept(0).Reply([]byte("much too late"), nil)
		time.Sleep(time.Second)
		if n := b.c.Drops()["replies_given_twice"]; n != 1 {
			t.Errorf("replies given twice: %d", n)
		}
	})
}

// What was written before a stop arrives, also over a bad network.
func TestLastWordsArrive(t *testing.T) {
	for seed := range uint64(20) {
		dialled(t, seed, func(w *world, a, b *testNode) {
			w.net.Faults(0.05, 0, 20*time.Millisecond)
			for i := range 200 {
				_ = a.c.Send(&shield.Envelope{Target: shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}, Method: fmt.Sprint(i), Args: make([]byte, 500)})
			}
			a.stop()
			if got := b.services().sent(); len(got) != 200 {
				t.Errorf("seed %d: %d of 200 sends arrived before the stop returned", seed, len(got))
			}
			b.wantStates(100*time.Millisecond, "a offline")
			if got := b.reasons("a", shield.Offline); len(got) != 1 || got[0] != "it left: stopping" {
				t.Errorf("reason %q", got)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	pair(t, nil, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		b.c.Publish("room", 7)
		a.wantResolve(time.Second, "b", "room", 7)
		b.c.Drain()
		a.wantResolve(20*time.Millisecond, "b", "room", 0)
		time.Sleep(10 * time.Millisecond) // the intent travels on the other stream
		if got := a.c.Published(func(shield.Name) bool { return true }); len(got) != 0 {
			t.Errorf("published by a draining node: %v", got)
		}
		if row := a.c.Nodes()[1]; row.Intent != shield.Draining || row.State != shield.Online {
			t.Errorf("row %+v", row)
		}
		if got, err := a.call(b, "echo", time.Second); got == "" {
			t.Errorf("a call by handle while draining: %v", err)
		}
		b.c.Publish("late", 8)
		time.Sleep(10 * time.Second)
		a.wantResolve(20*time.Millisecond, "b", "late", 0)
	})
}

// Close may come at any moment of a start.
func TestStopAnyMoment(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 20
	}
	for i := range n {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(i))
			defer w.close()
			w.start("a", 1)
			b := w.make("b", 2, 1, 9)
			b.cfg.Discovery = &slowDiscovery{}
			done := make(chan error, 1)
			stop := time.Duration(w.rng.Int64N(int64(30 * time.Millisecond)))
			if i%5 == 0 {
				stop = time.Duration(w.rng.Int64N(int64(3 * time.Second)))
			}
			b.prepare()
			go func() { done <- b.c.Start(context.Background()) }()
			time.Sleep(stop)
			begin := time.Now()
			_ = b.c.Close(context.Background())
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("close took %v", d)
			}
			<-done
		})
	}
}

// slowDiscovery is a backend that is down: every request ends with its context.
type slowDiscovery struct{}

func (slowDiscovery) Announce(ctx context.Context, _ cluster.Candidate) error {
	<-ctx.Done()
	return ctx.Err()
}
func (slowDiscovery) Scan(ctx context.Context) ([]cluster.Candidate, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
func (slowDiscovery) Withdraw(ctx context.Context, _ shield.NodeID) error {
	<-ctx.Done()
	return ctx.Err()
}
func (slowDiscovery) Close() error { return nil }
