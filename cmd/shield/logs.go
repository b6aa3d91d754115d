package main

import (
	"context"
	stdio "io"

	"github.com/spf13/cobra"

	"shield/devserver/logs"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// firstError keeps the first error of a writer, for printers that report none.
type firstError struct {
	w   stdio.Writer
	err error
}

func (f *firstError) Write(b []byte) (int, error) {
	if f.err == nil {
		_, f.err = f.w.Write(b)
	}
	return len(b), f.err
}

func newLogs(io *IO) *cobra.Command {
	var req client.LogRequest
	var node string
	var utc bool
	cmd := &cobra.Command{
		Use:     "logs",
		Short:   "the log of all nodes, as it was and as it comes",
		GroupID: groupLook,
		Example: "  shield logs --follow\n  shield logs --level warn --node node-2\n  shield logs --service room.public --tail 500 --json",
		Args:    args(cobra.NoArgs),
		RunE: attached(io, func(ctx context.Context, c *client.Client, _ []string) error {
			if req.Tail == 0 {
				req.Tail = -1
			}
			req.Node = shield.NodeID(node)
			if io.JSON {
				return c.Logs(ctx, req, func(row shield.LogRow) error { return io.PrintJSON(row) })
			}
			print := logs.Text(logs.Style{Color: io.ColorOut(), Columns: true, UTC: utc, Width: io.LineWidth})
			out := &firstError{w: io.Out}
			return c.Logs(ctx, req, func(row shield.LogRow) error {
				print(out, &row)
				return out.err
			})
		}),
		ValidArgsFunction: complete(io),
	}
	f := cmd.Flags()
	f.BoolVarP(&req.Follow, "follow", "f", false, "go on with the lines that come")
	f.IntVarP(&req.Tail, "tail", "n", 100, "how many of the old lines")
	f.StringVar(&req.Level, "level", "", "the lowest level: debug, info, warn, error (default: all that is recorded)")
	f.StringVar(&node, "node", "", "only of this node")
	f.StringVar(&req.Service, "service", "", "only of this service, or part of the runtime (node, cluster, gateway, reload)")
	f.BoolVar(&utc, "utc", false, "times in UTC")
	mustComplete(cmd, "level", cobra.FixedCompletions(logLevels, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(cmd, "node", complete(io, nodeWords))
	mustComplete(cmd, "service", complete(io, serviceWords))
	return cmd
}
