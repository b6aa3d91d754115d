package transport

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shield/runtime/cluster"
)

// retried is a socket that counts the Retry packets of QUIC that come in.
type retried struct {
	net.PacketConn
	n atomic.Int64
}

func (r *retried) ReadFrom(p []byte) (int, net.Addr, error) {
	n, addr, err := r.PacketConn.ReadFrom(p)
	if err == nil && n > 0 && p[0]&0xf0 == 0xf0 { // RFC 9000, 17.2.5
		r.n.Add(1)
	}
	return n, addr, err
}

// From half of the places on, who dials must prove that its address is its own;
// beyond them nobody gets in; and a finished handshake frees its place.
func TestPlacesOfStrangers(t *testing.T) {
	b := open(t, func(c *Config) { c.MaxStrangers = 4 })
	var sockets [5]*retried
	var ends []cluster.Link
	for i := range sockets {
		sockets[i] = &retried{}
		a := open(t, func(c *Config) {
			sockets[i].PacketConn, c.Conn = c.Conn, sockets[i]
			c.DialTimeout = time.Second
		})
		if i == 4 {
			if l, err := a.Dial(context.Background(), b.Addr().String()); err == nil {
				<-l.Done() // its own end was through before it heard of the refusal
			}
			break
		}
		_, accepted := connect(t, a, b)
		ends = append(ends, accepted)
	}
	for i, want := range []bool{false, false, true, true} {
		if got := sockets[i].n.Load() > 0; got != want {
			t.Errorf("dial %d had to prove its address: %v, want %v", i+1, got, want)
		}
	}
	if s := b.Strangers(); s.Refused == 0 || !strings.HasPrefix(s.Last, "127.0.0.1:") {
		t.Errorf("the fifth stranger: %+v", s)
	}
	for _, l := range ends {
		l.Trust()
	}
	for range 4 {
		connect(t, open(t, nil), b)
	}
}

// A connection that begins no handshake is closed, counted and named.
func TestSilentConnection(t *testing.T) {
	a, b := open(t, nil), open(t, func(c *Config) { c.DialTimeout = 100 * time.Millisecond })
	l, err := a.Dial(context.Background(), b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Done():
	case <-time.After(5 * time.Second): // real sockets, real time
		t.Fatal("it is still open")
	}
	if want := (cluster.Strangers{Silent: 1, Last: a.Addr().String()}); b.Strangers() != want || !strings.Contains(l.Err().Error(), "no handshake came") {
		t.Errorf("%+v, %v, want %+v", b.Strangers(), l.Err(), want)
	}
}

// The reset key is what docs/wire.md says: other implementations and releases
// must make the same one.
func TestResetKeyIsPinned(t *testing.T) {
	vectors, err := os.ReadFile("../wire/testdata/cluster_proofs.txt")
	if err != nil {
		t.Fatal(err)
	}
	key := resetKey("0123456789abcdef", "node-1")
	if line := fmt.Sprintf("reset_key  %s\n", hex.EncodeToString(key[:])); !strings.Contains(string(vectors), line) {
		t.Errorf("the vectors lack %q", line)
	}
}
