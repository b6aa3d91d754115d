package reload

import (
	lua "github.com/yuin/gopher-lua"
)

// This file works out which live fields and cells change, and whether the
// change would leave somebody without what he needs.

// planWrites goes through the slots of one file, parents first.
func (s *swap) planWrites(f *fileSwap) {
	if f.plan == nil {
		f.new.Value = s.move(f.new.Value, f.new.Path)
		return
	}
	if f.same {
		return
	}
	for _, p := range f.plan.slots {
		switch p.act {
		case set:
			s.take(f, p)
		case keep:
			s.carry(f, p)
		case remove:
			s.noteDropped(f, p.old)
			s.drop(f, p)
		}
	}
}

// isNew reports whether p hangs on a local that the old version does not have:
// it comes along with the functions that capture it.
func (f *fileSwap) isNew(p place) bool {
	return p.root >= 0 && f.plan.oldLocal[p.root] == nil
}

// under finds the live table around a place of the new version, as it will be
// after the swap.
func (s *swap) under(f *fileSwap, p slotPlan) *lua.LTable {
	if t := f.moved[p.new.place.parent().key()]; t != nil {
		return t
	}
	if old, ok := f.oldPlace(p.new.place); ok {
		return f.live.table(old)
	}
	return nil
}

// oldPlace is a place of the new version as the old one names it.
func (f *fileSwap) oldPlace(p place) (place, bool) {
	if p.root < 0 {
		return p, true
	}
	o := f.plan.oldLocal[p.root]
	if o == nil {
		return place{}, false
	}
	return place{root: f.plan.Old.placeOf(o).root, keys: p.keys}, true
}

// take gives a slot whose line is new or changed its new value.
func (s *swap) take(f *fileSwap, p slotPlan) {
	if f.isNew(p.new.place) {
		return
	}
	if p.new.dynamic {
		s.takeDynamic(f, p)
		return
	}
	v, ok := f.fresh.at(p.new.place)
	if !ok {
		return
	}
	path := f.new.Shape.describe(p.new.place)
	id := p.new.place.key()
	value := s.takeValue(f, p, v, path)
	if t, ok := value.(*lua.LTable); ok && f.moved[id] == nil {
		f.moved[id] = t
	}
	s.noteLost(f, p, value)
	s.out.Taken++
	if len(p.new.place.keys) > 0 {
		if t := s.under(f, p); t != nil {
			s.writes = append(s.writes, write{table: t, key: luaKey(p.new.place.last()), value: value})
		}
		return
	}
	switch root := p.new.place.root; root {
	case rootModule:
		if value != f.old.Value {
			s.replaced[f.old.Value] = value
		}
	default:
		if c := f.live.cells[f.plan.oldLocal[root].id]; c != nil {
			s.writes = append(s.writes, write{cell: c, value: value})
		}
	}
}

// takeValue moves v. A table that stays the same table is filled instead.
func (s *swap) takeValue(f *fileSwap, p slotPlan, v lua.LValue, path string) lua.LValue {
	stays := f.moved[p.new.place.key()]
	ft, ok := v.(*lua.LTable)
	if stays == nil || !ok || s.pairs[ft] != lua.LValue(stays) {
		return s.move(v, path)
	}
	s.moveFields(ft, path)
	s.writes = append(s.writes, write{table: stays, fill: ft})
	return stays
}

// takeDynamic takes every field whose key only running the line tells.
func (s *swap) takeDynamic(f *fileSwap, p slotPlan) {
	t := s.under(f, p)
	from := f.fresh.table(p.new.place)
	if t == nil || from == nil || t == from {
		return
	}
	at := p.new.place.parent()
	from.ForEach(func(k, v lua.LValue) {
		if kk, ok := keyOf(k); ok && f.new.Shape.byKey[at.with(kk).key()] != nil {
			return // has a line of its own
		}
		s.writes = append(s.writes, write{table: t, key: k, value: s.move(v, f.new.Shape.describe(at)+describeKey(k))})
		s.out.Taken++
	})
}

func keyOf(k lua.LValue) (key, bool) {
	switch x := k.(type) {
	case lua.LString:
		return key{kind: keyString, text: string(x)}, true
	case lua.LNumber:
		return numberKey(x.String())
	case lua.LBool:
		return key{kind: keyBool, text: x.String()}, true
	}
	return key{}, false
}

// carry keeps the live value of a field whose own line did not change although
// the table around it is a new one.
func (s *swap) carry(f *fileSwap, p slotPlan) {
	if len(p.new.place.keys) == 0 || p.new.dynamic || p.new.constructed {
		return
	}
	t := f.moved[p.new.place.parent().key()]
	v, ok := f.live.at(p.old.place)
	if t == nil || !ok {
		return
	}
	s.writes = append(s.writes, write{table: t, key: luaKey(p.new.place.last()), value: v})
	if vt, isTable := v.(*lua.LTable); isTable {
		f.moved[p.new.place.key()] = vt
	}
}

