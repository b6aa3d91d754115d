package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

var updateVectors = flag.Bool("update-cluster-vectors", false, "rewrite testdata/cluster_*.hex")

func sampleIdentity(node shield.NodeID) Identity {
	id := Identity{Cluster: "mygame", Node: node, Epoch: 1764457653123456789, PID: 4242, Address: "10.0.0.1:9000",
		Features: FeatureRouteChange, Auth: AuthToken, Time: time.UnixMilli(1764457653123).UTC()}
	for i := range id.Nonce {
		id.Nonce[i] = byte(i)
	}
	return id
}

func sampleProof(first byte) (p [ProofSize]byte) {
	for i := range p {
		p[i] = first + byte(i)
	}
	return p
}

var sampleClient = shield.ClientRef{Gateway: "node-1:main", Session: "s-1", Epoch: 3, Player: "ann", Profile: "game.v1/json"}
var sampleTarget = shield.Handle{Node: "node-2", Epoch: 77, ID: 12}

// vectors are frames whose bytes are pinned in testdata: another implementation
// can check itself against them.
var vectors = []struct {
	name  string
	frame []byte
	want  any // what the body decodes to
}{
	{"hello", AppendHello(nil, &Hello{Version: 2, Identity: sampleIdentity("node-1")}), &Hello{Version: 2, Identity: sampleIdentity("node-1")}},
	{"hello_ack", AppendHelloAck(nil, AppendHelloAckUnsigned(nil, &HelloAck{Version: 2, Identity: sampleIdentity("node-2")}), [][ProofSize]byte{sampleProof(1), sampleProof(100)}),
		&HelloAck{Version: 2, Identity: sampleIdentity("node-2"), Proofs: [][ProofSize]byte{sampleProof(1), sampleProof(100)}, Signed: 92}},
	{"hello_ack_refused", AppendHelloAck(nil, AppendHelloAckUnsigned(nil, &HelloAck{Version: 2, Identity: sampleIdentity("node-2"), Verdict: sampleVerdict}), nil),
		&HelloAck{Version: 2, Identity: sampleIdentity("node-2"), Verdict: sampleVerdict, Signed: 124}},
	{"hello_fin", AppendHelloFin(nil, AppendHelloFinUnsigned(nil, &Verdict{}), sampleProof(7)), &HelloFin{Proof: sampleProof(7), Signed: 1}},
	{"envelope_call", AppendEnvelope(nil, &shield.Envelope{Source: shield.Handle{Node: "node-1", ID: 7}, Target: shield.Handle{ID: 300}, Method: "ping", Args: []byte{0x91, 0x01}, CallID: 258, Timeout: 5 * time.Second, Trace: 0xabcdef}),
		&shield.Envelope{Source: shield.Handle{Node: "node-1", ID: 7}, Target: shield.Handle{ID: 300}, Method: "ping", Args: []byte{0x91, 0x01}, CallID: 258, Timeout: 5 * time.Second, Trace: 0xabcdef}},
	{"envelope_send", AppendEnvelope(nil, &shield.Envelope{Source: shield.Handle{Node: "node-1"}, Target: shield.Handle{ID: 1}, Method: "tick", Args: []byte{0x90}}),
		&shield.Envelope{Source: shield.Handle{Node: "node-1"}, Target: shield.Handle{ID: 1}, Method: "tick", Args: []byte{0x90}}},
	{"reply_ok", AppendReply(nil, &Reply{CallID: 258, Result: []byte{0x91, 0xa4, 'p', 'o', 'n', 'g'}}), Reply{CallID: 258, Result: []byte{0x91, 0xa4, 'p', 'o', 'n', 'g'}}},
	{"reply_error", AppendReply(nil, &Reply{CallID: 9, Err: &shield.Error{Code: shield.HandlerError, Message: "boom", Detail: "traceback"}}),
		Reply{CallID: 9, Err: &shield.Error{Code: shield.HandlerError, Message: "boom", Detail: "traceback"}}},
	{"reply_unknown_code", AppendReply(nil, &Reply{CallID: 9, Err: &shield.Error{Code: "from_the_future", Message: "x", RetryOverride: new(true)}}),
		Reply{CallID: 9, Err: &shield.Error{Code: "from_the_future", Message: "x", RetryOverride: new(true)}}},
	{"routes", AppendRoutes(nil, 77, 5, []Route{{"players", 2}, {"room.public", 300}}), &Routes{Epoch: 77, Version: 5, First: true, Last: true, Routes: []Route{{"players", 2}, {"room.public", 300}}}},
	{"routes_empty", AppendRoutes(nil, 77, 6, nil), &Routes{Epoch: 77, Version: 6, First: true, Last: true}},
	{"route_change", AppendRouteChange(nil, &RouteChange{Epoch: 77, From: 5, To: 6, Routes: []Route{{"players", 0}}}), &RouteChange{Epoch: 77, From: 5, To: 6, Routes: []Route{{"players", 0}}}},
	{"heartbeat", AppendHeartbeat(nil, &sampleBeat), sampleBeat},
	{"info", AppendInfo(nil, &Info{Gateways: []string{"tcp://127.0.0.1:7001"}}), &Info{Gateways: []string{"tcp://127.0.0.1:7001"}}},
	{"ping", AppendPing(nil, KindPing, 99), uint64(99)},
	{"goodbye", AppendGoodbye(nil, KindGoodbye, "stopping"), "stopping"},
	{"ingress", AppendClusterFrame(nil, KindIngress, AppendIngress(nil, &shield.Ingress{Client: sampleClient, Target: sampleTarget, Route: 1002, Codec: "json", Body: []byte(`{"x":1}`), Trace: 5})),
		&shield.Ingress{Client: sampleClient, Target: sampleTarget, Route: 1002, Codec: "json", Body: []byte(`{"x":1}`), Trace: 5}},
	{"push", AppendClusterFrame(nil, KindPush, AppendPush(nil, &shield.Push{Client: sampleClient, Route: 2001, Body: []byte("{}")})), &shield.Push{Client: sampleClient, Route: 2001, Body: []byte("{}")}},
	{"notice", AppendClusterFrame(nil, KindNotice, AppendNotice(nil, &shield.Notice{Kind: shield.NoticeUnbound, Client: sampleClient, Target: sampleTarget, Reason: "kicked"})),
		&shield.Notice{Kind: shield.NoticeUnbound, Client: sampleClient, Target: sampleTarget, Reason: "kicked"}},
	{"close", AppendClusterFrame(nil, KindClose, AppendClose(nil, &Close{Client: sampleClient, Reason: "second login", Trace: 5})), &Close{Client: sampleClient, Reason: "second login", Trace: 5}},
	{"close_gone", AppendClusterFrame(nil, KindClose, AppendClose(nil, &Close{Client: sampleClient, Gone: true, Reason: "service_dead"})), &Close{Client: sampleClient, Gone: true, Reason: "service_dead"}},
	{"notice_moved", AppendClusterFrame(nil, KindNotice, AppendNotice(nil, &shield.Notice{Kind: shield.NoticeMoved, Client: sampleClient, Target: sampleTarget})),
		&shield.Notice{Kind: shield.NoticeMoved, Client: sampleClient, Target: sampleTarget}},
}

