package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/tui"
	tuiattach "shield/tui/attach"
	"shield/tui/record"
	"shield/tui/theme"
)

// consoleFlags are the flags of `shield console`.
type consoleFlags struct {
	readOnly       bool
	record, replay string
	speed          float64
	theme          string
	ends           bool // quitting stops the cluster: the demo
}

func newConsole(io *IO) *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:     "console",
		Short:   "watch and steer a running project, live",
		GroupID: groupLook,
		Example: "  shield console\n  shield console --read-only\n  shield console --record incident.jsonl\n  shield console --replay incident.jsonl --speed 4",
		Long:    "The console shows every node, route, session, service, call and log line of a running project. Quitting it stops nothing.\nPress ? for the keys.",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needTerminal(io); err != nil {
				return err
			}
			// One core is plenty for a screen, and hand-overs between goroutines
			// then wake no second thread: a quarter fewer wake-ups when idle.
			runtime.GOMAXPROCS(1)
			return runConsole(cmd.Context(), io, f)
		},
		ValidArgsFunction: complete(io),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.readOnly, "read-only", false, "only watch: no key and no command acts")
	flags.StringVar(&f.record, "record", "", "also write what is seen to this `FILE`")
	flags.StringVar(&f.replay, "replay", "", "play the recording in `FILE`; no server is needed")
	flags.Float64Var(&f.speed, "speed", 1, "how fast to play a recording")
	flags.StringVar(&f.theme, "theme", "", "auto, dark, light or mono (default: as last time)")
	mustComplete(cmd, "theme", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return theme.Names(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// needTerminal refuses before anything is drawn. Bubble Tea would open /dev/tty
// by itself and fail in its own words.
func needTerminal(io *IO) error {
	next := "shield nodes --json"
	switch {
	case io.JSON:
		return fail(exitUsage, next, "the console is a screen, it has no --json; the reading verbs have")
	case !io.InTTY || !io.OutTTY:
		return fail(exitUsage, next, "the console needs a terminal at both ends; for programs there is")
	case io.Getenv("TERM") == "dumb":
		return fail(exitUsage, next, "the console needs a terminal that can move its cursor, and TERM is dumb")
	}
	return nil
}

// runConsole shows the console on what the flags name: a recording, or the
// running project.
func runConsole(ctx context.Context, io *IO, f consoleFlags) (err error) {
	var cfg tui.Config
	if f.replay != "" {
		file, err := os.Open(inDir(io, f.replay))
		if err != nil {
			return fail(exitFailed, "", "replay: %w", err)
		}
		defer file.Close()
		player, err := record.Open(file, f.speed)
		if err != nil {
			return fail(exitInvalid, "shield console --record FILE", "replay %s: %w", f.replay, err)
		}
		cfg.Source, cfg.Endpoint = player, f.replay
	} else {
		c, err := attach(ctx, io)
		if err != nil {
			return err
		}
		defer c.Close()
		server := tuiattach.New(c)
		server.Dir, cfg.Attach = io.Dir, server.Attach
		cfg.Source, cfg.Commander, cfg.History, cfg.Methods, cfg.Endpoint = server, server, server.History, server.Methods, c.Endpoint().String()
	}
	if f.record != "" {
		file, err := os.OpenFile(inDir(io, f.record), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fail(exitFailed, "", "record: %w", err)
		}
		rec := record.New(cfg.Source, file)
		defer func() { err = errors.Join(err, rec.Close(), file.Close()) }()
		cfg.Source = rec
	}
	cfg.ReadOnly, cfg.Theme, cfg.Ends = f.readOnly, f.theme, f.ends
	return showConsole(ctx, io, cfg)
}

// showConsole runs the screen until it is quit, and answers the signals: SIGINT
// ends with 130, SIGTERM and SIGHUP with 0, and the terminal is as before.
func showConsole(ctx context.Context, io *IO, cfg tui.Config) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := consoleSignals(io, cancel)
	defer stop()

	cfg.Input, cfg.Output, cfg.Environ = io.In, io.Out, io.Environ
	cfg.Profile = consoleProfile(io)
	cfg.ASCII = !utf8Locale(io) && runtime.GOOS != "windows"
	cfg.Save = func(name, text string) error { return saveNew(inDir(io, name), text) }
	if dir, ok := control.FindProject(io.Dir); ok {
		clip := filepath.Join(dir, control.StateDir, "clip")
		cfg.ClipName = control.StateDir + "/clip"
		cfg.Clip = func(text string) error { return os.WriteFile(clip, []byte(text), 0o600) }
	}
	cfg.Prefs, cfg.Keep = consolePrefs()
	cfg.Past, cfg.Remember = replPast()

	err := tui.Run(ctx, cfg)
	var crash *tui.Crash
	switch {
	case errors.As(err, &crash):
		crashed(io, []string{"console"}, crash.Value, crash.Stack)
		return quiet(exitInternal)
	case errors.Is(err, tui.ErrInterrupted):
		return quiet(exitInterrupted)
	}
	return err
}

// saveNew writes a file that was not there, as .save of the REPL does: a slip of
// the keyboard must not cost a script.
func saveNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return errors.New("it exists already; choose another name")
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// consoleSignals turns signals into the end of the console.
func consoleSignals(io *IO, end context.CancelCauseFunc) (stop func()) {
	signals := io.TakeSignals()
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case s := <-signals: // nil where there are none
			if s == os.Interrupt {
				end(tui.ErrInterrupted)
				return
			}
			end(nil)
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// consoleProfile is how many colours there are. The variables that switch colour
// off and on are judged by IO, which does it as no-color.org says.
func consoleProfile(io *IO) colorprofile.Profile {
	if !io.ColorOut() {
		return colorprofile.ASCII
	}
	var env []string
	for _, v := range io.Environ {
		if k, _, _ := strings.Cut(v, "="); k != "NO_COLOR" && k != "CLICOLOR" && k != "CLICOLOR_FORCE" {
			env = append(env, v)
		}
	}
	return max(colorprofile.Detect(io.Out, env), colorprofile.ANSI)
}

// consolePrefs reads how the console was left, and keeps it. Preferences that
// can't be read are as good as none.
func consolePrefs() (prefs tui.Prefs, keep func(tui.Prefs) error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return prefs, nil
	}
	name := filepath.Join(dir, "shield", "console.json")
	if b, err := os.ReadFile(name); err == nil {
		var read tui.Prefs
		if json.Unmarshal(b, &read) == nil {
			prefs = read
		}
	}
	return prefs, func(p tui.Prefs) error {
		b, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		return os.WriteFile(name, append(b, '\n'), 0o600)
	}
}

// replPast is the history of `shield repl`, which the console's REPL goes on with.
func replPast() (past []string, remember func(string) error) {
	h := openHistory("repl_history")
	var mu sync.Mutex // the console keeps lines beside its screen
	return h.lines, func(line string) error {
		mu.Lock()
		defer mu.Unlock()
		h.Add(line)
		return h.err
	}
}
