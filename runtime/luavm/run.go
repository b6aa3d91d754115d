package luavm

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Call is one thing to run in a VM.
type Call struct {
	Fn   lua.LValue // a function, or a value with __call
	Args []lua.LValue
	Data any    // what TurnOf gives to Go functions
	Name string // how tracebacks name it: "room.join"; "" = by file and line
	// Budget is how long it may run between two suspensions; 0 is the VM's
	// HandlerTime.
	Budget time.Duration
	// Results is a buffer to reuse: the results are appended to Results[:0].
	Results []lua.LValue
}

// Hand is a Lua stack that a goroutine puts on one VM after another. It is
// used by one goroutine at a time.
type Hand struct {
	world *World
	main  thread
	turn  turn
}

// thread is one Lua stack while it runs code of a VM: a hand's, or a
// coroutine's.
type thread struct {
	L      *lua.LState
	turn   *turn
	co     *coroutine // the coroutine whose stack this is, while it runs; nil for a hand
	parent *thread    // which resumed this one; nil for a hand
	depth  int        // of nested coroutines
	thrown string     // the traceback of the error that an xpcall handler looks at
}

// turn is one run of one call. It lives in its Hand and is used again.
type turn struct {
	vm      atomic.Pointer[VM]
	data    any
	name    string
	fn      lua.LValue
	outer   *thread   // what ran when a Go function called Run
	older   *turn     // in vm.turns
	newer   *turn     //
	parked  string    // the suspending call it waits in
	broken  bool      // a Go panic went through its stacks: they are not used again
	failure *RunError // the abort, once it was raised

	top      *thread                    // the stack that runs, or did when it parked
	inner    innerError                 // what a wrapped coroutine threw
	clock    atomic.Uint64              // odd while Lua runs; rises at each start, park and end
	cur      atomic.Pointer[lua.LState] // top's, for the watcher
	abort    atomic.Uint64              // see askMemory
	measured atomic.Int64               // how long a look at the memory took, for the watcher
	budget   atomic.Int64               // Call.Budget, for the watcher
	show     atomic.Pointer[peek]       // who wants to see the stack
	seen     watched                    // the watcher's notes
}

// innerError keeps where an error began that came out of coroutine.wrap: the
// stack it was thrown on is gone by the time the turn fails.
type innerError struct {
	value lua.LValue
	trace string
}

// Take gives a hand to a goroutine that is going to run turns. Give it back
// with Give.
func (w *World) Take() *Hand {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		h := w.free[n-1]
		w.free = w.free[:n-1]
		w.lowFree = min(w.lowFree, len(w.free))
		return h
	}
	h := &Hand{world: w}
	h.main.L, h.main.turn = w.newStack(), &h.turn
	h.turn.top = &h.main
	h.turn.cur.Store(h.main.L)
	w.hands = append(w.hands, h)
	return h
}

// Give puts the hand back.
func (h *Hand) Give() {
	w := h.world
	w.mu.Lock()
	w.free = append(w.free, h)
	w.mu.Unlock()
}

// trim lets go of the hands and goroutines that nobody needed since it was
// called last. A busy hour must not be paid for ever.
func (w *World) trim() {
	const keep = 8
	w.mu.Lock()
	spare := max(0, min(w.lowFree, len(w.free))-keep)
	drop := make(map[*Hand]bool, spare)
	for _, h := range w.free[:spare] {
		drop[h] = true
	}
	w.free = slices.Delete(w.free, 0, spare)
	w.hands = slices.DeleteFunc(w.hands, func(h *Hand) bool { return drop[h] })
	spare = max(0, min(w.lowIdle, len(w.idle))-keep)
	ended := slices.Clone(w.idle[:spare])
	w.idle = slices.Delete(w.idle, 0, spare)
	w.lowFree, w.lowIdle = len(w.free), len(w.idle)
	w.mu.Unlock()
	for _, k := range ended {
		k.in <- orderEnd
	}
}

