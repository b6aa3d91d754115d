package service

import (
	"fmt"
	"log/slog"
	"time"

	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// timer is a callback that is due at a moment. A periodic one is due again a
// period after its callback has returned.
type timer struct {
	id     uint64
	at     int64
	period time.Duration // 0 = once
	fn     *lua.LFunction
	goFn   func(*GoContext) error
	index  int  // in the heap; -1 = not in it: its message is in the mailbox or it runs
	off    bool // cancelled
	job    job
}

// timers are the timers of one service, guarded by its lock.
type timers struct {
	last uint64
	byID map[uint64]*timer
	heap []*timer
}

// AddTimer lets fn run after d, and again and again when it repeats. The
// caller holds the baton.
func (s *Service) AddTimer(d time.Duration, fn *lua.LFunction, repeats bool) (uint64, *shield.Error) {
	return s.addTimer(d, &timer{fn: fn}, repeats)
}

// shortest is the shortest period of a repeating timer; zero would let a
// service do nothing else.
const shortest = time.Millisecond

func (s *Service) addTimer(d time.Duration, t *timer, repeats bool) (uint64, *shield.Error) {
	d = max(d, 0)
	if repeats {
		d = max(d, shortest)
		t.period = d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= phaseEnding {
		return 0, shield.Errorf(shield.RuntimeStopping, "%s is ending: a timer would never fire", s.label())
	}
	ts := &s.timers
	if len(ts.byID) >= s.lim.MaxTimers {
		s.rt.count.timerLimit.Add(1)
		return 0, shield.Errorf(shield.TimerLimit, "%s has %d timers (limits.max_timers): cancel timers or use one for many things", s.label(), len(ts.byID))
	}
	if ts.byID == nil {
		ts.byID = make(map[uint64]*timer)
	}
	ts.last++
	t.job.timer = t
	t.id, t.at = ts.last, later(s.now(), d)
	ts.byID[t.id] = t
	ts.push(t)
	s.rt.clock.arm(s, t.at)
	return t.id, nil
}

// CancelTimer forgets a timer; its callback does not run again.
func (s *Service) CancelTimer(id uint64) *shield.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.timers.byID[id]
	if t == nil {
		return shield.Errorf(shield.TimerNotFound, "%s has no timer %d: it has fired, was cancelled, or belongs to another service", s.label(), id)
	}
	t.off = true
	delete(s.timers.byID, id)
	s.timers.remove(t)
	return nil
}

// timerDone is called after a timer's callback: one that repeats is set again,
// unless it was cancelled meanwhile, or threw. It reports whether the last is why
// it is not.
func (s *Service) timerDone(t *timer, failed bool) (stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.off {
		return false
	}
	if t.period == 0 || failed || s.phase >= phaseEnding {
		t.off = true
		delete(s.timers.byID, t.id)
		return failed && t.period != 0 && s.phase < phaseEnding
	}
	t.at = later(s.now(), t.period)
	s.timers.push(t)
	s.rt.clock.arm(s, t.at)
	return false
}

// timerStopped says that a timer which repeats is gone because it has thrown;
// the error itself is in the next line.
func (s *Service) timerStopped(t *timer) {
	where := "a timer"
	if at := placeOf(t.fn); at != "" {
		where = "the timer of " + at
	}
	s.log(slog.LevelError, fmt.Sprintf("%s, every %s, is stopped: it has thrown (the next line says what); set it again, or use pcall inside it",
		where, t.period), slog.String("event", "timer"), slog.Uint64("timer", t.id))
}

// tick is the clock's call: what is due is done, and the clock told when to
// come again.
func (s *Service) tick() {
	s.mu.Lock()
	s.armed = 0
	if s.phase == phaseEnded {
		s.mu.Unlock()
		return
	}
	now := s.now()
	next := int64(0)
	for w := s.waiting.head; w != nil; {
		after := w.next
		switch {
		case w.deadline == 0:
		case w.deadline <= now:
			w.expired = true
			s.readyLocked(w)
		case next == 0 || w.deadline < next:
			next = w.deadline
		}
		w = after
	}
	if s.trimAt != 0 && s.box.n == 0 && s.trimAt <= now {
		s.box, s.trimAt = ring{}, 0
	} else if s.trimAt > now && (next == 0 || s.trimAt < next) {
		next = s.trimAt
	}
	ts := &s.timers
	for len(ts.heap) > 0 && ts.heap[0].at <= now {
		t := ts.heap[0]
		ts.remove(t)
		s.box.push(&message{kind: kindTimer, job: &t.job})
	}
	if len(ts.heap) > 0 && (next == 0 || ts.heap[0].at < next) {
		next = ts.heap[0].at
	}
	if next != 0 {
		s.rt.clock.arm(s, next)
	}
	s.startLocked()
}

// clear drops every timer.
func (ts *timers) clear() {
	for _, t := range ts.byID {
		t.off = true
	}
	ts.byID, ts.heap = nil, nil
}

func (ts *timers) push(t *timer) {
	t.index = len(ts.heap)
	ts.heap = append(ts.heap, t)
	ts.up(t.index)
}

func (ts *timers) remove(t *timer) {
	i := t.index
	if i < 0 || i >= len(ts.heap) || ts.heap[i] != t {
		return
	}
	n := len(ts.heap) - 1
	ts.swap(i, n)
	ts.heap[n] = nil
	ts.heap = ts.heap[:n]
	if i < n {
		ts.down(i)
		ts.up(i)
	}
	t.index = -1
}

// less puts timers of one moment in the order they were made.
func (ts *timers) less(i, j int) bool {
	a, b := ts.heap[i], ts.heap[j]
	return a.at < b.at || a.at == b.at && a.id < b.id
}

func (ts *timers) swap(i, j int) {
	ts.heap[i], ts.heap[j] = ts.heap[j], ts.heap[i]
	ts.heap[i].index, ts.heap[j].index = i, j
}

func (ts *timers) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !ts.less(i, p) {
			return
		}
		ts.swap(i, p)
		i = p
	}
}

func (ts *timers) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(ts.heap) {
			return
		}
		if k+1 < len(ts.heap) && ts.less(k+1, k) {
			k++
		}
		if !ts.less(k, i) {
			return
		}
		ts.swap(i, k)
		i = k
	}
}
