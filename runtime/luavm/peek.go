package luavm

import (
	"context"
)

// peek is one question for where a turn is. The stack that runs answers it.
type peek struct {
	clock  uint64 // of the stretch that was asked
	answer chan string
	next   *peek // asked before
}

// Running describes the Lua frames of the turn that runs in the VM right now,
// innermost first. It is for whoever can't have the baton because that turn
// does not give it up: the turn is asked, and answers the next time its Lua
// looks up. The stack is "" when it did not within ctx, because a Go function
// does not return, and ok is false when nothing runs. Any goroutine.
func (vm *VM) Running(ctx context.Context) (stack string, ok bool) {
	t, clock := vm.world.running(vm)
	if t == nil {
		return "", false
	}
	p := &peek{clock: clock, answer: make(chan string, 1)}
	for {
		old := t.show.Load()
		if p.next = old; old != nil && old.clock != clock {
			p.next = nil // asked of a stretch that is over
		}
		if t.show.CompareAndSwap(old, p) {
			break
		}
	}
	t.ask(clock, askStack)
	select {
	case stack = <-p.answer:
	case <-ctx.Done():
	}
	return stack, true
}

// running finds the turn that runs in vm.
func (w *World) running(vm *VM) (t *turn, clock uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hands {
		if c := h.turn.clock.Load(); c&1 == 1 && h.turn.vm.Load() == vm {
			return &h.turn, c
		}
	}
	return nil, 0
}

// shown answers all who asked for the stack.
func (t *turn) shown(th *thread) {
	for p := t.show.Swap(nil); p != nil; p = p.next {
		if p.clock == t.clock.Load() {
			p.answer <- th.traceback(0)
		}
	}
}
