// Package repl is a session of a person with one service: `shield repl` and the
// console's REPL are two screens of it. Each line is one turn of the service, or
// a command that begins with a dot.
//
// It prints nothing. What a line comes to is an [Answer]: blocks for people, which
// a screen cleans, colours and lays out, and a value for programs. It starts no
// goroutines; a Session may be used from several, so that a .watch goes on while
// lines are typed.
package repl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// What a line may take where the configuration does not say it.
const (
	DefaultTimeout = 10 * time.Second // waits included
	DefaultBudget  = time.Second      // running, between two waits
)

// MaxSource bounds a line, and a file that is run as one.
const MaxSource = 1 << 20

// ErrQuit is what Line returns when a person wants to leave.
var ErrQuit = errors.New("leave")

// Config is what a session is begun with.
type Config struct {
	Target   string        // as Call has it: a name or node:name
	Timeout  time.Duration // 0 = DefaultTimeout
	Budget   time.Duration // 0 = DefaultBudget
	ReadOnly bool          // refuse whatever could change something
	Once     bool          // nobody sits there: .watch looks once
	Dir      string        // where .load and .save look for files
}

// NotRunningError says that a service can't be talked to.
type NotRunningError struct{ Inspection control.Inspection }

func (e *NotRunningError) Error() string {
	in := &e.Inspection
	return fmt.Sprintf("%s on %s is %s: %s", in.Service, in.Node, in.State, in.Reason)
}

// Session is one session with one service.
type Session struct {
	c    *client.Client
	cfg  Config
	name string // of the session: its locals live on from line to line

	mu    sync.Mutex
	begun bool // a line was run
	id    shield.ServiceID
	gen   int
	open  []string // lines of a chunk that is not complete yet
	said  []string // lines that ran, for .save
}

// Attach finds the service. One that does not run is refused with a
// [NotRunningError]. The answer greets a person.
func Attach(ctx context.Context, c *client.Client, cfg Config) (*Session, Answer, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Budget <= 0 {
		cfg.Budget = DefaultBudget
	}
	in, err := c.Inspect(ctx, cfg.Target, false, "")
	if err != nil {
		return nil, Answer{}, err
	}
	if in.State != shield.Running {
		return nil, Answer{}, &NotRunningError{in}
	}
	_, name, _ := shield.SplitTarget(cfg.Target)
	cfg.Target = string(in.Node) + ":" + string(name)
	s := &Session{c: c, cfg: cfg, name: rand.Text(), id: in.ID, gen: in.Generation}
	return s, s.greet(&in), nil
}

func (s *Session) greet(in *control.Inspection) Answer {
	a := Answer{Blocks: []Block{{Kind: Note, Text: fmt.Sprintf("attached to %s   code %s   memory %s   mailbox %d",
		s.cfg.Target, control.CodeText(in.Generation, in.Code), control.SizeText(in.Memory), in.Mailbox)}}}
	if in.Stuck != nil {
		a.say(Warning, fmt.Sprintf("it is inside %s since %s and lets nobody in: lines wait for it", in.Stuck.Method, control.AgeText(in.Stuck.ForMS)))
	}
	how := fmt.Sprintf("each line is one turn of the service; it may run %v; Ctrl-C gives it up, Ctrl-D detaches, .help", s.cfg.Budget)
	if s.cfg.ReadOnly {
		how = "read-only: expressions without calls; Ctrl-D detaches, .help"
	}
	a.say(Aside, how)
	return a
}

// Prompt names the service and the generation of its code that answered last.
// While a chunk is open it is a mark of the same width.
func (s *Session) Prompt() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%s:%d> ", s.cfg.Target, s.gen)
	if len(s.open) == 0 {
		return text
	}
	return strings.Repeat(" ", max(len(text)-4, 0)) + ">>> "
}

// Open is the line that a chunk began with which is not complete yet; "" if there
// is none.
func (s *Session) Open() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return ""
	}
	return s.open[0]
}

// Drop forgets an open chunk.
func (s *Session) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// Line takes a line as it was typed and shows what it comes to: one answer for
// most, one for each change for .watch, which lasts as long as ctx. The error is
// [ErrQuit], or what keeps the session from going on: the server has gone, ctx
// has ended, the service can't be asked. What goes wrong in the service or in a
// command is an answer and no error.
func (s *Session) Line(ctx context.Context, line string, show func(Answer)) error {
	if s.Open() == "" {
		switch text := strings.TrimSpace(line); {
		case text == "" || strings.HasPrefix(text, "--") && !strings.HasPrefix(text, "--[") && !strings.Contains(text, "\n"):
			return nil
		case strings.HasPrefix(text, "."):
			return s.dot(ctx, text, show)
		}
	}
	s.mu.Lock()
	s.open = append(s.open, line)
	source := strings.Join(s.open, "\n")
	s.mu.Unlock()

	res, err := s.eval(ctx, source, "repl")
	if err != nil {
		s.Drop()
		if ctx.Err() != nil && !s.cfg.Once {
			show(Answer{Blocks: []Block{{Kind: Warning, Text: "given up"}}})
		}
		return err
	}
	if res.Incomplete != "" {
		return nil
	}
	s.mu.Lock()
	s.said = append(s.said, s.open...)
	s.open = nil
	s.mu.Unlock()
	show(s.result(res))
	return nil
}

// End is what an input comes to that ends here: an answer if it ends inside of a
// chunk.
func (s *Session) End() (a Answer, bad bool) {
	begin := s.Open()
	if begin == "" {
		return a, false
	}
	return s.result(control.CallResult{Error: control.MakeError(
		shield.Errorf(shield.ScriptLoadFailed, "the input ends inside of what began with %q", begin), shield.ScriptLoadFailed)}), true
}

func (s *Session) eval(ctx context.Context, source, name string) (control.CallResult, error) {
	return s.c.Eval(ctx, control.EvalRequest{Target: s.cfg.Target, Source: source, Name: name, Session: s.name,
		Timeout: s.cfg.Timeout.Milliseconds(), Budget: s.cfg.Budget.Milliseconds(), ReadOnly: s.cfg.ReadOnly})
}

// Complete finds what could stand at the end of the line: dot-commands by itself,
// Lua by asking the service. from is the byte where the words begin.
func (s *Session) Complete(ctx context.Context, line string) (from int, words []string, err error) {
	if s.Open() == "" && strings.HasPrefix(line, ".") {
		name, rest, argument := strings.Cut(line, " ")
		if !argument {
			return 0, Dots(line), nil
		}
		if name != ".watch" {
			return 0, nil, nil
		}
		from = len(line) - len(strings.TrimLeft(rest, " "))
	}
	c, err := s.c.Complete(ctx, s.cfg.Target, s.name, line[from:])
	if err != nil || c.From < 0 || c.From+from > len(line) {
		return 0, nil, err
	}
	return c.From + from, c.Words, nil
}
