package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// FileName is the file that makes a folder a project.
const FileName = "shield.yaml"

// RPCFileName is where the RPC routes are.
const RPCFileName = "rpc.yaml"

// EnvFileName holds variables of one machine, such as its secrets. The process's
// own environment wins over it. It stays out of version control.
const EnvFileName = ".env"

// Options say what Load reads.
type Options struct {
	// Dir is the project folder. Empty = the folder of Overlay, else the
	// working folder.
	Dir string
	// Overlay is the file of --config. It lies over shield.yaml, or is all
	// there is.
	Overlay string
	// Environ is the environment, as os.Environ gives it. nil = empty.
	Environ []string
	// Dev loads for shield dev, which sets node ids, addresses, peers and keys
	// itself: variables that only the cluster block misses are no problem, and
	// the set of nodes is known.
	Dev bool
	// Nodes is the number of nodes that --nodes asked for; 0 = dev.nodes.
	Nodes int
}

// Find gives the project folder that start lies in: the nearest folder, start
// itself or above it, that holds shield.yaml.
func Find(start string) (dir string, ok bool) {
	dir, err := filepath.Abs(start)
	if err != nil {
		return "", false
	}
	for {
		if st, err := os.Stat(filepath.Join(dir, FileName)); err == nil && !st.IsDir() {
			return dir, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}

// Load reads a project: files, overlay, environment, rpc.yaml. It reports all
// problems at once as Problems; the Config is nil exactly when there are any.
func Load(opts Options) (*Config, error) {
	l, err := newLoader(opts)
	if err != nil {
		return nil, err
	}
	root := l.files()
	cfg := l.decode(root)
	l.rpc(cfg)
	if cfg != nil {
		v := &validator{c: cfg, opts: l.opts, bad: l.broken}
		v.all()
		l.problems = append(l.problems, v.problems...)
	}
	errs, warnings := split(l.problems)
	if errs != nil {
		return nil, errs
	}
	cfg.Warnings = warnings
	return cfg, nil
}

// loader carries one Load from step to step.
type loader struct {
	opts     Options
	env      *environment
	read     []string
	broken   map[string]bool
	problems []Problem
}

func newLoader(opts Options) (*loader, error) {
	if opts.Overlay != "" {
		abs, err := filepath.Abs(opts.Overlay)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", opts.Overlay, err)
		}
		opts.Overlay = abs
		if opts.Dir == "" {
			opts.Dir = filepath.Dir(abs)
		}
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the project folder %q: %w", opts.Dir, err)
	}
	opts.Dir = dir
	return &loader{opts: opts, env: newEnvironment(opts.Environ), broken: map[string]bool{}}, nil
}

// name is how problems call a file.
func (l *loader) name(path string) string {
	if rel, err := filepath.Rel(l.opts.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return path
}

// slurp reads one file. Missing is no problem here.
func (l *loader) slurp(path string) (src []byte, found bool) {
	st, err := os.Stat(path)
	if err == nil && st.Size() > maxFileSize {
		l.problems = append(l.problems, Problem{Pos: Pos{File: l.name(path)}, Message: fmt.Sprintf("is %d bytes long, the longest is %d", st.Size(), maxFileSize)})
		return nil, true
	}
	if err == nil {
		src, err = os.ReadFile(path)
	}
	switch {
	case err == nil:
		l.read = append(l.read, l.name(path))
		return src, true
	case errors.Is(err, fs.ErrNotExist):
		return nil, false
	default:
		l.problems = append(l.problems, Problem{Pos: Pos{File: l.name(path)}, Message: fmt.Sprintf("can't be read: %v", errors.Unwrap(err))})
		return nil, true
	}
}

// files reads shield.yaml, the overlay and .env, and lays them and the
// environment over each other.
func (l *loader) files() *node {
	if src, ok := l.slurp(filepath.Join(l.opts.Dir, EnvFileName)); ok {
		l.problems = append(l.problems, l.env.readDotenv(EnvFileName, src)...)
	}
	base := filepath.Join(l.opts.Dir, FileName)
	root, found := l.tree(base)
	if l.opts.Overlay != "" && l.opts.Overlay != base {
		top, ok := l.tree(l.opts.Overlay)
		if !ok {
			l.problems = append(l.problems, Problem{Pos: Pos{File: l.name(l.opts.Overlay)}, Message: "there is no such file"})
		}
		root, found = overlay(root, top), true
	}
	if !found {
		l.problems = append(l.problems, Problem{Message: fmt.Sprintf("there is no %s in %s", FileName, l.opts.Dir), Cure: "shield new makes a project"})
	}
	root, ps := l.env.override(root)
	l.problems = append(l.problems, ps...)
	x := &expander{env: l.env}
	if l.opts.Dev {
		x.lenient = func(path string) bool { return strings.HasPrefix(path, "cluster.") }
	}
	x.expand(root, "")
	l.problems = append(l.problems, x.problems...)
	for _, p := range x.problems {
		l.broken[p.Path] = true
	}
	return root
}

func (l *loader) tree(path string) (*node, bool) {
	src, found := l.slurp(path)
	n, ps := parseYAML(l.name(path), src)
	l.problems = append(l.problems, ps...)
	if n != nil && n.kind != mapping && !(n.kind == scalar && n.val == nil) {
		l.problems = append(l.problems, Problem{Pos: n.pos, Message: "want keys such as services:, have " + n.what()})
		return nil, found
	}
	if n != nil && n.kind != mapping {
		n = nil
	}
	return n, found
}

func (l *loader) decode(root *node) *Config {
	cfg := Default()
	cfg.Dir, cfg.Files = l.opts.Dir, l.read
	d := newDecoder()
	limits := cfg.Limits
	newDecoder().section(reflect.ValueOf(&limits).Elem(), root.get("limits"), "limits") // its problems are found below
	d.limits = &limits
	d.section(reflect.ValueOf(cfg).Elem(), root, "")
	cfg.origins, cfg.sections = d.origins, d.sections
	l.problems = append(l.problems, d.problems...)
	for p := range d.broken {
		l.broken[p] = true
	}
	return cfg
}

func (l *loader) rpc(cfg *Config) {
	src, found := l.slurp(filepath.Join(l.opts.Dir, RPCFileName))
	if !found {
		return
	}
	routes, ps := parseRPC(RPCFileName, src, cfg)
	cfg.RPC, cfg.Files = routes, l.read
	l.problems = append(l.problems, ps...)
	l.broken[RPCFileName] = len(ps) > 0
}
