package cluster_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// The handshakes of this file are made by hand from docs/wire.md, bytes and
// hashes included: what another implementation would do.

// words builds a body field by field.
type words []byte

func (b words) u8(v byte) words    { return append(b, v) }
func (b words) u16(v uint16) words { return binary.BigEndian.AppendUint16(b, v) }
func (b words) u32(v uint32) words { return binary.BigEndian.AppendUint32(b, v) }
func (b words) u64(v uint64) words { return binary.BigEndian.AppendUint64(b, v) }
func (b words) text(s string) words {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (b words) identity(node, addr string, features uint64) words {
	nonce := sha256.Sum256([]byte(time.Now().String()))
	b = b.text("test").text(node).u64(5).u32(4242).text(addr).u64(features).u8(1)
	return append(b, nonce[:]...).u64(uint64(time.Now().UnixMilli()))
}

func hash(key []byte, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}

// proof is that of docs/wire.md, with each part behind its length.
func (w *world) proof(purpose string, parts ...[]byte) []byte {
	message := words{}.u32(uint32(len(purpose)))
	message = append(message, purpose...)
	for _, p := range parts {
		message = append(message.u32(uint32(len(p))), p...)
	}
	return hash(hash([]byte(w.token), []byte("shield-cluster/2 key")), message)
}

func exporterOf(t *testing.T, l cluster.Link) []byte {
	t.Helper()
	e, err := l.Exporter("EXPORTER-shield-cluster-2")
	if err != nil || len(e) != 32 {
		t.Fatalf("exporter: %d bytes, %v", len(e), err)
	}
	return e
}

func say(t *testing.T, l cluster.Link, s cluster.Stream, kind byte, body []byte) {
	t.Helper()
	frame := words{}.u32(uint32(1 + len(body))).u8(kind)
	if err := l.Write(s, append(frame, body...)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, l cluster.Link, s cluster.Stream, kind byte) []byte {
	t.Helper()
	k, body, err := l.Read(s)
	if err != nil || byte(k) != kind {
		t.Fatalf("instead of kind %d: %v, %v", kind, k, err)
	}
	return bytes.Clone(body)
}

// A later release dials: it has features and fields that this one does not know.
func TestHandmadeDialler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1)
		s := w.stranger(66, "later")
		l := s.dial(t, a.addr)
		exporter := exporterOf(t, l)
		hello := words{}.u16(2).identity("later", s.addr, 1<<63|1).text("a field of a later release")
		say(t, l, cluster.Control, 1, hello)
		ack := hear(t, l, cluster.Control, 2)
		signed := 2 + (1 + 4) + (1 + 1) + 8 + 4 + (1 + len(a.addr)) + 8 + 1 + 32 + 8 + 1
		if len(ack) != signed+1+32 || ack[signed-1] != 0 || ack[signed] != 1 {
			t.Fatalf("hello_ack accepts without one proof: %x", ack)
		}
		if want := w.proof("shield-cluster/2 hello_ack", exporter, hello, ack[:signed]); !bytes.Equal(ack[signed+1:], want) {
			t.Errorf("its proof is %x, want %x", ack[signed+1:], want)
		}
		fin := words{}.u8(0)
		say(t, l, cluster.Control, 3, append(fin, w.proof("shield-cluster/2 hello_fin", exporter, hello, ack, fin)...))
		a.wantStates(time.Second, "later online")
		l.Trust()
		say(t, l, cluster.Data, 18, words{}.u64(5).u64(1).u8(3).u8(1).text("lobby").u8(9))
		a.wantResolve(time.Second, "later", "lobby", 9)
		hear(t, l, cluster.Control, 48)
		hear(t, l, cluster.Data, 18)
		a.c.Publish("x", 1)
		hear(t, l, cluster.Data, 19) // the feature that both have
	})
}

// It accepts, with two keys of which only the second is ours.
func TestHandmadeAcceptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		s := w.stranger(66, "later")
		b := w.make("b", 2, 66)
		started := make(chan error, 1)
		b.prepare()
		go func() { started <- b.c.Start(context.Background()) }()
		l, err := s.tr.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exporter := exporterOf(t, l)
		hello := hear(t, l, cluster.Control, 1)
		signed := words{}.u16(2).identity("later", s.addr, 0).u8(0)
		ack := append(bytes.Clone(signed), 2)
		ack = append(ack, make([]byte, 32)...)
		ack = append(ack, w.proof("shield-cluster/2 hello_ack", exporter, hello, signed)...)
		say(t, l, cluster.Control, 2, ack)
		fin := hear(t, l, cluster.Control, 3)
		if want := w.proof("shield-cluster/2 hello_fin", exporter, hello, ack, fin[:1]); fin[0] != 0 || !bytes.Equal(fin[1:], want) {
			t.Errorf("hello_fin %x, want the proof %x", fin, want)
		}
		l.Trust()
		say(t, l, cluster.Control, 50, make([]byte, 64)) // whatever comes first says that b is adopted
		if err := <-started; err != nil {
			t.Error(err)
		}
		b.wantStates(time.Second, "later online")
	})
}

