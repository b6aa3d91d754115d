package luavm

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// Waiter is what a suspending call waits for. Wait passes the baton on, blocks,
// and returns when the caller has it back.
type Waiter interface{ Wait() }

// WaitFunc is a Waiter made of a function.
type WaitFunc func()

// Wait calls f.
func (f WaitFunc) Wait() { f() }

// Suspend parks the turn that called the Go function with L in w, under the
// name of the call ("shield.call"). Its running time begins anew afterwards. It
// works wherever Lua can call a function, because it is the goroutine that
// waits: yielding out of a Go function would work in one place of eleven.
func Suspend(L *lua.LState, what string, w Waiter) {
	vm := VMOf(L)
	th := vm.cur
	t := th.turn
	t.parked = what
	t.clock.Add(1)
	vm.cur = nil
	w.Wait()
	vm.cur, vm.g.CurrentThread = th, th.L
	t.parked = ""
	t.clock.Add(1)
	vm.world.watch.wake()
}

// ParkedTurn is one turn that waits in a suspending call.
type ParkedTurn struct {
	Data  any    // of its Call
	Name  string // of its Call
	What  string // the suspending call
	Stack string // its Lua frames, innermost first
}

// Parked lists the turns that wait, oldest first, with their Lua stacks.
func (vm *VM) Parked() []ParkedTurn {
	var all []ParkedTurn
	for t := vm.turns; t != nil; t = t.older {
		if t.parked != "" {
			all = append(all, ParkedTurn{t.data, t.name, t.parked, t.top.traceback(0)})
		}
	}
	slices.Reverse(all)
	return all
}

// Turns counts the turns in flight: the running one and the parked ones.
func (vm *VM) Turns() int { return vm.inFlight }

// Abort ends the turn that called the Go function with L. pcall does not stop
// it, and no code of the script runs any more in this turn. Run returns a
// RunError of KindAborted with reason in it.
func Abort(L *lua.LState, reason any, message string) {
	VMOf(L).abort(L, KindAborted, reason, message)
}

// PCall calls the function below nargs arguments on the stack of L, like
// lua_pcall, for Go functions that call back into Lua. An abort of the turn and
// a Go panic pass through it.
func PCall(L *lua.LState, nargs, nret int) *RunError {
	api := protect(L, nargs, nret)
	if api == nil {
		return nil
	}
	return newRunError(api, "function")
}

// protect is the only way our code calls pcall below a turn. An aborted turn
// goes on unwinding, and so does a Go panic: gopher-lua's own pcall would
// swallow it and leave upvalues of the frames it skipped wrong.
func protect(L *lua.LState, nargs, nret int) *lua.ApiError {
	// An error closes the upvalues of every frame (closeAllUpvalues, state.go:727),
	// those outside of the protected call too, whose closures would part from
	// their locals. It can't close what it does not see, and code inside has no
	// other use for them.
	open := openUpvalues(L)
	outside := *open
	*open = nil
	api := pcall(L, nargs, nret)
	*open = outside
	if api == nil {
		return nil
	}
	if th := VMOf(L).cur; th != nil && th.turn.failure != nil {
		panic(api)
	}
	if api.Type == lua.ApiErrorPanic {
		if th := VMOf(L).cur; th != nil {
			th.turn.broken = true
		}
		panic(api)
	}
	return api
}

// Stack describes the Lua frames of the turn that called the Go function with
// L, innermost first, for a report that is written while it waits.
func Stack(L *lua.LState) string {
	if th := VMOf(L).cur; th != nil {
		return th.traceback(0)
	}
	return ""
}
