package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"shield/devserver"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/templates"
)

func newDemo(io *IO) *cobra.Command {
	var nodes int
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "see it run: a game on three nodes in a temporary folder",
		GroupID: groupProject,
		Example: `
  shield demo                      # q stops it and removes the folder
  shield demo --nodes 5
  shield demo < /dev/null          # no console: the banner and the log`,
		Long: `Makes the arena project in a temporary folder, runs it on three nodes and opens
the console on it. Leaving stops everything and removes the folder. Without a
terminal it prints the banner and the log and serves until interrupted.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNodes(nodes); err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "shield-demo-")
			if err != nil {
				return fmt.Errorf("make a folder for the demo: %w", err)
			}
			defer os.RemoveAll(dir)
			return demo(cmd.Context(), io, filepath.Join(dir, "demo"), nodes)
		},
	}
	cmd.Flags().IntVarP(&nodes, "nodes", "n", 3, "how many nodes")
	return cmd
}

func demo(ctx context.Context, io *IO, dir string, nodes int) error {
	files, err := templates.Files(templates.Names()[0], templates.Data{Name: "demo", Token: freshToken()})
	if err != nil {
		return err
	}
	if err := writeProject(dir, files); err != nil {
		return err
	}
	project, err := config.Load(config.Options{Dir: dir, Environ: io.Environ, Dev: true, Nodes: nodes})
	if err != nil {
		return err
	}
	s := &serving{io: io, mode: control.ModeDev, project: project, nodes: nodes, watch: true}
	if needTerminal(io) == nil {
		s.quiet = true
		s.meanwhile = func(ctx context.Context, _ *devserver.Server) error { return consoleOn(ctx, io, dir) }
	} else {
		fmt.Fprintf(io.Out, "demo project in %s\n", dir)
	}
	return s.run(ctx)
}

// consoleOn shows the console of the project in dir until it is quit or ctx
// ends.
func consoleOn(ctx context.Context, sio *IO, dir string) error {
	end := make(chan os.Signal, 1)
	inner := sio.Within(dir, end)
	stop := context.AfterFunc(ctx, func() { end <- syscall.SIGTERM })
	defer stop()
	return runConsole(ctx, inner, consoleFlags{speed: 1, ends: true})
}
