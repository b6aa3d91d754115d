package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
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
			"  echo '#M.members' | shield repl room.public\n" +
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
	fl.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long a line may take, waits included")
	fl.DurationVar(&f.budget, "budget", time.Second, "how long a line may run without a wait, and keep the service from its work")
	return cmd
}

// repl is one session with one service.
type repl struct {
	io      *IO
	c       *client.Client
	f       replFlags
	target  string // node:name
	name    string // of the session
	begun   bool   // a line was run
	id      shield.ServiceID
	gen     int
	open    []string // lines of a chunk that is not complete yet
	said    []string // lines that ran, for .save
	exit    int      // of the last line that failed
	prompt  *prompt  // nil on a pipe
	history *typedHistory
}

// attachRepl finds the service and refuses one that can't be talked to.
func attachRepl(ctx context.Context, io *IO, c *client.Client, target string, f replFlags) (*repl, error) {
	in, err := c.Inspect(ctx, target, false, "")
	if err != nil {
		return nil, err
	}
	if in.State != shield.Running {
		return nil, fail(exitFailed, "shield inspect "+target, "%s on %s is %s: %s", in.Service, in.Node, in.State, in.Reason)
	}
	r := &repl{io: io, c: c, f: f, name: rand.Text(), id: in.ID, gen: in.Generation}
	_, name, _ := shield.SplitTarget(target)
	r.target = string(in.Node) + ":" + string(name)
	if io.InTTY && io.OutTTY && !io.JSON {
		r.greet(in)
	}
	return r, nil
}

func (r *repl) greet(in control.Inspection) {
	r.io.Note("attached to %s   code %s   memory %s   mailbox %d", clean(r.target), codeLens(in.Generation, in.Code), size(in.Memory), in.Mailbox)
	if in.Stuck != nil {
		r.io.Warn("it is inside %s since %s and lets nobody in: lines wait for it", in.Stuck.Method, age(in.Stuck.ForMS))
	}
	how := fmt.Sprintf("each line is one turn of the service; it may run %v; Ctrl-C gives it up, Ctrl-D detaches, .help", r.f.budget)
	if r.f.readOnly {
		how = "read-only: expressions without calls; Ctrl-D detaches, .help"
	}
	r.io.Note("%s", r.io.PaintErr(Faint, how))
}

