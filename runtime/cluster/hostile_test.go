package cluster_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// hostile runs a stranger against node a while b, its honest peer, looks on.
func hostile(t *testing.T, attack func(t *testing.T, w *world, a *testNode, s *stranger)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.token = ""
		defer w.close()
		a := w.start("a", 1)
		b := w.start("b", 2, 1)
		a.wantStates(time.Second, "b online")
		s := w.stranger(66, "evil")
		attack(t, w, a, s)
		if _, err := b.call(a, "echo", 200*time.Millisecond); err != nil {
			t.Errorf("the honest peer is disturbed: %v", err)
		}
		if got := b.events(); len(got) != 1 {
			t.Errorf("the honest peer saw %q", got)
		}
		if err := s.tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

func cutOff(t *testing.T, l cluster.Link, limit time.Duration) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(limit):
		t.Errorf("not cut off within %v", limit)
		l.Close("test")
	}
}

func TestEnvelopeBeforeHandshake(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		l := s.dial(t, a.addr)
		e := &shield.Envelope{Source: shield.Handle{Node: "b"}, Target: shield.Handle{ID: 1}, Method: "steal", CallID: 5, Timeout: time.Second}
		if err := l.Write(cluster.Control, wire.AppendEnvelope(nil, e)); err != nil {
			t.Fatal(err)
		}
		kind, body, err := l.Read(cluster.Control)
		if err != nil || kind != wire.KindReply {
			t.Fatalf("answer %v, %v", kind, err)
		}
		r, err := wire.DecodeReply(body)
		if err != nil || r.CallID != 5 || r.Err == nil || r.Err.Code != shield.PeerNotAuthenticated {
			t.Errorf("reply %+v, %v", r, err)
		}
		cutOff(t, l, 2*time.Second)
		// On the data stream nothing is read at all.
		l = s.dial(t, a.addr)
		_ = l.Write(cluster.Data, wire.AppendEnvelope(nil, e))
		cutOff(t, l, 5*time.Second)
		if a.services().ran() != 0 {
			t.Error("a stranger's call ran")
		}
		if a.c.Drops()["peer_not_authenticated"] != 1 {
			t.Errorf("drops %v", a.c.Drops())
		}
	})
}

func TestIdentityMismatch(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		l := s.dial(t, a.addr)
		s.hello(t, l, wire.ClusterVersion, s.identity())
		s.fin(t, l)
		l.Trust()
		e := shield.Envelope{Source: shield.Handle{Node: "b"}, Target: shield.Handle{ID: 1}, Method: "steal"}
		_ = l.Write(cluster.Data, wire.AppendEnvelope(nil, &e))
		e.CallID, e.Timeout = 5, time.Second
		_ = l.Write(cluster.Data, wire.AppendEnvelope(nil, &e))
		for {
			kind, body, err := l.Read(cluster.Data)
			if err != nil {
				t.Fatal(err)
			}
			if kind != wire.KindReply {
				continue
			}
			if r, err := wire.DecodeReply(body); err != nil || r.Err == nil || r.Err.Code != shield.PeerIdentityMismatch {
				t.Errorf("reply %+v, %v", r, err)
			}
			break
		}
		if a.services().ran() != 0 || len(a.services().sent()) != 0 || a.c.Drops()["peer_identity_mismatch"] != 2 {
			t.Errorf("calls %d, sends %q, drops %v", a.services().ran(), a.services().sent(), a.c.Drops())
		}
		if !a.log.has("an envelope was refused") || !a.log.has("claimed=b") {
			t.Errorf("no line:\n%s", a.log)
		}
		l.Close("done")
	})
}

// A nonce that was used before, and another node's identity.
func TestReplayAndStolenIdentity(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		id := s.identity()
		l := s.dial(t, a.addr)
		s.hello(t, l, wire.ClusterVersion, id)
		l.Close("cut")
		l = s.dial(t, a.addr)
		if ack := s.hello(t, l, wire.ClusterVersion, id); ack.Verdict.Reason != wire.RefuseAuth || !strings.Contains(ack.Verdict.Text, "used before") {
			t.Errorf("a replayed hello: %+v", ack.Verdict)
		}
		l.Close("cut")
		id = s.identity()
		id.Node, id.Nonce[0] = "b", 99
		l = s.dial(t, a.addr)
		if ack := s.hello(t, l, wire.ClusterVersion, id); ack.Verdict.Reason != wire.RefuseDuplicate || !ack.Verdict.Live {
			t.Errorf("another node's identity: %+v", ack.Verdict)
		}
		l.Close("cut")
	})
}

