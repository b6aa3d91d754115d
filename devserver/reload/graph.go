package reload

import (
	"maps"
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

// snapshot is the state of a VM at one moment, tables copied shallowly.
type snapshot struct {
	tables []tableShot
	cells  []cellShot
	fns    []code
}

type tableShot struct {
	t       *lua.LTable
	meta    lua.LValue
	array   []lua.LValue
	dict    map[lua.LValue]lua.LValue
	strdict map[string]lua.LValue
}

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
	shot := tableShot{t: t, meta: m.Metatable, array: slices.Clone(m.array)}
	if len(m.dict) > 0 {
		shot.dict = maps.Clone(m.dict)
	}
	if len(m.strdict) > 0 {
		shot.strdict = maps.Clone(m.strdict)
	}
	s.tables = append(s.tables, shot)
}

// get reads what the table held then.
func (s *tableShot) get(k lua.LValue) lua.LValue {
	v := lua.LNil
	switch x := k.(type) {
	case lua.LString:
		if w, ok := s.strdict[string(x)]; ok {
			v = w
		}
	case lua.LNumber:
		if i := int(x); lua.LNumber(i) == x && i >= 1 && i <= len(s.array) {
			v = s.array[i-1]
		} else if w, ok := s.dict[k]; ok {
			v = w
		}
	default:
		if w, ok := s.dict[k]; ok {
			v = w
		}
	}
	if v == nil {
		return lua.LNil
	}
	return v
}

// each visits what the table held then.
func (s *tableShot) each(visit func(k, v lua.LValue)) {
	for i, v := range s.array {
		if v != nil && v != lua.LNil {
			visit(lua.LNumber(i+1), v)
		}
	}
	for k, v := range s.strdict {
		visit(lua.LString(k), v)
	}
	for k, v := range s.dict {
		visit(k, v)
	}
}

// restore puts the contents back. Keys that were added since stay in the
// table's list of keys, where a suspended pairs loop may stand; they hold nil.
func (s *tableShot) restore() {
	m := mirror(s.t)
	m.Metatable, m.array, m.dict, m.strdict = s.meta, s.array, s.dict, s.strdict
	if m.k2i == nil {
		m.k2i, m.keys = map[lua.LValue]int{}, []lua.LValue{}
	}
	known := func(k lua.LValue) {
		if _, ok := m.k2i[k]; !ok {
			m.k2i[k] = len(m.keys)
			m.keys = append(m.keys, k)
		}
	}
	for k := range s.strdict {
		known(lua.LString(k))
	}
	for k := range s.dict {
		known(k)
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
