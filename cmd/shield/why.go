package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newWhy(io *IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "why SERVICE",
		Short:   "which code a service runs on each node, since when and by which save",
		GroupID: groupLook,
		Example: "  shield why room.public\n  shield why room.public --json",
		Long:    "Nodes that run different code under one name are marked mixed. The history holds the last twenty changes\nof each node, failed ones too.",
		Args:    args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			rows, err := c.Why(ctx, shield.Name(a[0]))
			if err != nil {
				return err
			}
			if err := Print(io, rows, whyColumns, "no such service"); err != nil || io.JSON {
				return err
			}
			for _, r := range rows {
				if r.Mixed {
					io.Warn("%s runs different code on different nodes; `shield reload %s` brings them together", r.Service, r.Service)
					break
				}
			}
			printHistory(io, rows)
			return nil
		}),
		ValidArgsFunction: complete(io, serviceWords, noWords),
	}
	return cmd
}

var whyColumns = []Column[control.WhyRow]{
	{Head: "SERVICE", Cell: func(r control.WhyRow) string { return string(r.Service) }},
	{Head: "NODE", Cell: func(r control.WhyRow) string { return string(r.Node) }},
	{Head: "CODE", Cell: func(r control.WhyRow) string { return mixedLens(r.Generation, r.Code, r.Mixed) }, Paint: func(r control.WhyRow) Paint { return paintMixed(r.Mixed) }},
	{Head: "SINCE", Cell: func(r control.WhyRow) string { return r.Since.Local().Format(time.DateTime) }},
	{Head: "BY", Cell: func(r control.WhyRow) string { return r.By }},
	{Head: "FILES", Cell: func(r control.WhyRow) string { return strings.Join(r.Files, " ") }},
}

// mixedLens is a version of code that says where other nodes have another.
func mixedLens(generation int, code string, mixed bool) string {
	text := codeLens(generation, code)
	if mixed {
		text += " mixed"
	}
	return text
}

func paintMixed(mixed bool) Paint {
	if mixed {
		return Yellow
	}
	return Plain
}

// historyLine is one step of one node, or the same step of several.
type historyLine struct {
	step  control.CodeStep
	nodes []string
}

// printHistory lists what led here, steps of one moment together. A start alone
// is in the table already.
func printHistory(io *IO, rows []control.WhyRow) {
	var lines []*historyLine
	at := map[string]*historyLine{}
	for _, r := range rows {
		if len(r.History) < 2 {
			continue
		}
		for _, s := range r.History {
			key := fmt.Sprint(s.Time.UnixMilli(), s.By, s.Generation, s.Code, s.Files, s.Failed)
			if at[key] == nil {
				at[key] = &historyLine{step: s}
				lines = append(lines, at[key])
			}
			at[key].nodes = append(at[key].nodes, string(r.Node))
		}
	}
	if len(lines) == 0 {
		return
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].step.Time.Before(lines[j].step.Time) })
	fmt.Fprintln(io.Out)
	out := make([]historyLine, len(lines))
	for i, l := range lines {
		out[i] = *l
	}
	_ = Print(io, out, historyColumns, "") // the table before went to the same place
}

var historyColumns = []Column[historyLine]{
	{Head: "TIME", Cell: func(l historyLine) string { return l.step.Time.Local().Format("15:04:05.000") }},
	{Head: "BY", Cell: func(l historyLine) string { return l.step.By }},
	{Head: "CODE", Cell: func(l historyLine) string { return codeLens(l.step.Generation, l.step.Code) }},
	{Head: "NODES", Cell: func(l historyLine) string { return strings.Join(l.nodes, " ") }},
	{Head: "FILES", Cell: func(l historyLine) string { return strings.Join(l.step.Files, " ") }},
	{Head: "RESULT", Prose: true, Cell: func(l historyLine) string {
		if l.step.Failed != "" {
			return l.step.Failed
		}
		return "live"
	}, Paint: func(l historyLine) Paint {
		if l.step.Failed != "" {
			return Red
		}
		return Plain
	}},
}
