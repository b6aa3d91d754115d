package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
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
	fact("service", "%s on %s, #%d, %s since %s", in.Service, in.Node, in.ID, in.State, control.AgeText(in.AgeMS))
	fact("code", "%s  %s", codeLens(in.Generation, in.Code), strings.Join(in.Files, " "))
	switch {
	case in.Stuck == nil:
		fact("memory", "%s in %d objects", control.SizeText(in.Memory), in.Objects)
	case in.Memory > 0:
		fact("memory", "%s when it was measured last", control.SizeText(in.Memory))
	default:
		fact("memory", "not measured yet")
	}
	mailbox := "empty"
	if in.Mailbox == 1 {
		mailbox = "1 message, which waits for " + control.AgeText(in.MailboxAgeMS)
	} else if in.Mailbox > 1 {
		mailbox = fmt.Sprintf("%d messages, the oldest waits for %s", in.Mailbox, control.AgeText(in.MailboxAgeMS))
	}
	fact("mailbox", "%s", mailbox)
	fact("calls", "%d, %d errors, %d in flight, %d restarts", in.Calls, in.Errors, in.InFlight, in.Restarts)
	printStuck(io, in)
	if err := section(io, repl.Handlers(in.Handlers)); err != nil {
		return err
	}
	if len(in.Tables) > 0 {
		fmt.Fprintln(io.Out)
		if err := Print(io, in.Tables, tableColumns, ""); err != nil {
			return err
		}
	}
	if err := section(io, repl.Timers(in.Timers)); err != nil {
		return err
	}
	if err := section(io, repl.Waiting(in.Waiting)); err != nil {
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

func section(io *IO, t *repl.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	fmt.Fprintln(io.Out)
	return printTable(io, t)
}

// printStuck says what keeps everybody out of a service.
func printStuck(io *IO, in control.Inspection) {
	if in.Stuck == nil {
		return
	}
	head, stack := repl.StuckText(in.Stuck)
	fmt.Fprintf(io.Out, "%s %s\n%s\n", io.PaintOut(Red, "stuck    "), clean(head), cleanLines(stack))
}

// printStacks writes the stacks of handlers that wait.
func printStacks(io *IO, rows []control.WaitRow) {
	for _, text := range repl.Stacks(rows) {
		fmt.Fprintf(io.Out, "\n%s\n", cleanLines(text))
	}
}

var tableColumns = []Column[control.TableRow]{
	{Head: "TABLE", Cell: func(r control.TableRow) string { return r.Path }},
	{Head: "SIZE", Right: true, Cell: func(r control.TableRow) string { return control.SizeText(r.Bytes) }},
	{Head: "ENTRIES", Right: true, Cell: func(r control.TableRow) string { return number(r.Entries) }},
}