// run takes lines until there are no more.
func (r *repl) run(ctx context.Context) error {
	if r.io.InTTY && r.io.OutTTY && !r.io.JSON {
		return r.byHand(ctx)
	}
	lines := bufio.NewScanner(r.io.In)
	lines.Buffer(make([]byte, 64<<10), maxSource)
	for lines.Scan() {
		if err := r.line(ctx, lines.Text()); err != nil {
			return ended(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := lines.Err(); err != nil {
		return fail(exitUsage, "", "read a line of at most %d bytes: %w", maxSource, err)
	}
	if len(r.open) > 0 {
		r.failed(control.CallResult{Error: control.MakeError(
			shield.Errorf(shield.ScriptLoadFailed, "the input ends inside of what began with %q", r.open[0]), shield.ScriptLoadFailed)})
	}
	if r.exit != exitOK {
		return quiet(r.exit)
	}
	return nil
}

// errLeave is what ends a session in good order.
var errLeave = errors.New("leave")

func ended(err error) error {
	if errors.Is(err, errLeave) {
		return nil
	}
	return err
}

// byHand is run with a person at the keyboard.
func (r *repl) byHand(ctx context.Context) error {
	p, err := newPrompt(r.io, r.words(ctx))
	if err != nil {
		return err
	}
	r.prompt, r.history = p, openHistory("repl_history")
	p.screen.History = r.history
	signals := r.io.TakeSignals()
	for {
		text := r.promptText()
		line, err := p.ReadLine(text)
		switch {
		case errors.Is(err, errBreak):
			r.open = nil
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
				return errors.Join(errLeave, <-done)
			}
		}
	}
}

func (r *repl) promptText() string {
	text := fmt.Sprintf("%s:%d> ", clean(r.target), r.gen)
	if len(r.open) == 0 {
		return text
	}
	return strings.Repeat(" ", max(len(text)-4, 0)) + ">>> "
}

// line takes one line as it was typed. An error ends the session.
func (r *repl) line(ctx context.Context, line string) error {
	if len(r.open) == 0 {
		switch text := strings.TrimSpace(line); {
		case text == "" || strings.HasPrefix(text, "--") && !strings.HasPrefix(text, "--["):
			return nil
		case strings.HasPrefix(text, "."):
			return r.dot(ctx, text)
		}
	}
	r.open = append(r.open, line)
	res, err := r.eval(ctx, strings.Join(r.open, "\n"), "repl")
	if err != nil {
		r.open = nil
		if ctx.Err() != nil && r.prompt != nil {
			r.io.Note("%s", r.io.PaintErr(Yellow, "given up"))
		}
		return err
	}
	if res.Incomplete != "" {
		return nil
	}
	r.said = append(r.said, r.open...)
	r.open = nil
	r.show(res)
	return nil
}

func (r *repl) eval(ctx context.Context, source, name string) (control.CallResult, error) {
	return r.c.Eval(ctx, control.EvalRequest{Target: r.target, Source: source, Name: name, Session: r.name,
		Timeout: r.f.timeout.Milliseconds(), Budget: r.f.budget.Milliseconds(), ReadOnly: r.f.readOnly})
}

// show prints what a line came to.
func (r *repl) show(res control.CallResult) {
	r.changed(res)
	if r.io.JSON {
		if !res.OK {
			r.exit = client.CallExitCode(res)
		}
		if err := r.io.PrintJSON(res); err != nil {
			r.io.Warn("%v", err)
		}
		return
	}
	fmt.Fprint(r.io.Out, cleanLines(res.Output))
	if !res.OK {
		r.failed(res)
		return
	}
	for _, text := range res.Text {
		fmt.Fprintln(r.io.Out, cleanLines(text))
	}
	r.hint(res.Hint)
	if res.Ended != "" {
		r.io.Warn("the line has ended the service: %s", res.Ended)
	}
}

func (r *repl) hint(hint string) {
	if hint != "" {
		r.io.Note("  %s", r.io.PaintErr(Faint, clean(hint)))
	}
}

// changed says that the service is not what it was at the line before.
func (r *repl) changed(res control.CallResult) {
	switch {
	case res.ID != 0 && res.ID != r.id:
		what := "-- it was started afresh --"
		if r.begun {
			what = "-- it was started afresh; the locals of this session are gone --"
		}
		r.io.Note("%s", r.io.PaintErr(Yellow, what))
	case res.ID != 0 && res.Generation != r.gen:
		r.io.Note("%s", r.io.PaintErr(Faint, fmt.Sprintf("-- generation %d -> %d; the locals of this session were kept --", r.gen, res.Generation)))
	}
	if res.ID != 0 {
		r.id, r.gen, r.begun = res.ID, res.Generation, true
	}
}

// failed prints why a line failed: the reason, what may have been meant, and
// the stack where there is more to it than the line itself.
func (r *repl) failed(res control.CallResult) {
	r.exit = client.CallExitCode(res)
	if r.io.JSON {
		if err := r.io.PrintJSON(res); err != nil {
			r.io.Warn("%v", err)
		}
		return
	}
	text := problem(res.Error)
	if res.Error.Code == shield.HandlerError || res.Error.Code == shield.ScriptLoadFailed {
		text = res.Error.Message
	}
	fmt.Fprintf(r.io.Err, "%s %s\n", r.io.PaintErr(Red, "error:"), cleanLines(text))
	r.hint(res.Hint)
	if trace, ok := res.Error.Detail.(string); ok && (res.Error.Code != shield.HandlerError || leadsAway(trace)) {
		fmt.Fprintln(r.io.Err, r.io.PaintErr(Faint, cleanLines(trace)))
	}
}

// leadsAway reports whether a traceback says more than that the line failed.
func leadsAway(trace string) bool {
	for l := range strings.Lines(trace) {
		if strings.HasPrefix(l, "\t") && !strings.HasPrefix(l, "\t[Go]") && !strings.HasPrefix(l, "\trepl:") {
			return true
		}
	}
	return false
}

// words completes dot-commands by themselves and Lua by asking the service.
func (r *repl) words(ctx context.Context) func(string, int, rune) (string, int, bool) {
	return func(line string, pos int, _ rune) (string, int, bool) {
		show := func(s string) { fmt.Fprint(r.prompt.screen, clean(s)+"\n") }
		before := line[:pos]
		if len(r.open) == 0 && strings.HasPrefix(before, ".") && !strings.Contains(before, " ") {
			var fits []string
			for _, d := range dots {
				if strings.HasPrefix(d.name, before) {
					fits = append(fits, d.name)
				}
			}
			return offer(line, pos, 0, fits, show)
		}
		if strings.TrimSpace(before) == "" {
			return "    " + line, pos + 4, true // indents
		}
		ctx, cancel := context.WithTimeout(ctx, wordsTime)
		defer cancel()
		skip := 0
		if strings.HasPrefix(before, ".watch ") {
			skip = len(".watch ")
		}
		c, err := r.c.Complete(ctx, r.target, r.name, before[skip:])
		if err != nil || c.From < 0 || c.From+skip > pos {
			return "", 0, false // a tab key reports no errors
		}
		return offer(line, pos, c.From+skip, c.Words, show)
	}
}

// wordsTime is how long a person waits for the tab key, the service's own work
// included.
const wordsTime = 500 * time.Millisecond

// answer prints a dot-command's result with --json.
func (r *repl) answer(ok bool, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print %s: %w", key, err)
	}
	return r.io.PrintJSON(map[string]json.RawMessage{"ok": json.RawMessage(fmt.Sprint(ok)), key: b})
}
