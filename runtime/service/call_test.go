package service

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// lines keeps log lines for a test to look at.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, rec slog.Record) error {
	l.mu.Lock()
	l.all = append(l.all, rec.Message)
	l.mu.Unlock()
	return nil
}

func (l *lines) with(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if strings.Contains(s, part) {
			found = append(found, s)
		}
	}
	return found
}

// echoes is a Remote whose nodes answer every call before it has returned.
type echoes struct {
	Remote
	last uint64
}

func (e *echoes) Resolve(shield.NodeID, shield.Name) (shield.Handle, error) {
	return shield.Handle{Node: "far", Epoch: 1, ID: 1}, nil
}

func (e *echoes) Call(env *shield.Envelope, w shield.Waiter) (uint64, error) {
	e.last++
	w.Done(env.Args, nil)
	return e.last, nil
}

func BenchmarkCallFar(b *testing.B) {
	r := startGo(b, Config{Remote: &echoes{}}, goSpec("a", 1, func(ctx *GoContext, _ string) error {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ctx.CallTimeout(time.Minute, Target{Name: "far:x"}, "echo"); err != nil {
				return err
			}
		}
		return nil
	}))
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "a"}, Method: "go", Timeout: time.Hour}); err != nil {
		b.Fatal(err)
	}
}

// The longest time that Go can name is no time in the past.
func TestForeverIsNotNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan string, 3)
		r := startGo(t, Config{Remote: &echoes{}}, goSpec("a", 1, func(ctx *GoContext, method string) error {
			switch method {
			case "call":
				_, err := ctx.CallTimeout(math.MaxInt64, Target{Name: "far:x"}, "echo")
				return err
			case "timer":
				_, err := ctx.Timer(math.MaxInt64, true, func(*GoContext) error { woken <- "timer"; return nil })
				return err
			}
			err := ctx.Sleep(math.MaxInt64)
			woken <- "sleep"
			return err
		}))
		a, _ := r.Lookup("a")
		if _, _, err := r.Call(t.Context(), CallRequest{Target: Target{Handle: a}, Method: "call"}); err != nil {
			t.Errorf("a call with all the time there is = %v", err)
		}
		if _, _, err := r.Call(t.Context(), CallRequest{Target: Target{Handle: a}, Method: "timer"}); err != nil {
			t.Error(err)
		}
		_, _, err := r.Call(t.Context(), CallRequest{Target: Target{Handle: a}, Method: "sleep", Timeout: time.Hour})
		if shield.CodeOf(err) != shield.Timeout {
			t.Errorf("a sleep without end = %v, want timeout", err)
		}
		select {
		case who := <-woken:
			t.Errorf("%s woke up", who)
		default:
		}
	})
}

// drained is a service whose Shutdown takes a second of the baton.
type drained struct{ scripted }

func (*drained) Shutdown(*GoContext, string) { time.Sleep(time.Second) }

// A call that expired in the mailbox is not waited for by a drain.
func TestDrainDoesNotWaitForAnExpiredCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startGo(t, Config{},
			goSpec("caller", 1, func(ctx *GoContext, _ string) error {
				if err := ctx.Sleep(500 * time.Millisecond); err != nil {
					return err
				}
				_, err := ctx.CallTimeout(100*time.Millisecond, Target{Name: "slow"}, "any")
				return err
			}),
			Spec{Name: "slow", Instances: 1, Go: func() GoService {
				return &drained{scripted{handle: func(*GoContext, string) error { return nil }}}
			}})
		done := make(chan error, 1)
		go func() {
			_, _, err := r.Call(t.Context(), CallRequest{Target: Target{Name: "caller"}, Method: "go"})
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := r.Drain(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the drain took %v, want the second that Shutdown takes", took)
		}
		if err := <-done; shield.CodeOf(err) != shield.Timeout {
			t.Errorf("the call = %v, want timeout", err)
		}
	})
}

