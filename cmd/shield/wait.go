package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newWait(io *IO) *cobra.Command {
	var timeout time.Duration
	var state string
	cmd := &cobra.Command{
		Use:     "wait [NODE|NAME|NODE:NAME]",
		Short:   "wait until the project is ready, a node online, a name published",
		GroupID: groupAct,
		Example: "  shield dev & shield wait && shield call room.public ping\n  shield wait node-2 --state offline\n  shield wait node-3:room.public --timeout 5s",
		Long:    "Without an argument: until every node is online and none draining. A server that is not there yet is waited for too.",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if err := checkState(shield.NodeState(state)); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			what, check := "ready", ready
			if len(a) == 1 {
				what, check = a[0], seen(a[0], shield.NodeState(state))
			}
			err := waitFor(ctx, io, check)
			if err != nil && cmd.Context().Err() != nil { // Ctrl-C, and not what was wrong until then
				return cmd.Context().Err()
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				if said := said(err); exitOf(ctx, said) == exitNobody {
					return said
				}
				return fail(exitTimeout, "shield status", "waited %v for %s: %w", timeout, what, err)
			}
			if err != nil {
				return err
			}
			if io.JSON {
				return io.PrintJSON(map[string]bool{"ok": true})
			}
			return nil
		},
		ValidArgsFunction: complete(io, nodeWords, noWords),
	}
	durationFlag(cmd, &timeout, "timeout", 30*time.Second, "how long to wait")
	cmd.Flags().StringVar(&state, "state", string(shield.Online), "for a node: the state to wait for")
	mustComplete(cmd, "state", cobra.FixedCompletions(nodeStates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var nodeStates = []string{string(shield.Connecting), string(shield.Online), string(shield.Suspect), string(shield.Offline), string(shield.Removed)}

func checkState(s shield.NodeState) error {
	if slices.Contains(nodeStates, string(s)) {
		return nil
	}
	return fail(exitUsage, "shield wait node-2 --state offline", "--state %q: want %s", s, strings.Join(nodeStates, ", "))
}

// waitEvery is how often the server is asked. A wait is short and rare: asking
// is simpler than following, and survives every restart.
const waitEvery = 50 * time.Millisecond

// waitFor asks until check is content or ctx ends; then it says what was wrong
// last.
func waitFor(ctx context.Context, io *IO, check func(context.Context, *client.Client) error) error {
	last := errors.New("nothing answered")
	for {
		c, err := attach(ctx, io)
		if err == nil {
			err = check(ctx, c)
			c.Close()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if exitOf(ctx, err) == exitUsage { // more than one server, or none that can be
			return err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(waitEvery):
		}
	}
}

func ready(ctx context.Context, c *client.Client) error { return c.Ready(ctx) }

// seen waits for a node in a state, or for a name that is published.
func seen(what string, state shield.NodeState) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		nodes, err := c.Nodes(ctx, "")
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if string(n.Node) == what && n.State != state {
				return fmt.Errorf("%s is %s", what, n.State)
			} else if string(n.Node) == what {
				return nil
			}
		}
		routes, err := c.Routes(ctx, "")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(routes, func(r shield.RouteRow) bool {
			return string(r.Name) == what || string(r.Node)+":"+string(r.Name) == what
		}) {
			return fmt.Errorf("there is no node and no name %q", what)
		}
		return nil
	}
}