// Who does not know the token gets in by neither end, whatever it claims.
func TestHandmadeWithoutTheToken(t *testing.T) {
	type parts struct{ exporter, hello, ack, fin []byte }
	for _, tt := range []struct {
		name  string
		prove func(w *world, p parts) []byte
	}{
		{"nothing", func(*world, parts) []byte { return make([]byte, 32) }},
		{"another token", func(w *world, p parts) []byte {
			w.token = "another"
			return w.proof("shield-cluster/2 hello_fin", p.exporter, p.hello, p.ack, p.fin)
		}},
		{"no token", func(w *world, p parts) []byte {
			w.token = ""
			return w.proof("shield-cluster/2 hello_fin", p.exporter, p.hello, p.ack, p.fin)
		}},
		{"the proof of the other end", func(_ *world, p parts) []byte { return p.ack[len(p.ack)-32:] }},
		{"that of another connection", func(w *world, p parts) []byte {
			return w.proof("shield-cluster/2 hello_fin", make([]byte, 32), p.hello, p.ack, p.fin)
		}},
		{"that of another hello", func(w *world, p parts) []byte {
			return w.proof("shield-cluster/2 hello_fin", p.exporter, p.hello[1:], p.ack, p.fin)
		}},
		{"that of another challenge", func(w *world, p parts) []byte {
			return w.proof("shield-cluster/2 hello_fin", p.exporter, p.hello, p.ack[1:], p.fin)
		}},
		{"that of another verdict", func(w *world, p parts) []byte {
			return w.proof("shield-cluster/2 hello_fin", p.exporter, p.hello, p.ack, []byte{1})
		}},
		{"that of another message", func(w *world, p parts) []byte {
			return w.proof("shield-cluster/2 hello_ack", p.exporter, p.hello, p.ack, p.fin)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			a := w.start("a", 1)
			s := w.stranger(66, "evil")
			l := s.dial(t, a.addr)
			p := parts{exporter: exporterOf(t, l), hello: words{}.u16(2).identity("evil", s.addr, 1), fin: []byte{0}}
			say(t, l, cluster.Control, 1, p.hello)
			p.ack = hear(t, l, cluster.Control, 2)
			say(t, l, cluster.Control, 3, append([]byte{0}, tt.prove(w, p)...))
			cutOff(t, l, time.Second)
			time.Sleep(time.Second)
			if len(a.events()) != 0 || a.c.Drops()["refused_auth"] != 1 || !a.log.has("refusal=auth") {
				t.Errorf("%s: events %q, drops %v\n%s", tt.name, a.events(), a.c.Drops(), a.log)
			}
		})
	}
	for _, tt := range []struct {
		name   string
		proofs int
	}{{"no proof", 0}, {"a wrong one", 1}, {"two wrong ones", 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			s := w.stranger(66, "evil")
			b, l, _ := s.dialledBy(t, "b")
			ack := words{}.u16(2).identity("evil", s.addr, 0).u8(0).u8(byte(tt.proofs))
			say(t, l, cluster.Control, 2, append(ack, make([]byte, 32*tt.proofs)...))
			if fin := hear(t, l, cluster.Control, 3); fin[0] != 3 {
				t.Errorf("%s: the verdict is %d, want auth", tt.name, fin[0])
			}
			time.Sleep(2 * time.Second)
			if len(b.events()) != 0 || b.c.Drops()["refused_auth"] != 1 || !b.log.has("refusal=auth") {
				t.Errorf("%s: events %q, drops %v\n%s", tt.name, b.events(), b.c.Drops(), b.log)
			}
		})
	}
}