// A timer whose callback waits when its service ends has not thrown.
func TestATimerThatIsCutHasNotThrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		r := startGo(t, Config{Log: slog.New(log)}, goSpec("a", 1, func(ctx *GoContext, _ string) error {
			_, err := ctx.Timer(time.Millisecond, true, func(ctx *GoContext) error { return ctx.Sleep(time.Hour) })
			return err
		}))
		if _, _, err := r.Call(t.Context(), CallRequest{Target: Target{Name: "a"}, Method: "go"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found := log.with("thrown"); len(found) > 0 {
			t.Errorf("the log says %q", found)
		}
	})
}

// What other nodes send to services that are gone is told at a civil rate.
func TestDeadLettersOfOtherNodesAreCivil(t *testing.T) {
	log := &lines{}
	r := startGo(t, Config{Log: slog.New(log)})
	for range 1000 {
		r.Deliver(&shield.Envelope{Source: shield.Handle{Node: "far", Epoch: 1, ID: 1},
			Target: shield.Handle{Node: shield.LocalNode, Epoch: 1, ID: 99}, Method: "move"}, nil)
	}
	if n := r.Counters().DeadLetters; n != 1000 {
		t.Errorf("dead letters = %d, want 1000", n)
	}
	if n := len(log.with("dead letter")); n < 1 || n > 3*civilLines {
		t.Errorf("%d lines about 1000 dead letters, want about %d a second", n, civilLines)
	}
}

// Nobody's calls are forgotten when the row of a failed service goes.
func TestCallsAreCountedOnce(t *testing.T) {
	r := startGo(t, Config{}, Spec{Name: "a", Instances: 1, Restart: Restart{Policy: RestartNever}, Go: func() GoService {
		return &scripted{handle: func(ctx *GoContext, _ string) error { ctx.Panic("told to"); return nil }}
	}})
	a, _ := r.Lookup("a")
	s := r.reg.find(a.ID)
	r.Call(context.Background(), CallRequest{Target: Target{Name: "a"}, Method: "die"})
	<-s.done
	if n := r.Counters().Calls; n != 1 {
		t.Fatalf("calls = %d, want 1", n)
	}
	if _, err := r.StartAgain(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if n := r.Counters().Calls; n != 1 {
		t.Errorf("calls after a new start = %d, want 1", n)
	}
}

// A start that is refused leaves the row of the service that failed.
func TestARefusedStartLeavesTheFailedRow(t *testing.T) {
	r := startGo(t, Config{},
		Spec{Name: "a", Instances: 1, Restart: Restart{Policy: RestartNever}, Go: func() GoService {
			return &scripted{handle: func(ctx *GoContext, _ string) error { ctx.Panic("told to"); return nil }}
		}},
		goSpec("b", 1, func(ctx *GoContext, _ string) error { return ctx.Register("a") }))
	a, _ := r.Lookup("a")
	s := r.reg.find(a.ID)
	r.Call(context.Background(), CallRequest{Target: Target{Name: "a"}, Method: "die"})
	<-s.done
	if _, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: "b"}, Method: "take"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StartAgain(context.Background(), "a"); shield.CodeOf(err) != shield.NameConflict {
		t.Errorf("StartAgain = %v, want name_conflict", err)
	}
	if down := r.Down(); len(down) != 1 || down[0].ID != a.ID || down[0].Why == "" {
		t.Errorf("Down = %+v, want the row of service %d with its reason", down, a.ID)
	}
}

// Whoever gives up waiting for a stuck service leaves nothing behind.
func TestVisitorsOfAStuckServiceLeaveNothing(t *testing.T) {
	block, in := make(chan struct{}), make(chan struct{})
	r := startGo(t, Config{}, goSpec("a", 1, func(*GoContext, string) error { close(in); <-block; return nil }))
	a, _ := r.Lookup("a")
	s := r.reg.find(a.ID)
	go r.Call(context.Background(), CallRequest{Target: Target{Name: "a"}, Method: "stick"})
	<-in
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	ran := false
	for range 100 {
		if err := s.inside(gone, func(*worker) { ran = true }); shield.CodeOf(err) != shield.Timeout {
			t.Fatalf("inside a stuck service = %v, want timeout", err)
		}
	}
	s.mu.Lock()
	left := len(s.urgent)
	s.mu.Unlock()
	close(block)
	if err := s.inside(context.Background(), func(*worker) {}); err != nil {
		t.Fatal(err)
	}
	if left != 0 || ran {
		t.Errorf("%d visits are left, run after they were given up: %v", left, ran)
	}
}

