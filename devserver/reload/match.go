package reload

import (
	lua "github.com/yuin/gopher-lua"
)

// This file finds out which object of the scratch VM stands for which live one,
// and moves what is new.

// bar marks the fresh fields and cells whose line changed: their values are
// taken, so they must not be matched with what they replace.
func (s *swap) bar() {
	for _, f := range s.files {
		if f.plan == nil || f.same {
			continue
		}
		for _, p := range f.plan.slots {
			if p.act != set || p.new.dynamic {
				continue
			}
			if len(p.new.place.keys) == 0 {
				if c := f.fresh.cells[p.new.place.root]; c != nil {
					s.barCells[c] = true
				}
				continue
			}
			if t := f.fresh.table(p.new.place); t != nil {
				s.barred[fieldRef{t, luaKey(p.new.place.last())}] = true
			}
		}
	}
}

func (s *swap) pairAll() {
	// A class whose line changed to make another table stays the same table, so
	// that its objects keep it.
	for _, f := range s.files {
		s.pairClasses(f)
	}
	for _, f := range s.files {
		if f.plan == nil {
			continue
		}
		for _, p := range f.plan.slots {
			if p.act == keep && !p.new.dynamic {
				s.pairSlot(f, p)
			}
		}
		if _, ok := f.new.Value.(*lua.LTable); ok {
			s.pair(f.new.Value, f.old.Value, true)
		}
	}
	s.pair(s.fresh.Globals, s.live.Globals, true)
}

func (s *swap) pairSlot(f *fileSwap, p slotPlan) {
	fv, ok1 := f.fresh.at(p.new.place)
	lv, ok2 := f.live.at(p.old.place)
	if ok1 && ok2 {
		s.pair(fv, lv, true)
	}
}

func (s *swap) pairClasses(f *fileSwap) {
	if f.plan == nil || f.same {
		return
	}
	for _, p := range f.plan.slots {
		if p.act != set || p.old == nil || p.new.dynamic {
			continue
		}
		fv, _ := f.fresh.at(p.new.place)
		lv, _ := f.live.at(p.old.place)
		ft, ok1 := fv.(*lua.LTable)
		lt, ok2 := lv.(*lua.LTable)
		if ok1 && ok2 && s.pairs[ft] == nil && s.inPlace(f, p, lt) && !s.known(f, ft) {
			s.pairs[ft] = lt
			s.stays[lt] = true
			f.moved[p.new.place.key()] = lt
		}
	}
}

// inPlace reports whether a table whose line changed must stay the same table:
// a class, the module itself, or one that has methods of its own.
func (s *swap) inPlace(f *fileSwap, p slotPlan, t *lua.LTable) bool {
	if _, ok := s.g.classes[t]; ok || t == f.old.Value {
		return true
	}
	head := p.new.place
	for _, o := range f.new.Shape.slots {
		if len(o.fns) > 0 && !o.constructed && o.place.root == head.root && len(o.place.keys) > len(head.keys) &&
			o.place.parent().key() == head.key() {
			return true
		}
	}
	return false
}

// known reports whether a fresh table is another module's value, which has a
// live table of its own.
func (s *swap) known(own *fileSwap, t *lua.LTable) bool {
	for _, f := range s.files {
		if f != own && f.new.Value == t && f.old != nil {
			return true
		}
	}
	return false
}

// pair notes that fresh object fv stands for live object lv, and so do, key by
// key, the tables and functions in them. sure is false where only the key says
// so.
func (s *swap) pair(fv, lv lua.LValue, sure bool) {
	switch f := fv.(type) {
	case *lua.LTable:
		l, ok := lv.(*lua.LTable)
		if !ok || f == l || s.pairs[f] != nil || s.isLive(f) {
			return
		}
		s.pairs[f] = l
		s.pairFields(f, l)
	case *lua.LFunction:
		l, ok := lv.(*lua.LFunction)
		if !ok || f == l || s.pairs[f] != nil {
			return
		}
		s.pairFunctions(f, l, sure)
	}
}

func (s *swap) pairFields(f, l *lua.LTable) {
	if s.done[l] {
		return
	}
	s.done[l] = true
	each := func(k, v lua.LValue) {
		switch v.(type) {
		case *lua.LTable, *lua.LFunction:
			if !s.barred[fieldRef{f, k}] {
				s.pair(v, l.RawGet(k), false)
			}
		}
	}
	f.ForEach(each)
	if f.Metatable != lua.LNil && !s.barred[fieldRef{f, metaKey}] {
		s.pair(f.Metatable, l.Metatable, false)
	}
}

