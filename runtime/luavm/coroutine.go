package luavm

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// gopher-lua's own coroutines break under the baton: one that is parked in a
// suspending call looks suspended and can be resumed into the middle of a Go
// function, coroutine.running gives away the pooled stack, two that resume each
// other end the process, and yield inside pcall, a metamethod or an iterator
// dereferences nil. Ours run on a goroutine each; resume and yield pass the turn
// between them, so a coroutine may yield and suspend anywhere.

// coroutine is what Lua sees. The token makes it a value of type thread; it
// never runs anything. While the coroutine is suspended only Lua keeps it
// alive: its goroutine waits without a path to it or to anything on its stack
// (see parkedStack), so when a script forgets it, its cleanup ends the
// goroutine.
type coroutine struct {
	token   lua.LState // first, so that a pointer to it is one to the whole
	fn      *lua.LFunction
	status  costatus
	k       *worker // from the first resume to the end
	stack   parkedStack
	cleanup runtime.Cleanup
}

type costatus uint8

const (
	coSuspended costatus = iota
	coRunning
	coNormal // it has resumed another one
	coDead
)

func (s costatus) String() string {
	return [...]string{"suspended", "running", "normal", "dead"}[s]
}

// tokenMark tells a token from the stacks that run.
const tokenMark = -0x5e1d

// maxNested bounds how deep coroutines may resume one another: each level is a
// goroutine and a stack.
const maxNested = 100

// worker is a goroutine with a stack that runs one coroutine after another.
type worker struct {
	world *World
	vm    *VM
	in    chan order // to go on, or to end
	out   chan bool  // it has yielded (true) or finished
	th    thread
	pass  []lua.LValue  // what resume and yield hand over
	err   *lua.ApiError // how it finished

	suspended atomic.Bool // waiting in yield
	ended     atomic.Bool // was told to end
	tie       *tie        // to the cleanup of its coroutine
}

type order uint8

const (
	orderGo order = iota
	orderEnd
)

// tie is all that a coroutine's cleanup holds, so that a goroutine which was
// ended first is not kept until the collector has found the coroutine.
type tie struct{ k *worker }

// newCoroutine makes a coroutine that will run fn.
func newCoroutine(fn *lua.LFunction) *coroutine {
	co := &coroutine{fn: fn}
	co.token.Options.RegistrySize = tokenMark
	return co
}

// asCoroutine gives the coroutine that v is, or nil.
func asCoroutine(v lua.LValue) *coroutine {
	L, ok := v.(*lua.LState)
	if !ok || L.Options.RegistrySize != tokenMark {
		return nil
	}
	return (*coroutine)(unsafe.Pointer(L))
}

// takeWorker gives a goroutine for co and remembers it.
func (vm *VM) takeWorker(co *coroutine) *worker {
	w := vm.world
	w.reap()
	w.mu.Lock()
	var k *worker
	if n := len(w.idle); n > 0 {
		k, w.idle = w.idle[n-1], w.idle[:n-1]
		w.lowIdle = min(w.lowIdle, n-1)
	} else {
		k = &worker{world: w, in: make(chan order, 1), out: make(chan bool, 1)}
		k.th.L = w.newStack()
		w.live[k] = true
		w.wg.Go(k.run)
	}
	w.mu.Unlock()
	k.vm = vm
	if vm.coroutines == nil {
		vm.coroutines = map[*worker]weak.Pointer[coroutine]{}
	}
	vm.coroutines[k] = weak.Make(co)
	k.tie = &tie{k}
	co.cleanup = runtime.AddCleanup(co, w.forgotten, k.tie)
	co.k = k
	return k
}

