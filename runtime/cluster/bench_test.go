package cluster_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"shield/internal/floor"
	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/transport"
	"shield/runtime/wire"
)

// The same work twice in one run: calls through two clusters over loopback QUIC,
// and a bare quic-go echo with the same batching. Compare only within a run.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{100, 1024} {
		name := map[int]string{100: "100B", 1024: "1KB"}[size]
		cl := clusterEcho(b, size)
		bare := bareEcho(b, size)
		for _, callers := range []int{1, 64} {
			suffix := map[int]string{1: "/sequential", 64: "/64callers"}[callers]
			b.Run("bare/"+name+suffix, func(b *testing.B) { drive(b, callers, bare) })
			b.Run("cluster/"+name+suffix, func(b *testing.B) { drive(b, callers, cl) })
		}
	}
}

// drive makes b.N calls from callers goroutines and reports percentiles.
func drive(b *testing.B, callers int, call func(i int)) {
	lat := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Go(func() {
			lat[i] = make([]time.Duration, 0, n)
			for range n {
				t := time.Now()
				call(i)
				lat[i] = append(lat[i], time.Since(t))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(lat...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-us")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

type echoLocal struct{}

func (echoLocal) Deliver(e *shield.Envelope, reply shield.Replier) {
	if reply != nil {
		reply.Reply(e.Args, nil)
	}
}
func (echoLocal) Frame(shield.NodeID, shield.NodeEpoch, wire.Kind, []byte) {}

// realNode is a node on a real loopback socket.
func realNode(tb testing.TB, id shield.NodeID, peers ...string) (*cluster.Cluster, string) {
	tb.Helper()
	conn, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tr, err := transport.New(transport.Config{Conn: conn, Node: id})
	if err != nil {
		tb.Fatal(err)
	}
	c, err := cluster.New(cluster.Config{Name: "bench", Node: id, Peers: peers, Transport: tr, Local: echoLocal{}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, tr.Addr().String()
}

type benchWaiter chan struct{}

func (w benchWaiter) Done(_ []byte, err *shield.Error) {
	if err != nil {
		panic(err)
	}
	w <- struct{}{}
}

func clusterEcho(b *testing.B, size int) func(i int) {
	server, addr := realNode(b, "server")
	client, _ := realNode(b, "client", addr)
	args := make([]byte, size)
	target := shield.Handle{Node: "server", Epoch: server.Epoch(), ID: 1}
	waiters := make([]benchWaiter, 64)
	for i := range waiters {
		waiters[i] = make(benchWaiter, 1)
	}
	return func(i int) {
		e := &shield.Envelope{Target: target, Method: "echo", Args: args, Timeout: 5 * time.Second}
		if _, err := client.Call(e, waiters[i]); err != nil {
			panic(err)
		}
		<-waiters[i]
	}
}

// bareEcho is the floor.
func bareEcho(b *testing.B, size int) func(i int) {
	server, err := floor.Serve(loopback(b))
	if err != nil {
		b.Fatal(err)
	}
	client, err := floor.Dial(b.Context(), loopback(b), server.Addr(), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	body := make([]byte, size)
	return func(i int) { client.Echo(i, body) }
}

func loopback(b *testing.B) net.PacketConn {
	b.Helper()
	conn, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// From three bound sockets to every node online to every other.
func BenchmarkColdStart(b *testing.B) {
	for b.Loop() {
		var trs []*transport.Transport
		for i := range 3 {
			conn, err := transport.Listen("127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			tr, err := transport.New(transport.Config{Conn: conn, Node: shield.NodeID('a' + rune(i))})
			if err != nil {
				b.Fatal(err)
			}
			trs = append(trs, tr)
		}
		online := make(chan struct{}, 100)
		var cs []*cluster.Cluster
		for i, tr := range trs {
			cfg := cluster.Config{Name: "bench", Node: shield.NodeID('a' + rune(i)), Transport: tr, Local: echoLocal{}, Settle: -1,
				OnEvent: func(e cluster.Event) {
					if e.To == shield.Online {
						online <- struct{}{}
					}
				}}
			for j, other := range trs {
				if j != i {
					cfg.Peers = append(cfg.Peers, other.Addr().String())
				}
			}
			c, err := cluster.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			cs = append(cs, c)
		}
		for _, c := range cs {
			if err := c.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		for range 6 {
			<-online
		}
		b.StopTimer()
		for _, c := range cs {
			_ = c.Close(context.Background())
		}
		b.StartTimer()
	}
}
