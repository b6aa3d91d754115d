package luavm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

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

// Excerpt is the source line with a caret below the column, or "".
func (e *ScriptError) Excerpt() string {
	if e.SourceLine == "" {
		return ""
	}
	head := fmt.Sprintf("%5d | ", e.Line)
	s := head + e.SourceLine
	if e.Column > 0 {
		// Tabs stay, so that the caret stands below its column however wide a
		// terminal draws them; a letter of several bytes is one blank.
		blank := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, e.SourceLine[:min(e.Column-1, len(e.SourceLine))])
		s += "\n" + strings.Repeat(" ", len(head)-2) + "| " + blank + "^"
	}
	return s
}

var placeRE = regexp.MustCompile(`^\s*([^\n]+?):(\d+):`)

// errorValue is the Lua form of a limit that a script met.
func (w *World) errorValue(err *shield.Error) lua.LValue {
	if w.cfg.MakeErr != nil {
		return w.cfg.MakeErr(err)
	}
	return lua.LString(err.Error())
}

// newRunError translates what gopher-lua's PCall returned. entry is how the
// function at the bottom of the stack is called.
func newRunError(api *lua.ApiError, entry string) *RunError {
	e := &RunError{Value: api.Object, Message: strings.TrimLeft(errorText(api.Object), " "), Traceback: tidyTrace(api.StackTrace, entry)}
	switch {
	case api.Type == lua.ApiErrorPanic:
		e.Kind = KindPanic
		e.Message = "Go panic: " + e.Message
	case overflowed(api.Object):
		e.Kind = KindOverflow
	}
	e.locate()
	return e
}

// errorText is the message of a thrown value: an error table's own words, not
// its address.
func errorText(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString, lua.LNumber:
		return v.String()
	case *lua.LTable:
		code, _ := v.RawGetString("code").(lua.LString)
		msg, _ := v.RawGetString("message").(lua.LString)
		switch {
		case code != "" && msg != "":
			return string(code) + ": " + string(msg)
		case code+msg != "":
			return string(code + msg)
		}
		return "(a table was thrown)"
	case *lua.LUserData:
		if s, ok := v.Value.(fmt.Stringer); ok {
			return s.String()
		}
		if err, ok := v.Value.(error); ok {
			return err.Error()
		}
	case *lua.LNilType:
		return "nil"
	}
	return "(a " + v.Type().String() + " was thrown)"
}

// locate reads File and Line out of the message, else out of the innermost Lua
// frame of the traceback.
func (e *RunError) locate() {
	for i, text := range append([]string{e.Message}, strings.Split(e.Traceback, "\n")...) {
		if i > 0 && !strings.HasPrefix(text, "\t") {
			continue
		}
		m := placeRE.FindStringSubmatch(text)
		if m == nil || m[1] == "[G]" {
			continue
		}
		if n, err := strconv.Atoi(m[2]); err == nil {
			e.File, e.Line = m[1], n
			return
		}
	}
}

// overflowed recognises gopher-lua's words for a stack that is full.
func overflowed(v lua.LValue) bool {
	s, ok := v.(lua.LString)
	return ok && (strings.HasSuffix(string(s), "stack overflow") || strings.HasSuffix(string(s), "registry overflow"))
}
