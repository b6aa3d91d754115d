package service

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"shield/runtime/shield"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRingKeepsOrder(t *testing.T) {
	var r ring
	rng := rand.New(rand.NewPCG(1, 2))
	next, want := uint64(0), uint64(0)
	counted := 0
	for range 10000 {
		if r.n == 0 || rng.IntN(5) < 3 {
			m := message{kind: kindSend, gen: next}
			if next%3 == 0 {
				m.kind = kindNotice
			} else {
				counted++
			}
			r.push(&m)
			next++
			continue
		}
		var m message
		r.pop(&m)
		if m.gen != want {
			t.Fatalf("popped %d, want %d", m.gen, want)
		}
		if m.kind.counted() {
			counted--
		}
		want++
		if r.counted != counted {
			t.Fatalf("counted = %d, want %d", r.counted, counted)
		}
	}
	r.pushFront(&message{kind: kindTurn, gen: 7})
	var m message
	if r.pop(&m); m.gen != 7 {
		t.Errorf("pushFront: popped %d, want 7", m.gen)
	}
}

// A late answer reaches nobody, also when its wait is in use again.
func TestLateAnswers(t *testing.T) {
	r := &Runtime{clock: newClock()}
	s := &Service{rt: r, phase: phaseInit, initBegun: true, held: true}
	w := s.newWait(waitCall, 0)
	first := w.gen()
	if !s.answer(w, first, nil, nil) || s.answer(w, first, nil, nil) {
		t.Error("the first answer counts, the second does not")
	}
	s.ready.pop()
	s.freeWait(w)
	if again := s.newWait(waitCall, 0); again != w {
		t.Fatal("a wait is used again")
	}
	if s.answer(w, first, nil, shield.Errorf(shield.Timeout, "old")) || w.err != nil {
		t.Error("an answer to an earlier use got through")
	}
	if !s.answer(w, w.gen(), nil, nil) {
		t.Error("the answer to this use did not get through")
	}
	if n := r.count.lateReplies.Load(); n != 2 {
		t.Errorf("late replies = %d, want 2", n)
	}
}

func TestTimersFireInOrder(t *testing.T) {
	var ts timers
	rng := rand.New(rand.NewPCG(3, 4))
	var all []*timer
	for i := range 500 {
		x := &timer{id: uint64(i), at: rng.Int64N(50)}
		all = append(all, x)
		ts.push(x)
	}
	for i := 0; i < len(all); i += 7 {
		ts.remove(all[i])
		ts.remove(all[i]) // twice does no harm
	}
	last := &timer{at: -1}
	n := 0
	for len(ts.heap) > 0 {
		x := ts.heap[0]
		ts.remove(x)
		if x.at < last.at || x.at == last.at && x.id < last.id {
			t.Fatalf("%d@%d after %d@%d", x.id, x.at, last.id, last.at)
		}
		last, n = x, n+1
	}
	if want := 500 - (500+6)/7; n != want {
		t.Errorf("%d timers, want %d", n, want)
	}
}

// The clock looks at each service at the earliest moment it was armed for.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runtime{clock: newClock()}
		done, ended := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); r.clock.run(done) }()
		var fired []string
		begin := time.Now()
		rng := rand.New(rand.NewPCG(5, 6))
		var want []string
		for i := range 20 {
			s := &Service{rt: r, slot: -1, phase: phaseInit, initBegun: true, held: true}
			at := rng.Int64N(1000) + 1
			w := s.newWait(waitSleep, r.clock.now()+at*int64(time.Millisecond))
			s.mu.Lock()
			s.waiting.push(w)
			r.clock.arm(s, w.deadline+int64(time.Hour)) // too late, and then earlier
			r.clock.arm(s, w.deadline)
			s.mu.Unlock()
			_ = i
			want = append(want, fmt.Sprintf("%04d", at))
			defer func() {
				if !w.expired {
					t.Errorf("a wait of %d ms has not expired", at)
				}
			}()
		}
		for range 1000 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			r.clock.mu.Lock()
			left := len(r.clock.heap)
			r.clock.mu.Unlock()
			for len(fired) < 20-left {
				fired = append(fired, fmt.Sprintf("%04d", time.Since(begin).Milliseconds()))
			}
		}
		if d := cmp.Diff(sorted(want), fired); d != "" {
			t.Errorf("fired (-want +got):\n%s", d)
		}
		close(done)
		<-ended
	})
}

// OnName hears changes in their order, though it may itself change names.
func TestNameChangesAreToldInOrder(t *testing.T) {
	var told []string
	var r *registry
	a := &Service{spec: &Spec{}, name: "a", handle: shield.Handle{ID: 1}}
	r = newRegistry(func(name shield.Name, _ shield.ServiceID, published bool) {
		told = append(told, fmt.Sprintf("%s %v", name, published))
		if name == "a" && published {
			if err := r.publish("b", a); err != nil {
				t.Error(err)
			}
			r.withdraw("a", a)
		}
	})
	if err := r.add(a, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.publish("a", a); err != nil {
		t.Fatal(err)
	}
	r.withdrawAll(a, false)
	if d := cmp.Diff([]string{"a true", "b true", "a false", "b false"}, told); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	r.close()
	if err := r.add(&Service{spec: &Spec{}, name: "c"}, nil); err == nil || err.Code != shield.RuntimeStopping {
		t.Errorf("add to a closed registry = %v, want runtime_stopping", err)
	}
}

func TestRestartDelay(t *testing.T) {
	p := Restart{}
	for n, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := p.delay(n); got != want*time.Second {
			t.Errorf("delay(%d) = %v, want %v", n, got, want*time.Second)
		}
	}
	if got := p.delay(5000); got != 30*time.Second {
		t.Errorf("delay(5000) = %v, want 30s", got)
	}
}

func TestLimitsFillIn(t *testing.T) {
	got := Limits{MaxTimers: 3}.or(DefaultLimits())
	want := DefaultLimits()
	want.MaxTimers = 3
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("or (-want +got):\n%s", d)
	}
}

func TestTraceIDsDiffer(t *testing.T) {
	r := &Runtime{}
	seen := map[shield.TraceID]bool{}
	for range 10000 {
		id := r.newTrace()
		if id == 0 || seen[id] {
			t.Fatalf("trace %s twice or zero", id)
		}
		seen[id] = true
	}
}