// release takes the goroutine of a finished coroutine back.
func (vm *VM) release(co *coroutine, spoilt bool) {
	k := co.k
	co.k, co.status = nil, coDead
	co.cleanup.Stop()
	vm.world.untie(k)
	delete(vm.coroutines, k)
	k.vm, k.err = nil, nil
	if spoilt || bloated(k.th.L) {
		k.th.L = vm.world.newStack()
	} else {
		takeFunctions(k.th.L, nil)
		k.th.L.G, k.th.L.Env = vm.world.libs.idle, vm.world.libs.idle.Global
	}
	w := vm.world
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.idle = append(w.idle, k)
	}
	w.mu.Unlock()
	if closed {
		k.in <- orderEnd
	}
}

// forgotten runs when the collector has found that nobody can resume k's
// coroutine. It must not touch a channel: it may run outside the synctest
// bubble that the world lives in.
func (w *World) forgotten(t *tie) {
	w.mu.Lock()
	if t.k != nil {
		w.doomed = append(w.doomed, t.k)
	}
	w.mu.Unlock()
}

// untie lets go of the cleanup.
func (w *World) untie(k *worker) {
	w.mu.Lock()
	k.tie.k = nil
	w.mu.Unlock()
}

// reap ends the goroutines of forgotten coroutines.
func (w *World) reap() {
	w.mu.Lock()
	doomed := w.doomed
	w.doomed = nil
	w.mu.Unlock()
	for _, k := range doomed {
		w.end(k)
	}
}

// end tells a goroutine that waits in yield, or idles, to end.
func (w *World) end(k *worker) {
	if k.ended.CompareAndSwap(false, true) {
		w.untie(k)
		k.in <- orderEnd
	}
}

// run is the goroutine.
func (k *worker) run() {
	defer func() {
		k.world.mu.Lock()
		delete(k.world.live, k)
		k.world.mu.Unlock()
		k.th, k.pass = thread{}, nil // its VM may remember k for a while
	}()
	for {
		if <-k.in == orderEnd {
			return
		}
		k.body()
		k.out <- false
	}
}

// body runs one coroutine from its first resume to its end. It keeps no
// reference to it.
func (k *worker) body() {
	L := k.th.L
	L.SetTop(0)
	L.Push(k.th.co.fn)
	k.th.co.fn = nil
	for _, v := range k.pass {
		L.Push(v)
	}
	n := len(k.pass)
	clear(k.pass)
	k.pass, k.err = k.pass[:0], nil
	if k.err = pcall(L, n, lua.MultRet); k.err != nil {
		return
	}
	for i := 1; i <= L.GetTop(); i++ {
		k.pass = append(k.pass, L.Get(i))
	}
	L.SetTop(0)
}

// refuse says why co can't be resumed now, or gives nil.
func (vm *VM) refuse(co *coroutine) lua.LValue {
	switch {
	case co.status == coDead:
		return lua.LString("cannot resume dead coroutine")
	case co.status == coSuspended:
		if vm.cur.depth >= maxNested {
			return lua.LString(fmt.Sprintf("stack overflow (coroutines nested deeper than %d)", maxNested))
		}
		if co.k == nil && !vm.mayStart() {
			return vm.world.errorValue(shield.Errorf(shield.CoroutineLimit,
				"the service has %d handlers and coroutines in flight (max_coroutines)", vm.cfg.Limits.Coroutines))
		}
		return nil
	case co.k.th.turn.parked != "":
		return lua.LString("cannot resume: waiting in " + co.k.th.turn.parked)
	default:
		return lua.LString("cannot resume non-suspended coroutine")
	}
}

