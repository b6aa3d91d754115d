package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newDrain(io *IO) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "drain NODE",
		Short:   "take a node out of routing, let it finish, end it",
		GroupID: groupAct,
		Long: `The others stop choosing the node, its services run on_shutdown and finish what they do within
shutdown.service_drain_ms, its clients are told, and it ends. Of shield run the process ends too.

This is what SIGTERM does, and it works on any running project. stop is the same for one node of
shield dev, which restart starts again; kill ends it with no goodbye, as a crash does.`,
		Example: "  shield drain node-2\n  shield drain node-2 --yes --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			if err := confirmNode(ctx, io, c, yes, "drain and end "+a[0], shield.NodeID(a[0]), control.ModeDev, control.ModeRun); err != nil {
				return err
			}
			row, err := c.Drain(ctx, control.DrainRequest{Node: shield.NodeID(a[0])})
			return printNode(io, row, err, "drained")
		}),
		ValidArgsFunction: complete(io, nodeWords, noWords),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func printNode(io *IO, row shield.NodeRow, err error, done string) error {
	if err != nil {
		return err
	}
	if io.JSON {
		return io.PrintJSON(row)
	}
	if done == "killed" && row.State == shield.Online { // the others have not noticed yet
		_, err = fmt.Fprintf(io.Out, "killed %s; the others will see it offline in a moment\n", clean(string(row.Node)))
		return err
	}
	_, err = fmt.Fprintf(io.Out, "%s %s: %s\n", done, clean(string(row.Node)), stateOf(row))
	return err
}
