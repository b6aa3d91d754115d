package main

import (
	"context"
	"time"

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
	done   string
	asks   bool
	ends   bool // it has an end by itself: --for
}{
	{control.NodeStop, "stop a node of shield dev: drain, goodbye, end", "stopped", true, false},
	{control.NodeKill, "end a node of shield dev as a crash would", "killed", true, false},
	{control.NodeRestart, "start a node of shield dev again, with a new epoch", "restarted", true, false},
	{control.NodeFreeze, "let a node of shield dev hang for a while, as SIGSTOP would", "froze", false, true},
	{control.NodeThaw, "end a freeze before its time", "thawed", false, false},
}

// newNodeActions makes one verb for each.
func newNodeActions() (makers []func(io *IO) *cobra.Command) {
	for _, na := range nodeActions {
		makers = append(makers, func(io *IO) *cobra.Command {
			var yes bool
			var length time.Duration
			cmd := &cobra.Command{
				Use:     string(na.action) + " NODE",
				Short:   na.short,
				GroupID: groupAct,
				Example: "  shield " + string(na.action) + " node-2",
				Args:    args(cobra.ExactArgs(1)),
				RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
					if na.asks {
						if err := confirm(io, yes, string(na.action)+" "+a[0]); err != nil {
							return err
						}
					}
					row, err := c.Node(ctx, control.NodeRequest{Node: shield.NodeID(a[0]), Action: na.action, For: length.Milliseconds()})
					return printNode(io, row, err, na.done)
				}),
				ValidArgsFunction: complete(io, nodeWords, noWords),
			}
			if na.asks {
				cmd.Example += "\n  shield " + string(na.action) + " node-2 --yes"
				cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
			}
			if na.ends {
				cmd.Example += " --for 10s"
				cmd.Flags().DurationVar(&length, "for", 10*time.Second, "when it ends by itself")
			}
			return cmd
		})
	}
	return makers
}