func TestGarbage(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<30)
	for _, tt := range []struct {
		name   string
		joined bool
		stream cluster.Stream
		bytes  []byte
	}{
		{"oversize frame from a stranger", false, cluster.Control, append(huge, 1)},
		{"empty frame", false, cluster.Control, []byte{0, 0, 0, 0}},
		{"noise", false, cluster.Control, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"half a hello", false, cluster.Control, wire.AppendClusterFrame(nil, wire.KindHello, []byte{0, 2, 4, 't'})},
		{"oversize frame from a peer", true, cluster.Control, append(huge, 48)},
		{"unknown kind", true, cluster.Control, wire.AppendClusterFrame(nil, 200, nil)},
		{"a data frame on the control stream", true, cluster.Control, wire.AppendClusterFrame(nil, wire.KindEnvelope, nil)},
		{"a second hello", true, cluster.Control, wire.AppendClusterFrame(nil, wire.KindHello, nil)},
		{"a part of a table without its beginning", true, cluster.Control, badRoutes()},
		{"oversize data", true, cluster.Data, append(huge, 16)},
		{"unknown data", true, cluster.Data, wire.AppendClusterFrame(nil, 23, nil)},
		{"a heartbeat on the data stream", true, cluster.Data, wire.AppendHeartbeat(nil, &wire.Heartbeat{})},
		{"half an envelope", true, cluster.Data, wire.AppendClusterFrame(nil, wire.KindEnvelope, []byte{1, 2, 3})},
		{"a reply that is none", true, cluster.Data, wire.AppendClusterFrame(nil, wire.KindReply, []byte{1, 2})},
		{"half a change", true, cluster.Data, wire.AppendClusterFrame(nil, wire.KindRouteChange, make([]byte, 24))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
				l := s.dial(t, a.addr)
				line := "a connection was closed"
				if tt.joined {
					s.hello(t, l, wire.ClusterVersion, s.identity())
					s.fin(t, l)
					line = "a link was cut"
				}
				_ = l.Write(tt.stream, tt.bytes)
				cutOff(t, l, 4*time.Second)
				time.Sleep(time.Second)
				d := a.c.Drops()
				if d["garbage"]+d["handshakes_failed"]+d["peer_not_authenticated"] == 0 {
					t.Errorf("not counted: %v", d)
				}
				if !a.log.has(line) {
					t.Errorf("no line %q:\n%s", line, a.log)
				}
			})
		})
	}
}

func badRoutes() []byte {
	body := binary.BigEndian.AppendUint64(nil, strangerEpoch)
	body = binary.BigEndian.AppendUint64(body, 1)
	return wire.AppendClusterFrame(nil, wire.KindRoutes, append(body, 0, 0))
}

// Datagrams that are no QUIC cost nothing.
func TestGarbageDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1)
		b := w.start("b", 2, 1)
		a.wantStates(time.Second, "b online")
		noise := w.endpoint(addrOf(66))
		rng := rand.New(rand.NewPCG(1, 1))
		for range 5000 {
			p := make([]byte, 1+rng.IntN(1300))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			_, _ = noise.WriteTo(p, mustUDP(a.addr))
			time.Sleep(10 * time.Microsecond)
		}
		if _, err := b.call(a, "echo", 200*time.Millisecond); err != nil {
			t.Error(err)
		}
		if got := b.events(); len(got) != 1 {
			t.Errorf("b saw %q", got)
		}
		_ = noise.Close()
		if n := a.c.Drops()["stray_datagrams"]; n < 1000 {
			t.Errorf("%d of 5000 were counted", n)
		}
	})
}

