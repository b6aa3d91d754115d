package main

import (
	"github.com/spf13/cobra"

	"shield/runtime/config"
)

func newConfig(io *IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "check or show the configuration",
		GroupID: groupProject,
		Example: "  shield config show --origin\n  shield config check\n  shield config show --config node-1.yaml --json",
		Args:    unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.HelpFunc()(cmd, nil)
			return nil
		},
	}
	cmd.AddCommand(newConfigCheck(io), newConfigShow(io))
	return cmd
}

func newConfigCheck(io *IO) *cobra.Command {
	var overlay string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "check shield.yaml and rpc.yaml, without the scripts",
		Example: "  shield config check\n  shield config check --config node-1.yaml\n  shield config check --json",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := loadOverlaid(io, overlay)
			if err != nil {
				return err
			}
			io.Note("%s ok", cfg.App.Name)
			if io.JSON {
				return io.PrintJSON(config.Problems(cfg.Warnings))
			}
			return nil
		},
	}
	overlayFlag(cmd, &overlay)
	return cmd
}

func newConfigShow(io *IO) *cobra.Command {
	var overlay string
	var origin bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "print every key with its value, secrets hidden",
		Example: "  shield config show\n  shield config show --origin         # where each value comes from\n  shield config show --config node-1.yaml --json",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := loadOverlaid(io, overlay)
			if err != nil {
				return err
			}
			columns := []Column[config.Value]{
				{Head: "KEY", Cell: func(v config.Value) string { return v.Path }},
				{Head: "VALUE", Cell: func(v config.Value) string { return v.Text() }},
			}
			if origin {
				columns = append(columns, Column[config.Value]{Head: "ORIGIN",
					Cell: func(v config.Value) string { return v.Origin.String() }})
			}
			return Print(io, cfg.Values(), columns, "")
		},
	}
	overlayFlag(cmd, &overlay)
	cmd.Flags().BoolVar(&origin, "origin", false, "also print where each value comes from")
	return cmd
}

func overlayFlag(cmd *cobra.Command, overlay *string) {
	cmd.Flags().StringVar(overlay, "config", "", "a file that lies over shield.yaml")
}

// loadOverlaid loads the project as shield dev would, or with a file over it as
// shield run would.
func loadOverlaid(io *IO, overlay string) (*config.Config, error) {
	opts, err := projectOptions(io, overlay)
	if err != nil {
		return nil, err
	}
	opts.Dev = overlay == ""
	return loadProject(io, opts)
}
