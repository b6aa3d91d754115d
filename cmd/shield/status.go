package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newStatus(io *IO) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "what runs, and everything it counts",
		GroupID: groupLook,
		Example: "  shield status\n  shield status --json",
		Args:    args(cobra.NoArgs),
		RunE: attached(io, func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if io.JSON {
				return Print(io, s.Nodes, nil, "")
			}
			p := s.Project
			fmt.Fprintf(io.Out, "%s (%s)  shield %s  pid %d  up %s\n\n", clean(p.Name), p.Mode, clean(p.Version), p.PID,
				age(time.Since(p.Started).Milliseconds()))
			if err := Print(io, s.Nodes, statusColumns(s.Nodes), "no node runs"); err != nil {
				return err
			}
			return printGateways(io, s.Nodes)
		}),
		ValidArgsFunction: complete(io),
	}
}

// statusColumns leaves the links out where there is no cluster.
func statusColumns(rows []control.NodeStatus) []Column[control.NodeStatus] {
	columns := []Column[control.NodeStatus]{
		{Head: "NODE", Cell: func(r control.NodeStatus) string { return string(r.Node) }},
		{Head: "STATE", Cell: func(r control.NodeStatus) string { return stateOf(r.NodeRow) },
			Paint: func(r control.NodeStatus) Paint { return paintNode(r.NodeRow) }},
		{Head: "UP", Right: true, Cell: func(r control.NodeStatus) string { return age(r.Uptime) }},
		{Head: "SERVICES", Right: true, Cell: func(r control.NodeStatus) string { return number(r.Services) }},
		{Head: "SESSIONS", Right: true, Cell: func(r control.NodeStatus) string { return number(r.Sessions) }},
	}
	counters := []struct {
		head string
		of   func(*shield.ClusterCounters) int64
	}{
		{"LINKS", func(c *shield.ClusterCounters) int64 { return c.Connections }},
		{"RECONNECTS", func(c *shield.ClusterCounters) int64 { return c.Reconnects }},
		{"TX", func(c *shield.ClusterCounters) int64 { return c.TxMessages }},
		{"RX", func(c *shield.ClusterCounters) int64 { return c.RxMessages }},
		{"HB-TX", func(c *shield.ClusterCounters) int64 { return c.TxHeartbeats }},
		{"HB-RX", func(c *shield.ClusterCounters) int64 { return c.RxHeartbeats }},
	}
	clustered := func(r control.NodeStatus) bool { return r.Cluster != nil && r.Cluster.ClusterCounters != nil }
	if slices.ContainsFunc(rows, clustered) {
		for _, k := range counters {
			columns = append(columns, Column[control.NodeStatus]{Head: k.head, Right: true, Spare: 1 + len(columns), Cell: func(r control.NodeStatus) string {
				if !clustered(r) {
					return ""
				}
				return number(k.of(r.Cluster.ClusterCounters))
			}})
		}
	}
	return append(columns, Column[control.NodeStatus]{Head: "COUNTED", Prose: true, Cell: func(r control.NodeStatus) string { return counted(r.Counters) }})
}

func printGateways(io *IO, nodes []control.NodeStatus) error {
	var rows []control.GatewayStatus
	for _, n := range nodes {
		rows = append(rows, n.Gateway...)
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(io.Out)
	return Print(io, rows, []Column[control.GatewayStatus]{
		{Head: "GATEWAY", Cell: func(r control.GatewayStatus) string { return string(r.Gateway) }},
		{Head: "SESSIONS", Right: true, Cell: func(r control.GatewayStatus) string { return number(r.Sessions) }},
		{Head: "ADDRESS", Spare: 1, Cell: func(r control.GatewayStatus) string { return strings.Join(r.Addresses, " ") }},
		{Head: "COUNTED", Prose: true, Cell: func(r control.GatewayStatus) string { return counted(r.Counters) }},
	}, "")
}

// counted lists the counters that are not zero.
func counted(counters map[string]int64) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if counters[name] != 0 {
			words = append(words, fmt.Sprintf("%s=%d", name, counters[name]))
		}
	}
	return strings.Join(words, " ")
}
