package luavm

import (
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
// name of the call ("shield.call"). The turn's running time stops meanwhile. It
// works wherever Lua can call a function. It does not return, but unwinds the
// turn, when the turn was aborted.
func Suspend(L *lua.LState, what string, w Waiter) { w.Wait() }

// ParkedTurn is one turn that waits in a suspending call.
type ParkedTurn struct {
	Data  any    // of its Call
	Name  string // of its Call
	What  string // the suspending call
	Stack string // its Lua frames, innermost first
}

// Parked lists the turns that wait, oldest first, with their Lua stacks.
func (vm *VM) Parked() []ParkedTurn { return nil }

// Abort ends the turn that called the Go function with L. pcall does not stop
// it. Run returns a RunError of KindAborted with reason in it.
func Abort(L *lua.LState, reason any, message string) {}

// PCall calls the function below nargs arguments on the stack of L, like
// lua_pcall, for Go functions that call back into Lua. An abort of the turn and
// a Go panic pass through it.
func PCall(L *lua.LState, nargs, nret int) *RunError { return nil }
