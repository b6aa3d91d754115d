package luavm

import (
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
)

// Call is one thing to run in a VM.
type Call struct {
	Fn   lua.LValue // a function, or a value with __call
	Args []lua.LValue
	Data any    // what TurnOf gives to Go functions
	Name string // how tracebacks name it: "room.join"; "" = by file and line
	// Results is a buffer to reuse: the results are appended to Results[:0].
	Results []lua.LValue
}

// Hand is a Lua stack that a goroutine puts on one VM after another. It is
// used by one goroutine at a time.
type Hand struct {
	world  *World
	main   thread
	turn   turn
	spoilt bool
}

// thread is one Lua stack while it runs code of a VM: a hand's, or a
// coroutine's.
type thread struct {
	L       *lua.LState
	turn    *turn
	co      *coroutine // nil for a hand; set only while it runs
	parent  *thread    // which resumed this one; nil for a hand
	depth   int        // of nested coroutines
	errText string     // the traceback of the error that xpcall's handler looks at
}

// turn is one run of one call. It lives in its Hand and is used again.
type turn struct {
	vm   *VM
	data any
	name string
	fn   lua.LValue
	hand *Hand

	prev, next *turn     // in vm.turns
	waiting    string    // the suspending call it is parked in
	failure    *RunError // the abort, once it was raised

	id    atomic.Uint64          // which run this is; 0 = none
	clock atomic.Uint64          // odd while Lua runs; changes at each start, park and end
	cur   atomic.Pointer[thread] // the stack that runs
	abort atomic.Uint64          // id<<8 | reason bits; see guard.go
	seen  watched                // the watcher's notes
}

// Take gives a hand to a goroutine that is going to run turns. Give it back
// with Give.
func (w *World) Take() *Hand {
	w.mu.Lock()
	if n := len(w.free); n > 0 {
		h := w.free[n-1]
		w.free = w.free[:n-1]
		w.mu.Unlock()
		return h
	}
	h := &Hand{world: w}
	h.main.L, h.main.turn, h.turn.hand = w.newStack(), &h.turn, h
	w.hands[h] = struct{}{}
	w.mu.Unlock()
	return h
}

// Give puts the hand back.
func (h *Hand) Give() {
	w := h.world
	w.mu.Lock()
	w.free = append(w.free, h)
	w.mu.Unlock()
}

// Run runs c on hand h and returns its results. The caller holds the baton of
// vm, and holds it again when Run returns, however often the turn suspended.
func (vm *VM) Run(h *Hand, c Call) ([]lua.LValue, *RunError) {
	t, L := &h.turn, h.main.L
	vm.begin(t, &c)
	L.Push(c.Fn)
	for _, v := range c.Args {
		L.Push(v)
	}
	err := L.PCall(len(c.Args), lua.MultRet, nil)
	if err != nil || t.failure != nil {
		return nil, vm.fail(h, err)
	}
	results := c.Results[:0]
	for i := 1; i <= L.GetTop(); i++ {
		results = append(results, L.Get(i))
	}
	vm.end(t)
	L.SetTop(0)
	return results, nil
}