// resume runs co with the arguments from..top of L until it yields or ends, and
// pushes what it gave. A refusal means that it did not run.
func (vm *VM) resume(L *lua.LState, co *coroutine, from int) (n int, failed *lua.ApiError, refusal lua.LValue) {
	if refusal = vm.refuse(co); refusal != nil {
		return 0, nil, refusal
	}
	th := vm.cur
	k := co.k
	if k == nil {
		k = vm.takeWorker(co)
		k.th.L.G, k.th.L.Env = vm.g, vm.g.Global
		setCallDepth(k.th.L, vm.cfg.Limits.CallDepth)
	}
	k.pass = k.pass[:0] // pushing the last ones may have failed half-way
	for i := from; i <= L.GetTop(); i++ {
		k.pass = append(k.pass, L.Get(i))
	}
	k.th.turn, k.th.parent, k.th.depth, k.th.co = th.turn, th, th.depth+1, co
	if th.co != nil {
		th.co.status = coNormal
	}
	co.status = coRunning
	vm.switchTo(&k.th)
	k.in <- orderGo
	yielded := <-k.out
	vm.switchTo(th)
	if th.co != nil {
		th.co.status = coRunning
	}
	k.th.turn, k.th.parent, k.th.co, k.th.thrown = nil, nil, nil, ""
	pass := k.pass
	if !yielded || vm.closed {
		k.pass = nil // the worker is about to be somebody else's, or nobody's
	}
	if yielded {
		co.status = coSuspended
		if vm.closed {
			vm.world.end(k)
		}
	} else {
		failed = k.err
		vm.release(co, failed != nil && (failed.Type == lua.ApiErrorPanic || th.turn.failure != nil || overflowed(failed.Object)))
	}
	if failed == nil {
		for _, v := range pass {
			L.Push(v)
		}
	}
	n = len(pass)
	clear(pass)
	return n, failed, nil
}

// switchTo makes th the stack that runs. See turn.ask for the order.
func (vm *VM) switchTo(th *thread) {
	vm.cur, vm.g.CurrentThread = th, th.L
	t := th.turn
	t.top = th
	t.cur.Store(th.L)
	if t.failure != nil || t.abort.Load()>>askBits == t.clock.Load() {
		raiseFlag(th.L)
	}
}

// yield hands the values on the stack of L to whoever resumed it.
func yield(L *lua.LState) int {
	vm := VMOf(L)
	th := vm.cur
	if th == nil || th.L != L || th.co == nil {
		L.RaiseError("attempt to yield from outside a coroutine")
	}
	k := th.co.k
	k.pass = k.pass[:0]
	for i := 1; i <= L.GetTop(); i++ {
		k.pass = append(k.pass, L.Get(i))
	}
	k.park(L)
	if <-k.in == orderEnd {
		runtime.Goexit() // no Lua runs any more; pcall's deferred calls touch only this stack
	}
	k.unpark(L)
	n := len(k.pass)
	for _, v := range k.pass {
		L.Push(v)
	}
	clear(k.pass)
	k.pass = k.pass[:0]
	return n
}

// park and unpark are functions of their own so that nothing of the coroutine
// stays in the frame of yield.
//
//go:noinline
func (k *worker) park(L *lua.LState) {
	co := k.th.co
	co.stack.save(L)
	k.suspended.Store(true)
	k.out <- true
}

//go:noinline
func (k *worker) unpark(L *lua.LState) {
	k.suspended.Store(false)
	k.th.co.stack.restore(L)
}

// mayStart reports whether one more coroutine fits under the limit. Those that
// the script has forgotten but the collector has not found count as well, so at
// the limit it looks for them first.
func (vm *VM) mayStart() bool {
	limit := vm.cfg.Limits.Coroutines
	if len(vm.coroutines)+vm.Turns() < limit {
		return true
	}
	vm.prune()
	if len(vm.coroutines)+vm.Turns() < limit {
		return true
	}
	if !vm.world.mayCollect() {
		return false
	}
	runtime.GC()
	vm.prune()
	return len(vm.coroutines)+vm.Turns() < limit
}

// mayCollect allows one collection a second for the sake of coroutine limits.
func (w *World) mayCollect() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.collected) >= time.Second {
		w.collected = now
		return true
	}
	return false
}

// prune drops the coroutines and interned values that the collector has taken.
func (vm *VM) prune() {
	vm.pruneInterned()
	for k, p := range vm.coroutines {
		if p.Value() == nil {
			vm.world.end(k)
			delete(vm.coroutines, k)
		}
	}
}
