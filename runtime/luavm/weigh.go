package luavm

import (
	"fmt"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// Weight is a table and what hangs on it.
type Weight struct {
	Path    string // where it was found first: "M.players", "timers"
	Bytes   int64  // with everything that was found through it first
	Entries int
}

// weighing walks through a VM as measure does, nearest objects first, and
// remembers through what it came to each.
type weighing struct {
	w       *walker
	nodes   []weighed
	objects []queued
}

type queued struct {
	v    lua.LValue
	node int
}

type weighed struct {
	behind bool // found through a userdata: how handles and client refs are built is not the script\'s
	from   int  // index of the node it was found through; -1 = none
	name   string
	bytes  int64
	table  *lua.LTable
}

// Weigh measures the VM and lists its n heaviest tables. It needs the baton and
// about half a microsecond for each object.
func (vm *VM) Weigh(n int) (Usage, []Weight) {
	g := &weighing{w: vm.newWalker()}
	if len(vm.modules) > 0 {
		g.root("M", func(visit func(lua.LValue)) { visit(vm.modules[0].Value) })
	}
	locals := vm.FileLocals()
	for _, name := range sortedNames(locals) {
		g.root(name, func(visit func(lua.LValue)) { visit(locals[name].Value()) })
	}
	for _, m := range vm.modules[min(1, len(vm.modules)):] {
		g.root(fmt.Sprintf("require(%q)", m.Name), func(visit func(lua.LValue)) { visit(m.Value); visit(m.Main) })
	}
	g.root("_G", func(visit func(lua.LValue)) { visit(vm.g.Global) })
	if vm.strings != nil {
		g.root("string", func(visit func(lua.LValue)) { visit(vm.strings) })
	}
	if vm.cfg.Roots != nil {
		g.root("(timers and listeners)", vm.cfg.Roots)
	}
	g.root("(waiting handlers)", func(func(lua.LValue)) {
		for t := vm.turns; t != nil; t = t.older {
			for th := t.top; th != nil; th = th.parent {
				g.w.stack(th.L)
			}
		}
	})
	if len(vm.modules) > 0 {
		g.root("(code)", func(visit func(lua.LValue)) { visit(vm.modules[0].Main) })
	}
	g.walk()
	bytes := g.w.bytes // with what is about to be freed: that is what the tables listed hold
	compacted, dead := g.w.compact()
	u := Usage{Bytes: bytes, Objects: g.w.count, Compacted: compacted, Dead: dead}
	vm.tidy.last = u
	vm.prune()
	return u, g.heaviest(n)
}

func sortedNames(locals map[string]*lua.Upvalue) []string {
	names := map[string]bool{}
	for name := range locals {
		names[name] = true
	}
	return sortedKeys(names)
}

// root adds what a part of the VM holds. Where that is one table, the table
// stands for the part.
func (g *weighing) root(name string, visit func(func(lua.LValue))) {
	before := g.w.bytes
	g.w.todo = nil
	visit(g.w.visit)
	if found := g.w.todo; len(found) == 1 {
		g.add(found[0], -1, name)
		return
	}
	at := len(g.nodes)
	g.nodes = append(g.nodes, weighed{from: -1, name: name, bytes: g.w.bytes - before})
	for _, v := range g.w.todo {
		g.add(v, at, "")
	}
	g.w.todo = nil
}

func (g *weighing) add(v lua.LValue, from int, name string) {
	t, _ := v.(*lua.LTable)
	g.nodes = append(g.nodes, weighed{from: from, name: name, table: t, behind: from >= 0 && g.nodes[from].behind})
	g.objects = append(g.objects, queued{v, len(g.nodes) - 1})
}

// walk looks inside everything that was found.
func (g *weighing) walk() {
	for i := 0; i < len(g.objects); i++ {
		o := g.objects[i]
		g.objects[i].v = nil
		before := g.w.bytes
		g.w.todo = g.w.todo[:0]
		g.w.children(o.v)
		g.nodes[o.node].bytes += g.w.bytes - before
		if len(g.w.todo) == 0 {
			continue
		}
		if _, ok := o.v.(*lua.LUserData); ok {
			g.nodes[o.node].behind = true
		}
		names := g.names(o.v)
		for _, v := range g.w.todo {
			g.add(v, o.node, names[v])
		}
	}
}

// names says under which keys a table holds the objects that were just found.
func (g *weighing) names(v lua.LValue) map[lua.LValue]string {
	t, ok := v.(*lua.LTable)
	if !ok {
		return nil
	}
	names := make(map[lua.LValue]string, len(g.w.todo))
	for _, found := range g.w.todo {
		names[found] = ""
	}
	t.ForEach(func(k, v lua.LValue) {
		if old, found := names[v]; found && old == "" {
			names[v] = keyText(k)
		}
	})
	if meta := t.Metatable; names[meta] == "" {
		names[meta] = "(metatable)"
	}
	return names
}

func keyText(k lua.LValue) string {
	s, ok := k.(lua.LString)
	switch {
	case ok && wordRE.MatchString(string(s)):
		return "." + string(s)
	case ok && len(s) > 40:
		return fmt.Sprintf("[%q...]", string(s[:40]))
	case ok:
		return fmt.Sprintf("[%q]", string(s))
	case k.Type() == lua.LTNumber:
		return "[" + k.String() + "]"
	}
	return "[" + k.Type().String() + "]"
}

// maxSiblings is how many tables of one are listed: the records of a list are
// all alike.
const maxSiblings = 2

// heaviest sums what hangs on each node and picks the heaviest tables.
func (g *weighing) heaviest(n int) []Weight {
	for i := len(g.nodes) - 1; i >= 0; i-- { // a node comes after the one it was found through
		if from := g.nodes[i].from; from >= 0 {
			g.nodes[from].bytes += g.nodes[i].bytes
		}
	}
	order := make([]int, 0, len(g.nodes))
	for i, node := range g.nodes {
		if node.table != nil && !node.behind && !g.w.vm.world.Shared(node.table) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(g.nodes[b].bytes - g.nodes[a].bytes) })
	var all []Weight
	shown := map[int]int{} // by what they were found through
	for _, i := range order {
		if len(all) == n {
			break
		}
		if from := g.nodes[i].from; from >= 0 {
			if shown[from]++; shown[from] > maxSiblings {
				continue
			}
		}
		all = append(all, Weight{Path: g.path(i), Bytes: g.nodes[i].bytes, Entries: entries(g.nodes[i].table)})
	}
	return all
}

func entries(t *lua.LTable) (n int) {
	t.ForEach(func(lua.LValue, lua.LValue) { n++ })
	return n
}

func (g *weighing) path(i int) string {
	path := ""
	for depth := 0; i >= 0 && depth < 16; depth++ {
		name := g.nodes[i].name
		path = name + path
		i = g.nodes[i].from
	}
	return path
}
