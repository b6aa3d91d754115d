package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shield/runtime/config"
	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// closeBudget is how long the scratch runtime may take to end; it has no
// services to wait for.
const closeBudget = time.Second

// load runs the top level of every service's script, as a start would, in a
// scratch machine whose shield.* does nothing and which can't change files. It
// finds what throws there, and routes whose handler is missing.
func (r *Result) load(dir string, cfg *config.Config) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the project's folder: %w", err)
	}
	defer root.Close()
	rt, err := service.New(service.Config{
		Lua: luavm.Config{
			Files: scripts{root}, ModulePath: cfg.Lua.ModulePath,
			AllowOS: cfg.Lua.Sandbox.AllowOS, AllowIO: cfg.Lua.Sandbox.AllowIO,
		},
		API: luaapi.New(), Routes: cfg.Table,
	})
	if err != nil {
		return fmt.Errorf("make a scratch machine: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeBudget)
		defer cancel()
		err = errors.Join(err, rt.Stop(ctx))
	}()
	r.globals(dir, cfg, rt.World())
	for i := range cfg.Services {
		s := &cfg.Services[i]
		if r.about(s.Script) {
			continue // it was told what is wrong there
		}
		spec := service.Spec{Name: s.Name, Script: s.Script}
		if s.Config != nil {
			spec.Config = s.Config
		}
		methods, err := rt.SpecMethods(spec)
		if err != nil {
			r.thrown(dir, s.Script, err)
			continue
		}
		for _, route := range cfg.RPC {
			if route.Service != s.Name {
				continue
			}
			if p, missing := route.Missing(s.Script, methods); missing {
				r.add([]config.Problem{p})
			}
		}
	}
	return nil
}

// about reports whether a problem of this file is known already.
func (r *Result) about(file string) bool {
	for i := range r.Problems {
		if p := &r.Problems[i]; p.File == filepath.ToSlash(filepath.Clean(file)) && !p.Warning {
			return true
		}
	}
	return false
}

// thrown adds what went wrong when a script was loaded.
func (r *Result) thrown(dir, script string, err error) {
	p := Problem{Problem: config.Problem{Pos: config.Pos{File: script}, Message: err.Error()}}
	var syntax *luavm.ScriptError
	var run *luavm.RunError
	var code *shield.Error
	switch {
	case errors.As(err, &syntax):
		p.File, p.Line, p.Column, p.Message, p.Source = syntax.File, syntax.Line, syntax.Column, syntax.Message, syntax.SourceLine
		p.Excerpt = syntax.Excerpt()
	case errors.As(err, &run) && run.File != "":
		p.File, p.Line = run.File, run.Line
		p.Message = "throws when it is loaded: " + strings.TrimPrefix(run.Message, fmt.Sprintf("%s:%d: ", run.File, run.Line))
		p.Source = lineOf(dir, run.File, run.Line)
		p.Excerpt = (&luavm.ScriptError{Line: run.Line, SourceLine: p.Source}).Excerpt()
	case errors.As(err, &run):
		p.Message = "throws when it is loaded: " + run.Message
	case errors.As(err, &code):
		p.Message = strings.TrimPrefix(code.Message, script+" ")
	}
	if p.Line > 0 && r.about(p.File) {
		return // a module that several services require is told once
	}
	r.Problems = append(r.Problems, p)
	r.Failed = true
}

// lineOf is a line of a script, "" when it can't be had.
func lineOf(dir, file string, line int) string {
	src, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	lines := strings.Split(string(src), "\n")
	if err != nil || line < 1 || line > len(lines) {
		return ""
	}
	return strings.TrimRight(lines[line-1], "\r")
}

// scripts reads files below the project's folder and nowhere else.
type scripts struct{ root *os.Root }

func (s scripts) ReadFile(path string) ([]byte, error) {
	return s.root.ReadFile(filepath.FromSlash(path))
}
