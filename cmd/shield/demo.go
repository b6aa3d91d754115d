package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"shield/devserver"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/templates"
)

func newDemo(io *IO) *cobra.Command {
	var nodes, players int
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "see it run: a game on three nodes in a temporary folder",
		GroupID: groupProject,
		Example: `
  shield demo                      # q stops it and removes the folder
  shield demo --nodes 5 --players 50
  shield demo < /dev/null          # no console: the banner and the log`,
		Long: `Makes the arena project in a temporary folder, runs it on three nodes with a few
players that walk about and talk, and opens the console on it. Leaving stops
everything and removes the folder. Without a terminal it prints the banner and
the log and serves until interrupted.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNodes(nodes); err != nil {
				return err
			}
			if players < 0 || players > 100 {
				return fail(exitUsage, "shield demo --players 5", "--players %d: want 0 to 100", players)
			}
			dir, err := os.MkdirTemp("", "shield-demo-")
			if err != nil {
				return fmt.Errorf("make a folder for the demo: %w", err)
			}
			defer os.RemoveAll(dir)
			return demo(cmd.Context(), io, filepath.Join(dir, "demo"), nodes, players)
		},
	}
	cmd.Flags().IntVarP(&nodes, "nodes", "n", 3, "how many nodes")
	cmd.Flags().IntVar(&players, "players", 5, "how many players walk about")
	return cmd
}

func demo(ctx context.Context, io *IO, dir string, nodes, players int) error {
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
	watch := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if needTerminal(io) == nil {
		s.quiet = true
		watch = func(ctx context.Context) error { return consoleOn(ctx, io, dir) }
	} else {
		fmt.Fprintf(io.Out, "demo project in %s\n", dir)
	}
	s.meanwhile = func(ctx context.Context, srv *devserver.Server) error {
		ctx, cancel := context.WithCancel(ctx)
		var crowd sync.WaitGroup
		defer crowd.Wait()
		defer cancel()
		if err := playDemo(ctx, &crowd, project, srv, nodes, players); err != nil {
			return err
		}
		return watch(ctx)
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
