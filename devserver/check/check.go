// Package check finds everything that is wrong with a project without starting
// it: configuration, routes, the syntax of every script, and what the services'
// scripts throw at their top level, which is run in a scratch machine that can
// do nothing to anybody. It starts no goroutines of its own.
package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shield/runtime/config"
	"shield/runtime/luavm"
)

// Problem is one thing that is wrong, with the line it is about where that line
// is Lua.
type Problem struct {
	config.Problem
	Excerpt string `json:"-"` // the source line and a caret below the column
	Source  string `json:"source,omitempty"`
}

// Result is what a check found.
type Result struct {
	Problems []Problem // sorted by place, warnings included
	Config   *config.Config
	Files    []string // what was read, relative to the project
	Failed   bool     // there are problems that are no warnings
}

// maxScripts bounds the walk, should a project lie in a huge folder.
const maxScripts = 20_000

// Project checks the project that opts describes.
func Project(opts config.Options) (Result, error) {
	var r Result
	cfg, err := config.Load(opts)
	var ps config.Problems
	switch {
	case errors.As(err, &ps):
		r.add(ps)
	case err != nil:
		return r, err
	default:
		r.Config, r.Files = cfg, slices.Clone(cfg.Files)
		r.add(cfg.Warnings)
	}
	dir := opts.Dir
	if dir == "" {
		dir = filepath.Dir(opts.Overlay)
	}
	if err := r.scripts(dir, cfg); err != nil {
		return r, err
	}
	if cfg != nil { // else nobody knows what the services are
		if err := r.load(dir, cfg); err != nil {
			return r, err
		}
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return r, nil
}

func (r *Result) add(ps []config.Problem) {
	for _, p := range ps {
		r.Problems = append(r.Problems, Problem{Problem: p})
		r.Failed = r.Failed || !p.Warning
	}
}

// scripts checks every Lua file below dir, whether a service names it or not:
// what require finds can't be told without running it. Hidden folders are left
// out. Scripts that the configuration names outside dir come on top.
func (r *Result) scripts(dir string, cfg *config.Config) error {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".lua":
			return nil
		case len(names) == maxScripts:
			return fmt.Errorf("more than %d Lua files below %s; is this the right folder?", maxScripts, dir)
		}
		rel, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		return fmt.Errorf("look for scripts: %w", err)
	}
	if cfg != nil {
		for _, s := range cfg.Services {
			if name := filepath.ToSlash(filepath.Clean(s.Script)); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		r.script(dir, name)
	}
	return nil
}

func (r *Result) script(dir, name string) {
	path := filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		cause := err
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			cause = pe.Err
		}
		r.add([]config.Problem{{Pos: config.Pos{File: name}, Message: fmt.Sprintf("can't be read: %v", cause)}})
		return
	}
	r.Files = append(r.Files, name)
	err = luavm.Check(name, src)
	if err == nil {
		return
	}
	p := Problem{Problem: config.Problem{Pos: config.Pos{File: name}, Message: err.Error()}}
	var se *luavm.ScriptError
	if errors.As(err, &se) {
		p.Line, p.Column, p.Message, p.Source = se.Line, se.Column, se.Message, se.SourceLine
		p.Excerpt = se.Excerpt()
	}
	r.Problems = append(r.Problems, p)
	r.Failed = true
}
