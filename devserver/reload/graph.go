package reload

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// graph is everything that can be reached in one VM.
type graph struct {
	shared func(*lua.LTable) bool
	tables map[*lua.LTable]struct{}
	fns    map[*lua.LFunction]struct{}
	order  []*lua.LFunction // as found: what the module holds first
	held   int              // how many of order are held by more than suspended stacks
	cells  map[*lua.Upvalue]struct{}
	inside func(lua.LValue, func(lua.LValue))
	thread map[*lua.LState]struct{}
	// classes are the tables that serve as metatables, or as their __index.
	classes map[*lua.LTable]struct{}
	shot    *snapshot // filled while walking, if wanted
	todo    []lua.LValue
}

// walk finds everything that im holds. With shot, it keeps a copy of every
// table, cell and function as they are now.
func walk(im *Image, shot *snapshot) *graph {
	g := &graph{
		shared: im.Shared, shot: shot,
		tables: map[*lua.LTable]struct{}{}, fns: map[*lua.LFunction]struct{}{},
		cells: map[*lua.Upvalue]struct{}{}, thread: map[*lua.LState]struct{}{}, inside: im.Inside,
		classes: map[*lua.LTable]struct{}{},
	}
	if g.shared == nil {
		g.shared = func(*lua.LTable) bool { return false }
	}
	for _, m := range im.Modules {
		g.visit(m.Value)
		g.run()
	}
	im.roots(g.visit)
	g.visit(im.Globals)
	g.run()
	g.held = len(g.order)
	im.stacks(func(vs []lua.LValue) {
		for _, v := range vs {
			g.visit(v)
		}
	}, func(fn **lua.LFunction) { g.visit(*fn) })
	g.run()
	return g
}

func (g *graph) run() {
	for len(g.todo) > 0 {
		v := g.todo[len(g.todo)-1]
		g.todo = g.todo[:len(g.todo)-1]
		switch x := v.(type) {
		case *lua.LTable:
			g.table(x)
		case *lua.LFunction:
			g.function(x)
		}
	}
}

func (g *graph) visit(v lua.LValue) {
	switch x := v.(type) {
	case *lua.LTable:
		if x == nil {
			return
		}
		if _, ok := g.tables[x]; !ok && !g.shared(x) {
			g.tables[x] = struct{}{}
			g.todo = append(g.todo, x)
		}
	case *lua.LFunction:
		if _, ok := g.fns[x]; !ok && x != nil {
			g.fns[x] = struct{}{}
			g.order = append(g.order, x)
			g.todo = append(g.todo, x)
		}
	case *lua.LState:
		if _, ok := g.thread[x]; !ok && x != nil && g.inside != nil {
			g.thread[x] = struct{}{}
			g.inside(x, g.visit)
		}
	}
}

func (g *graph) table(t *lua.LTable) {
	m := mirror(t)
	if g.shot != nil {
		g.shot.table(t)
	}
	for _, v := range m.array {
		g.visit(v)
	}
	for _, v := range m.strdict {
		g.visit(v)
	}
	for k, v := range m.dict {
		g.visit(k)
		g.visit(v)
	}
	if mt, ok := m.Metatable.(*lua.LTable); ok {
		g.visit(mt)
		if !g.shared(mt) {
			g.classes[mt] = struct{}{}
			if index, ok := mt.RawGetString("__index").(*lua.LTable); ok && !g.shared(index) {
				g.classes[index] = struct{}{}
			}
		}
	}
}

func (g *graph) function(f *lua.LFunction) {
	if f.Env != nil {
		g.visit(f.Env)
	}
	if g.shot != nil && !f.IsG {
		g.shot.fns = append(g.shot.fns, code{f, f.Proto, f.Upvalues})
	}
	for _, c := range f.Upvalues {
		if c == nil {
			continue
		}
		if _, ok := g.cells[c]; ok {
			continue
		}
		g.cells[c] = struct{}{}
		if g.shot != nil && c.IsClosed() {
			g.shot.cells = append(g.shot.cells, cellShot{c, c.Value()})
		}
		g.visit(c.Value())
	}
}

// snapshot is the state of a VM at one moment, tables copied shallowly. The
// contents of all tables lie in three slices, because a map or slice for each
// table would cost more than all the rest of a swap.
type snapshot struct {
	tables []tableShot
	cells  []cellShot
	fns    []code

	array []lua.LValue
	strs  []strEntry
	dict  []dictEntry
}

// tableShot is one table; its contents end at these places of the slices, and
// begin where those of the table before end.
type tableShot struct {
	t                 *lua.LTable
	meta              lua.LValue
	array, strs, dict int
}

type strEntry struct {
	key   string
	value lua.LValue
}

type dictEntry struct{ key, value lua.LValue }

type cellShot struct {
	cell  *lua.Upvalue
	value lua.LValue
}

// code is a function with the code it has, or is to get.
type code struct {
	fn    *lua.LFunction
	proto *lua.FunctionProto
	cells []*lua.Upvalue
}

func (s *snapshot) table(t *lua.LTable) {
	m := mirror(t)
	s.array = append(s.array, m.array...)
	for k, v := range m.strdict {
		s.strs = append(s.strs, strEntry{k, v})
	}
	for k, v := range m.dict {
		s.dict = append(s.dict, dictEntry{k, v})
	}
	s.tables = append(s.tables, tableShot{t, m.Metatable, len(s.array), len(s.strs), len(s.dict)})
}

// contents gives what table i held.
func (s *snapshot) contents(i int) (array []lua.LValue, strs []strEntry, dict []dictEntry) {
	var from tableShot
	if i > 0 {
		from = s.tables[i-1]
	}
	to := s.tables[i]
	return s.array[from.array:to.array], s.strs[from.strs:to.strs], s.dict[from.dict:to.dict]
}

// each visits what table i held.
func (s *snapshot) each(i int, visit func(k, v lua.LValue)) {
	array, strs, dict := s.contents(i)
	for i, v := range array {
		if v != nil && v != lua.LNil {
			visit(lua.LNumber(i+1), v)
		}
	}
	for _, e := range strs {
		visit(lua.LString(e.key), e.value)
	}
	for _, e := range dict {
		visit(e.key, e.value)
	}
}

// restore puts the contents of table i back. Keys that were added since stay in
// the table's list of keys, where a suspended pairs loop may stand; they hold nil.
func (s *snapshot) restore(i int) {
	array, strs, dict := s.contents(i)
	t := s.tables[i].t
	m := mirror(t)
	m.Metatable, m.array = s.tables[i].meta, slices.Clone(array)
	clear(m.strdict)
	clear(m.dict)
	for _, e := range strs {
		t.RawSetString(e.key, e.value)
	}
	for _, e := range dict {
		t.RawSetH(e.key, e.value)
	}
}

// put gives functions their code. A frame that runs one of them goes on with
// the old code, under a copy of the function that only frames know.
func put(codes []code, im *Image) {
	change := make(map[*lua.LFunction]bool, len(codes))
	for _, c := range codes {
		change[c.fn] = true
	}
	copies := map[*lua.LFunction]*lua.LFunction{}
	im.stacks(func([]lua.LValue) {}, func(fn **lua.LFunction) {
		if !change[*fn] {
			return
		}
		old := copies[*fn]
		if old == nil {
			c := **fn
			old = &c
			copies[*fn] = old
		}
		*fn = old
	})
	for _, c := range codes {
		c.fn.Proto, c.fn.Upvalues = c.proto, c.cells
	}
}
