package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// dotCommand is a command of a REPL.
type dotCommand struct {
	name, arg, does string
	run             func(r *repl, ctx context.Context, arg string) error
}

// dots are the commands in the order of .help, which prints them: hence init.
var dots []dotCommand

func init() {
	dots = []dotCommand{
		{".help", "", "this list", (*repl).help},
		{".state", "[NAME]", "what the service holds between two turns: fields, file locals, your locals", (*repl).state},
		{".timers", "", "its timers", (*repl).timers},
		{".calls", "", "what each of its methods took, and what its handlers wait for", (*repl).calls},
		{".stack", "", "the Lua stacks of the handlers that wait, and of one that is stuck", (*repl).stack},
		{".watch", "EXPR", "look at an expression once a second, until Ctrl-C (on a pipe: once)", (*repl).watch},
		{".reload", "", "make the saved code live", (*repl).reload},
		{".load", "FILE", "run a file of Lua as one turn", (*repl).load},
		{".save", "FILE", "write the lines of this session to a file", (*repl).save},
		{".quit", "", "detach; the service goes on", func(*repl, context.Context, string) error { return errLeave }},
	}
}

// dot runs a dot-command. What goes wrong in it is printed; only the end of the
// session comes back.
func (r *repl) dot(ctx context.Context, text string) error {
	name, arg, _ := strings.Cut(text, " ")
	arg = strings.TrimSpace(arg)
	var names []string
	for _, d := range dots {
		names = append(names, d.name)
		if d.name != name {
			continue
		}
		if strings.HasPrefix(d.arg, "[") || (arg == "") == (d.arg == "") {
			return r.report(d.run(r, ctx, arg))
		}
		return r.report(fmt.Errorf("use it as: %s", strings.TrimSpace(d.name+" "+d.arg)))
	}
	if near := shield.Nearest(name, names); near != "" {
		return r.report(fmt.Errorf("there is no %s (did you mean %s?); .help lists what there is", name, near))
	}
	return r.report(fmt.Errorf("there is no %s; .help lists what there is", name))
}

// report prints an error that ends nothing but its line.
func (r *repl) report(err error) error {
	var gone interface{ Start() string } // the server is no more
	if err == nil || errors.Is(err, errLeave) || errors.As(err, &gone) {
		return err
	}
	r.exit = exitFailed
	if r.io.JSON {
		return r.answer(false, "error", control.MakeError(err, shield.Code(exitName(exitFailed))))
	}
	fmt.Fprintf(r.io.Err, "%s %s\n", r.io.PaintErr(Red, "error:"), cleanLines(err.Error()))
	return nil
}

func (r *repl) help(context.Context, string) error {
	if r.io.JSON {
		all := map[string]string{}
		for _, d := range dots {
			all[strings.TrimSpace(d.name+" "+d.arg)] = d.does
		}
		return r.answer(true, "help", all)
	}
	fmt.Fprintln(r.io.Out, "A line of Lua runs as one turn of the service; an expression prints. M is the module, _ the last value.")
	for _, d := range dots {
		fmt.Fprintf(r.io.Out, "  %-14s %s\n", strings.TrimSpace(d.name+" "+d.arg), d.does)
	}
	return nil
}

func (r *repl) inspect(ctx context.Context, state bool) (control.Inspection, error) {
	return r.c.Inspect(ctx, r.target, state, r.name)
}

func (r *repl) state(ctx context.Context, name string) error {
	in, err := r.inspect(ctx, true)
	if err != nil {
		return err
	}
	held := []control.HeldRow{}
	for _, h := range in.Held {
		if name == "" || h.Name == name || h.Name == "M."+name {
			held = append(held, h)
		}
	}
	switch {
	case r.io.JSON:
		return r.answer(true, "state", held)
	case in.Stuck != nil:
		printStuck(r.io, in)
		return nil
	case len(held) == 0 && name != "":
		return fmt.Errorf("it holds nothing called %s", name)
	case len(held) == 0:
		r.io.Note("it holds nothing but functions")
	}
	for _, h := range held {
		fmt.Fprintf(r.io.Out, "%s = %s%s\n", clean(h.Name), cleanLines(h.Text), r.io.PaintOut(Faint, "   -- "+h.Kind))
	}
	return nil
}

