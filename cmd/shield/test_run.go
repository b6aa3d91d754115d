package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shield/devserver/testrun"
	"shield/devserver/watch"
)

// testOptions says what to run: files are given as seen from io.Dir.
func testOptions(io *IO, files []string, t *testFlags) (testrun.Options, error) {
	o := testrun.Options{Run: t.run, Timeout: t.timeout, Cover: t.cover || t.lcov != "", Level: t.log, Environ: io.Environ}
	if t.seed == 0 || t.seeds < 1 || t.seeds > 1_000_000 {
		return o, fail(exitUsage, "shield help test", "--seed and --seeds begin at 1")
	}
	if !slices.Contains(logLevels, t.log) {
		return o, fail(exitUsage, "shield test --log debug", "--log %q: want %s", t.log, strings.Join(logLevels, ", "))
	}
	if _, err := regexp.Compile(t.run); err != nil {
		return o, fail(exitUsage, "shield help test", "--run %q is no regular expression: %w", t.run, err)
	}
	opts, err := projectOptions(io, "")
	if err != nil {
		return o, err
	}
	opts.Dev = true
	if _, err := loadProject(io, opts); err != nil {
		return o, err
	}
	if o.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return o, err
	}
	for _, f := range files {
		abs, err := filepath.Abs(inDir(io, f))
		if err != nil {
			return o, err
		}
		rel, err := filepath.Rel(o.Dir, abs)
		if err != nil || !filepath.IsLocal(rel) {
			return o, fail(exitUsage, "shield test", "%s is not in the project at %s", f, o.Dir)
		}
		o.Files = append(o.Files, filepath.ToSlash(rel))
	}
	for i := range t.seeds {
		o.Seeds = append(o.Seeds, t.seed+uint64(i))
	}
	if t.lcov != "" {
		o.LCOV = inDir(io, t.lcov)
	}
	if o.Path, err = os.Executable(); err != nil {
		return o, fmt.Errorf("find our own binary, which runs the tests: %w", err)
	}
	o.Command = []string{os.Args[0], testChild}
	o.Tell = testTeller(io, len(o.Seeds))
	return o, nil
}

// testTeller prints what happens: for people, or one object a line.
func testTeller(io *IO, seeds int) func(*testrun.Event) {
	if io.JSON {
		enc := json.NewEncoder(io.Out)
		enc.SetEscapeHTML(false)
		return func(e *testrun.Event) {
			if e.Event != testrun.EventBegin {
				_ = enc.Encode(e) // a reader that is gone needs no answer
			}
		}
	}
	p := &testrun.Printer{W: io.Out, Clean: clean, Seeds: seeds}
	if io.ColorOut() {
		p.Good = func(s string) string { return io.PaintOut(Green, s) }
		p.Bad = func(s string) string { return io.PaintOut(Red, s) }
		p.Faint = func(s string) string { return io.PaintOut(Faint, s) }
	}
	return p.Print
}

// watchTests runs the tests, and again after each change, until Ctrl-C.
func watchTests(ctx context.Context, io *IO, o testrun.Options) error {
	changed := make(chan struct{}, 1)
	w, err := watch.New(watch.Config{Root: o.Dir, OnChange: func(watch.ChangeSet) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return err
	}
	w.Start()
	defer w.Close()
	for {
		if err := runTests(ctx, o); err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			printError(io, "test", err, exitFailed)
		}
		o.Tell = testTeller(io, len(o.Seeds))
		io.Note("waiting for a file to be saved; Ctrl-C ends")
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
