package luavm

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// Kind says why a turn ended early.
type Kind uint8

const (
	KindError    Kind = iota // the script threw
	KindTimeout              // it ran longer than Limits.HandlerTime without suspending
	KindMemory               // it went over Limits.Memory: the service must end
	KindPanic                // a Go function panicked; Traceback holds the Go stack
	KindOverflow             // "stack overflow"
	KindAborted              // Abort ended it
)

func (k Kind) String() string {
	return [...]string{"error", "timeout", "memory", "panic", "stack overflow", "aborted"}[k]
}

// Code is the error code of DESIGN.md 2.6 that the kind answers with.
func (k Kind) Code() shield.Code {
	switch k {
	case KindTimeout:
		return shield.HandlerTimeout
	case KindMemory:
		return shield.MemoryLimit
	default:
		return shield.HandlerError
	}
}

// RunError is how a turn failed.
type RunError struct {
	Kind      Kind
	Message   string     // with "file:line: " in front where Lua knows it
	Value     lua.LValue // what was thrown; LString(Message) for the runtime's own errors
	Traceback string     // Lua frames, coroutines included; for a panic the Go stack first
	File      string     // "" = unknown
	Line      int        // 0 = unknown
	Reason    any        // what Abort was given
}

func (e *RunError) Error() string { return e.Message }

// ScriptError is a script that can't be loaded: missing, not Lua, or too deep.
type ScriptError struct {
	File       string
	Line       int // 0 = the whole file
	Column     int // from 1; 0 = unknown
	Message    string
	SourceLine string // the text of Line
	OpenedLine int    // where the block began that is not closed; 0 = not about a block
	Err        error  // the cause, when reading failed
}

func (e *ScriptError) Error() string {
	switch {
	case e.Line == 0:
		return e.File + ": " + e.Message
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	default:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	}
}

func (e *ScriptError) Unwrap() error { return e.Err }
