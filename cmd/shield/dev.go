package main

import (
	"github.com/spf13/cobra"

	"shield/runtime/control"
)

func newDev(io *IO) *cobra.Command {
	var nodes int
	var format string
	var noWatch bool
	cmd := &cobra.Command{
		Use:     "dev",
		Short:   "run the project on this machine; saved files go live",
		GroupID: groupProject,
		Example: `
  shield dev                       # as many nodes as dev.nodes says
  shield dev --nodes 3             # node-1, node-2, node-3, joined
  shield dev --log json | jq .     # one object a line`,
		Long: `Runs the nodes of the project in this process, joined over QUIC, and reloads
what is saved. Ctrl-C drains and leaves nothing behind; twice ends at once.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLogFormat(format); err != nil {
				return err
			}
			if cmd.Flags().Changed("nodes") {
				if err := checkNodes(nodes); err != nil {
					return err
				}
			}
			opts, err := projectOptions(io, "")
			if err != nil {
				return err
			}
			opts.Dev, opts.Nodes = true, nodes
			project, err := readProject(io, opts)
			if err != nil {
				return err
			}
			s := &serving{io: io, mode: control.ModeDev, project: project, nodes: nodes, watch: !noWatch, format: format, keys: true}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().IntVarP(&nodes, "nodes", "n", 0, "how many nodes, instead of dev.nodes of shield.yaml")
	cmd.Flags().StringVar(&format, "log", "", "text or json (default: log.format of shield.yaml)")
	cmd.Flags().BoolVar(&noWatch, "no-watch", false, "do not reload what is saved")
	return cmd
}

// mostNodes is how many nodes one process runs at most.
const mostNodes = 64

func checkNodes(n int) error {
	if n < 1 || n > mostNodes {
		return fail(exitUsage, "shield dev --nodes 3", "--nodes %d: want 1 to %d", n, mostNodes)
	}
	return nil
}

func checkLogFormat(format string) error {
	if format != "" && format != "text" && format != "json" {
		return fail(exitUsage, "shield dev --log json", "--log %q: want text or json", format)
	}
	return nil
}
