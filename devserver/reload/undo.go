package reload

import (
	"errors"
	"fmt"
	"sort"

	lua "github.com/yuin/gopher-lua"
)

// maxLost is how many lost changes an undo names.
const maxLost = 20

// undo is the moment before a swap.
type undo struct {
	shot      *snapshot
	modules   []*Module
	files     map[string][]*version
	cells     map[string]cells
	plans     map[string]*Plan
	wrote     map[fieldRef]lua.LValue
	wroteCell map[*lua.Upvalue]lua.LValue
}

// note remembers what the swap itself wrote: that is not lost by undoing it.
func (u *undo) note(ws []write) {
	if u.wrote == nil {
		u.wrote, u.wroteCell = map[fieldRef]lua.LValue{}, map[*lua.Upvalue]lua.LValue{}
	}
	for _, w := range ws {
		if w.cell != nil {
			u.wroteCell[w.cell] = w.value
		} else {
			u.wrote[fieldRef{w.table, w.key}] = w.value
		}
	}
}

// ErrNothingToUndo is what Undo gives when no swap came before, or it was
// undone already.
var ErrNothingToUndo = errors.New("nothing to undo: the service runs what it was started with, or the last reload was undone already")

// Undo puts the code and the state of the moment before the last swap back. It
// must run in the live VM's turn. lost names what has changed since.
func (st *State) Undo() (out *Outcome, lost []string, err error) {
	u := st.undo
	if u == nil {
		return nil, nil, ErrNothingToUndo
	}
	g := walk(st.live, nil)
	lost = u.lost(st.live)
	codes := append([]code(nil), u.shot.fns...)
	known := make(map[*lua.LFunction]bool, len(codes))
	for _, c := range codes {
		known[c.fn] = true
	}
	var warnings []string
	for _, fn := range g.order[:g.held] {
		if known[fn] || fn.IsG {
			continue
		}
		c, ok, why := u.back(st, fn)
		if ok {
			codes = append(codes, c)
		} else if why != "" {
			warnings = append(warnings, why)
		}
	}
	put(codes, st.live)
	for i := range u.shot.tables {
		u.shot.restore(i)
	}
	for _, c := range u.shot.cells {
		c.cell.SetValue(c.value)
	}
	st.live.Modules, st.files, st.undo = u.modules, u.files, nil
	sort.Strings(warnings)
	return &Outcome{Warnings: warnings, Modules: st.live.Modules, Functions: len(codes)}, lost, nil
}

// back finds the old code of a function that was made after the swap.
func (u *undo) back(st *State, fn *lua.LFunction) (c code, ok bool, why string) {
	for path, vs := range st.files {
		now := vs[len(vs)-1]
		f := now.index[fn.Proto]
		plan := u.plans[path]
		if f == nil || plan == nil {
			continue
		}
		was := plan.oldFns[f.id]
		before := u.files[path][len(u.files[path])-1]
		if was == nil || before == now {
			return code{}, false, ""
		}
		for proto, of := range before.index {
			if of != was {
				continue
			}
			c = code{fn: fn, proto: proto, cells: make([]*lua.Upvalue, len(proto.DbgUpvalues))}
		}
		for i, name := range c.proto.DbgUpvalues {
			want := was.takes[name]
			if c.cells[i] = u.cellBack(plan, path, fn, f, want); c.cells[i] == nil {
				return code{}, false, fmt.Sprintf("%s:%d: %s captured %s before: it keeps the code that is undone", path, f.line, title(f), want.name)
			}
		}
		return c, true, ""
	}
	return code{}, false, ""
}

func (u *undo) cellBack(plan *Plan, path string, fn *lua.LFunction, f *function, want *local) *lua.Upvalue {
	if now := plan.locals[want.id]; now != nil {
		for j, name := range fn.Proto.DbgUpvalues {
			if f.takes[name] == now {
				return fn.Upvalues[j]
			}
		}
	}
	if want.single {
		return u.cells[path][want.id]
	}
	return nil
}

// lost names the fields and locals that changed since the swap.
func (u *undo) lost(live *Image) []string {
	t := newTour(live)
	for _, m := range live.Modules {
		t.add(m.Value, m.Shape.moduleName())
	}
	live.roots(func(v lua.LValue) { t.add(v, "a timer, fork or listener") })
	t.add(live.Globals, "_G")
	t.run()
	var found []string
	say := func(path string, was, now lua.LValue) {
		if was != now && !(was == lua.LNil && t.library(now)) {
			found = append(found, fmt.Sprintf("%s: %s, was %s", tidyPath(path), brief(now), brief(was)))
		}
	}
	for _, c := range u.shot.cells {
		now := c.cell.Value()
		if w, ok := u.wroteCell[c.cell]; ok && w == now {
			continue
		}
		if name, ok := t.cells[c.cell]; ok {
			say(name, c.value, now)
		}
	}
	for i := range u.shot.tables {
		s := u.shot.tables[i]
		path, ok := t.paths[s.t]
		if !ok {
			continue
		}
		differs := func(k, was, now lua.LValue) {
			if w, ok := u.wrote[fieldRef{s.t, k}]; !ok || w != now {
				say(path+describeKey(k), was, now)
			}
		}
		had := map[lua.LValue]bool{}
		u.shot.each(i, func(k, was lua.LValue) {
			had[k] = true
			differs(k, was, s.t.RawGet(k))
		})
		s.t.ForEach(func(k, now lua.LValue) {
			if !had[k] {
				differs(k, lua.LNil, now)
			}
		})
	}
	sort.Strings(found)
	if len(found) > maxLost {
		found = append(found[:maxLost:maxLost], fmt.Sprintf("and %d more", len(found)-maxLost))
	}
	return found
}

// library reports whether v is a VM's own table of a library, which comes into
// being when it is first named.
func (t *tour) library(v lua.LValue) bool {
	own, ok := v.(*lua.LTable)
	if !ok {
		return false
	}
	mt, ok := own.Metatable.(*lua.LTable)
	return ok && t.shared(mt)
}

// brief writes a value in a few characters.
func brief(v lua.LValue) string {
	switch x := v.(type) {
	case lua.LString:
		return fmt.Sprintf("%q", clip(string(x), 30))
	case *lua.LTable:
		return "a table"
	case *lua.LFunction:
		return "a function"
	}
	return v.String()
}
