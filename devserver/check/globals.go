package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/config"
	"shield/runtime/luavm"
	"shield/runtime/shield"
)

// A name that means nothing is only found when its line runs: Lua takes it for a
// global that is nil. globals warns of those that will break there, which is no
// proof of a mistake, for a script may set globals in ways that can't be seen.
func (r *Result) globals(dir string, cfg *config.Config, world *luavm.World) {
	sources := map[string][]byte{}
	for _, file := range r.Files {
		if src, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))); err == nil { // else it was told
			sources[file] = src
		}
	}
	r.Problems = append(r.Problems, new(Names).Wrong(world, cfg.RPC, sources)...)
}

// Names finds such names. It remembers what it has read; the zero value is ready.
type Names struct{ read map[string]readScript }

type readScript struct {
	source string
	uses   []luavm.GlobalUse
}

// Wrong gives warnings about the scripts of a project: all of them, for each may
// set what another uses.
func (n *Names) Wrong(world *luavm.World, routes []config.Route, sources map[string][]byte) (all []Problem) {
	known := &names{vm: world.NewVM(luavm.VMConfig{Inert: true}), set: map[string]bool{}, routes: routes}
	defer known.vm.Close()
	read := map[string]readScript{}
	for file, src := range sources {
		if !isGameScript(file) {
			continue
		}
		s, ok := n.read[file]
		if !ok || s.source != string(src) {
			uses, err := luavm.Globals(file, src)
			if err != nil {
				continue // it was told
			}
			s = readScript{string(src), uses}
		}
		read[file] = s
		known.learn(s.uses)
	}
	n.read = read
	for _, file := range slices.Sorted(maps.Keys(read)) {
		all = append(all, known.problems(file, read[file])...)
	}
	return all
}

// learn takes in what a script sets.
func (n *names) learn(uses []luavm.GlobalUse) {
	for _, u := range uses {
		if u.Set {
			n.set[strings.Join(u.Path, ".")] = true
			n.globals = append(n.globals, u.Path[0])
		}
		n.hidden = n.hidden || u.Path[0] == "_G" || u.Path[0] == "setfenv"
	}
}

// problems gives each mistake of a line once.
func (n *names) problems(file string, s readScript) (all []Problem) {
	told := map[string]bool{}
	lines := strings.Split(s.source, "\n")
	for _, u := range s.uses {
		message := n.wrong(u)
		key := fmt.Sprint(u.Line, message)
		if message == "" || told[key] {
			continue
		}
		told[key] = true
		p := Problem{Problem: config.Problem{Pos: config.Pos{File: file, Line: u.Line}, Message: message, Warning: true}}
		if u.Line >= 1 && u.Line <= len(lines) {
			p.Source = strings.TrimRight(lines[u.Line-1], "\r")
		}
		p.Excerpt = (&luavm.ScriptError{Line: u.Line, SourceLine: p.Source}).Excerpt()
		all = append(all, p)
	}
	return all
}

// isGameScript leaves out what has other globals than a service: tests, and what
// is written for editors.
func isGameScript(file string) bool {
	return strings.HasSuffix(file, ".lua") && !strings.HasPrefix(file, "tests/") && !strings.HasPrefix(file, "types/")
}

// names is what the globals of a project mean.
type names struct {
	vm      *luavm.VM
	set     map[string]bool // by their dotted path
	globals []string        // that some script sets
	hidden  bool            // scripts may set globals by other ways
	routes  []config.Route
}

// wrong says what is wrong with a use, or "".
func (n *names) wrong(u luavm.GlobalUse) string {
	root := u.Path[0]
	if u.Set || n.set[root] || n.set[strings.Join(u.Path, ".")] {
		return ""
	}
	v := n.vm.Global(root)
	if v == lua.LNil {
		if n.hidden || len(u.Path) > 1 {
			return "" // the use of the root itself is told
		}
		return "nothing sets the global " + root + ", so it is nil here" + meant(luavm.Misspelt(root, slices.Concat(u.Near, n.globals, n.vm.GlobalNames())))
	}
	for i, key := range u.Path[1:] {
		t, ok := v.(*lua.LTable)
		if !ok {
			return ""
		}
		if i == 1 && root == "shield" && u.Path[1] == "client_rpc" {
			return n.push(u.Path[2:])
		}
		path := strings.Join(u.Path[:i+1], ".")
		if v = n.vm.Field(t, lua.LString(key)); v == lua.LNil {
			if i+2 < len(u.Path) {
				return "" // likewise
			}
			near := shield.Nearest(key, n.vm.Fields(t))
			if near != "" {
				near = path + "." + near
			}
			return "there is no " + path + "." + key + meant(near)
		}
	}
	return ""
}

// push looks for the s2c routes whose names begin with path.
func (n *names) push(path []string) string {
	name := strings.Join(path, ".")
	var all []string
	for _, r := range n.routes {
		if r.Dir != shield.ServerToClient {
			continue
		}
		if r.Name == name || strings.HasPrefix(r.Name, name+".") {
			return ""
		}
		all = append(all, r.Name)
	}
	return "rpc.yaml has no s2c route " + name + meant(shield.Nearest(name, all))
}

func meant(near string) string {
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}
