package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open gives a transport on a loopback socket.
func open(t *testing.T, change func(*Config)) *Transport {
	t.Helper()
	conn, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Conn: conn, Node: shield.NodeID(t.Name()), Token: "t"}
	if change != nil {
		change(&cfg)
	}
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tr
}

// linked gives the two ends of one link, trusted.
func linked(t *testing.T, change func(*Config)) (dialled, accepted cluster.Link) {
	t.Helper()
	a, b := open(t, change), open(t, change)
	dialled, accepted = connect(t, a, b)
	dialled.Trust()
	accepted.Trust()
	return dialled, accepted
}

func connect(t *testing.T, from, to *Transport) (dialled, accepted cluster.Link) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	dialled, err := from.Dial(ctx, to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := dialled.Write(cluster.Control, frame("hello")); err != nil {
		t.Fatal(err)
	}
	if accepted, err = to.Accept(ctx); err != nil {
		t.Fatal(err)
	}
	wantFrame(t, accepted, cluster.Control, "hello")
	return dialled, accepted
}

func frame(body string) []byte {
	return wire.AppendClusterFrame(nil, wire.KindIngress, []byte(body))
}

func wantFrame(t *testing.T, l cluster.Link, s cluster.Stream, want string) {
	t.Helper()
	kind, body, err := l.Read(s)
	if err != nil || kind != wire.KindIngress || string(body) != want {
		t.Fatalf("Read = %v, %d bytes, %v, want %d bytes", kind, len(body), err, len(want))
	}
}

