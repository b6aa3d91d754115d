package shield

import (
	"errors"
	"fmt"
	"net"
)

// Error is what every failure a user can meet is made of. Its text reads
// "code: message". Match it with errors.Is against a Code, or errors.As.
type Error struct {
	Code    Code
	Message string // what was tried, why it failed, what to do next
	Detail  any    // for programs: JSON-able; nil, a string (a Lua traceback), or a map[string]any
	// RetryOverride is set when another node sent a code that this release does
	// not know and said whether to retry.
	RetryOverride *bool
	Err           error // the cause, when there is one
}

// Errorf makes an Error. A %w in format becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// Retryable reports whether the same call may succeed a little later.
func (e *Error) Retryable() bool {
	if e.RetryOverride != nil {
		return *e.RetryOverride
	}
	return e.Code.Retryable()
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, shield.NodeOffline) work, and a closed thing also Is
// net.ErrClosed.
func (e *Error) Is(target error) bool {
	if c, ok := target.(Code); ok {
		return e.Code == c
	}
	return target == net.ErrClosed && (e.Code == SessionClosed || e.Code == RuntimeStopping || e.Code == ServiceDead)
}

// CodeOf gives the code that err carries, or "" when it carries none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ""
}

// AsError returns err as an *Error. One that carries no code becomes fallback.
func AsError(err error, fallback Code) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c}
	}
	return &Error{Code: fallback, Message: err.Error(), Err: err}
}
