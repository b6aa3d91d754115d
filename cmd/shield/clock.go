package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newClock(io *IO) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:     "clock [SHIFT|reset]",
		Short:   "show or move the business clock",
		GroupID: groupAct,
		Example: "  shield clock\n  shield clock 24h\n  shield clock -- -30m\n  shield clock reset",
		Long:    "shield.now(), os.time() and os.date() read the business clock. Timers and deadlines never move.",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			if len(a) == 0 {
				rows, err := c.Clock(ctx)
				if node != "" && err == nil {
					rows = slices.DeleteFunc(rows, func(r control.ClockRow) bool { return string(r.Node) != node })
					if len(rows) == 0 {
						err = shield.Errorf(shield.NodeNotFound, "node %q does not run in this process", node)
					}
				}
				return printClock(io, rows, err)
			}
			req := control.ClockRequest{Node: shield.NodeID(node), Reset: a[0] == "reset"}
			if !req.Reset {
				d, err := time.ParseDuration(a[0])
				if err != nil {
					return fail(exitUsage, "shield clock 24h", "SHIFT %q: want a length of time such as 90s or 24h, or reset", a[0])
				}
				req.Shift = d.Milliseconds()
			}
			rows, err := c.SetClock(ctx, req)
			return printClock(io, rows, err)
		}),
		ValidArgsFunction: complete(io),
	}
	cmd.Flags().StringVar(&node, "node", "", "only this node's")
	mustComplete(cmd, "node", complete(io, nodeWords))
	return allowNumbers(cmd)
}

func printClock(io *IO, rows []control.ClockRow, err error) error {
	if err != nil {
		return err
	}
	return Print(io, rows, []Column[control.ClockRow]{
		{Head: "NODE", Cell: func(r control.ClockRow) string { return string(r.Node) }},
		{Head: "TIME", Cell: func(r control.ClockRow) string { return r.Time.Format(time.RFC3339) }},
		{Head: "SHIFT", Right: true, Cell: func(r control.ClockRow) string {
			return (time.Duration(r.Shift) * time.Millisecond).String()
		}},
	}, "no node runs")
}
