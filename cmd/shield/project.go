package main

import (
	"path/filepath"
	"strings"

	"shield/runtime/config"
)

// projectDir finds the project that io.Dir lies in.
func projectDir(io *IO) (string, error) {
	if dir, ok := config.Find(io.Dir); ok {
		return dir, nil
	}
	return "", fail(exitInvalid, "shield new mygame", "no project here: %s and the folders above it hold no %s", io.Dir, config.FileName)
}

// projectOptions says what a verb loads: the project around io.Dir. The overlay
// of --config lies over the project that it is in, else over that; it may also be
// all there is.
func projectOptions(io *IO, overlay string) (opts config.Options, err error) {
	opts.Environ = io.Environ
	if overlay == "" {
		opts.Dir, err = projectDir(io)
		return opts, err
	}
	opts.Overlay = inDir(io, overlay)
	beside := filepath.Dir(opts.Overlay)
	for _, start := range []string{beside, io.Dir} {
		if dir, ok := config.Find(start); ok {
			opts.Dir = dir
			return opts, nil
		}
	}
	opts.Dir = beside
	return opts, nil
}

// loadProject loads a project for a verb and prints its warnings.
func loadProject(io *IO, opts config.Options) (*config.Config, error) {
	cfg, err := readProject(io, opts)
	if err != nil {
		return nil, err
	}
	printWarnings(io, opts.Dir, cfg.Warnings)
	return cfg, nil
}

// readProject loads a project. Problems come back with paths that an editor can
// open from io.Dir.
func readProject(io *IO, opts config.Options) (*config.Config, error) {
	cfg, err := config.Load(opts)
	ps, ok := err.(config.Problems)
	if !ok {
		return cfg, err
	}
	for i := range ps {
		ps[i].File = fromHere(io, opts.Dir, ps[i].File)
	}
	next := "shield check"
	if opts.Overlay != "" {
		next += " --config " + fromHere(io, filepath.Dir(opts.Overlay), filepath.Base(opts.Overlay))
	}
	return nil, &failure{Exit: exitInvalid, Err: ps, Next: next}
}

// inDir is a file as the person who named it sees it.
func inDir(io *IO, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(io.Dir, name)
}

func printWarnings(io *IO, dir string, warnings []config.Problem) {
	for _, w := range warnings {
		w.File = fromHere(io, dir, w.File)
		io.Warn("%s", w.String())
	}
}

// fromHere gives a file of the project in dir as seen from io.Dir.
func fromHere(io *IO, dir, file string) string {
	if file == "" || filepath.IsAbs(file) || strings.HasPrefix(file, "env ") {
		return file
	}
	here, err := filepath.Abs(io.Dir)
	if err != nil {
		return file
	}
	rel, err := filepath.Rel(here, filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return file
	}
	return rel
}
