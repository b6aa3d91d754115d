package main

import (
	"context"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newServices(io *IO) *cobra.Command {
	var node string
	l := look[shield.ServiceRow]{
		topic:   control.TopicServices,
		columns: serviceColumns,
		empty:   "no services",
		get: func(ctx context.Context, c *client.Client) ([]shield.ServiceRow, error) {
			return c.Services(ctx, shield.NodeID(node))
		},
		snap:  func(s *control.Snapshot) []shield.ServiceRow { return s.Services },
		delta: func(d *control.Delta) []shield.ServiceRow { return d.Services },
		key:   control.ServiceKey,
		keep:  func(r shield.ServiceRow) bool { return node == "" || string(r.Node) == node },
	}
	cmd := &cobra.Command{
		Use:               "services",
		Short:             "the services, their state and the code they run",
		GroupID:           groupLook,
		Example:           "  shield services\n  shield services --node node-2 --json\n  shield services --watch",
		Args:              args(cobra.NoArgs),
		RunE:              l.run(io),
		ValidArgsFunction: complete(io),
	}
	cmd.Flags().StringVar(&node, "node", "", "only those of this node")
	mustComplete(cmd, "node", complete(io, nodeWords))
	return l.flags(cmd)
}

var serviceColumns = []Column[shield.ServiceRow]{
	{Head: "SERVICE", Cell: func(r shield.ServiceRow) string { return string(r.Name) }},
	{Head: "NODE", Cell: func(r shield.ServiceRow) string { return string(r.Node) }},
	{Head: "ID", Right: true, Cell: func(r shield.ServiceRow) string { return number(uint64(r.ID)) }},
	{Head: "STATE", Cell: func(r shield.ServiceRow) string { return string(r.State) }, Paint: func(r shield.ServiceRow) Paint {
		switch r.State {
		case shield.Running:
			return Green
		case shield.Failed:
			return Red
		default:
			return Yellow
		}
	}},
	{Head: "CODE", Cell: func(r shield.ServiceRow) string { return mixedLens(r.Generation, r.Code, r.Mixed) }, Paint: func(r shield.ServiceRow) Paint { return paintMixed(r.Mixed) }},
	{Head: "MAILBOX", Right: true, Cell: func(r shield.ServiceRow) string { return number(r.Mailbox) }},
	{Head: "CALLS", Right: true, Cell: func(r shield.ServiceRow) string { return number(r.Calls) }},
	{Head: "ERRORS", Right: true, Cell: func(r shield.ServiceRow) string { return number(r.Errors) }},
	{Head: "RELOAD", Cell: func(r shield.ServiceRow) string { return r.Reload }},
	{Head: "REASON", Prose: true, Cell: func(r shield.ServiceRow) string { return r.Reason }},
}