// drop removes a field whose line is gone. Fields of a constructor that is
// replaced as a whole go with it.
func (s *swap) drop(f *fileSwap, p slotPlan) {
	s.noteLost(f, p, lua.LNil)
	place := p.old.place
	if len(place.keys) == 0 || p.old.dynamic {
		return
	}
	if place.root >= 0 && f.plan.locals[place.root] == nil {
		return
	}
	t := f.live.table(place)
	if t == nil {
		return
	}
	if around, ok := f.newPlace(place.parent()); ok && f.moved[around.key()] != nil {
		return
	}
	s.writes = append(s.writes, write{table: t, key: luaKey(place.last()), value: lua.LNil})
	s.out.Gone++
}

func (f *fileSwap) newPlace(p place) (place, bool) {
	if p.root < 0 {
		return p, true
	}
	n := f.plan.locals[p.root]
	if n == nil {
		return place{}, false
	}
	return place{root: f.plan.New.placeOf(n).root, keys: p.keys}, true
}

// planMethods covers functions that no line of their own puts into a table: made
// by a factory or a class library, made in a loop, copied by a mixin. New ones
// appear, gone ones go. What a top-level call hands to somebody else's table is
// not run again, so it is not here either.
func (s *swap) planMethods() {
	looped := s.dynamicTables()
	for fv, lv := range s.pairs {
		f, ok1 := fv.(*lua.LTable)
		l, ok2 := lv.(*lua.LTable)
		if !ok1 || !ok2 || f == s.fresh.Globals {
			continue
		}
		f.ForEach(func(k, v lua.LValue) {
			fn, ok := v.(*lua.LFunction)
			if !ok || fn.IsG || l.RawGet(k) != lua.LNil || s.barred[fieldRef{f, k}] {
				return
			}
			o, known := s.ownerOf(fn, s.byNew)
			made := known && !o.file.same && o.fn.slot == "" && o.fn.parent != nil && o.fn.parent.id != 0
			if made || known && looped[l] && (o.fn.slot == "" || s.copied(o, f)) {
				s.writes = append(s.writes, write{table: l, key: k, value: s.move(fn, describeKey(k))})
			}
		})
		if !looped[l] {
			continue
		}
		l.ForEach(func(k, v lua.LValue) {
			fn, ok := v.(*lua.LFunction)
			if !ok || fn.IsG || f.RawGet(k) != lua.LNil {
				return
			}
			o, known := s.ownerOf(fn, s.byOld)
			if known && !o.file.same && s.becomes(o) == nil && o.fn.parent != nil && o.fn.parent.id == 0 {
				s.writes = append(s.writes, write{table: l, key: k, value: lua.LNil})
			}
		})
	}
}

// dynamicTables are the live tables into which top-level lines of a changed file
// write under keys that only running them tells.
func (s *swap) dynamicTables() map[*lua.LTable]bool {
	all := map[*lua.LTable]bool{}
	for _, f := range s.files {
		if f.plan == nil || f.same {
			continue
		}
		for _, p := range f.plan.slots {
			switch {
			case p.old != nil && p.old.dynamic:
				if t := f.live.table(p.old.place); t != nil {
					all[t] = true
				}
			case p.new != nil && p.new.dynamic:
				if t := s.under(f, p); t != nil {
					all[t] = true
				}
			}
		}
	}
	return all
}

// copied reports whether a function that has a line of its own for another table
// is in this one because the new code put it there too.
func (s *swap) copied(o owner, in *lua.LTable) bool {
	if o.file.plan == nil || o.file.same {
		return false
	}
	sl := o.file.new.Shape.byKey[o.fn.slot]
	return sl != nil && len(sl.place.keys) > 0 && o.file.fresh.table(sl.place) != in
}

// refreshModules repeats in other files what a module's value became, where it
// is no table that could stay the same.
func (s *swap) refreshModules() {
	if len(s.replaced) == 0 {
		return
	}
	for _, f := range s.files {
		for _, c := range f.live.cells {
			if v, ok := s.replaced[c.Value()]; ok {
				s.writes = append(s.writes, write{cell: c, value: v})
			}
		}
	}
	for t := range s.g.tables {
		t.ForEach(func(k, v lua.LValue) {
			if n, ok := s.replaced[v]; ok {
				s.writes = append(s.writes, write{table: t, key: k, value: n})
			}
		})
	}
}

// noteLost remembers a live class whose place in the code is gone.
func (s *swap) noteLost(f *fileSwap, p slotPlan, value lua.LValue) {
	if p.old == nil || p.old.dynamic {
		return
	}
	v, ok := f.live.at(p.old.place)
	t, isTable := v.(*lua.LTable)
	if !ok || !isTable || v == value || s.stays[t] {
		return
	}
	if _, class := s.g.classes[t]; !class {
		return
	}
	line := p.old.line
	if p.new != nil {
		line = p.new.line
	}
	s.lost = append(s.lost, lostClass{t, f, p.old, line})
}
