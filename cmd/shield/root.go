package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shield/runtime/config"
	"shield/runtime/shield"
)

// verbs makes every verb, in the order of `shield help`. One file per verb; a
// new verb is a new line here.
var verbs = []func(io *IO) *cobra.Command{
	newNew,
	newDev,
	newRun,
	newDemo,
	newCheck,
	newTest,
	newTestChild,
	newConfig,
	newExplain,
	newConsole,
	newDoctor,
	newVersion,
}

// The groups of `shield help`.
const (
	groupProject = "project"
	groupLook    = "look"
	groupAct     = "act"
	groupMore    = "more"
)

// Verbs stand in the order of the table above, not of the alphabet.
func init() { cobra.EnableCommandSorting = false }

// newRoot makes the tree of verbs.
func newRoot(io *IO) *cobra.Command {
	root := &cobra.Command{
		Use:           "shield",
		Short:         "Build, run and inspect game backends written in Lua",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownVerb,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fmt.Fprint(io.Out, workflow)
			return err
		},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			for i, a := range args {
				args[i] = strings.TrimPrefix(a, numberMark)
			}
			return checkGlobals(io)
		},
	}
	root.SetIn(io.In)
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	root.AddGroup(
		&cobra.Group{ID: groupProject, Title: "Make and run a project"},
		&cobra.Group{ID: groupLook, Title: "Look at a running one"},
		&cobra.Group{ID: groupAct, Title: "Talk to it"},
		&cobra.Group{ID: groupMore, Title: "More"},
	)
	flags := root.PersistentFlags()
	flags.BoolVar(&io.JSON, "json", io.JSON, "print for programs")
	flags.StringVar(&io.Color, "color", io.Color, "auto, always or never")
	flags.StringVar(&io.Endpoint, "endpoint", io.Getenv("SHIELD_ENDPOINT"), "control API: unix:PATH or tcp://HOST:PORT")
	flags.StringVarP(&io.Dir, "dir", "C", io.Dir, "work as if started in this folder")
	flags.BoolP("help", "h", false, "help for this verb")
	flags.Lookup("dir").DefValue = ""
	flags.Lookup("endpoint").DefValue = ""
	mustComplete(root, "color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
	root.SetFlagErrorFunc(unknownFlag)
	for _, make := range append(controlVerbs(), verbs...) {
		root.AddCommand(make(io))
	}
	addHelp(root, io)
	addCompletion(root)
	addVersionFlag(root)
	return root
}

var colors = []string{"auto", "always", "never"}

// checkGlobals refuses global flags that make no sense.
func checkGlobals(io *IO) error {
	if !slices.Contains(colors, io.Color) {
		return fail(exitUsage, "shield --color=auto ...", "--color %q: want auto, always or never", io.Color)
	}
	if st, err := os.Stat(io.Dir); err != nil || !st.IsDir() {
		return fail(exitUsage, "shield -C FOLDER ...", "-C %s: no such folder", io.Dir)
	}
	return nil
}

