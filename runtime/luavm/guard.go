package luavm

import (
	"fmt"
	"runtime/metrics"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// An abort belongs to one stretch of one turn: turn.abort holds the stretch's
// clock above these bits, so one that comes late meets another clock and is
// nothing.
const (
	askMemory  = 1 << iota // measure the VM, then decide
	askTimeout             // the stretch ran too long
	askStack               // somebody wants to see where it is
	askBits    = 8
)

// watcher looks at running turns from outside. It sleeps while none runs.
type watcher struct {
	asleep atomic.Bool
	rouse  chan struct{}
	quit   chan struct{}
	heap   []metrics.Sample
	now    atomic.Int64 // the time of the last tick, since the world began
	live   atomic.Int64 // bytes that the last collection left, read each tenth of a second
}

// watched is what the watcher noted about a turn.
type watched struct {
	clock   uint64
	since   time.Time
	heap    uint64    // of the process, when the VM was last measured or began
	rest    time.Time // no look before: at most half the time goes into looking
	aborted time.Time // when it was told to end
	stuck   bool      // OnStuck was told
}

// lingerTicks is how long the watcher stays awake without work: waking it for
// each message of a quiet service would cost more than ticking on.
const lingerTicks = 100

// liveTicks is how often it reads what the process holds.
const liveTicks = 10

func (w *World) startWatcher() {
	w.watch.rouse, w.watch.quit = make(chan struct{}, 1), make(chan struct{})
	w.watch.readLive()
	w.wg.Go(w.runWatcher)
}

func (w *watcher) readLive() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	w.live.Store(int64(s[0].Value.Uint64()))
}

func (w *watcher) stop() { close(w.quit) }

// wake is called whenever Lua begins to run, so it costs one load.
func (w *watcher) wake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		select {
		case w.rouse <- struct{}{}:
		default:
		}
	}
}

func (w *World) runWatcher() {
	tick := time.NewTicker(w.cfg.Tick)
	defer tick.Stop()
	began := time.Now()
	for idle, n := 0, 0; ; n++ {
		select {
		case <-w.watch.quit:
			return
		case <-tick.C:
		}
		w.watch.now.Store(int64(time.Since(began)))
		if n%liveTicks == 0 {
			w.watch.readLive()
		}
		if n%lingerTicks == 0 {
			w.trim()
		}
		if w.look(time.Now()) {
			idle = 0
		} else if idle++; idle%lingerTicks == 0 {
			w.watch.asleep.Store(true)
			if w.anyRunning() {
				w.watch.asleep.Store(false)
				continue
			}
			w.trim()
			if !w.sleep(tick) {
				return
			}
		}
	}
}

// sleep waits until Lua runs again. Coroutines that nobody can resume are found
// by the collector meanwhile, so where there are suspended ones it looks now and
// then. ok is false when the world closes.
func (w *World) sleep(tick *time.Ticker) (ok bool) {
	for {
		if s := w.Stats(); s.CoroutineGoroutines > s.Waiting {
			tick.Reset(lookAsleep)
		} else {
			tick.Stop()
		}
		select {
		case <-w.watch.quit:
			return false
		case <-w.watch.rouse:
			tick.Reset(w.cfg.Tick)
			return true
		case <-tick.C:
			w.reap()
		}
	}
}

// lookAsleep is how often a sleeping watcher looks for forgotten coroutines.
const lookAsleep = 10 * time.Second

func (w *World) anyRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hands {
		if h.turn.clock.Load()&1 == 1 {
			return true
		}
	}
	return false
}

// look visits every hand once and reports whether any is at work.
func (w *World) look(now time.Time) (busy bool) {
	w.reap()
	busy, told := w.lookAtTurns(now)
	for _, s := range told {
		if w.cfg.OnStuck != nil {
			w.cfg.OnStuck(s.vm, s.err)
		}
	}
	return busy
}

// stuckTurn is one that has ignored its abort.
type stuckTurn struct {
	vm  *VM
	err *RunError
}

