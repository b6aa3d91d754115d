package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newSessions(io *IO) *cobra.Command {
	l := look[shield.SessionRow]{
		topic:   control.TopicSessions,
		columns: sessionColumns,
		empty:   "no sessions; shield client makes one, where shield.yaml has a gateway",
		get: func(ctx context.Context, c *client.Client) ([]shield.SessionRow, error) {
			return c.Sessions(ctx)
		},
		snap:  func(s *control.Snapshot) []shield.SessionRow { return s.Sessions },
		delta: func(d *control.Delta) []shield.SessionRow { return d.Sessions },
		key:   control.SessionKey,
	}
	cmd := &cobra.Command{
		Use:     "sessions",
		Short:   "the connected clients and who serves them",
		GroupID: groupLook,
		Example: "  shield sessions\n  shield sessions show s-8f3a\n  shield sessions kick s-8f3a --reason cheating",
		Args:    unknownVerb,
		RunE:    l.run(io),
	}
	cmd.AddCommand(newSessionsShow(io), newSessionsKick(io))
	return l.flags(cmd)
}

var sessionColumns = []Column[shield.SessionRow]{
	{Head: "SESSION", Cell: func(r shield.SessionRow) string { return string(r.Session) }},
	{Head: "PLAYER", Cell: func(r shield.SessionRow) string { return r.Player }},
	{Head: "EPOCH", Right: true, Cell: func(r shield.SessionRow) string { return number(uint32(r.Epoch)) }},
	{Head: "TARGET", Cell: func(r shield.SessionRow) string { return r.Target }},
	{Head: "GATEWAY", Spare: 3, Cell: func(r shield.SessionRow) string { return string(r.Gateway) }},
	{Head: "STATE", Cell: func(r shield.SessionRow) string { return string(r.State) }, Paint: func(r shield.SessionRow) Paint {
		if r.State == shield.SessionBound {
			return Green
		}
		return Yellow
	}},
	{Head: "CODE", Spare: 2, Cell: func(r shield.SessionRow) string { return r.Code }},
	{Head: "IN", Spare: 7, Right: true, Cell: func(r shield.SessionRow) string { return number(r.In) }},
	{Head: "OUT", Spare: 6, Right: true, Cell: func(r shield.SessionRow) string { return number(r.Out) }},
	{Head: "STALE", Spare: 5, Right: true, Cell: func(r shield.SessionRow) string { return number(r.Stale) }},
	{Head: "IDLE", Spare: 1, Right: true, Cell: func(r shield.SessionRow) string { return age(r.IdleMS) }},
	{Head: "ADDRESS", Spare: 4, Cell: func(r shield.SessionRow) string { return strings.TrimSpace(r.Transport + " " + r.Address) }},
}

func newSessionsShow(io *IO) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "one session with the history of its epochs",
		Example: "  shield sessions show s-8f3a\n  shield sessions show s-8f3a --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			row, err := c.Session(ctx, shield.SessionID(a[0]))
			if err != nil {
				return err
			}
			if io.JSON {
				return io.PrintJSON(row)
			}
			if err := Print(io, []shield.SessionRow{row}, sessionColumns, ""); err != nil {
				return err
			}
			fmt.Fprintln(io.Out)
			return Print(io, row.History, epochColumns, "no history")
		}),
		ValidArgsFunction: complete(io, sessionWords, noWords),
	}
}

var epochColumns = []Column[shield.EpochStep]{
	{Head: "EPOCH", Right: true, Cell: func(r shield.EpochStep) string { return number(uint32(r.Epoch)) }},
	{Head: "TIME", Cell: func(r shield.EpochStep) string { return r.Time.Local().Format(time.TimeOnly) }},
	{Head: "CAUSE", Cell: func(r shield.EpochStep) string { return r.Cause }},
	{Head: "PLAYER", Cell: func(r shield.EpochStep) string { return r.Player }},
	{Head: "TARGET", Cell: func(r shield.EpochStep) string { return r.Target }},
}

// newKick is sessions kick under the word that people try first.
func newKick(io *IO) *cobra.Command {
	cmd := newKickAs(io, "shield kick")
	cmd.GroupID = groupAct
	return cmd
}

func newSessionsKick(io *IO) *cobra.Command { return newKickAs(io, "shield sessions kick") }

func newKickAs(io *IO, path string) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:     "kick ID",
		Short:   "close a client's session",
		Example: "  " + path + " s-8f3a\n  " + path + " s-8f3a --reason cheating --yes",
		Args:    args(cobra.ExactArgs(1)),
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			row, err := c.Session(ctx, shield.SessionID(a[0]))
			if err != nil {
				return err
			}
			who := strings.TrimSpace(a[0] + " " + clean(row.Player))
			if err := confirm(ctx, io, yes, "kick "+who); err != nil {
				return err
			}
			row, err = c.Kick(ctx, control.KickRequest{Session: row.Session, Reason: reason})
			if err != nil {
				return err
			}
			if io.JSON {
				return io.PrintJSON(row)
			}
			_, err = fmt.Fprintln(io.Out, "kicked "+who)
			return err
		}),
		ValidArgsFunction: complete(io, sessionWords, noWords),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what the client is told (default: kicked)")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}
