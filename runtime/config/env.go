package config

import (
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"shield/runtime/shield"
)

// environment is where ${NAME} and overrides are looked up: the process's own
// variables first, then those of the project's .env file.
type environment struct {
	process map[string]string
	dotenv  map[string]dotenvValue
}

type dotenvValue struct {
	value string
	pos   Pos
}

func newEnvironment(environ []string) *environment {
	e := &environment{process: map[string]string{}, dotenv: map[string]dotenvValue{}}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			e.process[k] = v
		}
	}
	return e
}

func (e *environment) lookup(name string) (string, bool) {
	if v, ok := e.process[name]; ok {
		return v, true
	}
	v, ok := e.dotenv[name]
	return v.value, ok
}

// near finds a variable that may have been meant: one of the project's own, or of
// Shield's.
func (e *environment) near(name string) string {
	var names []string
	for k := range e.dotenv {
		names = append(names, k)
	}
	for k := range e.process {
		if strings.HasPrefix(k, "SHIELD_") {
			names = append(names, k)
		}
	}
	sort.Strings(names)
	return shield.Nearest(name, names)
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readDotenv reads NAME=value lines. A value may stand in single or double
// quotes; # begins a comment line. Nothing in it is expanded.
func (e *environment) readDotenv(file string, src []byte) (problems []Problem) {
	if p := checkBytes(file, src); p != nil {
		return []Problem{*p}
	}
	for i, line := range strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		pos := Pos{File: file, Line: i + 1}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !envName.MatchString(name) {
			problems = append(problems, Problem{Pos: pos, Message: "want NAME=value"})
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		e.dotenv[name] = dotenvValue{value, pos}
	}
	return problems
}

// expander replaces ${NAME} and ${NAME:default} in every scalar of a tree.
type expander struct {
	env      *environment
	lenient  func(path string) bool // a missing variable is no problem there
	problems []Problem
}

func (x *expander) expand(n *node, path string) {
	if n == nil {
		return
	}
	for i := range n.entries {
		x.expand(n.entries[i].value, join(path, n.entries[i].key))
	}
	for i, item := range n.items {
		x.expand(item, index(path, i))
	}
	s, ok := n.val.(string)
	if !ok || n.kind != scalar || n.env != "" || n.expanded || !strings.Contains(s, "${") {
		return
	}
	n.expanded = true
	out, name, err := x.text(s, x.lenient != nil && x.lenient(path))
	if err != nil {
		cure := "set it, or write a default: ${NAME:default}"
		if errors.Is(err, errReference) {
			cure = "want ${NAME} or ${NAME:default}; $${ is a literal ${"
		}
		x.problems = append(x.problems, Problem{Pos: n.pos, Path: path, Message: err.Error(), Cure: cure})
		n.val = nil
		return
	}
	n.val, n.env = out, name
	n.loose = name != ""
}

// errReference is what a reference that was written wrong Is.
var errReference = errors.New("is no reference to the environment")

// text expands one scalar. name is the last variable that was read from the
// environment or fell back to its default.
func (x *expander) text(s string, lenient bool) (out, name string, err error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), name, nil
		}
		if i > 0 && s[i-1] == '$' { // $${NAME} is a literal ${NAME}
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return "", "", fmt.Errorf("%q %w: it has no closing brace", clip(s[i:]), errReference)
		}
		ref := s[i+2 : i+end]
		s = s[i+end+1:]
		key, def, hasDefault := strings.Cut(ref, ":")
		if !envName.MatchString(key) {
			return "", "", fmt.Errorf("\"${%s}\" %w: %q is no name of a variable", clip(ref), errReference, clip(key))
		}
		v, ok := x.env.lookup(key)
		switch {
		case ok:
		case hasDefault:
			v = def
		case !lenient:
			if near := x.env.near(key); near != "" {
				return "", "", fmt.Errorf("the environment variable %s is not set, but %s is", key, near)
			}
			return "", "", fmt.Errorf("the environment variable %s is not set", key)
		}
		b.WriteString(v)
		name = key
	}
}

// overridePrefix begins the variables that override keys:
// SHIELD__CLUSTER__NODE_ID is cluster.node_id, SHIELD__SERVICES__0__INSTANCES
// is services[0].instances. A list is written with commas, or as YAML when the
// value begins with [ or {.
const overridePrefix = "SHIELD__"

// override lays the environment's overrides over root.
func (e *environment) override(root *node) (*node, []Problem) {
	values := map[string]string{}
	for k, v := range e.dotenv {
		values[k] = v.value
	}
	for k, v := range e.process {
		values[k] = v
	}
	var names []string
	for k := range values {
		if strings.HasPrefix(k, overridePrefix) {
			names = append(names, k)
		}
	}
	sort.Strings(names)
	if root == nil {
		root = &node{kind: mapping}
	}
	var problems []Problem
	for _, name := range names {
		value, ps := overrideValue(name, values[name])
		if problems = append(problems, ps...); len(ps) > 0 {
			continue
		}
		steps := strings.Split(strings.TrimPrefix(name, overridePrefix), "__")
		next, err := setPath(root, steps, value)
		if err != nil {
			problems = append(problems, Problem{Pos: value.pos, Message: err.Error()})
			continue
		}
		root = next
	}
	return root, problems
}

func overrideValue(name, text string) (*node, []Problem) {
	pos := Pos{File: "env " + name}
	if t := strings.TrimSpace(text); strings.HasPrefix(t, "[") || strings.HasPrefix(t, "{") {
		n, ps := parseYAML(pos.File, []byte(t))
		n.mark(name)
		return n, ps
	}
	return &node{pos: pos, val: text, env: name, loose: true}, nil
}

func (n *node) mark(env string) {
	if n == nil {
		return
	}
	n.env = env
	for _, e := range n.entries {
		e.value.mark(env)
	}
	for _, i := range n.items {
		i.mark(env)
	}
}

// setPath returns n with value put at steps. Keys match whatever their case,
// because variables are written in capitals; a new key is written small.
func setPath(n *node, steps []string, value *node) (*node, error) {
	if len(steps) == 0 {
		return value, nil
	}
	if n == nil || n.kind == scalar {
		n = &node{kind: mapping, pos: value.pos}
	}
	step := strings.ToLower(steps[0])
	if step == "" {
		return nil, fmt.Errorf("an empty part between underscores; want SHIELD__SECTION__KEY")
	}
	out := *n
	if n.kind == list {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i > len(n.items) {
			return nil, fmt.Errorf("%q is no entry of a list of %d; they count from 0", step, len(n.items))
		}
		out.items = append([]*node(nil), n.items...)
		if i == len(out.items) {
			out.items = append(out.items, nil)
		}
		out.items[i], err = setPath(out.items[i], steps[1:], value)
		return &out, err
	}
	out.entries = append([]entry(nil), n.entries...)
	for i := range out.entries {
		if e := &out.entries[i]; strings.EqualFold(e.key, step) {
			v, err := setPath(e.value, steps[1:], value)
			e.value = v
			return &out, err
		}
	}
	v, err := setPath(nil, steps[1:], value)
	out.entries = append(out.entries, entry{key: step, pos: value.pos, value: v})
	return &out, err
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
