package service

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// scripted is a Go service that does what a test says.
type scripted struct {
	handle func(ctx *GoContext, method string) error
}

func (*scripted) Init(*GoContext, GoArgs) error { return nil }
func (s *scripted) Handle(ctx *GoContext, method string, _ value.Payload) (value.Payload, error) {
	return value.Payload{}, s.handle(ctx, method)
}
func (*scripted) Shutdown(*GoContext, string) {}
func (*scripted) Exit(string)                 {}

// startGo starts one Go service for each name, with instances where that is not
// one, and stops the Runtime when the test ends.
func startGo(tb testing.TB, cfg Config, specs ...Spec) *Runtime {
	tb.Helper()
	r, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			tb.Errorf("Stop: %v", err)
		}
	})
	if err := r.Start(context.Background(), specs); err != nil {
		tb.Fatal(err)
	}
	return r
}

func goSpec(name shield.Name, instances int, handle func(ctx *GoContext, method string) error) Spec {
	return Spec{Name: name, Instances: instances, Go: func() GoService { return &scripted{handle: handle} }}
}

// broadcaster sends one message to each of the services "s.1" to "s.n".
func broadcaster(n int) Spec {
	return goSpec("all", 1, func(ctx *GoContext, _ string) error {
		for i := range n {
			if err := ctx.Send(Target{Handle: shield.Handle{Node: shield.LocalNode, Epoch: 1, ID: shield.ServiceID(i + 1)}}, "go"); err != nil {
				return err
			}
		}
		return nil
	})
}

// A broadcast starts no goroutine for each of its receivers: a few run all.
func TestABroadcastStartsFewWorkers(t *testing.T) {
	const n = 20000
	var most atomic.Int64
	var all sync.WaitGroup
	all.Add(n)
	r := startGo(t, Config{}, goSpec("s", n, func(*GoContext, string) error {
		if now := int64(runtime.NumGoroutine()); now > most.Load() {
			most.Store(now)
		}
		all.Done()
		return nil
	}), broadcaster(n))
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "all"}, Method: "go"}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if got := most.Load(); got > n/10 { // a few hundred; without the line it is a third of them and more
		t.Errorf("%d goroutines for a broadcast to %d services, want no more than %d", got, n, n/10)
	}
}

// Services that block their goroutines, against the rules, hold up nobody else:
// neither those that wait for a worker nor who calls.
func TestBlockedServicesStallNobody(t *testing.T) {
	const n = 2000
	block := make(chan struct{})
	var blocked, free sync.WaitGroup
	blocked.Add(n)
	free.Add(n)
	r := startGo(t, Config{}, goSpec("s", n, func(*GoContext, string) error {
		blocked.Done()
		<-block
		return nil
	}), goSpec("t", n, func(*GoContext, string) error { free.Done(); return nil }), broadcaster(2*n))
	defer close(block)
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "all"}, Method: "go"}); err != nil {
		t.Fatal(err)
	}
	blocked.Wait()
	free.Wait()
}

// In a crowd a send lines up, and a call does not wait for those in the line.
func TestCallsPassTheLine(t *testing.T) {
	ran := make(chan string, 2)
	note := func(_ *GoContext, method string) error { ran <- method; return nil }
	r := startGo(t, Config{}, goSpec("a", 1, note), goSpec("b", 1, note))
	p := &r.workers
	p.mu.Lock() // as if none of the idle were there, and the most that may be had not begun
	idle := p.idle
	p.idle, p.starting = nil, mostStarting
	p.crowded.Store(true)
	p.mu.Unlock()
	a, _ := r.Lookup("a")
	r.Deliver(&shield.Envelope{Target: a, Method: "send", Args: value.Bytes(new(value.Payload))}, nil)
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "b"}, Method: "call"}); err != nil {
		t.Fatal(err)
	}
	if first := <-ran; first != "call" {
		t.Errorf("the %s ran first", first)
	}
	p.begun() // one of the imagined workers begins, and starts another for the line
	if second := <-ran; second != "send" {
		t.Errorf("the %s ran then", second)
	}
	p.mu.Lock()
	p.idle, p.starting = append(p.idle, idle...), 0
	p.crowded.Store(false)
	p.mu.Unlock()
}

func BenchmarkBroadcast(b *testing.B) {
	const n = 20000
	var all sync.WaitGroup
	r := startGo(b, Config{}, goSpec("s", n, func(*GoContext, string) error { all.Done(); return nil }), broadcaster(n))
	b.ReportAllocs()
	for b.Loop() {
		all.Add(n)
		if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "all"}, Method: "go"}); err != nil {
			b.Fatal(err)
		}
		all.Wait()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.StackInuse+m.StackSys)/2/(1<<20), "MiB-of-stacks")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/message")
}
