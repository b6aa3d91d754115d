package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newInspect(io *IO) *cobra.Command {
	var state bool
	cmd := &cobra.Command{
		Use:     "inspect TARGET",
		Short:   "a service from inside: memory, tables, timers, waits, handler times",
		GroupID: groupLook,
		Example: "  shield inspect room.public\n  shield inspect node-2:players --json\n  shield inspect room.public --state",
		Long: "Works on a service that is stuck too: it then says in which handler, since when and where in the Lua\n" +
			"that is. Measuring memory takes about half a second for a million objects, while the service stands still.",
		Args: args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			in, err := c.Inspect(ctx, a[0], state, "")
			if err != nil {
				return err
			}
			if io.JSON {
				return io.PrintJSON(in)
			}
			return printInspection(io, in)
		}),
		ValidArgsFunction: complete(io, targetWords, noWords),
	}
	cmd.Flags().BoolVar(&state, "state", false, "also what it holds: fields of its module, locals of its file")
	return cmd
}

// printInspection writes the sections that have something in them.
func printInspection(io *IO, in control.Inspection) error {
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(io.Out, "%s %s\n", io.PaintOut(Bold, fmt.Sprintf("%-9s", name)), clean(fmt.Sprintf(format, args...)))
	}
	fact("service", "%s on %s, #%d, %s since %s", in.Service, in.Node, in.ID, in.State, age(in.AgeMS))
	fact("code", "%s  %s", codeLens(in.Generation, in.Code), strings.Join(in.Files, " "))
	switch {
	case in.Stuck == nil:
		fact("memory", "%s in %d objects", size(in.Memory), in.Objects)
	case in.Memory > 0:
		fact("memory", "%s when it was measured last", size(in.Memory))
	default:
		fact("memory", "not measured yet")
	}
	mailbox := "empty"
	if in.Mailbox == 1 {
		mailbox = "1 message, which waits for " + age(in.MailboxAgeMS)
	} else if in.Mailbox > 1 {
		mailbox = fmt.Sprintf("%d messages, the oldest waits for %s", in.Mailbox, age(in.MailboxAgeMS))
	}
	fact("mailbox", "%s", mailbox)
	fact("calls", "%d, %d errors, %d in flight, %d restarts", in.Calls, in.Errors, in.InFlight, in.Restarts)
	printStuck(io, in)
	if err := section(io, in.Handlers, handlerColumns); err != nil {
		return err
	}
	if err := section(io, in.Tables, tableColumns); err != nil {
		return err
	}
	if err := section(io, in.Timers, timerColumns); err != nil {
		return err
	}
	if err := section(io, in.Waiting, waitingColumns); err != nil {
		return err
	}
	printStacks(io, in.Waiting)
	if len(in.Held) > 0 {
		fmt.Fprintln(io.Out)
		for _, h := range in.Held {
			fmt.Fprintf(io.Out, "%s = %s%s\n", clean(h.Name), cleanLines(h.Text), io.PaintOut(Faint, "   -- "+h.Kind))
		}
	}
	return nil
}

func section[T any](io *IO, rows []T, columns []Column[T]) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(io.Out)
	return Print(io, rows, columns, "")
}

// printStuck says what keeps everybody out of a service.
func printStuck(io *IO, in control.Inspection) {
	if in.Stuck == nil {
		return
	}
	fmt.Fprintf(io.Out, "%s in %s (%s) since %s\n", io.PaintOut(Red, "stuck    "), clean(in.Stuck.Method), clean(in.Stuck.Kind), age(in.Stuck.ForMS))
	if in.Stuck.Stack == "" {
		fmt.Fprintln(io.Out, "          its Lua stack can't be had: a function of the runtime does not return")
		return
	}
	fmt.Fprintln(io.Out, cleanLines(in.Stuck.Stack))
}

// printStacks writes the stacks of handlers that wait, those of one stack
// together.
func printStacks(io *IO, rows []control.WaitRow) {
	count := map[string]int{}
	var order []control.WaitRow
	for _, r := range rows {
		if r.Stack == "" {
			continue
		}
		if count[r.Stack]++; count[r.Stack] == 1 {
			order = append(order, r)
		}
	}
	for _, r := range order {
		head := fmt.Sprintf("%s in %s", r.Method, waitText(r))
		if n := count[r.Stack]; n > 1 {
			head = fmt.Sprintf("%d times %s", n, head)
		}
		fmt.Fprintf(io.Out, "\n%s\n%s\n", clean(head), cleanLines(r.Stack))
	}
}

// waitText is what a handler waits in, as it is written in Lua.
func waitText(r control.WaitRow) string {
	switch {
	case r.Calls != "":
		return fmt.Sprintf("%s(%q, %q)", r.What, r.Target, r.Calls)
	case r.Target != "":
		return fmt.Sprintf("%s(%q)", r.What, r.Target)
	}
	return r.What
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

func millisText(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

var handlerColumns = []Column[control.HandlerRow]{
	{Head: "HANDLER", Cell: func(r control.HandlerRow) string { return r.Method }},
	{Head: "COUNT", Right: true, Cell: func(r control.HandlerRow) string { return number(r.Count) }},
	{Head: "ERRORS", Right: true, Cell: func(r control.HandlerRow) string { return number(r.Errors) }},
	{Head: "MEAN", Right: true, Cell: func(r control.HandlerRow) string { return millisText(r.MeanMS) }},
	{Head: "MAX", Right: true, Cell: func(r control.HandlerRow) string { return millisText(r.MaxMS) }},
}

var tableColumns = []Column[control.TableRow]{
	{Head: "TABLE", Cell: func(r control.TableRow) string { return r.Path }},
	{Head: "SIZE", Right: true, Cell: func(r control.TableRow) string { return size(r.Bytes) }},
	{Head: "ENTRIES", Right: true, Cell: func(r control.TableRow) string { return number(r.Entries) }},
}

var timerColumns = []Column[control.TimerRow]{
	{Head: "TIMER", Right: true, Cell: func(r control.TimerRow) string { return number(r.ID) }},
	{Head: "DUE", Right: true, Cell: func(r control.TimerRow) string {
		if r.InMS < 0 {
			return "now"
		}
		return "in " + age(r.InMS)
	}},
	{Head: "EVERY", Right: true, Cell: func(r control.TimerRow) string {
		if r.EveryMS == 0 {
			return "once"
		}
		return age(r.EveryMS)
	}},
	{Head: "FUNCTION", Cell: func(r control.TimerRow) string { return r.Function }},
}

var waitingColumns = []Column[control.WaitRow]{
	{Head: "HANDLER", Cell: func(r control.WaitRow) string { return r.Method }},
	{Head: "WAITS IN", Cell: waitText},
	{Head: "SINCE", Right: true, Cell: func(r control.WaitRow) string { return age(r.ForMS) }},
	{Head: "TRACE", Cell: func(r control.WaitRow) string { return traceText(r.Trace) }},
}

func traceText(t shield.TraceID) string {
	if t == 0 {
		return ""
	}
	return t.String()
}
