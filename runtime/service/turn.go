package service

import (
	"sync/atomic"
	"time"

	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// TurnKind is what a turn is for; its text is context.type of on_error.
type TurnKind uint8

const (
	TurnHandler TurnKind = iota
	TurnClient
	TurnTimer
	TurnFork
	TurnEvent
	TurnReload
	TurnInit
	TurnShutdown
	TurnExit
	TurnEval
)

func (k TurnKind) String() string {
	return [...]string{"handler", "client", "timer", "fork", "event", "reload", "init", "shutdown", "exit", "eval"}[k]
}

const (
	turnRuns   = iota // or is parked
	turnOver          // has returned
	turnWedged        // given up: its goroutine must not touch the service again
)

// Turn is one handler on its way through a service: from its message to its
// answer, with all the waits between. Its fields may be read from inside it.
type Turn struct {
	s        *Service
	state    atomic.Int32 // turnRuns, turnOver, turnWedged
	Kind     TurnKind
	answers  bool // somebody waits
	Method   string
	sender   *shield.Handle
	trace    shield.TraceID
	deadline int64  // clock; 0 = none
	rare     *rarer // nil for most
	begun    int64  // clock

	// k is the worker that runs it, whose message says who waits for the answer;
	// nil for a turn that answers nobody.
	k *worker

	// Userdata is the ctx that Lua sees. It stands here so that a call costs
	// one allocation less; package luaapi fills it in.
	Userdata lua.LUserData
}

// rarer is what few turns have.
type rarer struct {
	reason string  // of a shutdown
	out    *output // where print goes beside the log; nil = nowhere
}

// Service is where the turn runs.
func (t *Turn) Service() *Service { return t.s }

// Over reports whether the handler has returned: its ctx is dead then.
func (t *Turn) Over() bool { return t.state.Load() != turnRuns }

// Sender is who sent the message; false when no service did.
func (t *Turn) Sender() (shield.Handle, bool) {
	if t.sender == nil {
		return shield.Handle{}, false
	}
	return *t.sender, true
}

// Trace follows the work through every call it causes.
func (t *Turn) Trace() shield.TraceID {
	if t.trace == 0 {
		t.trace = t.s.rt.newTrace()
	}
	return t.trace
}

// Deadline is what is left of the caller's deadline; false without one.
func (t *Turn) Deadline() (time.Duration, bool) {
	if t.deadline == 0 {
		return 0, false
	}
	return max(t.s.left(t.deadline), 0), true
}

// Reason is why the service shuts down; "" in any other turn.
func (t *Turn) Reason() string {
	if t.rare == nil {
		return ""
	}
	return t.rare.reason
}
