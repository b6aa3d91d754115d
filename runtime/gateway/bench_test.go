package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"sort"
	"sync"
	"testing"
	"time"

	"shield/runtime/shield"
)

// echoRouter answers every frame with a push from goroutines of its own, as
// services do.
type echoRouter struct {
	fakeRouter
	queues []chan *shield.Ingress
}

func newEchoRouter(workers int) *echoRouter {
	e := &echoRouter{}
	e.auth = authSvc
	for range workers {
		q := make(chan *shield.Ingress, 4096)
		e.queues = append(e.queues, q)
		go func() {
			for in := range q {
				e.g.Push(&shield.Push{Client: in.Client, Route: rPos, Body: in.Body})
			}
		}()
	}
	return e
}

func (e *echoRouter) Ingress(in *shield.Ingress) error {
	e.queues[int(in.Client.Session[4])%len(e.queues)] <- in
	return nil
}

func (e *echoRouter) Notice(*shield.Notice) error { return nil }

func benchRig(b *testing.B, transport, codec string) *rig {
	e := newEchoRouter(8)
	r := newRig(b, transport, func(c *Config) {
		c.Router, c.Oracle = e, nil
		c.Protocol.Provider = codec
		c.Limits.MaxPerIP, c.Limits.MaxConnections, c.Limits.SendQueue = -1, -1, 1<<20
		c.Limits.HandshakeTimeout = -1
	})
	e.g = r.Gateway
	b.Cleanup(func() {
		r.close()
		for _, q := range e.queues {
			close(q)
		}
	})
	return r
}

// BenchmarkEcho is 100 clients with 32 frames of 64 bytes in flight each, both
// ends on this machine. An op is a frame there and back.
func BenchmarkEcho(b *testing.B) {
	for _, transport := range []string{TCP, TLS, WebSocket} {
		for _, codec := range []string{"raw", "json"} {
			b.Run(transport+"/"+codec, func(b *testing.B) { benchEcho(b, benchRig(b, transport, codec), 100, 32) })
		}
	}
}

func benchEcho(b *testing.B, r *rig, clients, inFlight int) {
	body := fmt.Sprintf("%-62s", `{"x":1,"y":2,"name":"ada"}`)
	if r.provider == "raw" {
		body = fmt.Sprintf("%064d", 1)
	}
	var wg sync.WaitGroup
	per := b.N/clients + 1
	bots := make([]*bot, clients)
	for i := range bots {
		bots[i] = r.dial()
	}
	b.ResetTimer()
	start := time.Now()
	for _, c := range bots {
		wg.Go(func() { echoClient(b, c, rLogin, body, per, inFlight) })
	}
	wg.Wait()
	b.ReportMetric(float64(per*clients)/time.Since(start).Seconds(), "frames/s")
	b.ReportMetric(float64(per*clients)/float64(r.Counters()[cFlushes]), "frames/write")
}

// echoClient keeps inFlight frames under way, writing as many at once as came
// back at once.
func echoClient(b *testing.B, c *bot, route shield.RouteID, body string, total, inFlight int) {
	frame, _ := c.f.Append(nil, route, []byte(body))
	br := bufio.NewReaderSize(c.conn, 16<<10)
	var out []byte
	sent, got := 0, 0
	send := func(n int) {
		out = out[:0]
		for range min(n, total-sent) {
			out = append(out, frame...)
			sent++
		}
		if len(out) > 0 {
			if _, err := c.conn.Write(out); err != nil {
				b.Error(err)
			}
		}
	}
	send(inFlight)
	for got < total {
		n := 0
		for {
			if _, err := io.CopyN(io.Discard, br, int64(len(frame))); err != nil {
				b.Error(err)
				return
			}
			got++
			n++
			if br.Buffered() < len(frame) || got == total {
				break
			}
		}
		send(n)
	}
}

// BenchmarkRoundTrip is one client with one frame, beside a bare TCP echo in the
// same run.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // it ends with the client
		}()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		roundTrips(b, conn, make([]byte, 72))
	})
	for _, transport := range []string{TCP, TLS, WebSocket} {
		b.Run(transport, func(b *testing.B) {
			r := benchRig(b, transport, "raw")
			c := r.dial()
			frame, _ := c.f.Append(nil, rLogin, make([]byte, 64))
			roundTrips(b, c.conn, frame)
		})
	}
}

func roundTrips(b *testing.B, conn net.Conn, frame []byte) {
	times := make([]time.Duration, 0, b.N)
	buf := make([]byte, len(frame))
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		if _, err := conn.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-us")
}

// BenchmarkIdle prints what one idle session costs in Go memory. The clients in
// the same process are as small as can be: a bare socket (with TLS on it, for
// TLS).
func BenchmarkIdle(b *testing.B) {
	for _, transport := range []string{TCP, TLS, WebSocket} {
		b.Run(transport, func(b *testing.B) {
			r := benchRig(b, transport, "raw")
			const n = 1000
			conns := make([]net.Conn, 0, n+1)
			defer func() {
				for _, c := range conns {
					c.Close()
				}
			}()
			conns = append(conns, bareClient(b, r)) // what is made once
			before := heapAndStacks()
			for range n {
				conns = append(conns, bareClient(b, r))
			}
			for r.Count() < n+1 {
				time.Sleep(time.Millisecond) // sessions open on goroutines of the gateway
			}
			both := heapAndStacks() - before
			for b.Loop() { // what is measured is not time
			}
			b.ReportMetric(float64(both)/n, "B/session")
		})
	}
}

func bareClient(b *testing.B, r *rig) net.Conn {
	if r.transport == TLS {
		conn, err := r.dialConn()
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	conn, err := net.Dial("tcp", r.listeners[0].Net.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	if r.transport == WebSocket {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		var buf [512]byte
		if _, err := conn.Read(buf[:]); err != nil {
			b.Fatal(err)
		}
	}
	return conn
}

func heapAndStacks() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkBroadcast pushes one frame to every one of 2000 sessions; an op is
// one broadcast, all of it written.
func BenchmarkBroadcast(b *testing.B) {
	r := benchRig(b, TCP, "raw")
	const n = 2000
	var refs []shield.ClientRef
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range n {
		conns = append(conns, bareClient(b, r))
	}
	for r.Count() < n {
		time.Sleep(time.Millisecond) // sessions open on goroutines of the gateway
	}
	for _, c := range r.all() {
		refs = append(refs, c.ref)
	}
	body := make([]byte, 64)
	rounds := int64(0)
	var most time.Duration
	for b.Loop() {
		start := time.Now()
		for _, ref := range refs {
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: body})
		}
		rounds++
		for r.Counters()[cFramesOut] < rounds*n {
			runtime.Gosched()
		}
		most = max(most, time.Since(start))
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(rounds), "ms/broadcast")
	b.ReportMetric(float64(most.Milliseconds()), "max-ms")
}
