package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// facing runs a node that dials a stranger who answers by hand: l is that link,
// after its hello.
func facing(t *testing.T, node string, test func(w *world, n *testNode, s *stranger, l cluster.Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.token = ""
		defer w.close()
		s := w.stranger(66, "peer")
		n, l, _ := s.dialledBy(t, node)
		test(w, n, s, l)
	})
}

// dialledBy starts a node that dials s, and gives their link after its hello.
func (s *stranger) dialledBy(t *testing.T, node string) (n *testNode, l cluster.Link, hello []byte) {
	t.Helper()
	n = s.w.make(node, 2, 66)
	n.cfg.Settle = -1
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	l, err := s.tr.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n, l, hear(t, l, cluster.Control, byte(wire.KindHello))
}

// accept answers a hello and gives the verdict of hello_fin.
func (s *stranger) accept(t *testing.T, l cluster.Link) wire.Verdict {
	t.Helper()
	ack := wire.AppendHelloAckUnsigned(nil, &wire.HelloAck{Version: wire.ClusterVersion, Identity: s.identity()})
	if err := l.Write(cluster.Control, wire.AppendHelloAck(nil, ack, nil)); err != nil {
		t.Fatal(err)
	}
	kind, body, err := l.Read(cluster.Control)
	if err != nil || kind != wire.KindHelloFin {
		t.Fatalf("instead of hello_fin: %v, %v", kind, err)
	}
	fin, err := wire.DecodeHelloFin(body)
	if err != nil {
		t.Fatal(err)
	}
	return fin.Verdict
}

// Of two dials at once that of the higher id is refused, by whichever end.
func TestTheHigherDialGivesWay(t *testing.T) {
	t.Run("by who accepts", func(t *testing.T) {
		facing(t, "a", func(_ *world, a *testNode, s *stranger, l cluster.Link) {
			second := s.dial(t, a.addr)
			if ack := s.hello(t, second, wire.ClusterVersion, s.identity()); ack.Verdict.Reason != wire.RefuseSimultaneous {
				t.Errorf("the dial of the higher id: %+v", ack.Verdict)
			}
			if v := s.accept(t, l); v.Reason != wire.Accepted {
				t.Errorf("the dial of the lower id: %+v", v)
			}
			a.wantStates(time.Second, "peer online")
		})
	})
	t.Run("by who dials", func(t *testing.T) {
		facing(t, "z", func(_ *world, z *testNode, s *stranger, l cluster.Link) {
			second := s.dial(t, z.addr)
			if ack := s.hello(t, second, wire.ClusterVersion, s.identity()); ack.Verdict.Reason != wire.Accepted {
				t.Errorf("the dial of the lower id: %+v", ack.Verdict)
			}
			if v := s.accept(t, l); v.Reason != wire.RefuseSimultaneous {
				t.Errorf("the dial of the higher id: %+v", v)
			}
			s.fin(t, second)
			z.wantStates(time.Second, "peer online")
		})
	})
}

// A handshake that was judged before a later start of the same node came and
// went is too late.
func TestAnEarlierStartIsTooLate(t *testing.T) {
	hostile(t, func(t *testing.T, _ *world, a *testNode, s *stranger) {
		slow := s.dial(t, a.addr)
		s.hello(t, slow, wire.ClusterVersion, s.identity())
		later := s.identity()
		later.Epoch, later.Nonce[0] = strangerEpoch+1, 99
		l := s.join(t, a.addr, later)
		a.wantStates(time.Second, "b online", "evil online")
		l.Close("it was short")
		a.wantStates(time.Second, "b online", "evil offline")
		s.fin(t, slow)
		cutOff(t, slow, time.Second)
		a.wantStates(0, "b online", "evil offline")
	})
}

// A node that is told of a later start of its id when it is long up can't take a
// higher epoch any more: others have seen this one.
func TestARunningNodeKeepsItsEpoch(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		b.crash()
		b2 := b.again()
		b2.cfg.Wall = func() time.Time { return time.Now().Add(-time.Hour) }
		if err := b2.start(); err != nil { // it dials nobody, so nobody tells it
			t.Fatal(err)
		}
		epoch := b2.c.Epoch()
		select {
		case <-b2.c.Done():
		case <-time.After(5 * time.Second):
		}
		var dup *cluster.DuplicateError
		if err := b2.c.Err(); !errors.As(err, &dup) || dup.Live || dup.HolderEpoch <= epoch || b2.c.Epoch() != epoch {
			t.Errorf("it ended with %v, its epoch is %v", err, b2.c.Epoch())
		}
	})
}