// lookAtTurns touches nothing but atomics and the list of hands, so that a world
// in a synctest bubble can have it called from outside. See Config.Watch.
func (w *World) lookAtTurns(now time.Time) (busy bool, stuck []stuckTurn) {
	heap := uint64(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hands {
		t := &h.turn
		clock := t.clock.Load()
		if clock&1 == 0 {
			continue
		}
		busy = true
		vm := t.vm.Load()
		if vm == nil {
			continue // it has just ended
		}
		if t.seen.clock != clock {
			t.seen = watched{clock: clock, since: now}
			continue
		}
		if heap == 0 {
			metrics.Read(w.watch.heap)
			heap = w.watch.heap[0].Value.Uint64()
		}
		if ran := t.watch(vm, now, heap); !t.seen.aborted.IsZero() && !t.seen.stuck && now.Sub(t.seen.aborted) >= w.cfg.StuckAfter {
			t.seen.stuck = true
			stuck = append(stuck, stuckTurn{vm, &RunError{Kind: KindTimeout, Message: fmt.Sprintf(
				"handler ran %v without suspending and did not stop when it was aborted: a Go function does not return", ran.Round(time.Millisecond))}})
		}
	}
	return busy, stuck
}

// watch decides about one stretch that was running at the last tick too.
func (t *turn) watch(vm *VM, now time.Time, heap uint64) (ran time.Duration) {
	n := &t.seen
	ran = now.Sub(n.since)
	if took := t.measured.Swap(0); took > 0 {
		n.heap, n.rest = heap, now.Add(time.Duration(took)) // looking takes memory as well
	}
	if n.heap == 0 || heap < n.heap {
		n.heap = heap
	}
	if limit := vm.cfg.Limits; ran >= t.limit(vm) {
		if n.aborted.IsZero() {
			n.aborted = now
		}
		t.ask(n.clock, askTimeout)
	} else if grown := heap - n.heap; grown > uint64(max(limit.Memory/4, 8<<20)) && now.After(n.rest) {
		n.heap = heap
		t.ask(n.clock, askMemory)
	}
	return ran
}

// limit is how long the turn may run between two suspensions.
func (t *turn) limit(vm *VM) time.Duration {
	if b := time.Duration(t.budget.Load()); b > 0 {
		return b
	}
	return vm.cfg.Limits.HandlerTime
}

// ask makes the stretch call interrupt soon. The flag goes up after the reason,
// and whoever changes turn.cur looks at the reason after it (see switchTo), so
// one of the two sees the other.
func (t *turn) ask(clock, bit uint64) {
	for {
		old := t.abort.Load()
		bits := bit
		if old>>askBits == clock {
			bits |= old & (1<<askBits - 1)
		}
		if t.abort.CompareAndSwap(old, clock<<askBits|bits) {
			break
		}
	}
	raiseFlag(t.cur.Load())
}

// asked gives the reasons to interrupt the present stretch, and forgets those
// that don't end it.
func (t *turn) asked() uint64 {
	for {
		a := t.abort.Load()
		if a>>askBits != t.clock.Load() {
			return 0
		}
		if t.abort.CompareAndSwap(a, a&^(askMemory|askStack)) {
			return a & (1<<askBits - 1)
		}
	}
}

// interrupt is called by a stack that found its flag raised. It returns when
// the turn may go on.
func interrupt(L *lua.LState) {
	lowerFlag(L)
	vm := VMOf(L)
	if vm == nil || vm.cur == nil || vm.cur.L != L {
		return
	}
	t := vm.cur.turn
	if t.failure != nil {
		raiseFlag(L)
		L.Error(t.failure.Value, 0)
	}
	asked := t.asked()
	if asked&askStack != 0 {
		t.shown(vm.cur)
	}
	switch {
	case asked&askTimeout != 0:
		msg := fmt.Sprintf("handler ran longer than %d ms without suspending (max_handler_ms)", t.limit(vm).Milliseconds())
		if t.budget.Load() > 0 {
			msg = fmt.Sprintf("ran longer than its budget of %d ms without suspending", t.limit(vm).Milliseconds())
		}
		vm.abort(L, KindTimeout, nil, msg)
	case asked&askMemory != 0:
		start := time.Now()
		u := vm.measure()
		t.measured.Store(int64(time.Since(start)))
		if u.Over(vm.cfg.Limits.Memory) {
			vm.abort(L, KindMemory, nil, memoryMessage(u.Bytes, vm.cfg.Limits.Memory))
		}
		vm.tidy.due = vm.tidy.due || u.Bytes > vm.cfg.Limits.Memory
	}
}

func memoryMessage(have, limit int64) string {
	return fmt.Sprintf("the service holds about %d MiB, more than its %d MiB (max_memory)", have>>20, limit>>20)
}

// poll lets a long loop in one of our own library functions be interrupted.
func poll(L *lua.LState) {
	if flagged(L) {
		interrupt(L)
	}
}

// abort ends the turn that runs on L, for good: pcall and coroutines pass it
// on when they see turn.failure, and the raised flag catches code that goes on.
func (vm *VM) abort(L *lua.LState, kind Kind, reason any, message string) {
	t := vm.cur.turn
	message = where(L) + message
	t.failure = &RunError{Kind: kind, Message: message, Value: lua.LString(message), Traceback: vm.cur.traceback(0), Reason: reason}
	t.failure.locate()
	raiseFlag(L)
	L.Error(t.failure.Value, 0)
}

// checkConcat refuses a concatenation whose result alone would break the
// memory limit, before memory is taken for it.
func checkConcat(L *lua.LState, parts []lua.LValue) {
	total := 0
	for _, p := range parts {
		if s, ok := p.(lua.LString); ok {
			total += len(s)
		}
	}
	if total > 1<<20 {
		checkSize(L, "concatenation", total)
	}
}

// checkSize refuses to build a string of n bytes that breaks the memory limit.
func checkSize(L *lua.LState, what string, n int) {
	vm := VMOf(L)
	if vm == nil {
		return
	}
	if limit := vm.cfg.Limits.Memory; int64(n) > limit || n < 0 {
		L.RaiseError("%s: a string of %d bytes is more than the service may hold (max_memory, %d MiB)", what, n, limit>>20)
	}
}
