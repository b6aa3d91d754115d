package reload

import (
	"sort"

	lua "github.com/yuin/gopher-lua"
)

// This file changes the live VM, once everything is worked out.

// commit changes the live VM. Nothing in it can fail.
func (s *swap) commit() *Outcome {
	before := &undo{shot: s.g.shot, modules: s.live.Modules, files: s.st.files, cells: map[string]cells{}, plans: map[string]*Plan{}}
	put(s.codes, s.live)
	for _, w := range s.writes {
		before.note(w.apply())
	}
	for _, f := range s.files {
		if f.old != nil {
			before.cells[f.new.Path] = f.live.cells
			before.plans[f.new.Path] = f.plan
		}
	}
	s.adopt()
	s.st.undo = before
	s.out.Functions = len(s.codes)
	s.out.Modules = s.live.Modules
	s.checkGone()
	for _, f := range s.files {
		if f.plan != nil {
			s.out.NotRun = append(s.out.NotRun, f.plan.NotRun...)
		}
	}
	sort.Strings(s.warnings)
	s.out.Warnings = s.warnings
	return &s.out
}

// apply makes one change and lists the fields it wrote.
func (w write) apply() []write {
	switch {
	case w.cell != nil:
		w.cell.SetValue(w.value)
		return []write{w}
	case w.fill == nil:
		setField(w.table, w.key, w.value)
		return []write{w}
	}
	var wrote []write
	var old []lua.LValue
	w.table.ForEach(func(k, _ lua.LValue) { old = append(old, k) })
	for _, k := range old {
		w.table.RawSet(k, lua.LNil)
		wrote = append(wrote, write{table: w.table, key: k, value: lua.LNil})
	}
	for k, v := w.fill.Next(lua.LNil); k != lua.LNil; k, v = w.fill.Next(k) {
		w.table.RawSet(k, v)
		wrote = append(wrote, write{table: w.table, key: k, value: v})
	}
	w.table.Metatable = w.fill.Metatable
	return append(wrote, write{table: w.table, key: metaKey, value: w.fill.Metatable})
}

// adopt makes the new modules the current ones and forgets versions that
// nobody runs any more.
func (s *swap) adopt() {
	files := map[string][]*version{}
	var modules []*Module
	for _, f := range s.files {
		m := &Module{Path: f.new.Path, Shape: f.new.Shape, Proto: f.new.Proto, Value: f.new.Value}
		if f.old != nil {
			m.Value = f.old.Value
		}
		if v, ok := s.pairs[f.new.Value]; ok {
			m.Value = v
		}
		if v, ok := s.replaced[m.Value]; ok {
			m.Value = v
		}
		modules = append(modules, m)
		files[m.Path] = append(s.ancestors(f), f.next)
	}
	// A module that only running code requires stays as it is.
	for _, m := range s.live.Modules {
		if s.fresh.module(m.Path) == nil {
			modules = append(modules, m)
			files[m.Path] = s.st.files[m.Path]
		}
	}
	s.live.Modules, s.st.files = modules, files
}

// ancestors are the earlier versions of f that something still runs: a
// suspended frame, or a function that kept its old code.
func (s *swap) ancestors(f *fileSwap) []*version {
	alive := map[*version]bool{}
	note := func(fn *lua.LFunction) {
		if o, ok := s.ownerOf(fn, s.byOld); ok && o.file == f {
			alive[o.v] = true
		}
	}
	for _, fn := range s.g.order {
		note(fn)
	}
	s.live.stacks(func([]lua.LValue) {}, func(fn **lua.LFunction) { note(*fn) })
	var kept []*version
	for _, v := range s.st.files[f.new.Path] {
		if v == f.next || !alive[v] {
			continue
		}
		kept = append(kept, v.forward(f))
	}
	return kept
}

// forward is v with its functions and locals named as in the next version.
func (v *version) forward(f *fileSwap) *version {
	if f.same {
		return v
	}
	n := &version{shape: v.shape, index: v.index, proto: v.proto, fns: make([]*function, len(v.fns)), locals: make([]*local, len(v.locals))}
	for i, fn := range v.fns {
		if fn != nil {
			n.fns[i] = f.plan.fns[fn.id]
		}
	}
	for i, l := range v.locals {
		if l != nil {
			n.locals[i] = f.plan.locals[l.id]
		}
	}
	return n
}
