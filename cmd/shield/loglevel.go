package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// logLevels are the levels, the least important first.
var logLevels = []string{"debug", "info", "warn", "error"}

func newLogLevel(io *IO) *cobra.Command {
	var node, service string
	cmd := &cobra.Command{
		Use:     "loglevel LEVEL",
		Short:   "change what is logged from now on",
		GroupID: groupAct,
		Example: "  shield loglevel debug\n  shield loglevel debug --service room.public\n  shield loglevel info",
		Long:    "LEVEL is debug, info, warn or error. It holds until it is changed again or the process ends.",
		Args:    args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			if !slices.Contains(logLevels, a[0]) {
				return fail(exitUsage, "shield loglevel debug", "level %q: want %s", a[0], strings.Join(logLevels, ", "))
			}
			err := c.SetLogLevel(ctx, control.LogLevelRequest{Level: a[0], Node: shield.NodeID(node), Service: service})
			if err != nil {
				return err
			}
			if io.JSON {
				return io.PrintJSON(control.LogLevel{OK: true, Level: a[0]})
			}
			_, err = fmt.Fprintf(io.Out, "logging %s and above\n", a[0])
			return err
		}),
		ValidArgsFunction: cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp),
	}
	cmd.Flags().StringVar(&node, "node", "", "only on this node")
	cmd.Flags().StringVar(&service, "service", "", "only of this service, or part of the runtime")
	mustComplete(cmd, "node", complete(io, nodeWords))
	mustComplete(cmd, "service", complete(io, serviceWords))
	return cmd
}