// Goodbye on the control stream stops new work; on the data stream it is the
// end, answered, and not waited for.
func TestGoodbye(t *testing.T) {
	hostile(t, func(t *testing.T, _ *world, a *testNode, s *stranger) {
		l := s.join(t, a.addr, s.identity())
		to := shield.Handle{Node: "evil", Epoch: strangerEpoch, ID: 1}
		a.wantStates(time.Second, "b online", "evil online")
		_ = l.Write(cluster.Control, wire.AppendGoodbye(nil, wire.KindGoodbye, "enough"))
		time.Sleep(100 * time.Millisecond)
		a.wantStates(0, "b online", "evil online")
		if err := a.c.Send(&shield.Envelope{Target: to, Method: "m"}); !errors.Is(err, shield.NodeOffline) {
			t.Errorf("send to a node that leaves: %v", err)
		}
		_ = l.Write(cluster.Data, wire.AppendGoodbye(nil, wire.KindGoodbye, "enough"))
		a.wantStates(100*time.Millisecond, "b online", "evil offline")
		if got := a.reasons("evil", shield.Offline); len(got) != 1 || got[0] != "it left: enough" {
			t.Errorf("reasons %q", got)
		}
		for kind := wire.Kind(0); kind != wire.KindGoodbyeAck; {
			var err error
			if kind, _, err = l.Read(cluster.Control); err != nil {
				t.Fatalf("no answer: %v", err)
			}
		}
		cutOff(t, l, 2500*time.Millisecond)
	})
}

// A stop does not wait for who does not answer.
func TestStopWithoutAnswers(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		w.cut(a, b, false)
		begin := time.Now()
		if err := a.c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		a.dead = true
		if d := time.Since(begin); d > 2100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// A tombstone has no link, and a handshake brings it back.
func TestRemovedHasNoLink(t *testing.T) {
	dialled(t, 1, func(w *world, a, b *testNode) {
		w.cut(a, b, false)
		time.Sleep(20 * time.Second)
		if n := a.c.Counters().Connections; n != 1 || a.sees("b") != shield.Offline {
			t.Errorf("%s with %d links; a verdict by time-out keeps it", a.sees("b"), n)
		}
		time.Sleep(60 * time.Second)
		if n := a.c.Counters().Connections; n != 0 || a.sees("b") != shield.Removed {
			t.Errorf("%s with %d links", a.sees("b"), n)
		}
		w.net.HealAll()
		a.wantStates(time.Second, "b online")
		b.wantStates(time.Second, "a online")
	})
}

// A reply counts only on the link that its call went out on, and the loss of one
// node ends no call to another.
func TestCallsBelongToTheirLink(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		b := w.nodes[1]
		l := s.join(t, a.addr, s.identity())
		a.wantStates(time.Second, "b online", "evil online")
		held := make(waiter, 2)
		if _, err := a.c.Call(&shield.Envelope{Target: shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}, Method: "hold", Timeout: time.Minute}, held); err != nil {
			t.Fatal(err)
		}
		for id := range uint64(20) {
			_ = l.Write(cluster.Data, wire.AppendReply(nil, &wire.Reply{CallID: id, Result: []byte("stolen")}))
		}
		time.Sleep(100 * time.Millisecond)
		if n := a.c.Drops()["late_replies"]; n != 20 {
			t.Errorf("%d of 20 stray replies were counted", n)
		}
		l.Close("gone")
		a.wantStates(time.Second, "b online", "evil offline")
		if len(held) != 0 {
			t.Fatalf("the call to b ended with %+v", <-held)
		}
		b.services().kept(0).Reply([]byte("mine"), nil)
		if r := <-held; string(r.result) != "mine" {
			t.Errorf("the call to b ended with %q, %v", r.result, r.err)
		}
	})
}