// Run runs c on hand h and returns its results. The caller holds the baton of
// vm, and holds it again when Run returns, however often the turn suspended.
func (vm *VM) Run(h *Hand, c Call) ([]lua.LValue, *RunError) {
	if len(c.Args) > maxRegistry/2 { // pushed outside PCall: an overflow would end the process
		msg := fmt.Sprintf("%d arguments are more than a function can take (%d)", len(c.Args), maxRegistry/2)
		return nil, &RunError{Message: msg, Value: lua.LString(msg)}
	}
	t, L := &h.turn, h.main.L
	vm.begin(h, &c)
	L.Push(c.Fn)
	for _, v := range c.Args {
		L.Push(v)
	}
	api := pcall(L, len(c.Args), lua.MultRet)
	if api != nil || t.failure != nil {
		failure := t.fail(L, api)
		vm.end(h)
		return nil, failure
	}
	results := c.Results[:0]
	for i, n := 1, L.GetTop(); i <= n; i++ {
		results = append(results, L.Get(i))
	}
	vm.end(h)
	return results, nil
}

func (vm *VM) begin(h *Hand, c *Call) {
	t, L := &h.turn, h.main.L
	t.data, t.name, t.fn = c.Data, c.Name, c.Fn
	if b := int64(c.Budget); t.budget.Load() != b { // a store costs more than a look
		t.budget.Store(b)
	}
	t.outer, vm.cur = vm.cur, &h.main
	if t.older = vm.turns; t.older != nil {
		t.older.newer = t
	}
	vm.turns = t
	vm.inFlight++
	L.G, L.Env = vm.g, vm.g.Global
	setCallDepth(L, vm.cfg.Limits.CallDepth)
	vm.g.CurrentThread = L
	t.vm.Store(vm)
	t.clock.Add(1)
	vm.world.watch.wake()
}

func (vm *VM) end(h *Hand) {
	t, L := &h.turn, h.main.L
	t.clock.Add(1)
	t.vm.Store(nil)
	vm.ran++
	vm.inFlight--
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		vm.turns = t.older
	}
	if t.older != nil {
		t.older.newer = t.newer
	}
	vm.cur = t.outer
	t.older, t.newer, t.outer, t.data, t.fn, t.inner = nil, nil, nil, nil, nil, innerError{}
	if t.broken || t.failure != nil || bloated(L) {
		t.broken, t.failure = false, nil
		h.main.L = vm.world.newStack()
		t.cur.Store(h.main.L)
		return
	}
	L.SetTop(0)
	takeFunctions(L, nil)
	L.G, L.Env = vm.world.libs.idle, vm.world.libs.idle.Global
}

// fail makes a RunError of what pcall returned, or of the abort it followed.
func (t *turn) fail(L *lua.LState, api *lua.ApiError) *RunError {
	if t.failure != nil {
		return t.failure
	}
	e := newRunError(api, t.entry())
	if t.inner.value != nil && t.inner.value == api.Object {
		e.Traceback = "stack traceback:\n" + traceBody(t.inner.trace) + "\n" + traceBody(e.Traceback)
	}
	if e.Kind == KindPanic || e.Kind == KindOverflow {
		t.broken = true
		return e
	}
	if fn := L.GetMetaField(api.Object, "__tostring"); fn.Type() == lua.LTFunction {
		L.Push(fn) // the script's own words for an error that is an object
		L.Push(api.Object)
		if pcall(L, 1, 1) == nil && lua.LVCanConvToString(L.Get(-1)) {
			e.Message = L.Get(-1).String()
			e.locate()
		}
		if t.failure != nil {
			return t.failure
		}
	}
	return e
}

// entry is how tracebacks name the function that the turn began with.
func (t *turn) entry() string {
	if t.name != "" {
		return "handler '" + t.name + "'"
	}
	return describe(t.fn)
}