// A thousand connections that never say anything take bounded memory and no
// place from a peer for long.
func TestThousandConnections(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		before := runtime.NumGoroutine()
		open := make(chan cluster.Link, 1000)
		errs := make(chan error, 1000)
		for range 1000 {
			go func() {
				l, err := s.tr.Dial(context.Background(), a.addr)
				if err == nil {
					open <- l
				}
				errs <- err
			}()
		}
		refused := 0
		for range 1000 {
			if err := <-errs; err != nil {
				refused++
			}
		}
		if refused < 800 {
			t.Errorf("only %d of 1000 silent connections were refused", refused)
		}
		time.Sleep(5 * time.Second)
		for len(open) > 0 {
			select {
			case <-(<-open).Done():
			default:
				t.Error("a silent connection is still open")
			}
		}
		for drop, line := range map[string]string{"strangers_turned_away": "connections were turned away", "strangers_silent": "they began no handshake"} {
			if n := a.log.count(line); n != int(min(a.c.Drops()[drop], 1)) {
				t.Errorf("%d lines %q, %d %s:\n%s", n, line, a.c.Drops()[drop], drop, a.log)
			}
		}
		if a.c.Drops()["strangers_silent"] == 0 {
			t.Error("not one silent connection was counted")
		}
		c := w.start("c", 3, 1)
		c.wantStates(time.Second, "a online")
		if n := runtime.NumGoroutine() - before; n > 300 {
			t.Errorf("%d goroutines more", n)
		}
		c.stop()
	})
}

// A peer that stops reading gets an error to its senders and takes nothing from
// others; its heartbeats go on.
func TestSlowReader(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		l := s.dial(t, a.addr)
		id := s.identity()
		s.hello(t, l, wire.ClusterVersion, id)
		s.fin(t, l)
		l.Trust()
		_ = l.Write(cluster.Data, wire.AppendRoutes(nil, id.Epoch, 1, nil))
		stop := make(chan struct{})
		go func() { // it lives, but reads no data
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					_ = l.Write(cluster.Control, wire.AppendHeartbeat(nil, &wire.Heartbeat{Version: 1}))
				}
			}
		}()
		defer close(stop)
		beats := make(chan struct{}, 1000)
		go func() {
			for {
				kind, _, err := l.Read(cluster.Control)
				if err != nil {
					return
				}
				if kind == wire.KindHeartbeat {
					beats <- struct{}{}
				}
			}
		}()
		a.c.Publish("x", 1)
		time.Sleep(time.Second)
		var err error
		big := make([]byte, 1<<20)
		sent := 0
		for ; sent < 100 && err == nil; sent++ {
			err = a.c.Send(&shield.Envelope{Target: shield.Handle{Node: "evil", Epoch: id.Epoch, ID: 1}, Method: "m", Args: big})
		}
		if !errors.Is(err, shield.MailboxFull) || sent > 40 {
			t.Fatalf("after %d MiB: %v", sent, err)
		}
		for len(beats) > 0 {
			<-beats
		}
		time.Sleep(20 * time.Second)
		if n := len(beats); n < 9 {
			t.Errorf("%d heartbeats passed the stuck stream in 20 s", n)
		}
		if got := a.sees("evil"); got != shield.Online {
			t.Errorf("a sees the slow reader %s", got)
		}
		l.Close("done")
	})
}

// A table of many names arrives whole, is repaired when a change was lost, and
// costs an idle heartbeat nothing.
func TestBigTable(t *testing.T) {
	pair(t, nil, func(w *world, a, b *testNode) {
		const n = 20_000
		for i := range n {
			a.c.Publish(shield.Name(fmt.Sprintf("room.%05d", i)), shield.ServiceID(i+1))
		}
		b.wantResolve(5*time.Second, "a", "room.19999", n)
		idle := func() int {
			time.Sleep(30 * time.Second)
			_, before := w.net.Traffic()
			time.Sleep(time.Minute)
			_, after := w.net.Traffic()
			return after - before
		}
		full := idle()
		c := w.start("c", 3, 1)
		c.wantResolve(time.Second, "a", "room.19999", n)
		c.stop()
		for i := range n {
			a.c.Withdraw(shield.Name(fmt.Sprintf("room.%05d", i)))
		}
		b.wantResolve(5*time.Second, "a", "room.19999", 0)
		empty := idle()
		if full > empty*11/10 {
			t.Errorf("an idle minute costs %d bytes with %d names, %d with none", full, n, empty)
		}
		t.Logf("an idle minute between two nodes: %d bytes", full)
	})
}

