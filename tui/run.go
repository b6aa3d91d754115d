package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"shield/runtime/control/repl"
	"shield/runtime/shield"
)

// Config is what a console needs to know. Only Source must be set.
type Config struct {
	Source    Source
	Commander Commander // nil: nothing can be done, only watched
	ReadOnly  bool      // removes every key and verb that acts
	Ends      bool      // quitting ends the cluster too, as in the demo; only said, not done
	// History asks for the epochs of one session; they are too much to watch
	// for all of them. nil: only what the rows bring is shown.
	History func(context.Context, shield.SessionID) ([]shield.EpochStep, error)

	// Methods lists what may be called on a target, for the tab key. nil: nothing
	// is completed there.
	Methods func(ctx context.Context, target string) ([]string, error)

	// Attach begins a session with a service, for the REPL; the answer greets.
	// nil: there is no REPL.
	Attach func(ctx context.Context, target string) (Talk, repl.Answer, error)

	// Past are lines that were typed into REPLs before, the oldest first; Remember
	// keeps one more. nil: they are forgotten.
	Past     []string
	Remember func(line string) error

	Input   io.Reader // the terminal; nil: no input, as in tests
	Output  io.Writer
	Environ []string
	Profile colorprofile.Profile // how many colours to use; decided by the caller
	ASCII   bool                 // draw with ASCII only: the locale is not UTF-8
	Width   int                  // the size where Output is not a terminal
	Height  int

	Theme    string                        // auto, dark, light, mono; "" = Prefs, then auto
	Location *time.Location                // for the times of log lines; nil: local time
	Endpoint string                        // shown until the snapshot names its own
	Clip     func(string) error            // also writes what was copied somewhere a person can find it; nil: OSC 52 only
	ClipName string                        // what Clip writes to, for the message
	Save     func(name, text string) error // writes a file for `:save`; nil: there is no such command
	Prefs    Prefs                         // how the person left the console last time
	Keep     func(Prefs) error             // keeps Prefs; nil: they are forgotten
}

// Crash is a panic inside the console. The terminal is restored by the time it
// is returned.
type Crash struct {
	Value any
	Stack []byte
}

func (c *Crash) Error() string { return fmt.Sprintf("the console panicked: %v", c.Value) }

// crashed keeps what a recovered panic said, with the stack it came from.
func crashed(r any) *Crash { return &Crash{Value: r, Stack: debug.Stack()} }

// ErrInterrupted is the cause to cancel Run's context with when a person
// interrupted the program.
var ErrInterrupted = errors.New("interrupted")

// lastWords is how long a source may take to stop after the screen is gone.
const lastWords = 150 * time.Millisecond

// Run shows the console until a person quits it or ctx ends. It returns nil
// after a quit, the cause of ctx's end where that is not context.Canceled, and
// a *Crash after a panic. The terminal is as before whichever it is.
func Run(ctx context.Context, cfg Config) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	m := newModel(inner, cfg)
	p := tea.NewProgram(m, options(cfg)...)
	m.quit = func() { go p.Quit() }
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()

	var wg sync.WaitGroup
	wg.Go(func() { newFeed(cfg.Source, p.Send).run(inner) })
	_, err := p.Run()
	cancel()
	wait(&wg, lastWords)

	cause := context.Cause(ctx)
	switch {
	case m.crash != nil:
		return m.crash
	case err != nil:
		return fmt.Errorf("the screen: %w", err)
	case cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	}
	return nil
}

// wait waits for the feed, but not for ever: a source that does not let go must
// not hold the shell's prompt.
func wait(wg *sync.WaitGroup, atMost time.Duration) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func options(cfg Config) []tea.ProgramOption {
	opts := []tea.ProgramOption{
		tea.WithInput(cfg.Input), tea.WithOutput(cfg.Output), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
		tea.WithColorProfile(cfg.Profile), tea.WithFilter(calmWheel()),
	}
	if cfg.Environ != nil {
		opts = append(opts, tea.WithEnvironment(cfg.Environ))
	}
	if cfg.Width > 0 && cfg.Height > 0 {
		opts = append(opts, tea.WithWindowSize(cfg.Width, cfg.Height))
	}
	return opts
}

// framesPerSecond is enough for a person and a tenth of the wake-ups that Bubble
// Tea's default costs.
const framesPerSecond = 10

// calmWheel lets one wheel event through in fifteen milliseconds: a touchpad
// sends hundreds a second.
func calmWheel() func(tea.Model, tea.Msg) tea.Msg {
	var last time.Time
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		switch msg.(type) {
		case tea.MouseWheelMsg, tea.MouseMotionMsg:
			now := time.Now()
			if now.Sub(last) < 15*time.Millisecond {
				return nil
			}
			last = now
		}
		return msg
	}
}