func (r *repl) timers(ctx context.Context, _ string) error {
	in, err := r.inspect(ctx, false)
	if err != nil {
		return err
	}
	if r.io.JSON {
		return r.answer(true, "timers", in.Timers)
	}
	return Print(r.io, in.Timers, timerColumns, "no timers")
}

func (r *repl) calls(ctx context.Context, _ string) error {
	in, err := r.inspect(ctx, false)
	if err != nil {
		return err
	}
	if r.io.JSON {
		return r.answer(true, "calls", map[string]any{"handlers": in.Handlers, "waiting": in.Waiting})
	}
	if err := Print(r.io, in.Handlers, handlerColumns, "no handler has run yet"); err != nil {
		return err
	}
	if len(in.Waiting) == 0 {
		return nil
	}
	fmt.Fprintln(r.io.Out)
	return Print(r.io, in.Waiting, waitingColumns, "")
}

func (r *repl) stack(ctx context.Context, _ string) error {
	in, err := r.inspect(ctx, false)
	if err != nil {
		return err
	}
	if r.io.JSON {
		return r.answer(true, "stack", map[string]any{"stuck": in.Stuck, "waiting": in.Waiting})
	}
	if in.Stuck == nil && len(in.Waiting) == 0 {
		r.io.Note("nothing waits, nothing is stuck")
	}
	printStuck(r.io, in)
	printStacks(r.io, in.Waiting)
	return nil
}

func (r *repl) reload(ctx context.Context, _ string) error {
	if r.f.readOnly {
		return errors.New("this session is read-only, and a reload changes the service")
	}
	_, name, _ := shield.SplitTarget(r.target)
	res, err := r.c.Reload(ctx, control.ReloadRequest{Names: []shield.Name{name}})
	if err != nil {
		return err
	}
	if err := printReload(r.io, res); err != nil {
		r.exit = exitOf(ctx, err) // it has said why
	}
	return nil
}

// watch evaluates an expression once a second and prints what changes.
func (r *repl) watch(ctx context.Context, expr string) error {
	last := ""
	for {
		res, err := r.eval(ctx, expr, "watch")
		if err != nil {
			return err
		}
		if res.Incomplete != "" {
			return fmt.Errorf("%s: it is not complete", expr)
		}
		if now := fmt.Sprint(res.Text, res.Output, res.Error); now != last {
			if last = now; r.prompt != nil {
				fmt.Fprint(r.io.Out, r.io.PaintOut(Faint, time.Now().Format(time.TimeOnly)+"  "))
			}
			r.show(res)
		}
		if !res.OK || r.prompt == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (r *repl) load(ctx context.Context, file string) error {
	b, err := os.ReadFile(inDir(r.io, file))
	if err != nil {
		return err
	}
	if len(b) > maxSource {
		return fmt.Errorf("%s is longer than %d bytes", file, maxSource)
	}
	res, err := r.eval(ctx, string(b), file)
	if err != nil {
		return err
	}
	if res.Incomplete != "" {
		return fmt.Errorf("%s ends too early: %s", file, res.Incomplete)
	}
	r.show(res)
	return nil
}

func (r *repl) save(_ context.Context, file string) error {
	f, err := os.OpenFile(inDir(r.io, file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; choose another name", file)
	}
	if err != nil {
		return err
	}
	text := strings.Join(r.said, "\n")
	if text != "" {
		text += "\n"
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if r.io.JSON {
		return r.answer(true, "saved", map[string]any{"file": file, "lines": len(r.said)})
	}
	r.io.Note("%d lines are in %s", len(r.said), clean(file))
	return nil
}
