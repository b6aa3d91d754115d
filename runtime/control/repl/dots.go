package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// dot is a command of a session.
type dot struct {
	name, arg, does string
	run             func(s *Session, ctx context.Context, arg string) (Answer, error)
}

// dots are the commands in the order of .help, which lists them: hence init.
// .watch and .quit are none of one answer; Line sees to them.
var dots []dot

func init() {
	dots = []dot{
		{".help", "", "this list", func(*Session, context.Context, string) (Answer, error) { return Help(), nil }},
		{".state", "[NAME]", "what it holds between turns: fields, file locals, yours", (*Session).state},
		{".timers", "", "its timers", (*Session).timers},
		{".calls", "", "what its methods took, and what its handlers wait for", (*Session).calls},
		{".stack", "", "the Lua stacks of handlers that wait, and of a stuck one", (*Session).stack},
		{".watch", "EXPR", "look at it once a second until Ctrl-C (on a pipe: once)", nil},
		{".reload", "", "make the saved code live", (*Session).reload},
		{".load", "FILE", "run a file of Lua as one turn", (*Session).load},
		{".save", "FILE", "write the lines of this session to a file", (*Session).save},
		{".quit", "", "detach; the service goes on", nil},
	}
}

// Dots lists the commands that begin with prefix.
func Dots(prefix string) []string {
	var fits []string
	for _, d := range dots {
		if strings.HasPrefix(d.name, prefix) {
			fits = append(fits, d.name)
		}
	}
	return fits
}

// Help lists the commands.
func Help() Answer {
	all := map[string]string{}
	a := Answer{Key: "help", Value: all}
	a.say(Value, "A line of Lua is one turn of the service. M is the module, _ the last value.")
	for _, d := range dots {
		use := strings.TrimSpace(d.name + " " + d.arg)
		all[use] = d.does
		a.say(Value, fmt.Sprintf("  %-14s %s", use, d.does))
	}
	return a
}

// Watches is the expression that a line watches; "" when it watches none.
func Watches(line string) string {
	name, expr, _ := strings.Cut(strings.TrimSpace(line), " ")
	if name != ".watch" {
		return ""
	}
	return strings.TrimSpace(expr)
}

// dot runs a command. What goes wrong in it is shown; only the end of the session
// comes back.
func (s *Session) dot(ctx context.Context, text string, show func(Answer)) error {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	a, err := Answer{}, unknown(name)
	for _, d := range dots {
		if d.name != name {
			continue
		}
		switch {
		case !strings.HasPrefix(d.arg, "[") && (arg == "") != (d.arg == ""):
			err = fmt.Errorf("use it as: %s", strings.TrimSpace(d.name+" "+d.arg))
		case name == ".quit":
			return ErrQuit
		case name == ".watch":
			err = s.watch(ctx, arg, show)
			if err == nil {
				return nil
			}
		default:
			a, err = d.run(s, ctx, arg)
		}
	}
	var gone interface{ Start() string } // the server is no more
	switch {
	case errors.As(err, &gone), err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		a = Answer{Err: err}
		a.say(Failure, err.Error())
	}
	show(a)
	return nil
}

func unknown(name string) error {
	var names []string
	for _, d := range dots {
		names = append(names, d.name)
	}
	if near := shield.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no %s (did you mean %s?); .help lists what there is", name, near)
	}
	return fmt.Errorf("there is no %s; .help lists what there is", name)
}

func (s *Session) inspect(ctx context.Context, state bool) (control.Inspection, error) {
	return s.c.Inspect(ctx, s.cfg.Target, state, s.name)
}

func (s *Session) state(ctx context.Context, name string) (a Answer, err error) {
	in, err := s.inspect(ctx, true)
	if err != nil {
		return a, err
	}
	held := []control.HeldRow{}
	for _, h := range in.Held {
		if name == "" || h.Name == name || h.Name == "M."+name {
			held = append(held, h)
		}
	}
	a = Answer{Key: "state", Value: held}
	switch {
	case in.Stuck != nil:
		a.stuck(in.Stuck)
	case len(held) == 0 && name != "":
		a.say(Failure, "it holds nothing called "+name)
	case len(held) == 0:
		a.say(Aside, "it holds nothing but functions")
	default:
		for _, h := range held {
			a.Blocks = append(a.Blocks, Block{Kind: Value, Text: h.Name + " = " + h.Text, Kept: h.Kind})
		}
	}
	return a, nil
}

