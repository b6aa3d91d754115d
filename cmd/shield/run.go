package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"shield/runtime/config"
	"shield/runtime/control"
)

func newRun(io *IO) *cobra.Command {
	var overlay, format string
	var watch bool
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "run one node, as in production",
		GroupID: groupProject,
		Example: `
  shield run                           # the node that shield.yaml describes
  shield run --config node-1.yaml      # that file laid over shield.yaml
  shield run --config node-1.yaml & shield run --config node-2.yaml &`,
		Long: `Runs one node in the foreground. SIGTERM and Ctrl-C take it out of routing, let
its services finish within shutdown.service_drain_ms, then close it; a second
signal ends at once. The log goes to standard output.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLogFormat(format); err != nil {
				return err
			}
			opts, err := projectOptions(io, overlay)
			if err != nil {
				return err
			}
			if overlay == "" { // as `shield check --config shield.yaml` reads it, and not as dev does
				opts.Overlay = filepath.Join(opts.Dir, config.FileName)
			}
			project, err := readProject(io, opts)
			if err != nil {
				return err
			}
			s := &serving{io: io, mode: control.ModeRun, project: project, watch: watch, format: format}
			return s.run(cmd.Context())
		},
	}
	overlayFlag(cmd, &overlay)
	cmd.Flags().StringVar(&format, "log", "", "text or json (default: log.format of shield.yaml)")
	cmd.Flags().BoolVar(&watch, "watch", false, "reload what is saved, as shield dev does")
	return cmd
}
