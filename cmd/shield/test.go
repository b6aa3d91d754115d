package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"shield/devserver/testrun"
)

// testChild is the verb that starts a child of `shield test`; it is no business
// of anybody else.
const testChild = "test-child"

func newTestChild(*IO) *cobra.Command {
	return &cobra.Command{Use: testChild, Hidden: true, Args: args(cobra.NoArgs), Run: func(*cobra.Command, []string) { testrun.Child() }}
}

func newTest(io *IO) *cobra.Command {
	var t testFlags
	cmd := &cobra.Command{
		Use:     "test [FILE...]",
		Short:   "run the project's tests on clusters in virtual time",
		GroupID: groupProject,
		Example: "  shield test\n  shield test tests/room_test.lua --run 'second login'\n  shield test --seeds 200        # other interleavings; a failure says how to repeat it\n" +
			"  shield test --cover --lcov cover.info\n  shield test --watch",
		Long: `Runs tests/*_test.lua (describe, it, before_each, assert.are.same and their like) against real nodes,
services and clients whose time is virtual: a day of timers takes milliseconds. Each file runs in a
process of its own, on a cluster of its own. What comes first when two things happen at once is
decided by a seed, so a failure can be repeated exactly. docs/testing.md has the whole story.`,
		RunE: func(cmd *cobra.Command, files []string) error {
			o, err := testOptions(io, files, &t)
			if err != nil {
				return err
			}
			if t.watch {
				return watchTests(cmd.Context(), io, o)
			}
			return runTests(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.run, "run", "", "only tests whose full name this regular expression matches")
	f.Uint64Var(&t.seed, "seed", 1, "decides every chance and every interleaving")
	f.IntVar(&t.seeds, "seeds", 1, "try this many seeds, from --seed on")
	durationFlag(cmd, &t.timeout, "timeout", testrun.DefaultTimeout, "real time that each file has")
	f.BoolVar(&t.cover, "cover", false, "count the lines that ran")
	f.StringVar(&t.lcov, "lcov", "", "with --cover: write an lcov file")
	f.StringVar(&t.log, "log", "info", "what a failing test shows of the log: debug, info, warn or error")
	f.BoolVar(&t.watch, "watch", false, "run again whenever a file is saved")
	mustComplete(cmd, "log", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type testFlags struct {
	run, lcov, log string
	seed           uint64
	seeds          int
	timeout        time.Duration
	cover, watch   bool
}

// runTests runs the tests once and turns their result into an exit code.
func runTests(ctx context.Context, o testrun.Options) error {
	end, err := testrun.Run(ctx, o)
	switch {
	case ctx.Err() != nil:
		return err // somebody interrupted it, who needs no help
	case errors.Is(err, testrun.ErrNoMatch):
		return fail(exitFailed, "shield test", "%w", err)
	case err != nil:
		return fail(exitFailed, "shield help test", "%w", err)
	case end.Result == testrun.Pass:
		return nil
	case end.Failure != nil && end.Failure.Load:
		return quiet(exitInvalid)
	}
	return quiet(exitFailed)
}
