package main

import (
	"context"
	"fmt"
	stdio "io"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
)

func newEval(io *IO) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "eval TARGET LUA",
		Short:   "run Lua in a service's VM, as one turn of it",
		GroupID: groupAct,
		Example: "  shield eval room.public 'shield.names()'\n  shield eval node-2:players 'local n = 0; for _ in pairs(online) do n = n + 1 end; return n'\n  shield eval players - < check.lua",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			source := a[1]
			if source == "-" {
				in := io.Input(cmd.Context())
				defer in.Close()
				b, err := stdio.ReadAll(stdio.LimitReader(in, repl.MaxSource+1))
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				if err != nil {
					return fmt.Errorf("read Lua from standard input: %w", err)
				}
				source = string(b)
			}
			if len(source) > repl.MaxSource {
				return fail(exitUsage, "", "the Lua is longer than %d bytes", repl.MaxSource)
			}
			res, err := perform(cmd.Context(), io, func(ctx context.Context, c *client.Client) (control.CallResult, error) {
				return c.Eval(ctx, control.EvalRequest{Target: a[0], Source: source, Timeout: milliseconds(timeout)})
			})
			return printResult(cmd.Context(), io, res, err)
		},
		ValidArgsFunction: complete(io, targetWords, noWords),
	}
	durationFlag(cmd, &timeout, "timeout", 0, "how long to wait (default: the node's call_timeout)")
	return cmd
}
