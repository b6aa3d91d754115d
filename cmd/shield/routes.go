package main

import (
	"context"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newRoutes(io *IO) *cobra.Command {
	var view shield.NodeID
	l := look[shield.RouteRow]{
		topic: control.TopicRoutes,
		columns: []Column[shield.RouteRow]{
			{Head: "NAME", Cell: func(r shield.RouteRow) string { return string(r.Name) }},
			{Head: "NODE", Cell: func(r shield.RouteRow) string { return string(r.Node) }},
			{Head: "SERVICE", Right: true, Cell: func(r shield.RouteRow) string { return number(uint64(r.Service)) }},
			{Head: "VERSION", Right: true, Cell: func(r shield.RouteRow) string { return number(uint64(r.Version)) }},
		},
		empty: "no node publishes a name",
		from:  &view,
		get: func(ctx context.Context, c *client.Client) ([]shield.RouteRow, error) {
			return c.Routes(ctx, view)
		},
		snap:  func(s *control.Snapshot) []shield.RouteRow { return s.Routes },
		delta: func(d *control.Delta) []shield.RouteRow { return d.Routes },
		key:   control.RouteKey,
	}
	cmd := &cobra.Command{
		Use:               "routes",
		Short:             "which node publishes which name",
		GroupID:           groupLook,
		Example:           "  shield routes\n  shield routes --from node-2 --json\n  shield routes --watch",
		Args:              args(cobra.NoArgs),
		RunE:              l.run(io),
		ValidArgsFunction: complete(io),
	}
	fromFlag(io, cmd, &view, "as this node knows them")
	return l.flags(cmd)
}
