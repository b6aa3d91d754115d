package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/cluster"
	"shield/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair links two nodes, both ends trusted.
func pair(t *testing.T, n *Network) (a, b *Transport, near, far cluster.Link) {
	t.Helper()
	var err error
	if a, err = n.Listen("a"); err != nil {
		t.Fatal(err)
	}
	if b, err = n.Listen("b"); err != nil {
		t.Fatal(err)
	}
	if near, err = a.Dial(context.Background(), Address("b")); err != nil {
		t.Fatal(err)
	}
	if far, err = b.Accept(context.Background()); err != nil {
		t.Fatal(err)
	}
	near.Trust()
	far.Trust()
	return a, b, near, far
}

func ping(nonce uint64) []byte { return wire.AppendPing(nil, wire.KindPing, nonce) }

// read takes one ping and tells when it came.
func read(t *testing.T, l cluster.Link, s cluster.Stream) (nonce uint64, at time.Duration) {
	t.Helper()
	began := time.Now()
	kind, body, err := l.Read(s)
	if err != nil || kind != wire.KindPing {
		t.Fatalf("Read = %v, %v", kind, err)
	}
	if nonce, err = wire.DecodePing(body); err != nil {
		t.Fatal(err)
	}
	return nonce, time.Since(began)
}

func TestFramesArriveInOrder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(n *Network)
		least time.Duration // for the first frame
		most  time.Duration // for all
	}{
		{"usual", func(*Network) {}, time.Millisecond, time.Millisecond},
		{"delayed", func(n *Network) { n.Delay("a", "b", 80*time.Millisecond) }, 80 * time.Millisecond, 80 * time.Millisecond},
		{"delayed the other way", func(n *Network) { n.Delay("b", "a", time.Second) }, time.Millisecond, time.Millisecond},
		{"lossy", func(n *Network) { n.Loss("", "", 0.5) }, time.Millisecond, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := New(Config{Seed: 7})
			a, b, near, far := pair(t, n)
			tt.fault(n)
			for i := range uint64(50) {
				if err := near.Write(cluster.Data, append(ping(2*i+1), ping(2*i+2)...)); err != nil {
					t.Fatal(err)
				}
			}
			total := time.Duration(0)
			for i := range uint64(100) {
				nonce, took := read(t, far, cluster.Data)
				total += took
				if nonce != i+1 || i == 0 && took < tt.least {
					t.Fatalf("%s: frame %d is %d after %v", tt.name, i+1, nonce, took)
				}
			}
			if total > tt.most {
				t.Errorf("%s: all frames took %v, want at most %v", tt.name, total, tt.most)
			}
			a.Close()
			b.Close()
			synctest.Wait()
		})
	}
}

func TestACutKeepsFramesUntilItHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		a, b, near, far := pair(t, n)
		n.Cut("a", "b")
		if err := near.Write(cluster.Control, ping(1)); err != nil {
			t.Fatal(err)
		}
		if err := far.Write(cluster.Control, ping(2)); err != nil {
			t.Fatal(err)
		}
		if nonce, _ := read(t, near, cluster.Control); nonce != 2 {
			t.Errorf("the open direction brought %d", nonce)
		}
		time.AfterFunc(time.Minute, func() { n.Heal("a", "b") })
		if nonce, took := read(t, far, cluster.Control); nonce != 1 || took < 59*time.Second {
			t.Errorf("the cut direction brought %d after %v", nonce, took)
		}
		if n.Faulty() {
			t.Error("Faulty after Heal")
		}
		a.Close()
		b.Close()
	})
}

func TestEndsOfALink(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(n *Network, a *Transport, near cluster.Link)
		told bool // the far end hears of it
	}{
		{"closed", func(_ *Network, _ *Transport, near cluster.Link) { near.Close("enough") }, true},
		{"its transport closed", func(_ *Network, a *Transport, _ cluster.Link) { a.Close() }, true},
		{"crashed", func(_ *Network, a *Transport, _ cluster.Link) { a.Unplug(); a.Close() }, false},
		{"cut before it closed", func(n *Network, _ *Transport, near cluster.Link) { n.Cut("a", "b"); near.Close("enough") }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := New(Config{})
			a, b, near, far := pair(t, n)
			tt.end(n, a, near)
			time.Sleep(time.Second)
			synctest.Wait()
			if near.Err() == nil || (far.Err() != nil) != tt.told {
				t.Errorf("%s: near %v, far %v", tt.name, near.Err(), far.Err())
			}
			if err := near.Write(cluster.Control, ping(1)); err == nil {
				t.Errorf("%s: an ended link was written to", tt.name)
			}
			a.Close()
			b.Close()
		})
	}
}

func TestARebornPeerEndsOldLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		a, b, near, _ := pair(t, n)
		b.Unplug()
		b.Close()
		if err := near.Write(cluster.Control, ping(1)); err != nil {
			t.Fatalf("nobody can know yet: %v", err)
		}
		again, err := n.Listen("b")
		if err != nil {
			t.Fatal(err)
		}
		if err := near.Write(cluster.Control, ping(2)); err == nil || near.Err() == nil {
			t.Errorf("the link to the earlier life lives on: %v", err)
		}
		if _, err := n.Listen("b"); err == nil {
			t.Error("two transports at one address")
		}
		a.Close()
		again.Close()
	})
}

func TestDialWaitsForAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		a, err := n.Listen("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Dial(context.Background(), Address("b")); err == nil {
			t.Error("dialled nobody")
		}
		late := make(chan *Transport, 1)
		time.AfterFunc(time.Second, func() {
			b, _ := n.Listen("b")
			late <- b
		})
		l, err := a.Dial(context.Background(), Address("b"))
		if err != nil {
			t.Fatal(err)
		}
		if got := l.RemoteAddr().String(); got != Address("b") {
			t.Errorf("RemoteAddr = %s", got)
		}
		a.Close()
		(<-late).Close()
		if _, err := a.Dial(context.Background(), Address("b")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial on a closed transport: %v", err)
		}
	})
}

func TestClientsReadWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := 0
		n := New(Config{Turn: func(string) { turns++ }})
		l, err := n.Clients("127.0.0.1:7001")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				served <- c
			}
		}()
		client, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		server := <-served
		const size = 3 * pipeSize // more than fits: the writer waits
		go func() {
			fmt.Fprintf(client, "%0*d", size, 7)
			client.(interface{ CloseWrite() error }).CloseWrite()
		}()
		b, err := io.ReadAll(server)
		if err != nil || len(b) != size || b[size-1] != '7' {
			t.Errorf("read %d bytes, %v", len(b), err)
		}
		if turns < 3 {
			t.Errorf("the server read in %d turns", turns)
		}
		server.SetReadDeadline(time.Now().Add(time.Second))
		client.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a silent server: %v", err)
		}
		server.Close()
		client.SetReadDeadline(time.Time{})
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a server that is gone: %v", err)
		}
		if _, err := client.Write([]byte("x")); err == nil {
			t.Error("wrote to nobody")
		}
		client.Close()
		l.Close()
		if _, err := l.Dial(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial a closed listener: %v", err)
		}
	})
}
