package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"shield/devserver/check"
)

func newCheck(io *IO) *cobra.Command {
	var overlay string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "find every problem of configuration, routes and scripts",
		GroupID: groupProject,
		Example: "  shield check\n  shield check --json\n  shield check --config node-1.yaml   # as shield run would read it",
		Long: `Reads shield.yaml, rpc.yaml and every script, and prints all problems at once as file:line:column,
which editors can jump to. Scripts of services are loaded too, in a scratch machine where shield.*
does nothing and no file is changed: what throws at the top level and handlers that rpc.yaml names
in vain are found; handlers are not run. Globals that are nil where a handler calls or indexes them, and
fields of shield and the libraries that do not exist, are warnings: shield.clients, playres[1]. Without --config the project is checked as shield dev
would run it, so secrets may be missing; with it, as shield run would.`,
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return runCheck(io, overlay) },
	}
	overlayFlag(cmd, &overlay)
	return cmd
}

func runCheck(io *IO, overlay string) error {
	opts, err := projectOptions(io, overlay)
	if err != nil {
		return err
	}
	opts.Dev = overlay == ""
	r, err := check.Project(opts)
	if err != nil {
		return err
	}
	errors := 0
	for i := range r.Problems {
		p := &r.Problems[i]
		p.File = fromHere(io, opts.Dir, p.File)
		if !p.Warning {
			errors++
		}
	}
	if io.JSON {
		if r.Problems == nil {
			r.Problems = []check.Problem{}
		}
		if err := io.PrintJSON(r.Problems); err != nil {
			return err
		}
	} else {
		for _, p := range r.Problems {
			fmt.Fprintln(io.Out, clean(p.String()))
			if p.Excerpt != "" {
				fmt.Fprintln(io.Out, cleanLines(p.Excerpt))
			}
		}
	}
	again := "shield check"
	if overlay != "" {
		again += " --config " + overlay
	}
	switch {
	case !r.Failed:
		io.Note("%s ok: %s, %s, %s", r.Config.App.Name, plural(len(r.Files), "file"), plural(len(r.Config.Services), "service"), plural(len(r.Config.RPC), "route"))
		return nil
	case io.JSON:
		return quiet(exitInvalid)
	case errors == 1:
		return fail(exitInvalid, again, "1 problem; mend it and check again")
	default:
		return fail(exitInvalid, again, "%d problems; mend them and check again", errors)
	}
}