var sampleVerdict = Verdict{Reason: RefuseDuplicate, Text: "held", Address: "10.0.0.2:9000", PID: 17, Epoch: 99, Live: true}

var sampleBeat = Heartbeat{Seq: 4, Version: 5, Held: 6, Heard: 1500 * time.Millisecond, Uptime: time.Hour, Services: 12, Sessions: 340, Calls: 12345, Draining: true}

// decodeFrame decodes a whole frame by its kind.
func decodeFrame(frame []byte) (any, error) {
	n, err := ClusterFrameLen([ClusterHeader]byte(frame), 1<<24)
	if err != nil {
		return nil, err
	}
	if n != len(frame)-ClusterHeader {
		return nil, fmt.Errorf("length %d of %d", n, len(frame))
	}
	return decodeBody(Kind(frame[ClusterHeader]), frame[ClusterHeader+1:])
}

func decodeBody(k Kind, body []byte) (any, error) {
	switch k {
	case KindHello:
		return DecodeHello(body)
	case KindHelloAck:
		return DecodeHelloAck(body)
	case KindHelloFin:
		return DecodeHelloFin(body)
	case KindEnvelope:
		return DecodeEnvelope(body, nil)
	case KindReply:
		return DecodeReply(body)
	case KindRoutes:
		return DecodeRoutes(body)
	case KindRouteChange:
		return DecodeRouteChange(body)
	case KindHeartbeat:
		return DecodeHeartbeat(body)
	case KindInfo:
		return DecodeInfo(body)
	case KindPing, KindPong:
		return DecodePing(body)
	case KindGoodbye, KindGoodbyeAck:
		return DecodeGoodbye(body)
	case KindIngress:
		return DecodeIngress(body)
	case KindPush:
		return DecodePush(body)
	case KindNotice:
		return DecodeNotice(body)
	case KindClose:
		return DecodeClose(body)
	}
	return nil, errors.New("unknown kind")
}

func TestClusterVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			got, err := decodeFrame(v.frame)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.want, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			path := filepath.Join("testdata", "cluster_"+v.name+".hex")
			if *updateVectors {
				if err := os.WriteFile(path, []byte(hexLines(v.frame)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			pinned, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := hex.DecodeString(strings.Join(strings.Fields(string(pinned)), ""))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(v.frame, want) {
				t.Errorf("bytes changed:\n got %x\nwant %x", v.frame, want)
			}
		})
	}
}

func hexLines(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		fmt.Fprintf(&out, "%x\n", b[:n])
		b = b[n:]
	}
	return out.String()
}

// docs/wire.md names every kind and reason with its number, and every kind has a
// vector there but those that look like their neighbour.
func TestKindsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "wire.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[Kind]bool{KindPong: true, KindGoodbyeAck: true}
	for _, v := range vectors {
		has[Kind(v.frame[ClusterHeader])] = true
	}
	for k, name := range kindNames {
		if want := fmt.Sprintf("**%s** (%d)", name, k); !strings.Contains(string(doc), want) {
			t.Errorf("docs/wire.md lacks %q", want)
		}
		if !has[k] {
			t.Errorf("no vector of %s", name)
		}
	}
	for r := RefuseVersion; r <= RefuseStopping; r++ {
		if want := fmt.Sprintf("%d %s", r, r); !strings.Contains(string(doc), want) {
			t.Errorf("docs/wire.md lacks the reason %q", want)
		}
	}
}

