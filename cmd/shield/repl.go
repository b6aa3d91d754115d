package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
)

// replFlags are the flags of `shield repl`.
type replFlags struct {
	readOnly bool
	timeout  time.Duration
	budget   time.Duration
}

func newRepl(io *IO) *cobra.Command {
	var f replFlags
	cmd := &cobra.Command{
		Use:     "repl [TARGET]",
		Short:   "type Lua into a running service, or verbs into the cluster",
		GroupID: groupAct,
		Example: "  shield repl room.public                       # .help lists what can be typed\n" +
			"  echo count | shield repl room.public\n" +
			"  shield repl node-2:room.public --read-only\n" +
			"  shield repl                                   # every verb, without the word shield",
		Long: "Attaches to a service's VM. Each line is one turn of the service: an expression prints, a statement\n" +
			"runs. Locals of yours live on from line to line, also over a reload of the service, and are not seen by\n" +
			"the service. M is the service's module, _ the last value; locals of its file are reachable by name.\n\n" +
			"On a pipe each line of the input is one line of Lua, and its result follows; the exit code is that\n" +
			"of the last line that failed. Without TARGET each line is a verb.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			if len(a) == 0 {
				return clusterShell(ctx, io, c, f.readOnly)
			}
			r, err := attachRepl(ctx, io, c, a[0], f)
			if err != nil {
				return err
			}
			return r.run(ctx)
		}),
		ValidArgsFunction: complete(io, targetWords, noWords),
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.readOnly, "read-only", false, "refuse whatever could change something")
	durationFlag(cmd, &f.timeout, "timeout", repl.DefaultTimeout, "how long a line may take, waits included")
	durationFlag(cmd, &f.budget, "budget", repl.DefaultBudget, "how long a line may run without a wait, and keep the service from its work")
	return cmd
}

// replScreen is a session with one service on a terminal of lines, or on a pipe.
type replScreen struct {
	io      *IO
	session *repl.Session
	exit    int     // of the last line that failed
	prompt  *prompt // nil on a pipe
	history *typedHistory
}

// attachRepl finds the service and refuses one that can't be talked to.
func attachRepl(ctx context.Context, io *IO, c *client.Client, target string, f replFlags) (*replScreen, error) {
	byHand := io.InTTY && io.OutTTY && !io.JSON
	s, hello, err := repl.Attach(ctx, c, repl.Config{Target: target, Timeout: f.timeout, Budget: f.budget, ReadOnly: f.readOnly, Once: !byHand, Dir: io.Dir})
	var still *repl.NotRunningError
	switch {
	case errors.As(err, &still):
		return nil, fail(exitFailed, "shield inspect "+target, "%w", err)
	case err != nil:
		return nil, err
	}
	r := &replScreen{io: io, session: s}
	if byHand {
		r.show(ctx, hello)
	}
	return r, nil
}

