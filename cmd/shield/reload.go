package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

func newReload(io *IO) *cobra.Command {
	var req control.ReloadRequest
	var yes bool
	cmd := &cobra.Command{
		Use:     "reload [SERVICE...]",
		Short:   "make saved code live now, or take a reload back",
		GroupID: groupAct,
		Example: "  shield reload\n  shield reload room.public --undo\n  shield reload room.public --restart --yes",
		Long: "Looks at the files now and makes changed code live: of every service, or of those named.\n" +
			"--undo puts the code and the state of the moment before the last swap back.\n" +
			"--restart starts the named services afresh; their state is lost.",
		Args: args(cobra.ArbitraryArgs),
		PreRunE: func(_ *cobra.Command, a []string) error {
			switch {
			case req.Restart && req.Undo:
				return fail(exitUsage, "shield help reload", "--restart and --undo exclude each other")
			case req.Restart && len(a) == 0:
				return fail(exitUsage, "shield reload --restart room.public", "--restart wants the names of services: their state is lost")
			}
			return nil
		},
		RunE: attached(io, func(ctx context.Context, c *client.Client, a []string) error {
			for _, name := range a {
				req.Names = append(req.Names, shield.Name(name))
			}
			if req.Restart {
				if err := confirmRestart(ctx, io, c, yes, a); err != nil {
					return err
				}
			}
			res, err := c.Reload(ctx, req)
			if err != nil {
				return err
			}
			empty := nothingChanged
			if req.Undo {
				empty = "there is nothing to undo: one reload is remembered, and only once"
			}
			return printReload(io, res, empty)
		}),
		ValidArgsFunction: complete(io, serviceWords),
	}
	cmd.Flags().BoolVar(&req.Restart, "restart", false, "start the named services afresh")
	cmd.Flags().BoolVar(&req.Undo, "undo", false, "back to before the last reload")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask before a restart")
	return cmd
}

// confirmRestart asks where there is state to lose: what does not run has none,
// and of what there is not the answer tells.
func confirmRestart(ctx context.Context, io *IO, c *client.Client, yes bool, names []string) error {
	if yes {
		return nil
	}
	rows, err := c.Services(ctx, "")
	if err != nil {
		return err
	}
	runs := func(r shield.ServiceRow) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return name == string(r.Name) || name == r.Module || slices.Contains(r.Names, shield.Name(name))
		})
	}
	if !slices.ContainsFunc(rows, runs) {
		return nil
	}
	return confirm(ctx, io, yes, "restart "+strings.Join(names, " ")+" and lose what is in memory")
}

const nothingChanged = "nothing changed"

func printReload(io *IO, res control.ReloadResult, empty string) error {
	if io.JSON {
		if err := io.PrintJSON(res); err != nil {
			return err
		}
	} else {
		if err := Print(io, res.Services, reloadColumns, empty); err != nil {
			return err
		}
		for _, n := range reloadNotes(res.Services) {
			text := n.text
			if n.bad {
				text = io.PaintErr(Red, text)
			}
			fmt.Fprintf(io.Err, "%s: %s\n", n.who(), text)
		}
	}
	if res.OK {
		return nil
	}
	return quiet(reloadExit(res))
}

// reloadNote is one thing to say about a service, with the nodes it is true on.
type reloadNote struct {
	service shield.Name
	nodes   []string // none for a file such as rpc.yaml
	text    string
	bad     bool
}

// who is "node-1 node-2:room", or the file.
func (n *reloadNote) who() string {
	if len(n.nodes) == 0 {
		return string(n.service)
	}
	return strings.Join(n.nodes, " ") + ":" + string(n.service)
}

// reloadNotes says what is the same on several nodes once.
func reloadNotes(rows []control.ReloadRow) []*reloadNote {
	var all []*reloadNote
	add := func(r *control.ReloadRow, bad bool, text string) {
		i := slices.IndexFunc(all, func(n *reloadNote) bool { return n.service == r.Service && n.text == text })
		if i < 0 {
			i = len(all)
			all = append(all, &reloadNote{service: r.Service, text: text, bad: bad})
		}
		if r.Node != "" {
			all[i].nodes = append(all[i].nodes, string(r.Node))
		}
	}
	for i := range rows {
		r := &rows[i]
		for _, w := range r.Warnings {
			add(r, false, cleanLines(w))
		}
		for _, l := range r.Lost {
			add(r, false, "lost since: "+clean(l))
		}
		if r.Error != nil {
			add(r, true, cleanLines(problem(r.Error)))
		}
	}
	return all
}

// reloadExit is 5 when a script is to blame, as it is for `shield check`.
func reloadExit(res control.ReloadResult) int {
	for _, r := range res.Services {
		if r.Error != nil && (r.Error.Code == shield.ScriptLoadFailed || r.Error.Code == shield.InvalidServiceModule) {
			return exitInvalid
		}
	}
	return exitFailed
}

var reloadColumns = []Column[control.ReloadRow]{
	{Head: "SERVICE", Cell: func(r control.ReloadRow) string { return string(r.Service) }},
	{Head: "NODE", Cell: func(r control.ReloadRow) string { return string(r.Node) }},
	{Head: "RESULT", Cell: func(r control.ReloadRow) string { return r.Result }, Paint: func(r control.ReloadRow) Paint {
		switch r.Result {
		case "failed", "refused", "held back":
			return Red
		case "unchanged":
			return Faint
		default:
			return Green
		}
	}},
	{Head: "GEN", Cell: func(r control.ReloadRow) string {
		if r.From == r.To {
			if r.To == 0 { // a file, or a service that does not run
				return ""
			}
			return number(r.To)
		}
		return fmt.Sprintf("%d -> %d", r.From, r.To)
	}},
	{Head: "CODE", Cell: func(r control.ReloadRow) string { return r.Code }},
	{Head: "TOOK", Right: true, Cell: func(r control.ReloadRow) string {
		if r.MS == 0 {
			return ""
		}
		return took(r.MS)
	}},
}
