package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"shield/runtime/shield"
)

// validator checks a Config that is already typed: the rules of single keys,
// then what must hold between keys.
type validator struct {
	c        *Config
	opts     Options
	bad      map[string]bool // paths that decoding has complained about
	problems []Problem
}

func (v *validator) path(s string) string {
	if filepath.IsAbs(s) {
		return s
	}
	return filepath.Join(v.c.Dir, filepath.FromSlash(s))
}

// broken reports a path, or one it lies in, that has been complained about.
func (v *validator) broken(path string) bool {
	for {
		if v.bad[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

func (v *validator) add(warning bool, path, cure, message string) {
	v.problems = append(v.problems, Problem{Pos: v.c.place(path), Path: path, Cure: cure, Message: message, Warning: warning})
}

func (v *validator) problem(path, cure, format string, args ...any) {
	v.add(false, path, cure, fmt.Sprintf(format, args...))
}

func (v *validator) warn(path, cure, format string, args ...any) {
	v.add(true, path, cure, fmt.Sprintf(format, args...))
}

// Validate reports everything that is wrong with c, warnings included.
func (c *Config) Validate(opts Options) []Problem {
	v := &validator{c: c, opts: opts, bad: map[string]bool{}}
	v.all()
	return SortProblems(v.problems)
}

func (v *validator) all() {
	v.rules(reflect.ValueOf(v.c).Elem(), "")
	v.serviceNames()
	v.dependencies()
	v.placement()
	v.gateways()
	v.cluster()
	v.control()
	for i := range v.c.Services {
		s := &v.c.Services[i]
		if s.Restart.InitialDelay > s.Restart.MaxDelay {
			path := fmt.Sprintf("services[%d].restart.", i)
			v.problem(v.written(path+"max_delay", path+"initial_delay"), "", "max_delay (%s) is shorter than initial_delay (%s)", s.Restart.MaxDelay, s.Restart.InitialDelay)
		}
	}
}

// Published lists the names that a service publishes on each of its nodes.
func (s *Service) Published() []shield.Name {
	if s.Instances == 1 {
		return []shield.Name{s.Name}
	}
	var names []shield.Name
	for i := 1; i <= s.Instances; i++ {
		names = append(names, shield.Name(fmt.Sprintf("%s.%d", s.Name, i)))
	}
	return names
}

// serviceNames finds names given twice, also by instances.
func (v *validator) serviceNames() {
	type owner struct{ at int }
	seen := map[shield.Name]owner{}
	for i := range v.c.Services {
		s := &v.c.Services[i]
		at := fmt.Sprintf("services[%d].name", i)
		if s.Name == "" || v.broken(at) || s.Instances > 10000 {
			continue
		}
		names := append([]shield.Name{s.Name}, s.Published()...)
		slices.Sort(names)
		for _, n := range slices.Compact(names) {
			if len(n) > shield.MaxName {
				v.problem(at, "", "with its number the name %q is longer than %d bytes", n, shield.MaxName)
				break
			}
			if first, dup := seen[n]; dup {
				v.problem(at, "", "the name %q is already taken by services[%d] in %s", n, first.at, v.c.Services[first.at].Pos)
				break
			}
			seen[n] = owner{i}
		}
	}
}

func (v *validator) names() []string {
	var names []string
	for i := range v.c.Services {
		names = append(names, string(v.c.Services[i].Name))
	}
	return names
}

// dependencies checks depends_on: known names, started ones, no cycle.
func (v *validator) dependencies() {
	for i := range v.c.Services {
		for j, dep := range v.c.Services[i].DependsOn {
			at := fmt.Sprintf("services[%d].depends_on[%d]", i, j)
			if v.broken(at) {
				continue
			}
			on := v.c.service(dep)
			switch {
			case on == nil:
				v.unknown(at, "service", string(dep), v.names())
			case on.Instances == 0:
				v.problem(at, "", "%q has instances: 0; only shield.spawn starts it, so nothing can wait for it", dep)
			}
		}
	}
	if cycle := v.c.cycle(); len(cycle) > 0 {
		at := ""
		for i := range v.c.Services {
			if v.c.Services[i].Name == cycle[0] {
				at = fmt.Sprintf("services[%d].depends_on", i)
				break
			}
		}
		v.problem(at, "", "a cycle: %s", joinNames(cycle, " -> "))
	}
}

func (v *validator) unknown(path, what, have string, known []string) {
	cure := ""
	if near := shield.Nearest(have, known); near != "" {
		cure = fmt.Sprintf("did you mean %q?", near)
	} else if len(known) > 0 {
		cure = "known: " + strings.Join(known, ", ")
	}
	v.problem(path, cure, "unknown %s %q", what, clip(have))
}

func joinNames(names []shield.Name, sep string) string {
	s := make([]string, len(names))
	for i, n := range names {
		s[i] = string(n)
	}
	return strings.Join(s, sep)
}

// knownNodes is the set of nodes where it is known: shield dev makes them, or
// the project says how many it would make.
func (v *validator) knownNodes() []string {
	n := v.c.Dev.Nodes
	if !v.opts.Dev && v.c.Origin("dev.nodes").Source == FromDefault {
		return nil
	}
	n = max(n, v.opts.Nodes)
	var ids []string
	for i := 1; i <= min(n, 64); i++ {
		ids = append(ids, fmt.Sprintf("node-%d", i))
	}
	if id := string(v.c.Cluster.NodeID); id != "" && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// placement checks the nodes of services and gateways.
func (v *validator) placement() {
	known := v.knownNodes()
	check := func(nodes []shield.NodeID, path string) {
		seen := map[shield.NodeID]bool{}
		for j, id := range nodes {
			at := fmt.Sprintf("%s.nodes[%d]", path, j)
			switch {
			case v.broken(at):
			case seen[id]:
				v.problem(at, "", "%q is listed twice", id)
			case known != nil && !slices.Contains(known, string(id)):
				v.unknown(at, "node", string(id), known)
			}
			seen[id] = true
		}
	}
	for i := range v.c.Services {
		check(v.c.Services[i].Nodes, fmt.Sprintf("services[%d]", i))
	}
	for i := range v.c.Gateways {
		check(v.c.Gateways[i].Nodes, fmt.Sprintf("gateways[%d]", i))
	}
}
