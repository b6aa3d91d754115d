package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"
)

// IO is all that a verb may touch of the world outside: streams, terminal,
// environment, working folder, and how the user wants the output.
type IO struct {
	In  io.Reader
	Out io.Writer // results, and nothing else
	Err io.Writer // everything else

	InTTY, OutTTY, ErrTTY bool
	Width                 int // columns of the terminal behind Out; 0 = none

	Environ []string
	Dir     string // working folder

	JSON     bool   // --json
	Color    string // --color: auto, always, never
	Endpoint string // --endpoint, else SHIELD_ENDPOINT

	// Signals delivers interrupts. run cancels the context at the first and
	// calls Exit(130) at the second, unless a verb has taken them over with
	// TakeSignals. nil = none.
	Signals <-chan os.Signal
	Exit    func(code int)

	taken atomic.Bool
	relay chan os.Signal // to the verb that has taken the signals
}

// osIO is the IO of the process.
func osIO() *IO {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	io := &IO{
		In: os.Stdin, Out: &results{File: os.Stdout}, Err: os.Stderr,
		InTTY:   term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY:  term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY:  term.IsTerminal(int(os.Stderr.Fd())),
		Environ: os.Environ(),
		Dir:     dir,
		Color:   "auto",
		Signals: signals,
		Exit:    os.Exit,
	}
	if io.OutTTY {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			io.Width = w
		}
	}
	return io
}

// LineWidth is how many columns results have just now, also while a window
// changes its size; 0 where nothing limits them.
func (io *IO) LineWidth() int {
	if !io.OutTTY {
		return 0
	}
	if f, ok := io.Out.(interface{ Fd() uintptr }); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return io.Width
}

// results is the standard output. It keeps the first error of a write, so that no
// result is lost in silence whoever printed it.
type results struct {
	*os.File
	lost atomic.Pointer[error]
}

func (r *results) Write(b []byte) (int, error) {
	n, err := r.File.Write(b)
	if err != nil {
		r.lost.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (r *results) WriteString(s string) (int, error) { return r.Write([]byte(s)) }

// Lost is why a result did not come out; nil when all did. Of a verb that lives
// until it is told to end, such as dev, the output is no result but a log.
func (io *IO) Lost() error {
	if r, ok := io.Out.(*results); ok && !io.taken.Load() {
		if err := r.lost.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// TakeSignals hands the interrupts to a verb that has its own idea of them: from
// now on none of them cancels the context. None is lost on the way.
func (io *IO) TakeSignals() <-chan os.Signal {
	io.taken.Store(true)
	if io.relay == nil { // a part of a verb, whose signals run does not watch over
		return io.Signals
	}
	return io.relay
}

// Within is io for a part of a verb that works in another folder and hears
// other signals.
func (io *IO) Within(dir string, signals <-chan os.Signal) *IO {
	return &IO{
		In: io.In, Out: io.Out, Err: io.Err, InTTY: io.InTTY, OutTTY: io.OutTTY, ErrTTY: io.ErrTTY, Width: io.Width,
		Environ: io.Environ, Dir: dir, Color: io.Color, Signals: signals, Exit: io.Exit,
	}
}

// Getenv looks name up in the environment.
func (io *IO) Getenv(name string) string {
	for i := len(io.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(io.Environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// ColorOut reports whether results may be coloured; never with --json.
func (io *IO) ColorOut() bool { return !io.JSON && io.color(io.OutTTY) }

// ColorErr reports whether messages may be coloured.
func (io *IO) ColorErr() bool { return !io.JSON && io.color(io.ErrTTY) }

// color decides it for one stream: --color wins, then NO_COLOR (any value but
// the empty one) and TERM=dumb, then CLICOLOR_FORCE, then the terminal. We
// decide this ourselves because colorprofile reads NO_COLOR as a boolean and
// lets CLICOLOR_FORCE win over it.
func (io *IO) color(tty bool) bool {
	switch {
	case io.Color == "always":
		return true
	case io.Color == "never", io.Getenv("NO_COLOR") != "", io.Getenv("TERM") == "dumb":
		return false
	}
	if f := io.Getenv("CLICOLOR_FORCE"); f != "" && f != "0" {
		return true
	}
	return tty
}

// Paint is a colour of the terminal's own sixteen, or a weight.
type Paint string

// The paints. State is told by words first; a paint only underlines it.
const (
	Plain  Paint = ""
	Bold   Paint = "1"
	Faint  Paint = "2"
	Red    Paint = "31"
	Green  Paint = "32"
	Yellow Paint = "33"
	Cyan   Paint = "36"
)

func paint(on bool, p Paint, s string) string {
	if !on || p == Plain || s == "" {
		return s
	}
	return "\x1b[" + string(p) + "m" + s + "\x1b[0m"
}

// PaintOut colours s for Out, where colour is wanted.
func (io *IO) PaintOut(p Paint, s string) string { return paint(io.ColorOut(), p, s) }

// PaintErr colours s for Err, where colour is wanted.
func (io *IO) PaintErr(p Paint, s string) string { return paint(io.ColorErr(), p, s) }

// Note tells a person something beside the result: a summary, a next step.
func (io *IO) Note(format string, args ...any) {
	if !io.JSON {
		fmt.Fprintf(io.Err, format+"\n", args...)
	}
}

// Warn tells of something that does not stop the verb: a line for people, a
// JSON object with --json.
func (io *IO) Warn(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	if io.JSON {
		line, _ := json.Marshal(map[string]string{"warning": text}) // a text always encodes
		fmt.Fprintf(io.Err, "%s\n", line)
		return
	}
	fmt.Fprintln(io.Err, io.PaintErr(Yellow, text))
}