// Every frame cut short is an error, never a panic or a wrong value.
func TestClusterTruncated(t *testing.T) {
	for _, v := range vectors {
		k, body := Kind(v.frame[ClusterHeader]), v.frame[ClusterHeader+1:]
		switch k {
		case KindEnvelope, KindReply, KindIngress, KindPush, KindHeartbeat, KindPing:
			continue // they end with bytes of any length, or with padding
		}
		for n := range body {
			if _, err := decodeBody(k, body[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes decodes", v.name, n, len(body))
			}
		}
	}
}

// Handshakes, heartbeats and info may grow in later releases; messages may not.
func TestClusterTrailingBytes(t *testing.T) {
	for _, v := range vectors {
		k, body := Kind(v.frame[ClusterHeader]), append(bytes.Clone(v.frame[ClusterHeader+1:]), 0)
		_, err := decodeBody(k, body)
		strict := k == KindRoutes || k == KindRouteChange || k == KindNotice || k == KindClose
		if (err != nil) != strict && k != KindReply {
			t.Errorf("%s with a byte more: %v, want an error: %v", v.name, err, strict)
		}
	}
}

func TestClusterFrameLen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header [4]byte
		limit  int
		want   int
		err    error
	}{
		{"empty", [4]byte{}, 10, 0, ErrMalformed},
		{"fits", [4]byte{0, 0, 0, 10}, 10, 10, nil},
		{"too long", [4]byte{0, 0, 0, 11}, 10, 0, ErrTooLong},
		{"far too long", [4]byte{255, 255, 255, 255}, 1 << 24, 0, ErrTooLong},
	} {
		got, err := ClusterFrameLen(tt.header, tt.limit)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: ClusterFrameLen = %d, %v, want %d, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestRoutesInParts(t *testing.T) {
	var table []Route
	for i := range 3*RoutesChunk + 1 {
		table = append(table, Route{shield.Name(fmt.Sprintf("r%d", i)), shield.ServiceID(i + 1)})
	}
	frames := AppendRoutes(nil, 1, 2, table)
	var got []Route
	for parts := 0; len(frames) > 0; parts++ {
		n, err := ClusterFrameLen([ClusterHeader]byte(frames), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r, err := DecodeRoutes(frames[ClusterHeader+1 : ClusterHeader+n])
		if err != nil {
			t.Fatal(err)
		}
		if r.First != (parts == 0) || r.Last != (parts == 3) {
			t.Errorf("part %d: first %v last %v", parts, r.First, r.Last)
		}
		got = append(got, r.Routes...)
		frames = frames[ClusterHeader+n:]
	}
	if diff := cmp.Diff(table, got); diff != "" {
		t.Error(diff)
	}
}

func TestTimeoutRoundsUp(t *testing.T) {
	for _, tt := range []struct{ in, want time.Duration }{
		{1, time.Microsecond}, {1500, 2 * time.Microsecond}, {0, 0}, {-5, 0}, {1 << 62, 1 << 62},
	} {
		frame := AppendEnvelope(nil, &shield.Envelope{Method: "m", Source: shield.Handle{Node: "n"}, Timeout: tt.in})
		e, err := DecodeEnvelope(frame[ClusterHeader+1:], nil)
		if err != nil || e.Timeout < tt.want-time.Microsecond || e.Timeout > tt.want+time.Microsecond {
			t.Errorf("timeout %v came as %v, %v", tt.in, e, err)
		}
	}
}

// What a decoder accepts, encoding and decoding again gives the same.
func FuzzClusterFrame(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.frame[ClusterHeader], v.frame[ClusterHeader+1:])
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		k := Kind(kind)
		first, err := decodeBody(k, body)
		if err != nil {
			return
		}
		frame := encode(first, k)
		if frame == nil {
			return
		}
		again, err := decodeFrame(frame)
		if err != nil {
			t.Fatalf("%v: %+v encodes to what does not decode: %v", k, first, err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("%v differs after a round trip:\n%s", k, diff)
		}
	})
}

func encode(v any, k Kind) []byte {
	switch v := v.(type) {
	case *Hello:
		if v.Version != ClusterVersion {
			return nil
		}
		return AppendHello(nil, v)
	case *HelloAck:
		if v.Version != ClusterVersion {
			return nil
		}
		return AppendHelloAck(nil, AppendHelloAckUnsigned(nil, v), v.Proofs)
	case *HelloFin:
		return AppendHelloFin(nil, AppendHelloFinUnsigned(nil, &v.Verdict), v.Proof)
	case *shield.Envelope:
		return AppendEnvelope(nil, v)
	case Reply:
		return AppendReply(nil, &v)
	case *Routes:
		if !v.First || !v.Last {
			return nil
		}
		return AppendRoutes(nil, v.Epoch, v.Version, v.Routes)
	case *RouteChange:
		return AppendRouteChange(nil, v)
	case Heartbeat:
		return AppendHeartbeat(nil, &v)
	case *Info:
		return AppendInfo(nil, v)
	case uint64:
		return AppendPing(nil, k, v)
	case string:
		return AppendGoodbye(nil, k, v)
	case *shield.Ingress:
		return AppendClusterFrame(nil, k, AppendIngress(nil, v))
	case *shield.Push:
		return AppendClusterFrame(nil, k, AppendPush(nil, v))
	case *shield.Notice:
		return AppendClusterFrame(nil, k, AppendNotice(nil, v))
	case *Close:
		return AppendClusterFrame(nil, k, AppendClose(nil, v))
	}
	return nil
}

func BenchmarkEnvelope(b *testing.B) {
	e := &shield.Envelope{Source: shield.Handle{Node: "node-1", ID: 7}, Target: shield.Handle{ID: 300}, Method: "ping", Args: make([]byte, 100), CallID: 258, Timeout: 5 * time.Second}
	var buf []byte
	var in Interner
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendEnvelope(buf[:0], e)
		if _, err := DecodeEnvelope(buf[ClusterHeader+1:], &in); err != nil {
			b.Fatal(err)
		}
	}
}
