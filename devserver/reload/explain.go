package reload

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// A tour walks a VM like graph does, but breadth first and with the key path of
// everything it meets, for messages. It can see the VM as it will be after a
// swap. It is slower, so it is only made when there is something to tell.
type tour struct {
	shared func(*lua.LTable) bool
	fields map[fieldRef]lua.LValue     // instead of what the table holds
	fills  map[*lua.LTable]*lua.LTable // the table's content is that of the other
	values map[*lua.Upvalue]lua.LValue // instead of what the cell holds
	codes  map[*lua.LFunction]code     // instead of the function's own
	paths  map[lua.LValue]string
	cells  map[*lua.Upvalue]string
	queue  []lua.LValue
	table  func(t *lua.LTable, path string) (stop bool)
}

func newTour(im *Image) *tour {
	t := &tour{shared: im.Shared, paths: map[lua.LValue]string{}, cells: map[*lua.Upvalue]string{}}
	if t.shared == nil {
		t.shared = func(*lua.LTable) bool { return false }
	}
	return t
}

func (t *tour) add(v lua.LValue, path string) {
	switch x := v.(type) {
	case *lua.LTable:
		if x == nil || t.shared(x) {
			return
		}
	case *lua.LFunction:
		if x == nil {
			return
		}
	default:
		return
	}
	if _, ok := t.paths[v]; !ok {
		t.paths[v] = path
		t.queue = append(t.queue, v)
	}
}

func (t *tour) run() {
	for len(t.queue) > 0 {
		v := t.queue[0]
		t.queue = t.queue[1:]
		switch x := v.(type) {
		case *lua.LTable:
			if t.oneTable(x, t.paths[v]) {
				return
			}
		case *lua.LFunction:
			t.oneFunction(x, t.paths[v])
		}
	}
}

func (t *tour) oneTable(x *lua.LTable, path string) bool {
	if t.table != nil && t.table(x, path) {
		return true
	}
	from := x
	if f := t.fills[x]; f != nil {
		from = f
	}
	from.ForEach(func(k, v lua.LValue) {
		if n, ok := t.fields[fieldRef{x, k}]; ok {
			v = n
		}
		t.add(k, path+"[key]")
		t.add(v, path+describeKey(k))
	})
	t.add(t.meta(x), path+"(metatable)")
	for ref, v := range t.fields {
		if ref.table == x {
			t.add(v, path+describeKey(ref.key))
		}
	}
	return false
}

func (t *tour) meta(x *lua.LTable) lua.LValue {
	if v, ok := t.fields[fieldRef{x, metaKey}]; ok {
		return v
	}
	if f := t.fills[x]; f != nil {
		return f.Metatable
	}
	return x.Metatable
}

func (t *tour) oneFunction(x *lua.LFunction, path string) {
	cells, proto := x.Upvalues, x.Proto
	if c, ok := t.codes[x]; ok {
		cells, proto = c.cells, c.proto
	}
	for i, c := range cells {
		if c == nil {
			continue
		}
		name := path
		if proto != nil && i < len(proto.DbgUpvalues) {
			name = proto.DbgUpvalues[i]
		}
		if _, ok := t.cells[c]; !ok {
			t.cells[c] = name
		}
		v := c.Value()
		if n, ok := t.values[c]; ok {
			v = n
		}
		t.add(v, name)
	}
}

// after is the live VM as it will be when s is committed.
func (s *swap) after() *tour {
	t := newTour(s.live)
	t.fields, t.fills = map[fieldRef]lua.LValue{}, map[*lua.LTable]*lua.LTable{}
	t.values, t.codes = map[*lua.Upvalue]lua.LValue{}, map[*lua.LFunction]code{}
	for _, w := range s.writes {
		switch {
		case w.cell != nil:
			t.values[w.cell] = w.value
		case w.fill != nil:
			t.fills[w.table] = w.fill
		default:
			t.fields[fieldRef{w.table, w.key}] = w.value
		}
	}
	for _, c := range s.codes {
		t.codes[c.fn] = c
	}
	return t
}

// checkLost refuses the swap when, after it, an object could still be reached
// whose class has no place in the new code.
func (s *swap) checkLost() {
	if len(s.lost) == 0 {
		return
	}
	classes := map[lua.LValue]lostClass{}
	for _, l := range s.lost {
		if _, ok := classes[l.table]; !ok { // the first is the shortest place
			classes[l.table] = l
		}
	}
	s.dropKept(classes)
	if len(classes) == 0 {
		return
	}
	t := s.after()
	t.table = func(x *lua.LTable, path string) bool {
		meta, ok := t.meta(x).(*lua.LTable)
		if !ok {
			return false
		}
		l, gone := classes[meta]
		if !gone {
			index := meta.RawGetString("__index")
			if n, ok := t.fields[fieldRef{meta, lua.LString("__index")}]; ok {
				index = n
			}
			l, gone = classes[index]
		}
		if _, class := classes[x]; !gone || class {
			return false
		}
		name := l.file.old.Shape.describe(l.slot.place)
		s.refuse(&Refused{File: l.file.new.Path, Line: l.line, Path: tidyPath(path),
			Reason: fmt.Sprintf("it is an object of the class %s, which the new code no longer has", name)})
		return true
	}
	for _, f := range s.files {
		if f.old != nil {
			t.add(f.old.Value, f.old.Shape.moduleName())
		}
	}
	s.live.roots(func(v lua.LValue) { t.add(v, "a timer, fork or listener") })
	t.add(s.live.Globals, "_G")
	t.run()
}

// dropKept takes out the classes that another line, which did not change,
// still gives a place.
func (s *swap) dropKept(classes map[lua.LValue]lostClass) {
	for _, f := range s.files {
		if f.plan == nil {
			continue
		}
		for _, p := range f.plan.slots {
			if p.act == keep && !p.new.dynamic && !p.old.dynamic {
				if v, ok := f.live.at(p.old.place); ok {
					delete(classes, v)
				}
			}
		}
	}
}

// checkGone warns of functions whose line is gone and that something still
// holds.
func (s *swap) checkGone() {
	gone := map[*lua.LFunction]owner{}
	for _, fn := range s.g.order {
		if o, ok := s.ownerOf(fn, s.byOld); ok && !o.file.same && s.becomes(o) == nil {
			gone[fn] = o
		}
	}
	if len(gone) == 0 {
		return
	}
	im := *s.live
	im.Stacks = nil
	for _, fn := range walk(&im, nil).order {
		if o, ok := gone[fn]; ok {
			s.warn("%s: %s of line %d before is gone; what still holds it goes on with the old code", o.file.new.Path, title(o.fn), o.fn.line)
		}
	}
}
