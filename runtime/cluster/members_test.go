package cluster

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

var (
	allStates   = []shield.NodeState{shield.Connecting, shield.Online, shield.Suspect, shield.Offline, shield.Removed}
	allTriggers = []struct {
		t    trigger
		name string
	}{
		{onHandshake, "handshake"}, {onHeartbeat, "heartbeat"}, {onQuiet, "quiet"}, {onDeaf, "deaf"},
		{onVanished, "vanished"}, {onSilent, "silent"}, {onClosed, "closed"}, {onForgotten, "forgotten"},
	}
)

// The table in docs/cluster.md is the one in the code.
func TestTransitionsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| |")
	for _, tr := range allTriggers {
		fmt.Fprintf(&b, " %s |", tr.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(allTriggers)) + "\n")
	for _, s := range allStates {
		fmt.Fprintf(&b, "| **%s** |", s)
		for _, tr := range allTriggers {
			to := transitions[s][tr.t]
			if to == s {
				to = "stays"
			}
			fmt.Fprintf(&b, " %s |", to)
		}
		b.WriteString("\n")
	}
	doc, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), b.String()) {
		t.Errorf("docs/cluster.md lacks the table of the code:\n%s", b.String())
	}
}

func TestTransitions(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from     shield.NodeState
		triggers []trigger
		want     shield.NodeState
	}{
		{"a placeholder is never healthy", shield.Connecting, []trigger{onHeartbeat, onQuiet, onSilent}, shield.Offline},
		{"a closed connection is offline at once", shield.Online, []trigger{onClosed}, shield.Offline},
		{"late, then later", shield.Online, []trigger{onQuiet, onSilent, onForgotten}, shield.Removed},
		{"a heartbeat takes a suspect back", shield.Online, []trigger{onQuiet, onHeartbeat}, shield.Online},
		{"a heartbeat ends an offline verdict by time-out", shield.Online, []trigger{onSilent, onHeartbeat}, shield.Online},
		{"discovery demotes to suspect, once", shield.Online, []trigger{onVanished, onVanished}, shield.Suspect},
		{"discovery does not demote the offline", shield.Offline, []trigger{onVanished}, shield.Offline},
		{"only a handshake brings the removed back", shield.Removed, []trigger{onHeartbeat, onQuiet, onHandshake}, shield.Online},
	} {
		m := &member{state: tt.from}
		for _, tr := range tt.triggers {
			m.apply(tr, "why", time.Second)
		}
		if m.state != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, m.state, tt.want)
		}
	}
}

func TestDue(t *testing.T) {
	lim := timeouts{suspect: 6 * time.Second, offline: 10 * time.Second, removed: 60 * time.Second}
	for _, tt := range []struct {
		name  string
		m     member
		now   time.Duration
		want  trigger
		due   bool
		cause string
	}{
		{"one lost heartbeat is nothing", member{state: shield.Online}, 4 * time.Second, 0, false, ""},
		{"three are", member{state: shield.Online}, 6 * time.Second, onQuiet, true, "no heartbeat for 6s"},
		{"five end it", member{state: shield.Suspect}, 10 * time.Second, onSilent, true, "no heartbeat for 10s"},
		{"a suspect is not suspected again", member{state: shield.Suspect}, 7 * time.Second, 0, false, ""},
		{"unreachable", member{state: shield.Connecting, address: "x:1"}, 10 * time.Second, onSilent, true, "never answered at x:1"},
		{"tombstone", member{state: shield.Offline, since: 5 * time.Second}, 65 * time.Second, onForgotten, true, "offline for 1m0s"},
		{"removed stays", member{state: shield.Removed}, time.Hour, 0, false, ""},
	} {
		got, cause, due := tt.m.due(lim, tt.now)
		if got != tt.want || due != tt.due || cause != tt.cause {
			t.Errorf("%s: %v %q %v, want %v %q %v", tt.name, got, cause, due, tt.want, tt.cause, tt.due)
		}
	}
	m := member{state: shield.Online, since: time.Second, mutual: time.Second}
	m.excuse(30*time.Second, 31*time.Second)
	if _, _, due := m.due(lim, 31*time.Second); due {
		t.Error("a paused process accuses")
	}
}

