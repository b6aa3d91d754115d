package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
)

func newWaits(io *IO) *cobra.Command {
	var stacks bool
	cmd := &cobra.Command{
		Use:     "waits",
		Short:   "which handlers wait, for whom, and since when",
		GroupID: groupLook,
		Example: "  shield waits\n  shield waits --stacks\n  shield waits --json",
		Long: "Lists every handler of this process's nodes that waits. Services that wait for each other in a ring share\n" +
			"a number. A ring need not be a mistake: a handler that waits lets the next message in. One of services that\n" +
			"are all in on_init can never end; it is marked dead.",
		Args: args(cobra.NoArgs),
		RunE: attached(io, func(ctx context.Context, c *client.Client, _ []string) error {
			rows, err := c.Waits(ctx)
			if err != nil {
				return err
			}
			if err := Print(io, rows, usedWaits(rows), "nothing waits"); err != nil || io.JSON || !stacks {
				return err
			}
			printStacks(io, rows)
			return nil
		}),
		ValidArgsFunction: complete(io),
	}
	cmd.Flags().BoolVar(&stacks, "stacks", false, "also where in the Lua they wait")
	return cmd
}

// usedWaits leaves the column of rings out where there are none.
func usedWaits(rows []control.WaitRow) []Column[control.WaitRow] {
	for _, r := range rows {
		if r.Ring > 0 {
			return append(waitColumns[:len(waitColumns):len(waitColumns)], ringColumn)
		}
	}
	return waitColumns
}

var waitColumns = []Column[control.WaitRow]{
	{Head: "SERVICE", Cell: func(r control.WaitRow) string { return r.Service }},
	{Head: "NODE", Cell: func(r control.WaitRow) string { return string(r.Node) }},
	{Head: "HANDLER", Cell: func(r control.WaitRow) string { return r.Method }},
	{Head: "WAITS IN", Cell: repl.WaitText},
	{Head: "FOR", Cell: func(r control.WaitRow) string { return r.To }},
	{Head: "SINCE", Right: true, Cell: func(r control.WaitRow) string { return age(r.ForMS) }},
	{Head: "TRACE", Cell: func(r control.WaitRow) string { return traceText(r.Trace) }},
}

var ringColumn = Column[control.WaitRow]{Head: "RING",
	Cell: func(r control.WaitRow) string {
		switch {
		case r.Ring == 0:
			return ""
		case r.Dead:
			return fmt.Sprintf("%d dead", r.Ring)
		}
		return fmt.Sprint(r.Ring)
	},
	Paint: func(r control.WaitRow) Paint {
		switch {
		case r.Dead:
			return Red
		case r.Ring > 0:
			return Yellow
		}
		return Plain
	}}

func traceText(t shield.TraceID) string {
	if t == 0 {
		return ""
	}
	return t.String()
}