// run takes lines until there are no more.
func (r *replScreen) run(ctx context.Context) error {
	if r.io.InTTY && r.io.OutTTY && !r.io.JSON {
		return r.byHand(ctx)
	}
	in := r.io.Input(ctx)
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), repl.MaxSource)
	for lines.Scan() {
		if err := r.line(ctx, lines.Text()); err != nil {
			return ended(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := lines.Err(); err != nil {
		return fail(exitUsage, "", "read a line of at most %d bytes: %w", repl.MaxSource, err)
	}
	if a, bad := r.session.End(); bad {
		r.show(ctx, a)
	}
	if r.exit != exitOK {
		return quiet(r.exit)
	}
	return nil
}

func (r *replScreen) line(ctx context.Context, line string) error {
	return r.session.Line(ctx, line, func(a repl.Answer) { r.show(ctx, a) })
}

func ended(err error) error {
	if errors.Is(err, repl.ErrQuit) {
		return nil
	}
	return err
}

// byHand is run with a person at the keyboard.
func (r *replScreen) byHand(ctx context.Context) error {
	signals := r.io.TakeSignals()
	p, err := newPrompt(ctx, r.io, signals, r.words(ctx))
	if err != nil {
		return err
	}
	defer p.in.Close()
	r.prompt, r.history = p, openHistory("repl_history")
	p.screen.History = r.history
	for {
		text := clean(r.session.Prompt())
		line, err := p.ReadLine(text)
		switch {
		case errors.Is(err, errBreak):
			r.session.Drop()
			continue
		case errors.Is(err, stdio.EOF):
			fmt.Fprintln(r.io.Err)
			r.io.Note("%s", r.io.PaintErr(Faint, "detached; the service goes on"))
			return r.history.said()
		case err != nil:
			return err
		}
		if err := interruptible(ctx, signals, func(ctx context.Context) error { return r.line(ctx, line) }); err != nil {
			return errors.Join(ended(err), r.history.said())
		}
	}
}

// said reports once that a history could not be kept.
func (h *typedHistory) said() error {
	if h.err == nil {
		return nil
	}
	return fmt.Errorf("the history is not kept: %w", h.err)
}

// interruptible runs do with a context that Ctrl-C ends; do is what it ends, and
// not the session. A SIGTERM ends that too.
func interruptible(ctx context.Context, signals <-chan os.Signal, do func(context.Context) error) error {
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(one) }()
	for {
		select {
		case err := <-done:
			if err != nil && one.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		case sig := <-signals:
			cancel()
			if sig != os.Interrupt {
				return errors.Join(repl.ErrQuit, <-done)
			}
		}
	}
}

// show prints an answer: for programs its value, for people its blocks.
func (r *replScreen) show(ctx context.Context, a repl.Answer) {
	switch {
	case a.Reload != nil: // as the verb prints it
		if err := printReload(r.io, *a.Reload, nothingChanged); err != nil {
			r.exit = exitOf(ctx, err) // it has said why
		}
		return
	case a.Result != nil && !a.Result.OK:
		r.exit = exitOfCall(*a.Result)
	case a.Err != nil:
		r.exit = exitFailed
	}
	if r.io.JSON {
		if err := r.io.PrintJSON(valueOf(a)); err != nil {
			r.io.Warn("%v", err)
		}
		return
	}
	if a.Watched && r.prompt != nil {
		fmt.Fprint(r.io.Out, r.io.PaintOut(Faint, time.Now().Format(time.TimeOnly)+"  "))
	}
	for _, b := range a.Blocks {
		if b.Kind == repl.Failure && r.exit == exitOK {
			r.exit = exitFailed
		}
		if err := printBlock(r.io, b); err != nil {
			r.io.Warn("%v", err)
		}
	}
}

// valueOf is an answer for programs.
func valueOf(a repl.Answer) any {
	switch {
	case a.Err != nil:
		return map[string]any{"ok": false, "error": control.MakeError(a.Err, shield.Code(exitName(exitFailed)))}
	case a.Result != nil:
		return a.Result
	}
	return map[string]any{"ok": true, a.Key: a.Value}
}

// printBlock writes a part of an answer: results to Out, the rest to Err.
func printBlock(io *IO, b repl.Block) error {
	if b.Table != nil {
		return printTable(io, b.Table)
	}
	text := cleanLines(b.Text)
	switch b.Kind {
	case repl.Output:
		fmt.Fprint(io.Out, text)
	case repl.Alarm:
		fmt.Fprintln(io.Out, io.PaintOut(Red, text))
	case repl.Note:
		io.Note("%s", text)
	case repl.Aside:
		io.Note("%s", io.PaintErr(Faint, text))
	case repl.Hint:
		io.Note("  %s", io.PaintErr(Faint, text))
	case repl.Warning:
		io.Note("%s", io.PaintErr(Yellow, text))
	case repl.Failure:
		fmt.Fprintf(io.Err, "%s %s\n", io.PaintErr(Red, "error:"), text)
	case repl.Trace:
		fmt.Fprintln(io.Err, io.PaintErr(Faint, text))
	default:
		if b.Kept != "" {
			text += io.PaintOut(Faint, "   -- "+b.Kept)
		}
		fmt.Fprintln(io.Out, text)
	}
	return nil
}

// printTable prints a table of package repl.
func printTable(io *IO, t *repl.Table) error {
	columns := make([]Column[[]string], len(t.Head))
	for i := range columns {
		columns[i] = Column[[]string]{Head: t.Head[i], Right: t.Right[i], Cell: func(row []string) string { return row[i] }}
	}
	return Print(io, t.Rows, columns, t.Empty)
}

// words completes the line at the tab key.
func (r *replScreen) words(ctx context.Context) func(string, int, rune) (string, int, bool) {
	return func(line string, pos int, _ rune) (string, int, bool) {
		if before := line[:pos]; strings.TrimSpace(before) == "" {
			return "    " + line, pos + 4, true // indents
		}
		ctx, cancel := context.WithTimeout(ctx, wordsTime)
		defer cancel()
		from, words, err := r.session.Complete(ctx, line[:pos])
		if err != nil {
			return "", 0, false // a tab key reports no errors
		}
		return offer(line, pos, from, typable(words), func(s string) { fmt.Fprint(r.prompt.screen, clean(s)+"\n") })
	}
}

// wordsTime is how long a person waits for the tab key, the service's own work
// included.
const wordsTime = 500 * time.Millisecond
