package main

import (
	"context"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// nodeActions are the verbs that `shield dev` alone allows: what can happen to a
// node, on purpose.
var nodeActions = []struct {
	action control.NodeAction
	short  string
	long   string
	done   string
}{
	{control.NodeStop, "stop a node of shield dev: drain, goodbye, end",
		`Drains the node as shield drain does, says goodbye to the others, and ends it; shield restart starts
it again. Only a project under shield dev allows it: a node of shield run is ended by SIGTERM, or by
shield drain.`, "stopped"},
	{control.NodeKill, "end a node of shield dev as a crash would",
		`Ends the node at once: no on_shutdown, no goodbye, clients cut off. The others find out as they would
after a crash. shield restart starts it again; shield stop is the orderly way.`, "killed"},
	{control.NodeRestart, "start a node of shield dev again, with a new epoch",
		`Ends the node if it runs and starts it anew: same id and address, a new epoch, fresh services. What
they held in memory is gone.`, "restarted"},
}

// newNodeActions makes one verb for each.
func newNodeActions() (makers []func(io *IO) *cobra.Command) {
	for _, na := range nodeActions {
		makers = append(makers, func(io *IO) *cobra.Command {
			var yes bool
			cmd := &cobra.Command{
				Use:     string(na.action) + " NODE",
				Short:   na.short,
				Long:    na.long,
				GroupID: groupAct,
				Example: "  shield " + string(na.action) + " node-2\n  shield " + string(na.action) + " node-2 --yes",
				Args:    args(cobra.ExactArgs(1)),
				RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
					if err := confirmNode(ctx, io, c, yes, string(na.action)+" "+a[0], shield.NodeID(a[0]), control.ModeDev); err != nil {
						return err
					}
					row, err := c.Node(ctx, control.NodeRequest{Node: shield.NodeID(a[0]), Action: na.action})
					return printNode(io, row, err, na.done)
				}),
				ValidArgsFunction: complete(io, nodeWords, noWords),
			}
			cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
			return cmd
		})
	}
	return makers
}
