package cluster_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/transport"
	"shield/runtime/wire"
)

// pair makes nodes a and b, where b dials a, and lets change adjust them before
// they start.
func pair(t *testing.T, change func(w *world, a, b *testNode), check func(w *world, a, b *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a, b := w.make("a", 1), w.make("b", 2, 1)
		if change != nil {
			change(w, a, b)
		}
		for _, n := range []*testNode{a, b} {
			if err := n.start(); err != nil {
				t.Fatalf("start %s: %v", n.id, err)
			}
		}
		check(w, a, b)
	})
}

func TestAuth(t *testing.T) {
	const one, two = "the first secret", "the second secret"
	for _, tt := range []struct {
		name   string
		a, b   cluster.Auth
		joins  bool
		reason string
	}{
		{"none", cluster.Auth{}, cluster.Auth{}, true, ""},
		{"same token", cluster.Auth{Mode: wire.AuthToken, Token: one}, cluster.Auth{Mode: wire.AuthToken, Token: one}, true, ""},
		{"wrong token", cluster.Auth{Mode: wire.AuthToken, Token: one}, cluster.Auth{Mode: wire.AuthToken, Token: two}, false, "auth"},
		{"acceptor rotates first", cluster.Auth{Mode: wire.AuthToken, Token: two, Previous: one}, cluster.Auth{Mode: wire.AuthToken, Token: one}, true, ""},
		{"dialler rotates first", cluster.Auth{Mode: wire.AuthToken, Token: one}, cluster.Auth{Mode: wire.AuthToken, Token: two, Previous: one}, true, ""},
		{"both in rotation", cluster.Auth{Mode: wire.AuthToken, Token: two, Previous: one}, cluster.Auth{Mode: wire.AuthToken, Token: one, Previous: two}, true, ""},
		{"no downgrade by the acceptor", cluster.Auth{}, cluster.Auth{Mode: wire.AuthToken, Token: one}, false, "auth"},
		{"no downgrade by the dialler", cluster.Auth{Mode: wire.AuthToken, Token: one}, cluster.Auth{}, false, "auth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pair(t, func(_ *world, a, b *testNode) { a.cfg.Auth, b.cfg.Auth = tt.a, tt.b }, func(_ *world, a, b *testNode) {
				if tt.joins {
					a.wantStates(time.Second, "b online")
					b.wantStates(time.Second, "a online")
					return
				}
				time.Sleep(3 * time.Second)
				if got := b.sees("a"); got != "" {
					t.Errorf("b sees a %s", got)
				}
				for _, n := range []*testNode{a, b} {
					if got := n.c.Drops()["refused_"+tt.reason]; got == 0 {
						t.Errorf("%s counts no refusal: %v", n.id, n.c.Drops())
					}
					if !n.log.has("refusal=" + tt.reason) {
						t.Errorf("%s logs no refusal:\n%s", n.id, n.log)
					}
					if n.log.has(one) || n.log.has(two) {
						t.Errorf("%s logs a secret", n.id)
					}
					if len(n.events()) != 0 && !strings.Contains(n.events()[0], "connecting>offline") {
						t.Errorf("%s events %q", n.id, n.events())
					}
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(a, b *testNode)
		reason string
	}{
		{"cluster name", func(a, b *testNode) { b.cfg.Name = "other" }, "cluster_name"},
		{"clock of the dialler", func(a, b *testNode) {
			a.cfg.Auth.MaxClockSkew = time.Minute
			b.cfg.Wall = func() time.Time { return time.Now().Add(2 * time.Minute) }
		}, "clock"},
		{"clock of the acceptor", func(a, b *testNode) {
			b.cfg.Auth.MaxClockSkew = time.Minute
			a.cfg.Wall = func() time.Time { return time.Now().Add(2 * time.Minute) }
		}, "clock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pair(t, func(_ *world, a, b *testNode) { tt.change(a, b) }, func(_ *world, a, b *testNode) {
				time.Sleep(time.Second)
				for _, n := range []*testNode{a, b} {
					if n.c.Drops()["refused_"+tt.reason] == 0 || !n.log.has("refusal="+tt.reason) {
						t.Errorf("%s: %v\n%s", n.id, n.c.Drops(), n.log)
					}
				}
			})
		})
	}
}

func TestClocksTenMinutesApart(t *testing.T) {
	pair(t, func(_ *world, a, b *testNode) {
		b.cfg.Wall = func() time.Time { return time.Now().Add(10 * time.Minute) }
	}, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		time.Sleep(time.Minute)
		a.wantStates(0, "b online")
		row := a.c.Nodes()[1]
		if row.ClockSkew == nil || *row.ClockSkew < 599_000 || *row.ClockSkew > 601_000 {
			t.Errorf("skew shown: %v", row.ClockSkew)
		}
		if _, err := b.call(a, "echo", 100*time.Millisecond); err != nil {
			t.Error(err)
		}
	})
}