// isLive reports whether a table of the scratch VM is one that both share.
func (s *swap) isLive(t *lua.LTable) bool {
	_, ok := s.g.tables[t]
	return ok || s.g.shared(t)
}

func (s *swap) pairFunctions(f, l *lua.LFunction, sure bool) {
	if f.IsG || l.IsG {
		if f.IsG && l.IsG {
			s.pairs[f] = l
		}
		return
	}
	fo, ok1 := s.ownerOf(f, s.byNew)
	lo, ok2 := s.ownerOf(l, s.byOld)
	same := ok1 && ok2 && fo.file == lo.file && s.becomes(lo) == fo.fn
	if !same && !sure {
		return
	}
	s.pairs[f] = l
	if !same {
		return
	}
	if s.partner[l] == nil {
		s.partner[l] = f
	}
	for i, name := range f.Proto.DbgUpvalues {
		was := fo.file.oldOf(fo.fn.takes[name])
		if was == nil || s.barCells[f.Upvalues[i]] {
			continue
		}
		for j, n := range l.Proto.DbgUpvalues {
			if o := lo.fn.takes[n]; o != nil && lo.v.locals[o.id] == was {
				s.pairCells(f.Upvalues[i], l.Upvalues[j])
			}
		}
	}
}

func (s *swap) pairCells(f, l *lua.Upvalue) {
	if f == l || s.cellPair[f] != nil {
		return
	}
	s.cellPair[f] = l
	s.pair(f.Value(), l.Value(), false)
}

// becomes is the new function that a live one turns into.
func (s *swap) becomes(o owner) *function {
	to := o.v.fns[o.fn.id]
	if to == nil || o.file.same {
		return to
	}
	return o.file.plan.fns[to.id]
}

// move makes a value of the scratch VM fit for the live one: whatever stands
// for a live object becomes that object, everything else is taken along.
func (s *swap) move(v lua.LValue, path string) lua.LValue {
	if to, ok := s.pairs[v]; ok {
		return to
	}
	if s.fresh.Twin != nil {
		if to, ok := s.fresh.Twin(v); ok {
			return to
		}
	}
	switch x := v.(type) {
	case *lua.LTable:
		if !s.done[x] && !s.isLive(x) {
			s.done[x] = true
			s.moveFields(x, path)
		}
	case *lua.LFunction:
		if !x.IsG && !s.done[x] {
			s.done[x] = true
			s.moveFunction(x, path)
		}
	case *lua.LState, lua.LChannel:
		s.refuse(&Refused{File: s.at.new.Path, Path: path, Reason: "a coroutine made while a file loads belongs to the run that made it; make it in on_init"})
	}
	return v
}

func (s *swap) moveFields(t *lua.LTable, path string) {
	type entry struct{ k, v lua.LValue }
	var entries []entry
	t.ForEach(func(k, v lua.LValue) { entries = append(entries, entry{k, v}) })
	for _, e := range entries {
		v := s.move(e.v, path+describeKey(e.k))
		k := e.k
		switch e.k.(type) {
		case *lua.LTable, *lua.LFunction, *lua.LUserData:
			if k = s.move(e.k, path); k != e.k {
				t.RawSet(e.k, lua.LNil)
				t.RawSet(k, v)
				continue
			}
		}
		if v != e.v {
			t.RawSet(k, v)
		}
	}
	if t.Metatable != lua.LNil {
		t.Metatable = s.move(t.Metatable, path+"(metatable)")
	}
}

func (s *swap) moveFunction(fn *lua.LFunction, path string) {
	switch fn.Env {
	case s.fresh.Globals:
		fn.Env = s.live.Globals
	case nil:
	default:
		if env, ok := s.move(fn.Env, path).(*lua.LTable); ok {
			fn.Env = env
		}
	}
	o, known := s.ownerOf(fn, s.byNew)
	ups := make([]*lua.Upvalue, len(fn.Upvalues))
	for i, c := range fn.Upvalues {
		if known {
			if l := o.fn.takes[fn.Proto.DbgUpvalues[i]]; l != nil && l.single {
				if j := s.joined(o.file, l); j != nil {
					ups[i] = j
					continue
				}
			}
		}
		ups[i] = s.moveCell(c, path)
	}
	fn.Upvalues = ups
}

// moveCell is the live cell for one of the scratch VM.
func (s *swap) moveCell(c *lua.Upvalue, path string) *lua.Upvalue {
	if c == nil {
		return nil
	}
	if l := s.cellPair[c]; l != nil {
		return l
	}
	if _, live := s.g.cells[c]; live || s.doneCell[c] {
		return c
	}
	s.doneCell[c] = true
	c.SetValue(s.move(c.Value(), path))
	return c
}