// A node ends when it is told that its id is another's, but only by who has the
// token.
func TestHandmadeDuplicate(t *testing.T) {
	for _, knows := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			s := w.stranger(66, "other")
			prove := func(parts ...[]byte) []byte {
				if knows {
					return w.proof("shield-cluster/2 hello_fin", parts...)
				}
				return make([]byte, 32)
			}
			wantEnd := func(n *testNode) {
				t.Helper()
				time.Sleep(2 * time.Second)
				var dup *cluster.DuplicateError
				if errors.As(n.c.Err(), &dup) != knows {
					t.Errorf("told by one who has the token: %v; %s ended with %v", knows, n.id, n.c.Err())
				}
			}

			// Its own id dials, from an earlier start.
			a := w.start("a", 1)
			l := s.dial(t, a.addr)
			exporter, own := exporterOf(t, l), words{}.u16(2).identity("a", s.addr, 1)
			say(t, l, cluster.Control, 1, own)
			ack := hear(t, l, cluster.Control, 2)
			say(t, l, cluster.Control, 3, append([]byte{0}, prove(exporter, own, ack, []byte{0})...))
			wantEnd(a)

			// Who is dialled says that a live node has it.
			b, l, hello := s.dialledBy(t, "b")
			exporter = exporterOf(t, l)
			signed := words{}.u16(2).identity("other", s.addr, 1).u8(5).text("held").text("10.0.0.9:9000").u32(17).u64(1 << 62).u8(1)
			proof := make([]byte, 32)
			if knows {
				proof = w.proof("shield-cluster/2 hello_ack", exporter, hello, signed)
			}
			say(t, l, cluster.Control, 2, append(append(words{}, signed...).u8(1), proof...))
			wantEnd(b)
		})
	}
}

// What a dialling node refuses, and what it makes of nonsense.
func TestHostileAcceptor(t *testing.T) {
	good := func(id wire.Identity) []byte {
		return wire.AppendHelloAck(nil, wire.AppendHelloAckUnsigned(nil, &wire.HelloAck{Version: wire.ClusterVersion, Identity: id}), nil)
	}
	changed := func(change func(*wire.Identity)) func(wire.Identity) []byte {
		return func(id wire.Identity) []byte {
			change(&id)
			return good(id)
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(id wire.Identity) []byte
		log    string
	}{
		{"another version", func(id wire.Identity) []byte {
			return wire.AppendHelloAck(nil, wire.AppendHelloAckUnsigned(nil, &wire.HelloAck{Version: 3, Identity: id}), nil)
		}, "refusal=version"},
		{"another cluster", changed(func(id *wire.Identity) { id.Cluster = "other" }), "refusal=cluster_name"},
		{"another way to prove", changed(func(id *wire.Identity) { id.Auth = wire.AuthToken }), "refusal=auth"},
		{"another clock", changed(func(id *wire.Identity) { id.Time = id.Time.Add(time.Hour) }), "refusal=clock"},
		{"the id of a live node", changed(func(id *wire.Identity) { id.Node = "b" }), "refusal=duplicate_node_id"},
		{"the id of who dials", changed(func(id *wire.Identity) { id.Node = "a" }), "refusal=duplicate_node_id"},
		{"half an answer", func(id wire.Identity) []byte {
			return wire.AppendClusterFrame(nil, wire.KindHelloAck, good(id)[wire.ClusterHeader+1:40])
		}, "frame ends too early"},
		{"another frame", func(wire.Identity) []byte { return wire.AppendPing(nil, wire.KindPing, 1) }, "instead of hello_ack"},
		{"no answer", func(wire.Identity) []byte { return nil }, "it did not finish it within 3s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.token = ""
				defer w.close()
				s := w.stranger(66, "evil")
				var served sync.WaitGroup
				served.Go(func() { s.answer(tt.answer) })
				b := w.start("b", 2)
				a := w.make("a", 1, 2, 66)
				a.cfg.Auth.MaxClockSkew = time.Minute
				if err := a.start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if !a.log.has(tt.log) {
					t.Errorf("no %q in the log\n%s", tt.log, a.log)
				}
				if err := a.c.Err(); err != nil || a.sees("evil") != "" || a.sees("b") != shield.Online {
					t.Errorf("it ended with %v, or sees %+v", err, a.c.Nodes())
				}
				if got := b.events(); len(got) != 1 {
					t.Errorf("the honest peer saw %q", got)
				}
				if err := s.tr.Close(); err != nil {
					t.Error(err)
				}
				served.Wait()
			})
		})
	}
}

// answer takes every connection and answers each hello once.
func (s *stranger) answer(with func(wire.Identity) []byte) {
	for {
		l, err := s.tr.Accept(context.Background())
		if err != nil {
			return // the test is over
		}
		if _, _, err := l.Read(cluster.Control); err != nil {
			continue
		}
		time.Sleep(50 * time.Millisecond) // the honest peers are there before
		if frame := with(s.identity()); frame != nil {
			_ = l.Write(cluster.Control, frame)
		}
	}
}
