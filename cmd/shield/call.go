package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newCall(io *IO) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "call TARGET METHOD [ARG...]",
		Short:   "call a method of a service",
		GroupID: groupAct,
		Example: "  shield call node-2:room.public ping\n  shield call players find ann\n  shield call node-1:shop buy '{\"item\":\"sword\"}' 3 --json",
		Long: "Calls a method of a service and prints what it returns, one value a line.\n\n" +
			"TARGET is node:name, or a name: then the first node is asked, else the only node that publishes it.\n" +
			"An ARG is JSON where it parses as JSON, else a string.",
		Args: args(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			res, err := perform(cmd.Context(), io, func(ctx context.Context, c *client.Client) (control.CallResult, error) {
				return c.Call(ctx, control.CallRequest{Target: a[0], Method: a[1], Args: client.Args(a[2:]), Timeout: milliseconds(timeout)})
			})
			return printResult(cmd.Context(), io, res, err)
		},
		ValidArgsFunction: complete(io, targetWords, methodWords, noWords),
	}
	durationFlag(cmd, &timeout, "timeout", 0, "how long to wait, as 500ms or 10s (default: the node's call_timeout)")
	return allowNumbers(cmd)
}

// perform finds the server and asks it for a call or an eval.
func perform(ctx context.Context, io *IO, ask func(context.Context, *client.Client) (control.CallResult, error)) (control.CallResult, error) {
	c, err := attach(ctx, io)
	if err != nil {
		return control.CallResult{}, err
	}
	defer c.Close()
	res, err := ask(ctx, c)
	return res, said(err)
}

// printResult prints how a call ended. With --json every outcome is one object
// on Out, also that there was nobody to ask; for people the values are on Out
// and everything else on Err.
func printResult(ctx context.Context, io *IO, res control.CallResult, err error) error {
	if err != nil {
		if !io.JSON {
			return err
		}
		exit := exitOf(ctx, err)
		body := control.ErrorBody{Error: *control.MakeError(err, shield.Code(exitName(exit)))}
		return errors.Join(io.PrintJSON(body), quiet(exit))
	}
	exit := exitOfCall(res)
	if io.JSON {
		if err := io.PrintJSON(res); err != nil || exit == exitOK {
			return err
		}
		return quiet(exit)
	}
	fmt.Fprint(io.Out, cleanLines(res.Output))
	for i, v := range res.Values {
		text := string(v)
		if i < len(res.Text) {
			text = res.Text[i]
		}
		fmt.Fprintln(io.Out, cleanLines(text))
	}
	if res.Node != "" {
		fmt.Fprintln(io.Err, io.PaintErr(Faint, served(res)))
	}
	if res.Hint != "" {
		fmt.Fprintln(io.Err, "  "+clean(res.Hint))
	}
	if res.Ended != "" {
		io.Warn("this has ended the service: %s", res.Ended)
	}
	if res.OK {
		return nil
	}
	return &failure{Exit: exit, Err: res.Error.Err(), Next: "shield explain " + string(res.Error.Code)}
}

// served says which code answered, where, and how long it took.
func served(r control.CallResult) string {
	parts := []string{string(r.Node)}
	if r.Service != "" {
		parts = []string{string(r.Node) + ":" + string(r.Service)}
	}
	if lens := codeLens(r.Generation, r.Code); lens != "" {
		parts = append(parts, "code "+lens)
	}
	parts = append(parts, took(r.MS))
	if r.Trace != 0 {
		parts = append(parts, "trace "+r.Trace.String())
	}
	return clean(strings.TrimSpace(strings.Join(parts, "  ")))
}
