package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/colorprofile"
)

// Config is what a console needs to know. Only Source must be set.
type Config struct {
	Source    Source
	Commander Commander // nil: nothing can be done, only watched
	ReadOnly  bool      // removes every key and verb that acts

	Input   io.Reader // the terminal; nil: no input, as in tests
	Output  io.Writer
	Environ []string
	Profile colorprofile.Profile // how many colours to use; decided by the caller
	ASCII   bool                 // draw with ASCII only: the locale is not UTF-8
	Width   int                  // the size where Output is not a terminal
	Height  int

	Theme    string             // auto, dark, light, mono; "" = Prefs, then auto
	Location *time.Location     // for the times of log lines; nil: local time
	Endpoint string             // shown until the snapshot names its own
	Clip     func(string) error // also writes what was copied somewhere a person can find it; nil: OSC 52 only
	ClipName string             // what Clip writes to, for the message
	Prefs    Prefs              // how the person left the console last time
	Keep     func(Prefs) error  // keeps Prefs; nil: they are forgotten
}

// Crash is a panic inside the console. The terminal is restored by the time it
// is returned.
type Crash struct {
	Value any
	Stack []byte
}

func (c *Crash) Error() string { return fmt.Sprintf("the console panicked: %v", c.Value) }

// ErrInterrupted is returned by Run when ctx was cancelled with it as cause.
var ErrInterrupted = errors.New("interrupted")

// Run shows the console until a person quits it or ctx ends. It returns nil
// after a quit, the cause of ctx's end where that is not context.Canceled, and
// a *Crash after a panic. The terminal is as before whichever it is.
func Run(ctx context.Context, cfg Config) error {
	return errors.New("not yet")
}