// A service that begins to depend on a new one is started after it.
func TestRespecStartsInOrder(t *testing.T) {
	nothing := func(*GoContext, string) error { return nil }
	r := startGo(t, Config{}, Spec{Name: "a", Script: "none.lua"})
	b := goSpec("b", 1, nothing)
	d, err := r.Respec(context.Background(), []Spec{
		{Name: "a", Instances: 1, Go: func() GoService { return &scripted{handle: nothing} }, DependsOn: []shield.Name{"b"}}, b})
	if err != nil || len(d.Restarted) != 1 || len(d.Started) != 1 {
		t.Errorf("Respec = %+v, %v, want a restarted and b started", d, err)
	}
}

// A service that was given up lets nobody in: its VM is left to the turn.
func TestNobodyVisitsAWedgedService(t *testing.T) {
	block, in := make(chan struct{}), make(chan struct{})
	r := startGo(t, Config{}, Spec{Name: "a", Instances: 1, Restart: Restart{Policy: RestartNever}, Go: func() GoService {
		return &scripted{handle: func(*GoContext, string) error { close(in); <-block; return nil }}
	}})
	defer close(block)
	a, _ := r.Lookup("a")
	s := r.reg.find(a.ID)
	go r.Call(context.Background(), CallRequest{Target: Target{Name: "a"}, Method: "stick"})
	<-in
	visited := make(chan error, 1)
	var ran atomic.Bool
	go func() { visited <- s.inside(context.Background(), func(*worker) { ran.Store(true) }) }()
	for waits := 0; waits == 0; runtime.Gosched() {
		s.mu.Lock()
		waits = len(s.urgent)
		s.mu.Unlock()
	}
	s.wedge(s.turn.Load(), shield.Errorf(shield.HandlerTimeout, "a test says so"))
	if err := <-visited; shield.CodeOf(err) != shield.ServiceDead || ran.Load() {
		t.Errorf("a visit that waited = %v, ran: %v, want service_dead", err, ran.Load())
	}
	if err := s.inside(context.Background(), func(*worker) { ran.Store(true) }); shield.CodeOf(err) != shield.ServiceDead || ran.Load() {
		t.Errorf("a visit that came later = %v, ran: %v, want service_dead", err, ran.Load())
	}
}

// max_message_size holds for what Go makes too: a tool's arguments, a Go
// service's, and its results.
func TestMessageSizeHoldsForGo(t *testing.T) {
	big := strings.Repeat("x", 2000)
	small := goSpec("small", 1, func(*GoContext, string) error { return nil })
	small.Limits.MaxMessageSize = 1000
	answers := Spec{Name: "answers", Instances: 1, Limits: Limits{MaxMessageSize: 1000}, Go: func() GoService { return answer(big) }}
	r := startGo(t, Config{}, small, answers, goSpec("a", 1, func(ctx *GoContext, method string) error {
		return ctx.Send(Target{Name: "small"}, method, big)
	}))
	args, err := value.PayloadOf(big)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, target string
		args         value.Payload
	}{
		{"a tool's arguments", "small", args},
		{"a Go service's arguments", "a", value.Payload{}},
		{"a Go service's results", "answers", value.Payload{}},
	} {
		_, _, err := r.Call(context.Background(), CallRequest{Target: Target{Name: tt.target}, Method: "go", Args: tt.args})
		if shield.CodeOf(err) != shield.MessageTooLarge {
			t.Errorf("%s: %v, want message_too_large", tt.name, err)
		}
	}
}

// answer is a Go service that gives itself for an answer.
type answer string

func (answer) Init(*GoContext, GoArgs) error { return nil }
func (a answer) Handle(*GoContext, string, value.Payload) (value.Payload, error) {
	return value.PayloadOf(string(a))
}
func (answer) Shutdown(*GoContext, string) {}
func (answer) Exit(string)                 {}
