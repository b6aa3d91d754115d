package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// What is too large for a frame is refused where it begins, with its own code,
// and the link lives on.
func TestTooLarge(t *testing.T) {
	const most = 15 << 20
	dialled(t, 1, func(_ *world, a, b *testNode) {
		h := shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}
		for _, tt := range []struct {
			name   string
			size   int
			method string
			want   shield.Code
		}{
			{"the largest arguments", most, "size", ""},
			{"a byte more", most + 1, "size", shield.MessageTooLarge},
			{"the largest result", 0, "large 0", ""},
			{"a byte more of result", 0, "large 1", shield.MessageTooLarge},
			{"no method", 0, "", shield.InvalidMethod},
			{"a long method", 0, strings.Repeat("m", wire.MaxMethod+1), shield.InvalidMethod},
		} {
			w := make(waiter, 1)
			_, err := a.c.Call(&shield.Envelope{Target: h, Method: tt.method, Args: make([]byte, tt.size), Timeout: time.Minute}, w)
			if err == nil {
				if r := <-w; r.err != nil {
					err = r.err
				}
			}
			if (err != nil) != (tt.want != "") || err != nil && !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
		}
		if err := a.c.Send(&shield.Envelope{Target: h, Method: "m", Args: make([]byte, most+1)}); !errors.Is(err, shield.MessageTooLarge) {
			t.Errorf("send: %v", err)
		}
		if err := a.c.SendFrame("b", wire.KindPush, make([]byte, most+1)); !errors.Is(err, shield.MessageTooLarge) {
			t.Errorf("frame: %v", err)
		}
		if got := append(a.events(), b.events()...); len(got) != 2 {
			t.Errorf("the link suffered: %q", got)
		}
	})
}

// The id of a call whose reply was lost is free again when its callee has
// certainly dropped the record.
func TestLostReplyFreesItsID(t *testing.T) {
	var silent narrow
	pair(t, func(_ *world, _, b *testNode) { b.wrap = silent.wrap }, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		silent.until(time.Now().Add(time.Minute))
		if _, err := a.call(b, "echo", time.Second); err != shield.Timeout {
			t.Fatalf("a call without an answer: %v", err)
		}
		if !b.log.has("a reply was dropped") || b.c.Drops()["link_queue_full"] == 0 {
			t.Errorf("the loss is not told: %v", b.c.Drops())
		}
		time.Sleep(50 * time.Second)
		if n := a.c.OpenCalls(); n != 1 {
			t.Errorf("%d ids are taken while the callee may still answer, want 1", n)
		}
		time.Sleep(15 * time.Second)
		if n := a.c.OpenCalls(); n != 0 {
			t.Errorf("%d ids are still taken", n)
		}
	})
}

// A change that got lost on the way is repaired by the heartbeats; a table that
// comes late changes nothing.
func TestTablesAreRepaired(t *testing.T) {
	var silent narrow
	pair(t, func(_ *world, a, _ *testNode) { a.wrap = silent.wrap }, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		a.c.Publish("before", 1)
		b.wantResolve(time.Second, "a", "before", 1)
		silent.until(time.Now().Add(time.Second))
		a.c.Publish("lost", 2)
		time.Sleep(time.Second)
		b.wantResolve(10*time.Millisecond, "a", "lost", 0)
		b.wantResolve(4*time.Second, "a", "lost", 2)
		if n := a.c.Drops()["tables_repaired"]; n != 1 {
			t.Errorf("%d repairs", n)
		}
		old := wire.AppendRoutes(nil, a.c.Epoch(), 2, []wire.Route{{Name: "before", ID: 1}})
		if err := a.c.LinkTo("b").Write(cluster.Control, old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		b.wantResolve(10*time.Millisecond, "a", "lost", 2)
	})
}

// dialTimes is a transport that notes when it dials.
type dialTimes struct {
	cluster.Transport
	mu sync.Mutex
	at []time.Time
}

func (d *dialTimes) Dial(ctx context.Context, addr string) (cluster.Link, error) {
	d.mu.Lock()
	d.at = append(d.at, time.Now())
	d.mu.Unlock()
	return d.Transport.Dial(ctx, addr)
}

func (d *dialTimes) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.at)
}

// A peer that comes up meets a fresh packet soon, however long it was away.
func TestRedials(t *testing.T) {
	times := &dialTimes{}
	pair(t, func(_ *world, a, _ *testNode) {
		a.cfg.Peers = []string{addrOf(9)}
		a.wrap = func(t cluster.Transport) cluster.Transport { times.Transport = t; return times }
	}, func(w *world, a, _ *testNode) {
		time.Sleep(2 * time.Minute)
		times.mu.Lock()
		at := times.at
		times.mu.Unlock()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d > 1100*time.Millisecond {
				t.Errorf("dial %d came %v after the one before", i, d)
			}
		}
		if n := len(at); n < 100 || n > 300 {
			t.Errorf("%d dials in two minutes", n)
		}
		c := w.start("c", 9)
		c.wantStates(time.Second, "a online")
	})
}

// Nodes that came and went for good are remembered, but not without end.
func TestTombstonesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("1034 nodes come and go")
	}
	const most, more = 1024, 10
	hostile(t, func(t *testing.T, _ *world, a *testNode, s *stranger) {
		name := func(i int) shield.NodeID { return shield.NodeID(fmt.Sprint("old-", i)) }
		for i := range most + more {
			id := s.identity()
			id.Node = name(i)
			l := s.join(t, a.addr, id)
			for a.sees(id.Node) != shield.Online {
				time.Sleep(time.Millisecond)
			}
			l.Close("it was short")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(65 * time.Second)
		if n := len(a.c.Nodes()); n != most+2 { // itself and the honest peer
			t.Errorf("%d rows, want %d", n, most+2)
		}
		for i, want := range map[int]shield.Code{0: shield.NodeNotFound, more - 1: shield.NodeNotFound, more: shield.NodeRemoved, most + more - 1: shield.NodeRemoved} {
			if _, err := a.c.Resolve(name(i), "x"); !errors.Is(err, want) {
				t.Errorf("Resolve on %s = %v, want %s", name(i), err, want)
			}
		}
	})
}
