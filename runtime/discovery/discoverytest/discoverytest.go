// Package discoverytest is the conformance suite of discovery backends: a new
// backend plugs its client and its server into Backend and calls Run from a
// test. It runs against a real server in real time, which is why it sleeps.
package discoverytest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// Backend is what the suite needs of a backend.
type Backend struct {
	// Open makes one node's client for the cluster of that name. It must not
	// need a running server.
	Open func(t *testing.T, name string) cluster.Discovery
	// TTL is after which time a node that crashed is no longer listed.
	TTL time.Duration
	// Down stops the server and keeps what it has stored; Up starts it again at
	// the same address. Freeze makes it accept requests and answer none until
	// Thaw.
	Down, Up, Freeze, Thaw func(t *testing.T)
}

const limit = 2 * time.Second

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	for _, tt := range []struct {
		name string
		run  func(*testing.T, Backend, string)
	}{
		{"appear and disappear", appear},
		{"announcing again changes the address", announceAgain},
		{"a crashed node expires", crash},
		{"renewal outlives the time to live", renew},
		{"two clusters in one backend", twoClusters},
		{"down at the start", downAtStart},
		{"lost and back", lostAndBack},
		{"slow", slow},
		{"stop while it is down", stopWhileDown},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b, fmt.Sprintf("suite-%d", time.Now().UnixNano())) })
	}
}

func open(t *testing.T, b Backend, name string) cluster.Discovery {
	t.Helper()
	d := b.Open(t, name)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func node(i int) cluster.Candidate {
	return cluster.Candidate{Node: shield.NodeID(fmt.Sprintf("node-%d", i)), Addr: fmt.Sprintf("10.0.0.%d:9000", i), StartedAt: time.Now().Truncate(time.Second)}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func announce(t *testing.T, d cluster.Discovery, c cluster.Candidate) {
	t.Helper()
	if err := d.Announce(bounded(t), c); err != nil {
		t.Fatalf("announce %s: %v", c.Node, err)
	}
}

func want(t *testing.T, d cluster.Discovery, ids ...string) {
	t.Helper()
	list, err := d.Scan(bounded(t))
	if err != nil {
		t.Fatalf("scan: %v", err)
	}
	var got []string
	for _, c := range list {
		got = append(got, string(c.Node)+" "+c.Addr)
		if c.StartedAt.IsZero() {
			t.Errorf("%s has lost its start time", c.Node)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) {
		t.Fatalf("scan lists %q, want %q", got, ids)
	}
}

func wantFailure(t *testing.T, d cluster.Discovery) {
	t.Helper()
	begin := time.Now()
	if list, err := d.Scan(bounded(t)); err == nil {
		t.Errorf("a scan without a server lists %v instead of failing", list)
	}
	if err := d.Announce(bounded(t), node(1)); err == nil {
		t.Error("announced without a server")
	}
	if took := time.Since(begin); took > 2*limit+time.Second {
		t.Errorf("two requests without a server took %v", took)
	}
}

// backAgain waits until d notices that its server is back, which must not take
// longer than the cluster's default interval of 3 s.
func backAgain(t *testing.T, d cluster.Discovery) {
	t.Helper()
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := d.Scan(bounded(t))
		if err == nil {
			err = d.Announce(bounded(t), node(1))
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server is back and the client has not noticed: %v", err)
		}
	}
}

func appear(t *testing.T, b Backend, name string) {
	one, two := open(t, b, name), open(t, b, name)
	want(t, one)
	announce(t, one, node(1))
	announce(t, two, node(2))
	want(t, one, "node-1 10.0.0.1:9000", "node-2 10.0.0.2:9000")
	if err := two.Withdraw(bounded(t), "node-2"); err != nil {
		t.Fatal(err)
	}
	want(t, one, "node-1 10.0.0.1:9000")
	if err := two.Withdraw(bounded(t), "node-2"); err != nil {
		t.Errorf("withdrawing twice: %v", err)
	}
}

func announceAgain(t *testing.T, b Backend, name string) {
	d := open(t, b, name)
	c := node(1)
	announce(t, d, c)
	c.Addr = "10.9.9.9:9000"
	announce(t, d, c)
	want(t, d, "node-1 10.9.9.9:9000")
}

func crash(t *testing.T, b Backend, name string) {
	one, two := open(t, b, name), b.Open(t, name)
	announce(t, two, node(2))
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, one, "node-2 10.0.0.2:9000")
	time.Sleep(b.TTL + b.TTL/4)
	want(t, one)
}

func renew(t *testing.T, b Backend, name string) {
	d := open(t, b, name)
	for range 8 {
		announce(t, d, node(1))
		time.Sleep(b.TTL / 4)
	}
	want(t, d, "node-1 10.0.0.1:9000")
}

func twoClusters(t *testing.T, b Backend, name string) {
	red, blue := open(t, b, name+"-red"), open(t, b, name+"-blue")
	announce(t, red, node(1))
	announce(t, blue, node(2))
	want(t, red, "node-1 10.0.0.1:9000")
	want(t, blue, "node-2 10.0.0.2:9000")
	if err := red.Withdraw(bounded(t), "node-2"); err != nil {
		t.Fatal(err)
	}
	want(t, blue, "node-2 10.0.0.2:9000")
}

func downAtStart(t *testing.T, b Backend, name string) {
	b.Down(t)
	outlive(t, open(t, b, name), b.Up)
}

func lostAndBack(t *testing.T, b Backend, name string) {
	d := open(t, b, name)
	announce(t, d, node(1))
	b.Down(t)
	outlive(t, d, b.Up)
}

func slow(t *testing.T, b Backend, name string) {
	d := open(t, b, name)
	announce(t, d, node(1))
	b.Freeze(t)
	outlive(t, d, b.Thaw)
}

// outlive checks that d fails while its server is away and works again after end.
func outlive(t *testing.T, d cluster.Discovery, end func(*testing.T)) {
	t.Helper()
	wantFailure(t, d)
	end(t)
	backAgain(t, d)
	announce(t, d, node(1))
	want(t, d, "node-1 10.0.0.1:9000")
}

func stopWhileDown(t *testing.T, b Backend, name string) {
	d := b.Open(t, name)
	announce(t, d, node(1))
	b.Down(t)
	defer b.Up(t)
	begin := time.Now()
	if err := d.Withdraw(bounded(t), "node-1"); err == nil {
		t.Error("withdrawn without a server")
	}
	if err := d.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(begin); took > limit+time.Second {
		t.Errorf("stopping without a server took %v", took)
	}
}
