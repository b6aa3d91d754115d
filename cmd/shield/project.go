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

// projectOptions says what a verb loads: the project around io.Dir, under the
// overlay of --config. An overlay may be all there is.
func projectOptions(io *IO, overlay string) (config.Options, error) {
	opts := config.Options{Environ: io.Environ}
	if overlay != "" {
		opts.Overlay = overlay
		if !filepath.IsAbs(overlay) {
			opts.Overlay = filepath.Join(io.Dir, overlay)
		}
	}
	dir, err := projectDir(io)
	switch {
	case err == nil:
		opts.Dir = dir
	case overlay == "":
		return opts, err
	default:
		opts.Dir = filepath.Dir(opts.Overlay)
	}
	return opts, nil
}

// loadProject loads a project for a verb. Warnings are printed; problems come
// back with paths that an editor can open from io.Dir.
func loadProject(io *IO, opts config.Options) (*config.Config, error) {
	cfg, err := config.Load(opts)
	if ps, ok := err.(config.Problems); ok {
		for i := range ps {
			ps[i].File = fromHere(io, opts.Dir, ps[i].File)
		}
		return nil, &failure{Exit: exitInvalid, Err: ps, Next: "shield check"}
	}
	if err != nil {
		return nil, err
	}
	printWarnings(io, opts.Dir, cfg.Warnings)
	return cfg, nil
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