func TestLostChangeIsRepaired(t *testing.T) {
	pair(t, nil, func(w *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		// A change that does not follow what b has: as if one had been lost.
		frame := wire.AppendRouteChange(nil, &wire.RouteChange{Epoch: a.c.Epoch(), From: 70, To: 71, Routes: []wire.Route{{Name: "ghost", ID: 3}}})
		if err := a.c.LinkTo("b").Write(cluster.Data, frame); err != nil {
			t.Fatal(err)
		}
		// And a table of another epoch.
		stale := wire.AppendRoutes(nil, a.c.Epoch()-1, 99, []wire.Route{{Name: "stale", ID: 3}})
		if err := a.c.LinkTo("b").Write(cluster.Data, stale); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.wantResolve(10*time.Millisecond, "a", "ghost", 0)
		b.wantResolve(10*time.Millisecond, "a", "stale", 0)
		if n := b.c.Drops()["stale_tables"]; n != 2 {
			t.Errorf("stale tables: %d", n)
		}
		// Withdraw b's knowledge: an older whole table changes nothing, the
		// versions in the heartbeats bring the right one.
		a.c.Publish("x", 1)
		b.wantResolve(time.Second, "a", "x", 1)
	})
}

// One lost heartbeat is nothing.
func TestLossOnly(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.close()
			a, b := w.start("a", 1, 2), w.start("b", 2, 1)
			a.wantStates(time.Second, "b online")
			w.net.Faults(0.2, 0, 50*time.Millisecond)
			time.Sleep(5 * time.Minute)
			if got := append(a.events(), b.events()...); len(got) != 2 {
				t.Errorf("seed %d: with 20%% loss: %q", seed, got)
			}
		})
	}
}

// A hello that is never followed up is cut off, and its place is free again.
func TestEndlessHandshake(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		l := s.dial(t, a.addr)
		s.hello(t, l, wire.ClusterVersion, s.identity())
		cutOff(t, l, 4*time.Second)
		time.Sleep(time.Second)
		if got := a.sees("evil"); got != "" || !a.log.has("it did not finish its handshake") {
			t.Errorf("a sees the stranger %q, and logs\n%s", got, a.log)
		}
	})
}

// A peer that publishes without end is cut off.
func TestHugeTable(t *testing.T) {
	hostile(t, func(t *testing.T, w *world, a *testNode, s *stranger) {
		l := s.dial(t, a.addr)
		s.hello(t, l, wire.ClusterVersion, s.identity())
		s.fin(t, l)
		table := make([]wire.Route, wire.MaxRoutes+1)
		for i := range table {
			table[i] = wire.Route{Name: shield.Name(fmt.Sprint("n", i)), ID: 1}
		}
		if err := l.Write(cluster.Data, wire.AppendRoutes(nil, strangerEpoch, 1, table)); err != nil {
			t.Fatal(err)
		}
		cutOff(t, l, 10*time.Second)
		if !strings.Contains(l.Err().Error(), "too many names") {
			t.Errorf("reason: %v", l.Err())
		}
	})
}

// Somebody in the middle relays every frame of a handshake. The proofs are bound
// to their connection, so neither end takes the other's.
func TestRelayedProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1)
		middle := w.stranger(66, "middle")
		relayed := make(chan struct{})
		go func() {
			defer close(relayed)
			for range 3 {
				from, err := middle.tr.Accept(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				relay(from, middle.dial(t, a.addr))
			}
		}()
		b := w.start("b", 2, 66)
		<-relayed
		for _, n := range []*testNode{a, b} {
			if len(n.events()) != 0 || n.c.Drops()["refused_auth"] == 0 {
				t.Errorf("%s: events %q, drops %v", n.id, n.events(), n.c.Drops())
			}
		}
		b.stop()
		if err := middle.tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

// relay carries frames of the control stream between two links until one ends.
func relay(a, b cluster.Link) {
	var both sync.WaitGroup
	for _, ends := range [][2]cluster.Link{{a, b}, {b, a}} {
		both.Go(func() {
			for {
				kind, body, err := ends[0].Read(cluster.Control)
				if err != nil {
					ends[1].Close("the other end is gone")
					return
				}
				_ = ends[1].Write(cluster.Control, wire.AppendClusterFrame(nil, kind, body))
			}
		})
	}
	both.Wait()
}
