package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"shield/devserver"
	"shield/devserver/logs"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/shield"
)

// serving is what dev, run and demo have in common: a server in the foreground
// that ends with the terminal's user.
type serving struct {
	io      *IO
	mode    control.Mode
	project *config.Config
	nodes   int
	watch   bool
	format  string // --log: text, json, or "" for what the project says
	keys    bool   // read single keys where there is a terminal
	quiet   bool   // print neither banner nor log
	// meanwhile runs while the server does; its end ends the server. nil = wait
	// for an interrupt.
	meanwhile func(ctx context.Context, srv *devserver.Server) error
}

// ballastSize is memory that is never touched and so takes no room, but counts as
// heap: messages make much garbage, and a small heap would be collected for it a
// hundred times a second. The price is at most as much garbage more.
const ballastSize = 16 << 20

// keptRows is how many log rows a reader can still get.
const keptRows = 5000

func (s *serving) run(ctx context.Context) error {
	ballast := make([]byte, ballastSize)
	defer runtime.KeepAlive(ballast)
	signals := s.io.TakeSignals()
	rows := control.NewRing[shield.LogRow](keptRows, func(r *shield.LogRow, seq uint64) { r.Seq = seq })
	log := s.logger(rows)
	srv, err := devserver.New(devserver.Config{
		Project: s.project, Mode: s.mode, Nodes: s.nodes, Version: thisVersion().Version, Environ: s.io.Environ, Log: log, Rows: rows, Watch: s.watch,
	})
	if err != nil {
		return s.startError(err)
	}
	started := make(chan error, 1)
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { started <- srv.Start(starting) }()
	select {
	case err := <-started:
		if err != nil {
			return s.startError(err)
		}
	case <-signals:
		cancel()
		s.exitAtNext(signals)
		<-started // has stopped what it had started
		return errInterrupted
	}
	for _, w := range s.project.Warnings {
		log.Logger("").Warn(w.Message, "service", "config", "at", w.Pos.String())
	}
	return s.serve(ctx, srv, log, signals)
}

// serve waits for the end and brings it about.
func (s *serving) serve(ctx context.Context, srv *devserver.Server, log *logs.Log, signals <-chan os.Signal) error {
	keys := &keyboard{io: s.io, srv: srv, log: log, on: s.keys && s.io.InTTY && s.io.OutTTY}
	if !s.quiet {
		fmt.Fprintf(s.io.Out, "\n%s\n", srv.Banner(keys.on))
	}
	quit := keys.start(ctx)
	defer keys.stop()
	done := make(chan error, 1)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.meanwhile != nil {
		go func() { done <- s.meanwhile(inner, srv) }()
	}
	var ended error
	over := false // what runs meanwhile
	select {
	case <-signals:
	case <-quit:
	case ended = <-done:
		over = true
	case <-srv.Failed():
		ended = srv.Err()
	}
	s.exitAtNext(signals)
	cancel()
	if s.meanwhile != nil && !over {
		ended = errors.Join(ended, <-done)
	}
	keys.stop()
	return errors.Join(ended, s.end(srv))
}

// exitAtNext makes a second interrupt end the process at once.
func (s *serving) exitAtNext(signals <-chan os.Signal) {
	go func() {
		<-signals
		s.io.Exit(exitInterrupted)
	}()
}

// end drains and stops the server within its budget.
func (s *serving) end(srv *devserver.Server) error {
	drain, stop := srv.Budget()
	if !s.quiet {
		fmt.Fprintln(s.io.Err, s.io.PaintErr(Faint, "stopping: services finish what they do (Ctrl-C again ends at once)"))
	}
	all, cancelAll := context.WithTimeout(context.Background(), drain+stop)
	defer cancelAll()
	dctx, cancel := context.WithTimeout(all, drain)
	defer cancel()
	if err := srv.DrainAll(dctx); err != nil && !s.quiet {
		fmt.Fprintf(s.io.Err, "stopping: not everything finished in %v: %v\n", drain, err)
	}
	if err := srv.Stop(all); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// logger prints rows as the project or the flag wants them and keeps them for
// readers.
func (s *serving) logger(rows *control.Ring[shield.LogRow]) *logs.Log {
	keep := func(r shield.LogRow) { rows.Append(r) }
	sink := keep
	if !s.quiet {
		format := s.format
		if format == "" {
			format = s.project.Log.Format
		}
		print := logs.Text(logs.Style{Color: s.io.ColorOut(), Columns: s.mode == control.ModeDev, UTC: s.mode == control.ModeRun, Width: s.io.LineWidth})
		if format == "json" {
			print = logs.JSON
		}
		printed := logs.To(s.io.Out, print)
		sink = func(r shield.LogRow) { keep(r); printed(r) }
	}
	log := logs.New(sink)
	log.SetLevel(s.project.Log.Level, "", "")
	return log
}

// startError says what to do about a start that failed.
func (s *serving) startError(err error) error {
	var locked *control.LockedError
	var port *devserver.PortError
	var problems config.Problems
	switch {
	case errors.As(err, &locked):
		return fail(exitFailed, "shield console", "%w\n  look at it with the console, or stop it first", err)
	case errors.As(err, &port):
		return fail(exitFailed, "change "+port.Key+" in shield.yaml, or end the other program", "%w", err)
	case errors.As(err, &problems):
		return err
	case errors.Is(err, syscall.EACCES):
		return fail(exitFailed, "shield doctor", "%w", err)
	}
	switch shield.CodeOf(err) {
	case shield.ScriptLoadFailed, shield.InvalidServiceModule:
		return fail(exitInvalid, "shield check", "%w", err)
	}
	return err
}
