package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// controlVerbs makes the verbs that talk to a running project.
func controlVerbs() []func(io *IO) *cobra.Command {
	return append([]func(io *IO) *cobra.Command{newStatus, newNodes, newRoutes, newServices, newSessions, newInspect, newWaits, newWhy, newLogs,
		newCall, newEval, newRepl, newClient, newReload, newWait, newLogLevel, newClock, newKick, newDrain}, newNodeActions()...)
}

// attach finds the running project. Every verb that talks to one begins here.
func attach(ctx context.Context, io *IO) (*client.Client, error) {
	c, err := client.Open(ctx, client.Options{Endpoint: io.Endpoint, Token: io.Getenv("SHIELD_CONTROL_TOKEN"), Dir: io.Dir})
	if errors.Is(err, client.ErrEndpoint) && strings.Contains(io.Endpoint, "/") && !strings.Contains(io.Endpoint, ":") {
		return c, fail(exitUsage, "shield --endpoint unix:"+io.Endpoint+" ...", "%w", err) // the path alone
	}
	return c, said(err)
}

// said gives an error of the control API its exit code and the next command.
func said(err error) error {
	var nothing *client.NothingError
	var several *client.AmbiguousError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &nothing):
		return fail(exitNobody, nothing.Start(), "%w", err)
	case errors.As(err, &several):
		return fail(exitUsage, "or set SHIELD_ENDPOINT", "%w", err)
	case errors.Is(err, client.ErrEndpoint):
		return fail(exitUsage, "shield --endpoint unix:.shield/control.sock ...", "%w", err)
	case errors.Is(err, shield.Timeout):
		return fail(exitTimeout, "", "%w", err)
	}
	return err
}

// attached makes the RunE of a verb that talks to a running project.
func attached(io *IO, do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := attach(cmd.Context(), io)
		if err != nil {
			return err
		}
		defer c.Close()
		err = do(cmd.Context(), c, args)
		if errors.Is(err, context.Canceled) && exitOf(cmd.Context(), err) == exitInterrupted {
			return quiet(exitInterrupted) // whoever pressed Ctrl-C knows
		}
		return said(err)
	}
}

// completionBudget is how long a person waits for the tab key.
const completionBudget = 80 * time.Millisecond

// complete offers live words for each argument in turn, and nothing when no
// server runs.
func complete(io *IO, words ...func(context.Context, *client.Client, []string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		if len(words) == 0 {
			return nil, none
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionBudget)
		defer cancel()
		c, err := attach(ctx, io)
		if err != nil {
			return nil, none
		}
		defer c.Close()
		return typable(words[min(len(given), len(words)-1)](ctx, c, given)), none
	}
}

// typable leaves out words that no keyboard has, and cleans what stands beside
// the others: shells print both as they come.
func typable(words []string) (fits []string) {
	for _, w := range words {
		word, beside, told := strings.Cut(w, "\t")
		if clean(word) != word {
			continue
		}
		if told {
			word += "\t" + clean(beside)
		}
		fits = append(fits, word)
	}
	return fits
}

func noWords(context.Context, *client.Client, []string) []string { return nil }

func nodeWords(ctx context.Context, c *client.Client, _ []string) (words []string) {
	rows, _ := c.Nodes(ctx, "") // a tab key reports no errors
	for _, r := range rows {
		words = append(words, fmt.Sprintf("%s\t%s", r.Node, r.State))
	}
	return words
}

func serviceWords(ctx context.Context, c *client.Client, _ []string) (words []string) {
	rows, _ := c.Services(ctx, "")
	for _, r := range rows {
		words = append(words, string(r.Name))
	}
	return words
}

func targetWords(ctx context.Context, c *client.Client, _ []string) (words []string) {
	rows, _ := c.Routes(ctx, "")
	for _, r := range rows {
		if !strings.HasPrefix(string(r.Name), shield.ReservedPrefix) {
			words = append(words, string(r.Node)+":"+string(r.Name), string(r.Name))
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func methodWords(ctx context.Context, c *client.Client, given []string) []string {
	words, _ := c.Methods(ctx, given[0])
	return words
}

func sessionWords(ctx context.Context, c *client.Client, _ []string) (words []string) {
	rows, _ := c.Sessions(ctx)
	for _, r := range rows {
		words = append(words, fmt.Sprintf("%s\t%s", r.Session, r.Player))
	}
	return words
}

// confirm asks before something that can't be taken back. Without a terminal
// nobody can answer: the flag must.
func confirm(ctx context.Context, io *IO, yes bool, what string) error {
	if yes {
		return nil
	}
	if !io.InTTY || !io.ErrTTY || io.JSON {
		return fail(exitUsage, "add --yes", "%s needs a yes, and there is no terminal to ask on", what)
	}
	fmt.Fprintf(io.Err, "%s? y/N ", what)
	in := io.Input(ctx)
	defer in.Close()
	answer, err := bufio.NewReader(in).ReadString('\n')
	if ctx.Err() != nil {
		fmt.Fprintln(io.Err) // the shell's prompt begins a line of its own
		return ctx.Err()
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); err == nil && (a == "y" || a == "yes") {
		return nil
	}
	return fail(exitFailed, "", "not done")
}

// confirmNode is confirm for what is done to a node. Where the server is bound to
// refuse it, nobody is asked: the answer says why.
func confirmNode(ctx context.Context, io *IO, c *client.Client, yes bool, what string, node shield.NodeID, modes ...control.Mode) error {
	if yes {
		return nil
	}
	p, err := c.Project(ctx)
	if err != nil || !slices.Contains(p.Nodes, node) || !slices.Contains(modes, p.Mode) {
		return err
	}
	return confirm(ctx, io, yes, what)
}

// codeLens is how a version of code is shown everywhere: generation and hash.
func codeLens(generation int, code string) string { return control.CodeText(generation, code) }

// age is a length of time for a cell of a table.
func age(ms int64) string { return control.AgeText(ms) }

// took is how long a call took, for people.
func took(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// problem is one line for an error that is a part of a result.
func problem(e *control.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code) + ": " + e.Message
}