func TestFramesBothWays(t *testing.T) {
	a, b := linked(t, nil)
	sizes := []int{0, 1, 100, 4090, 65_536, 300_000, 5 << 20, 7}
	for _, s := range []cluster.Stream{cluster.Control, cluster.Data} {
		for _, ends := range [][2]cluster.Link{{a, b}, {b, a}} {
			for _, n := range sizes {
				if err := ends[0].Write(s, frame(strings.Repeat("x", n))); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range sizes {
				wantFrame(t, ends[1], s, strings.Repeat("x", n))
			}
		}
	}
	if st := a.Stats(); st.RTT <= 0 || st.PacketsSent == 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestManyWritersKeepTheirOrder(t *testing.T) {
	a, b := linked(t, nil)
	const writers, each = 8, 2000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := a.Write(cluster.Data, frame(fmt.Sprintf("%d %d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var next [writers]int
	for range writers * each {
		_, body, err := b.Read(cluster.Data)
		if err != nil {
			t.Fatal(err)
		}
		var w, i int
		if _, err := fmt.Sscanf(string(body), "%d %d", &w, &i); err != nil || i != next[w] {
			t.Fatalf("writer %d: frame %d, want %d", w, i, next[w])
		}
		next[w]++
	}
	wg.Wait()
}

func TestExporterBindsTheConnection(t *testing.T) {
	a, b := open(t, nil), open(t, nil)
	var seen [][]byte
	for range 2 {
		d, acc := connect(t, a, b)
		x, err := d.Exporter("EXPORTER-test")
		if err != nil {
			t.Fatal(err)
		}
		y, err := acc.Exporter("EXPORTER-test")
		if err != nil || !bytes.Equal(x, y) || len(x) != exporterSize {
			t.Errorf("the two ends differ: %x %x %v", x, y, err)
		}
		seen = append(seen, x)
	}
	if bytes.Equal(seen[0], seen[1]) {
		t.Error("two connections have the same exporter")
	}
}

func TestStrangersAreLimited(t *testing.T) {
	a, b := open(t, nil), open(t, nil)
	d, acc := connect(t, a, b)
	// A long frame before trust.
	if err := d.Write(cluster.Control, frame(strings.Repeat("x", wire.MaxHandshakeFrame))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := acc.Read(cluster.Control); !errors.Is(err, wire.ErrTooLong) {
		t.Errorf("a long frame of a stranger: %v", err)
	}
	// The data stream before trust.
	if err := d.Write(cluster.Data, frame("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := acc.Read(cluster.Data); err == nil {
		t.Error("the data stream of a stranger was read")
	}
}

func TestQueueFull(t *testing.T) {
	a, _ := linked(t, func(c *Config) { c.DataQueue = 1 << 20 })
	big := frame(strings.Repeat("x", 256<<10))
	var err error
	n := 0
	for ; n < 200 && err == nil; n++ {
		err = a.Write(cluster.Data, big)
	}
	if !errors.Is(err, cluster.ErrQueueFull) {
		t.Fatalf("after %d frames: %v", n, err)
	}
	if err := a.Write(cluster.Control, frame("still alive")); err != nil {
		t.Errorf("the control stream is stuck as well: %v", err)
	}
	if q := a.Stats().Queued; q == 0 {
		t.Error("nothing is queued")
	}
}

// A peer that reads no data must not starve the control stream of the
// connection's window.
func TestControlPassesStuckData(t *testing.T) {
	a, b := linked(t, nil)
	big := frame(strings.Repeat("x", 1<<20))
	for range 12 {
		_ = a.Write(cluster.Data, big)
	}
	for i := range 100 {
		body := strings.Repeat("c", 1000+i)
		if err := a.Write(cluster.Control, frame(body)); err != nil {
			t.Fatal(err)
		}
		wantFrame(t, b, cluster.Control, body)
	}
}

func TestReasonsReachTheOtherEnd(t *testing.T) {
	a, b := linked(t, nil)
	a.Close("we are done")
	<-b.Done()
	if err := b.Err(); err == nil || err.Error() != "closed by the peer: we are done" {
		t.Errorf("Err = %v", err)
	}
	if err := a.Write(cluster.Data, frame("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the close: %v", err)
	}
	if _, _, err := b.Read(cluster.Data); err == nil || !strings.Contains(err.Error(), "we are done") {
		t.Errorf("a read after the close: %v", err)
	}
}

func TestDialErrors(t *testing.T) {
	a := open(t, func(c *Config) { c.DialTimeout = 100 * time.Millisecond })
	deaf, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for _, tt := range []struct{ addr, want string }{
		{deaf.LocalAddr().String(), "no answer within 100ms"},
		{"nonsense", "want host:port"},
		{"127.0.0.1:0", "port"},
		{"127.0.0.1:99999", "port"},
		{"[::1]:9000", "no IPv4 address"},
	} {
		_, err := a.Dial(context.Background(), tt.addr)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.addr) {
			t.Errorf("Dial(%s) = %v, want %q", tt.addr, err, tt.want)
		}
	}
}

// A restarted peer on the same port ends the old link at once.
func TestRestartIsNoticed(t *testing.T) {
	conn, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := conn.LocalAddr().String()
	first, err := New(Config{Conn: conn, Node: "b", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, nil)
	l, acc := connect(t, a, first)
	// The client moves to a connection id with a reset token when the handshake
	// is confirmed; one exchange shows that it is.
	if err := acc.Write(cluster.Control, frame("x")); err != nil {
		t.Fatal(err)
	}
	wantFrame(t, l, cluster.Control, "x")
	crash(t, first, conn)
	second := openAt(t, addr, "b", "t")
	defer second.Close()
	begin := time.Now()
	for range 200 { // the first or second by design; without a reset, those of ten minutes
		_ = l.Write(cluster.Control, wire.AppendPing(nil, wire.KindPing, 0))
		select {
		case <-l.Done():
			if l.Err().Error() != "the peer has restarted" {
				t.Errorf("Err = %v", l.Err())
			}
			t.Logf("noticed after %v", time.Since(begin))
			return
		case <-time.After(50 * time.Millisecond): // real sockets, real time
		}
	}
	t.Error("the restart was not noticed")
}

// crash ends a transport without a packet: its socket goes first.
func crash(t *testing.T, tr *Transport, conn net.PacketConn) {
	t.Helper()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	_ = tr.Close()
}

func openAt(t *testing.T, addr string, node shield.NodeID, token string) *Transport {
	t.Helper()
	conn, err := Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(Config{Conn: conn, Node: node, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestListen(t *testing.T) {
	conn, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	taken := conn.LocalAddr().String()
	if _, err := Listen(taken); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), taken) {
		t.Errorf("a port that is taken: %v", err)
	}
	for _, addr := range []string{"0.0.0.0:0", "*:0", ":0"} {
		c, err := Listen(addr)
		if err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if u := c.LocalAddr().(*net.UDPAddr); !u.IP.IsUnspecified() || u.Port == 0 {
			t.Errorf("%s listens on %v", addr, u)
		}
		_ = c.Close()
	}
	if _, err := Listen("9000"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("a port alone: %v", err)
	}
}

// smallSocket is a socket of a system that grants no large buffers.
type smallSocket struct{ *net.UDPConn }

func (smallSocket) SetReadBuffer(int) error { return nil }

func TestSmallBufferIsTold(t *testing.T) {
	u, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.SetReadBuffer(100 << 10); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, nil))
	checkBuffers(smallSocket{u}, log)
	if got := buf.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "KiB") || !strings.Contains(got, "raise") {
		t.Errorf("the log says %q", got)
	}
	buf.Reset()
	checkBuffers(struct{ net.PacketConn }{u}, log)
	if buf.Len() != 0 {
		t.Errorf("a socket without buffers: %q", buf.String())
	}
}

// Nothing of quic-go reaches the standard streams, also with a small buffer.
func TestQuiet(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	said := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		said <- string(b)
	}()
	a, b := open(t, nil), open(t, nil)
	connect(t, a, b)
	noise, err := net.Dial("udp4", b.Addr().String())
	if err == nil {
		for i := range 100 {
			_, _ = noise.Write(bytes.Repeat([]byte{byte(i)}, i*13))
		}
		_ = noise.Close()
	}
	connect(t, a, b)
	os.Stdout, os.Stderr = stdout, stderr
	_ = w.Close()
	if got := <-said; got != "" {
		t.Errorf("printed %q", got)
	}
	for end := time.Now().Add(5 * time.Second); b.Strangers().Datagrams == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // real sockets, real time
	}
	if b.Strangers().Datagrams == 0 {
		t.Error("the noise was not counted")
	}
}

func FuzzReader(f *testing.F) {
	f.Add(frame("hello"), 100)
	f.Add(append(frame("a"), frame(strings.Repeat("b", 5000))...), 10_000)
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31), 16<<20)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit = min(max(limit, 1), 1<<16)
		r := &reader{r: bufio.NewReaderSize(bytes.NewReader(stream), 64)}
		var again []byte
		for {
			kind, body, err := r.next(limit)
			if err != nil {
				break
			}
			if len(body)+1 > limit {
				t.Fatalf("a frame of %d bytes passed the limit %d", len(body)+1, limit)
			}
			again = wire.AppendClusterFrame(again, kind, body)
		}
		if !bytes.HasPrefix(stream, again) {
			t.Errorf("read %x from %x", again, stream)
		}
	})
}