func (a *Answer) stuck(r *control.StuckRow) {
	head, stack := StuckText(r)
	a.say(Alarm, "stuck "+head)
	a.say(Value, stack)
}

func (a *Answer) table(t *Table) { a.Blocks = append(a.Blocks, Block{Table: t}) }

func (s *Session) timers(ctx context.Context, _ string) (a Answer, err error) {
	in, err := s.inspect(ctx, false)
	if err != nil {
		return a, err
	}
	a = Answer{Key: "timers", Value: in.Timers}
	a.table(Timers(in.Timers))
	return a, nil
}

func (s *Session) calls(ctx context.Context, _ string) (a Answer, err error) {
	in, err := s.inspect(ctx, false)
	if err != nil {
		return a, err
	}
	a = Answer{Key: "calls", Value: map[string]any{"handlers": in.Handlers, "waiting": in.Waiting}}
	a.table(Handlers(in.Handlers))
	if len(in.Waiting) > 0 {
		a.say(Value, "")
		a.table(Waiting(in.Waiting))
	}
	return a, nil
}

func (s *Session) stack(ctx context.Context, _ string) (a Answer, err error) {
	in, err := s.inspect(ctx, false)
	if err != nil {
		return a, err
	}
	a = Answer{Key: "stack", Value: map[string]any{"stuck": in.Stuck, "waiting": in.Waiting}}
	if in.Stuck != nil {
		a.stuck(in.Stuck)
	} else if len(in.Waiting) == 0 {
		a.say(Aside, "nothing waits, nothing is stuck")
	}
	for _, text := range Stacks(in.Waiting) {
		a.say(Value, "\n"+text)
	}
	return a, nil
}

func (s *Session) reload(ctx context.Context, _ string) (a Answer, err error) {
	if s.cfg.ReadOnly {
		return a, errors.New("this session is read-only, and a reload changes the service")
	}
	_, name, _ := shield.SplitTarget(s.cfg.Target)
	res, err := s.c.Reload(ctx, control.ReloadRequest{Names: []shield.Name{name}})
	if err != nil {
		return a, err
	}
	a = Answer{Reload: &res}
	if res.OK {
		a.say(Value, ReloadText(res))
	} else {
		a.say(Failure, ReloadText(res))
	}
	return a, nil
}

// watch evaluates an expression once a second and shows what changes.
func (s *Session) watch(ctx context.Context, expr string, show func(Answer)) error {
	last := ""
	for {
		res, err := s.eval(ctx, expr, "watch")
		switch {
		case err != nil && ctx.Err() != nil && !s.cfg.Once:
			return nil // that is how it ends
		case err != nil:
			return err
		case res.Incomplete != "":
			return fmt.Errorf("%s: it is not complete", expr)
		}
		if now := fmt.Sprint(res.Text, res.Output, res.Error); now != last {
			last = now
			a := s.result(res)
			a.Watched = true
			show(a)
		}
		if !res.OK || s.cfg.Once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (s *Session) inDir(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.cfg.Dir, name)
}

func (s *Session) load(ctx context.Context, file string) (a Answer, err error) {
	f, err := os.Open(s.inDir(file))
	if err != nil {
		return a, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxSource+1)) // of a file that is far longer, or has no end
	if err != nil {
		return a, err
	}
	if len(b) > MaxSource {
		return a, fmt.Errorf("%s is longer than %d bytes", file, MaxSource)
	}
	res, err := s.eval(ctx, string(b), file)
	if err != nil {
		return a, err
	}
	if res.Incomplete != "" {
		return a, fmt.Errorf("%s ends too early: %s", file, res.Incomplete)
	}
	return s.result(res), nil
}

func (s *Session) save(_ context.Context, file string) (a Answer, err error) {
	f, err := os.OpenFile(s.inDir(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return a, fmt.Errorf("%s exists already; choose another name", file)
	}
	if err != nil {
		return a, err
	}
	s.mu.Lock()
	lines := len(s.said)
	text := strings.Join(s.said, "\n")
	s.mu.Unlock()
	if text != "" {
		text += "\n"
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return a, err
	}
	a = Answer{Key: "saved", Value: map[string]any{"file": file, "lines": lines}}
	a.say(Note, fmt.Sprintf("%d lines are in %s", lines, file))
	return a, nil
}