// A node that lists itself among its peers leaves that one out.
func TestSelfAmongPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		b := w.start("b", 2, 1)
		// One by where it listens, one by what it tells, and one that only the
		// handshake can know.
		a := w.make("a", 1, 1, 2, 8, 9)
		a.cfg.Advertise = addrOf(8)
		a.wrap = func(t cluster.Transport) cluster.Transport { return forwarded{t, addrOf(9), a.addr, 0} }
		if err := a.start(); err != nil {
			t.Fatal(err)
		}
		a.wantStates(time.Second, "b online")
		b.wantStates(time.Second, "a online")
		time.Sleep(20 * time.Second)
		if n := a.log.count("a configured peer is this node itself"); n != 1 || a.c.Drops()["refused_self"] != 2 {
			t.Errorf("%d lines, drops %v\n%s", n, a.c.Drops(), a.log)
		}
	})
}

// forwarded is a transport of which one address leads to another, and takes its
// time.
type forwarded struct {
	cluster.Transport
	from, to string
	takes    time.Duration
}

func (f forwarded) Dial(ctx context.Context, addr string) (cluster.Link, error) {
	if addr == f.from {
		addr = f.to
		time.Sleep(f.takes)
	}
	return f.Transport.Dial(ctx, addr)
}

// The handshake of another release: its version is refused on both sides, its
// features are not required.
func TestMixedReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.token = ""
		defer w.close()
		a := w.start("a", 1)
		old := w.stranger(2, "old")
		l := old.dial(t, a.addr)
		id := old.identity()
		id.Features = 0
		if ack := old.hello(t, l, wire.ClusterVersion, id); ack.Verdict.Reason != wire.Accepted {
			t.Fatalf("a peer without features: %+v", ack.Verdict)
		}
		old.fin(t, l)
		a.wantStates(time.Second, "old online")
		var got []wire.Kind
		l.Trust()
		a.c.Publish("x", 1)
		_ = l.Write(cluster.Data, wire.AppendRoutes(nil, id.Epoch, 1, nil))
		for range 2 {
			kind, _, err := l.Read(cluster.Data)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, kind)
		}
		if got[0] != wire.KindRoutes || got[1] != wire.KindRoutes {
			t.Errorf("without the feature a change came as %v, want whole tables", got)
		}
		l.Close("done")

		l = old.dial(t, a.addr)
		ack := old.hello(t, l, wire.ClusterVersion+1, old.identity())
		if ack.Verdict.Reason != wire.RefuseVersion {
			t.Errorf("a later version: %+v", ack.Verdict)
		}
		l.Close("done")
		time.Sleep(time.Second)
		if !a.log.has("refusal=version") {
			t.Errorf("no line of the refusal:\n%s", a.log)
		}
		if err := old.tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

const strangerEpoch = 7

// stranger is a hand-made peer that can break every rule.
type stranger struct {
	w    *world
	id   shield.NodeID
	addr string
	tr   *transport.Transport
}

func (w *world) stranger(host int, id shield.NodeID) *stranger {
	w.t.Helper()
	tr, err := transport.New(transport.Config{Conn: w.endpoint(addrOf(host)), Node: id})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ends = append(w.ends, tr.Close)
	return &stranger{w: w, id: id, addr: addrOf(host), tr: tr}
}

func (s *stranger) dial(t *testing.T, addr string) cluster.Link {
	t.Helper()
	l, err := s.tr.Dial(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s *stranger) identity() wire.Identity {
	id := wire.Identity{Cluster: "test", Node: s.id, Epoch: strangerEpoch, Address: s.addr, Features: wire.Features, Time: time.Now()}
	copy(id.Nonce[:], time.Now().String())
	return id
}

func (s *stranger) hello(t *testing.T, l cluster.Link, version uint16, id wire.Identity) *wire.HelloAck {
	t.Helper()
	if err := l.Write(cluster.Control, wire.AppendHello(nil, &wire.Hello{Version: version, Identity: id})); err != nil {
		t.Fatal(err)
	}
	kind, body, err := l.Read(cluster.Control)
	if err != nil || kind != wire.KindHelloAck {
		t.Fatalf("instead of hello_ack: %v, %v", kind, err)
	}
	ack, err := wire.DecodeHelloAck(body)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

func (s *stranger) fin(t *testing.T, l cluster.Link) {
	t.Helper()
	if err := l.Write(cluster.Control, wire.AppendHelloFin(nil, wire.AppendHelloFinUnsigned(nil, &wire.Verdict{}), [wire.ProofSize]byte{})); err != nil {
		t.Fatal(err)
	}
}

// join makes a trusted link by a whole handshake.
func (s *stranger) join(t *testing.T, addr string, id wire.Identity) cluster.Link {
	t.Helper()
	l := s.dial(t, addr)
	if ack := s.hello(t, l, wire.ClusterVersion, id); ack.Verdict.Reason != wire.Accepted {
		t.Fatalf("refused: %+v", ack.Verdict)
	}
	s.fin(t, l)
	l.Trust()
	return l
}