// run is the whole program but for os.Exit.
func run(ctx context.Context, args []string, io *IO) (exit int) {
	defer func() {
		if r := recover(); r != nil {
			exit = crashed(io, args, r, debug.Stack())
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := watchSignals(ctx, cancel, io)
	defer stop()

	for _, a := range args { // errors of the flags themselves must be JSON too
		if a == "--" {
			break
		}
		io.JSON = io.JSON || a == "--json" || a == "--json=true"
	}
	root := newRoot(io)
	root.SetArgs(markNumbers(root, args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = io.Lost()
	}
	exit = exitOf(ctx, err)
	if err != nil && exit != exitInterrupted { // whoever pressed Ctrl-C knows
		printError(io, verbPath(cmd), err, exit)
	}
	return exit
}

// watchSignals cancels at the first interrupt and leaves at the second, or hands
// them to the verb that has taken them over.
func watchSignals(ctx context.Context, cancel context.CancelCauseFunc, io *IO) (stop func()) {
	if io.Signals == nil {
		return func() {}
	}
	done := make(chan struct{})
	io.relay = make(chan os.Signal, 4)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; {
			select {
			case <-done:
				return
			case sig := <-io.Signals:
				switch n++; {
				case io.taken.Load():
					select {
					case io.relay <- sig:
					default: // the verb has more of them than it looks at
					}
				case n > 1:
					io.Exit(exitInterrupted)
					return
				default:
					cancel(errInterrupted)
				}
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

func verbPath(cmd *cobra.Command) string {
	if cmd == nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "shield"))
}

// unknownVerb refuses what is no verb, with the nearest one.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			names = append(names, c.Name())
		}
	}
	next := strings.TrimSpace(cmd.CommandPath()) + " --help"
	if near := shield.Nearest(args[0], names); near != "" {
		return fail(exitUsage, cmd.CommandPath()+" "+near, "unknown verb %q (did you mean %q?)", args[0], near)
	}
	return fail(exitUsage, next, "unknown verb %q", args[0])
}

var flagName = regexp.MustCompile(`^unknown flag: --(.+)$`)

// unknownFlag turns every complaint of the flag parser into a usage error, with
// the nearest flag where one was misspelt.
func unknownFlag(cmd *cobra.Command, err error) error {
	next := cmd.CommandPath() + " --help"
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		return fail(exitUsage, next, "--%s %q: %s", wrong.GetFlag().Name, wrong.GetValue(), wanted(wrong))
	}
	m := flagName.FindStringSubmatch(err.Error())
	if m == nil {
		return fail(exitUsage, next, "%w", err)
	}
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if near := shield.Nearest(m[1], names); near != "" {
		return fail(exitUsage, next, "unknown flag --%s (did you mean --%s?)", m[1], near)
	}
	return fail(exitUsage, next, "unknown flag --%s", m[1])
}

// wanted says in words what a flag takes, instead of how its parser failed.
func wanted(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int", "int64":
		return "want a whole number"
	case "uint", "uint64":
		return "want a whole number, not below 0"
	case "duration":
		return "want a time such as 500ms, 5s or 2m"
	case "bool":
		return "want true or false"
	}
	return e.Unwrap().Error()
}

// args wraps cobra's checks of the number of arguments: wrong ones are usage
// errors that show the verb's line of use.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if check(cmd, a) == nil {
			return nil
		}
		what := "an argument is missing"
		for n := len(a) - 1; n >= 0; n-- {
			if check(cmd, a[:n]) == nil {
				what = fmt.Sprintf("%q is one argument too many", a[n])
				break
			}
		}
		return fail(exitUsage, cmd.CommandPath()+" --help", "%s; usage: %s", what, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

// allowNumbers lets arguments of cmd begin with a minus when they are numbers:
// `shield call shop.main add -5`.
func allowNumbers(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[numbersAllowed] = "yes"
	return cmd
}

const (
	numbersAllowed = "numbers"
	// numberMark hides a negative number from the flag parser. It can't come
	// from a command line, whose arguments hold no zero bytes.
	numberMark = "\x00"
)

var negative = regexp.MustCompile(`^-(\d|\.\d)`)

// markNumbers hides negative numbers from the flag parser where the verb allows
// them.
func markNumbers(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[numbersAllowed] == "" {
		return args
	}
	marked := append([]string(nil), args...)
	for i, a := range marked {
		if a == "--" {
			break
		}
		if negative.MatchString(a) {
			marked[i] = numberMark + a
		}
	}
	return marked
}

// crashed writes what is known of a fault of our own to a file and says where.
func crashed(io *IO, args []string, r any, stack []byte) int {
	dir := os.TempDir()
	if p, ok := config.Find(io.Dir); ok {
		if d := filepath.Join(p, ".shield"); os.MkdirAll(d, 0o700) == nil {
			dir = d
		}
	}
	name := filepath.Join(dir, "crash-"+time.Now().UTC().Format("20060102-150405.000")+".txt")
	text := fmt.Sprintf("%s\nargs: %q\npanic: %v\n\n%s", versionLine(), args, r, stack)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		name = fmt.Sprintf("(not written: %v)\n%s", err, text)
	}
	printError(io, "", fail(exitInternal, "look at "+name, "a fault in shield itself: %v", r), exitInternal)
	return exitInternal
}
