package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newNodes(io *IO) *cobra.Command {
	var view shield.NodeID
	l := look[shield.NodeRow]{
		topic:   control.TopicNodes,
		columns: nodeColumns,
		empty:   "no nodes",
		from:    &view,
		get: func(ctx context.Context, c *client.Client) ([]shield.NodeRow, error) {
			return c.Nodes(ctx, view)
		},
		snap:  func(s *control.Snapshot) []shield.NodeRow { return s.Nodes },
		delta: func(d *control.Delta) []shield.NodeRow { return d.Nodes },
		key:   control.NodeKey,
	}
	cmd := &cobra.Command{
		Use:               "nodes",
		Short:             "the nodes of the cluster and their states",
		GroupID:           groupLook,
		Example:           "  shield nodes\n  shield nodes --from node-2 --json\n  shield nodes --watch",
		Args:              args(cobra.NoArgs),
		RunE:              l.run(io),
		ValidArgsFunction: complete(io),
	}
	fromFlag(io, cmd, &view, "as this node sees them")
	return l.flags(cmd)
}

var nodeColumns = []Column[shield.NodeRow]{
	{Head: "NODE", Cell: func(r shield.NodeRow) string { return string(r.Node) }},
	{Head: "STATE", Cell: stateOf, Paint: paintNode},
	{Head: "EPOCH", Spare: 5, Cell: func(r shield.NodeRow) string {
		if r.Epoch == 0 {
			return ""
		}
		return r.Epoch.String()
	}},
	{Head: "SERVICES", Right: true, Cell: func(r shield.NodeRow) string { return number(r.Services) }},
	{Head: "SESSIONS", Right: true, Cell: func(r shield.NodeRow) string { return number(r.Sessions) }},
	{Head: "ROUTES", Spare: 2, Right: true, Cell: func(r shield.NodeRow) string {
		v := "v" + number(uint64(r.RoutesVersion))
		if r.RoutesBehind {
			v += "<"
		}
		return v
	}},
	{Head: "HEARTBEAT", Spare: 1, Right: true, Cell: func(r shield.NodeRow) string {
		if r.HeartbeatAge == nil {
			return ""
		}
		return age(*r.HeartbeatAge)
	}},
	{Head: "ADDRESS", Spare: 4, Cell: func(r shield.NodeRow) string { return r.Address }},
	{Head: "GATEWAYS", Spare: 3, Cell: func(r shield.NodeRow) string { return strings.Join(r.Gateways, " ") }},
	{Head: "REASON", Prose: true, Cell: func(r shield.NodeRow) string {
		if r.State == shield.Online {
			return "" // how it came online is no news
		}
		return r.Reason
	}},
}

// fromFlag lets a verb show what one node sees.
func fromFlag(io *IO, cmd *cobra.Command, view *shield.NodeID, usage string) {
	cmd.Flags().StringVar((*string)(view), "from", "", usage+" (default: the first)")
	mustComplete(cmd, "from", complete(io, nodeWords))
}

// mustComplete offers words for a flag that exists.
func mustComplete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}