func TestPlaceholders(t *testing.T) {
	ms := newMembers()
	p, added := ms.placeholder("10.0.0.2:9000", 0)
	if _, again := ms.placeholder("10.0.0.2:9000", 0); !added || again {
		t.Error("a placeholder is added once")
	}
	ms.placeholder("b.example:9000", 0)
	if m := ms.identify("b", 0, "10.0.0.2:9000", "10.0.0.2:9000"); m != p || m.id != "b" {
		t.Errorf("the placeholder did not take its id: %+v", m)
	}
	if m := ms.identify("b", 0, "b.example:9000"); m != p || len(ms.all) != 1 {
		t.Errorf("two addresses of one node: %d members", len(ms.all))
	}
	for i := range maxTombstones + 10 {
		m := ms.identify(shield.NodeID(fmt.Sprint("old", i)), time.Duration(i))
		m.state, m.since = shield.Removed, time.Duration(i)
	}
	if gone := ms.prune(); len(gone) != 10 || gone[0].id != "old0" || len(ms.all) != maxTombstones+1 {
		t.Errorf("pruned %d, %d are left", len(gone), len(ms.all))
	}
}

func TestNextEpoch(t *testing.T) {
	store := &memoryStore{}
	now := time.Unix(1000, 0)
	first, err := NextEpoch(now, store)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NextEpoch(now.Add(-time.Hour), store)
	if err != nil || second != first+1 {
		t.Errorf("with the clock an hour back: %v after %v, %v", second, first, err)
	}
	if third, _ := NextEpoch(now.Add(time.Hour), store); third <= second {
		t.Errorf("%v after %v", third, second)
	}
	store.err = os.ErrPermission
	if _, err := NextEpoch(now, store); err == nil {
		t.Error("an epoch that could not be saved was used")
	}
}

type memoryStore struct {
	last shield.NodeEpoch
	err  error
}

func (s *memoryStore) Load() (shield.NodeEpoch, error) { return s.last, nil }
func (s *memoryStore) Save(e shield.NodeEpoch) error   { s.last = e; return s.err }

func TestReplaysAreBounded(t *testing.T) {
	r := newReplays()
	nonce := func(i int) (n [32]byte) {
		copy(n[:], fmt.Sprint("nonce ", i))
		return n
	}
	for i := range 3 * maxReplays {
		if !r.fresh(nonce(i), 0) {
			t.Fatalf("nonce %d is new", i)
		}
	}
	if len(r.seen) != maxReplays || len(r.ring) != maxReplays {
		t.Errorf("%d remembered, the bound is %d", len(r.seen), maxReplays)
	}
	last := nonce(3*maxReplays - 1)
	if r.fresh(last, time.Second) {
		t.Error("a replay passed")
	}
	if !r.fresh(last, 2*replayTime) {
		t.Error("a nonce is remembered for ever")
	}
}

// Keys and proofs are what docs/wire.md says: other implementations and releases
// must make the same ones. The vectors were made with another program.
func TestProofsArePinned(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("..", "wire", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	body := func(name string) []byte {
		frame, err := hex.DecodeString(strings.Join(strings.Fields(string(read(name))), ""))
		if err != nil {
			t.Fatal(err)
		}
		return frame[wire.ClusterHeader+1:]
	}
	var exporter [32]byte
	for i := range exporter {
		exporter[i] = byte(i)
	}
	hello, ackBody := body("cluster_hello.hex"), body("cluster_hello_ack.hex")
	ack, err := wire.DecodeHelloAck(ackBody)
	if err != nil {
		t.Fatal(err)
	}
	key := (&Auth{Mode: wire.AuthToken, Token: "0123456789abcdef"}).keys()[0]
	inAck := proof(key, proofAck, exporter[:], hello, ackBody[:ack.Signed])
	inFin := proof(key, proofFin, exporter[:], hello, ackBody, wire.AppendHelloFinUnsigned(nil, &wire.Verdict{}))
	want := fmt.Sprintf("K          %x\nhello_ack  %x\nhello_fin  %x\n", key, inAck, inFin)
	if !strings.Contains(string(read("cluster_proofs.txt")), want) {
		t.Errorf("the vectors lack\n%s", want)
	}
}
