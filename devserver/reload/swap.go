package reload

import (
	"fmt"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// State is what a VM's reloads have to remember between them: the versions
// whose code may still run, and what an undo needs. It belongs to one VM and is
// used in its turn. The zero value is not ready; use NewState.
type State struct {
	live  *Image
	files map[string][]*version // by path, the current version last
	undo  *undo
}

// version is one version of a file that still has functions alive.
type version struct {
	shape  *Shape
	index  map[*lua.FunctionProto]*function
	proto  *lua.FunctionProto
	fns    []*function // by id: what they are in the current version, nil = gone
	locals []*local
}

// NewState begins with what the VM runs now. live is kept: its Modules change
// with every swap.
func NewState(live *Image) (*State, error) {
	if err := layoutError(); err != nil {
		return nil, err
	}
	st := &State{live: live, files: map[string][]*version{}}
	for _, m := range live.Modules {
		v, err := newVersion(m)
		if err != nil {
			return nil, err
		}
		st.files[m.Path] = []*version{v}
	}
	return st, nil
}

// Modules are what the VM runs now, the script first.
func (st *State) Modules() []*Module { return st.live.Modules }

func newVersion(m *Module) (*version, error) {
	index, ok := m.Shape.protos(m.Proto)
	if !ok {
		return nil, fmt.Errorf("hot reload: %s was not compiled from the text that was analysed; restart the service", m.Path)
	}
	return &version{shape: m.Shape, index: index, proto: m.Proto, fns: m.Shape.fns, locals: m.Shape.locals}, nil
}

// see takes in the modules that running code has required since the last swap.
func (st *State) see(modules []*Module) error {
	for _, m := range modules {
		if st.live.module(m.Path) != nil {
			continue
		}
		v, err := newVersion(m)
		if err != nil {
			return err
		}
		st.live.Modules = append(st.live.Modules, m)
		st.files[m.Path] = []*version{v}
	}
	return nil
}

func (st *State) current(path string) *version {
	vs := st.files[path]
	if len(vs) == 0 {
		return nil
	}
	return vs[len(vs)-1]
}

// Refused is a reload that would have to guess: nothing was changed.
type Refused struct {
	File   string
	Line   int    // of the line whose change is the reason; 0 = unknown
	Path   string // the key path of what can't be carried
	Reason string
}

func (r *Refused) Error() string {
	at := r.File
	if r.Line > 0 {
		at += ":" + strconv.Itoa(r.Line)
	}
	return fmt.Sprintf("%s: %s can't be carried over: %s", at, r.Path, r.Reason)
}

// Outcome is what a swap did.
type Outcome struct {
	// Warnings are for the log, each with file:line.
	Warnings []string
	// NotRun are top-level lines that changed and initialise nothing.
	NotRun []string
	// Modules are the files the VM runs now, the script first.
	Modules []*Module
	// Functions got new code; Taken slots took a new value; Gone were removed.
	Functions, Taken, Gone int
}

// Swap gives the live VM the code of fresh, a scratch VM that has loaded the
// new version of every module. It must run in the live VM's turn. When it
// refuses (a *Refused), the live VM is as it was. fresh must not be used again.
func (st *State) Swap(fresh *Image) (*Outcome, error) {
	s, err := st.prepare(fresh, &snapshot{})
	if err != nil {
		return nil, err
	}
	return s.commit(), nil
}

// Check finds out whether Swap would refuse, and changes nothing. fresh must
// not be used again.
func (st *State) Check(fresh *Image) error {
	_, err := st.prepare(fresh, nil)
	return err
}

// fileSwap is one file's part in a swap.
type fileSwap struct {
	old   *Module // nil = loaded for the first time
	new   *Module
	plan  *Plan
	next  *version
	same  bool // nothing of it changed
	live  reader
	fresh reader
	join  cells // the cells that new code uses, by id of the new local
	moved map[string]*lua.LTable
}

type fieldRef struct {
	table *lua.LTable
	key   lua.LValue
}

// swap is one swap being worked out. Until commit only objects of the scratch
// VM are changed.
type swap struct {
	st    *State
	live  *Image
	fresh *Image
	g     *graph
	files []*fileSwap
	at    *fileSwap                    // the file whose values are being moved
	byOld map[*lua.FunctionProto]owner // live code
	byNew map[*lua.FunctionProto]owner // fresh code

	pairs    map[lua.LValue]lua.LValue // fresh object -> live object
	cellPair map[*lua.Upvalue]*lua.Upvalue
	partner  map[*lua.LFunction]*lua.LFunction // live -> fresh
	stays    map[*lua.LTable]bool              // live tables that get new content in place
	barred   map[fieldRef]bool                 // fresh fields whose value is taken, not matched
	barCells map[*lua.Upvalue]bool
	done     map[lua.LValue]bool // fresh objects already translated
	doneCell map[*lua.Upvalue]bool
	replaced map[lua.LValue]lua.LValue // module values that are no table

	codes    []code
	writes   []write
	lost     []lostClass
	refused  *Refused
	warnings []string
	warned   map[string]bool
	out      Outcome
}

type owner struct {
	file *fileSwap
	v    *version
	fn   *function
}

// write is one change of live state. A nil table means a cell.
type write struct {
	table *lua.LTable
	key   lua.LValue
	cell  *lua.Upvalue
	value lua.LValue
	fill  *lua.LTable // the table's whole content becomes that of fill
}

// lostClass is a table that live objects may need and the new code has no
// place for.
type lostClass struct {
	table *lua.LTable
	file  *fileSwap
	slot  *slot
	line  int
}

// prepare works a swap out. shot takes the state of this moment, for an undo.
func (st *State) prepare(fresh *Image, shot *snapshot) (*swap, error) {
	s := &swap{
		st: st, live: st.live, fresh: fresh,
		byOld: map[*lua.FunctionProto]owner{}, byNew: map[*lua.FunctionProto]owner{},
		pairs: map[lua.LValue]lua.LValue{}, cellPair: map[*lua.Upvalue]*lua.Upvalue{},
		partner: map[*lua.LFunction]*lua.LFunction{}, stays: map[*lua.LTable]bool{}, barred: map[fieldRef]bool{}, barCells: map[*lua.Upvalue]bool{},
		done: map[lua.LValue]bool{}, doneCell: map[*lua.Upvalue]bool{},
		replaced: map[lua.LValue]lua.LValue{}, warned: map[string]bool{},
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.g = walk(s.live, shot)
	s.findCells()
	s.bar()
	s.pairAll()
	s.planCode()
	for _, f := range s.files {
		s.at = f
		s.planWrites(f)
	}
	s.planMethods()
	s.refreshModules()
	if s.refused == nil {
		s.checkLost()
	}
	if s.refused != nil {
		return nil, s.refused
	}
	return s, nil
}

// open matches the files of both images.
func (s *swap) open() error {
	for _, n := range s.fresh.Modules {
		f := &fileSwap{new: n, old: s.live.module(n.Path), join: cells{}, moved: map[string]*lua.LTable{}}
		f.fresh = reader{globals: s.fresh.Globals, module: n, cells: cells{}}
		cur := s.st.current(n.Path)
		switch {
		case f.old != nil && f.old.Proto == n.Proto:
			n.Shape = f.old.Shape
			f.same, f.next, f.plan = true, cur, s.planFor(n.Shape, n.Shape)
		case f.old != nil:
			f.plan = s.planFor(f.old.Shape, n.Shape)
		}
		if f.next == nil {
			v, err := newVersion(n)
			if err != nil {
				return err
			}
			f.next = v
		}
		if f.old != nil {
			f.live = reader{globals: s.live.Globals, module: f.old, cells: cells{}}
			for _, v := range s.st.files[n.Path] {
				for p, fn := range v.index {
					s.byOld[p] = owner{f, v, fn}
				}
			}
		}
		for p, fn := range f.next.index {
			s.byNew[p] = owner{f, f.next, fn}
		}
		s.files = append(s.files, f)
	}
	return nil
}

// findCells finds the cells of the locals of which there is one, on both
// sides. What the module itself holds was found first and wins.
func (s *swap) findCells() {
	for _, fn := range s.g.order {
		if o, ok := s.ownerOf(fn, s.byOld); ok {
			o.file.live.cells.collect(fn, o.fn, o.v.locals)
		}
	}
	fg := walk(s.fresh, nil)
	for _, fn := range fg.order {
		if o, ok := s.ownerOf(fn, s.byNew); ok {
			o.file.fresh.cells.collect(fn, o.fn, o.v.shape.locals)
		}
	}
}

func (s *swap) ownerOf(fn *lua.LFunction, in map[*lua.FunctionProto]owner) (owner, bool) {
	if fn.IsG || fn.Proto == nil {
		return owner{}, false
	}
	o, ok := in[fn.Proto]
	return o, ok
}

// collect notes the cells that fn captures. ids turns the locals of fn's
// version into those of the current one.
func (c cells) collect(fn *lua.LFunction, f *function, ids []*local) {
	for i, name := range fn.Proto.DbgUpvalues {
		l := f.takes[name]
		if l == nil || !l.single || i >= len(fn.Upvalues) {
			continue
		}
		if now := ids[l.id]; now != nil && c[now.id] == nil {
			c[now.id] = fn.Upvalues[i]
		}
	}
}

// warn tells a thing once.
func (s *swap) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !s.warned[text] {
		s.warned[text] = true
		s.warnings = append(s.warnings, text)
	}
}

// refuse keeps the first reason.
func (s *swap) refuse(r *Refused) {
	if s.refused == nil {
		s.refused = r
	}
}

// planCode works out the new code of every live function of a changed file. What
// only a suspended handler holds (the comparator of a sort that is under way, a
// local function of its own) belongs to that handler and stays old with it.
func (s *swap) planCode() {
	for _, fn := range s.g.order[:s.g.held] {
		o, ok := s.ownerOf(fn, s.byOld)
		if !ok || o.file.same && o.v == o.file.next {
			continue
		}
		to := o.v.fns[o.fn.id]
		if to != nil && !o.file.same {
			to = o.file.plan.fns[to.id]
		}
		if to == nil {
			continue // gone; checkGone tells if something still holds it
		}
		if c, ok := s.recode(fn, o, to); ok {
			s.codes = append(s.codes, c)
		}
	}
}

// recode joins the new code of one live function with what it has captured.
func (s *swap) recode(fn *lua.LFunction, o owner, to *function) (code, bool) {
	proto := o.file.protoOf(to)
	c := code{fn: fn, proto: proto, cells: make([]*lua.Upvalue, len(proto.DbgUpvalues))}
	for i, name := range proto.DbgUpvalues {
		want := to.takes[name]
		if c.cells[i] = s.cellFor(fn, o, to, want, i); c.cells[i] == nil {
			s.warn("%s:%d: %s now captures %s, which the one made before the reload does not have: it keeps its old code",
				o.file.new.Path, to.line, title(to), want.name)
			return code{}, false
		}
	}
	return c, true
}

func title(f *function) string {
	if f.name == functionWord {
		return "this function"
	}
	return f.name
}

func (f *fileSwap) protoOf(fn *function) *lua.FunctionProto {
	p := f.new.Proto
	var path []int
	for x := fn; x.parent != nil; x = x.parent {
		for i, kid := range x.parent.kids {
			if kid == x {
				path = append(path, i)
			}
		}
	}
	for i := len(path) - 1; i >= 0; i-- {
		p = p.FunctionPrototypes[path[i]]
	}
	return p
}

// cellFor finds the cell that the new code of fn uses for want: what fn has
// captured, else the one there is, else that of the same function in the scratch VM.
func (s *swap) cellFor(fn *lua.LFunction, o owner, to *function, want *local, i int) *lua.Upvalue {
	if was := o.file.oldOf(want); was != nil {
		for j, name := range fn.Proto.DbgUpvalues {
			l := o.fn.takes[name]
			if l != nil && o.v.locals[l.id] == was {
				return fn.Upvalues[j]
			}
		}
	}
	if want.single {
		return s.joined(o.file, want)
	}
	if p := s.partner[fn]; p != nil {
		if po, ok := s.ownerOf(p, s.byNew); ok && po.fn == to {
			return s.moveCell(p.Upvalues[i], o.file.fnPath(to, want))
		}
	}
	return nil
}

func (f *fileSwap) fnPath(fn *function, l *local) string { return fn.name + ": " + l.name }

func (f *fileSwap) oldOf(n *local) *local {
	if f.plan == nil {
		return nil
	}
	return f.plan.oldLocal[n.id]
}

// joined is the cell that all code of the new version shares for a local of
// which there is one; nil when nobody captured it anywhere.
func (s *swap) joined(f *fileSwap, n *local) *lua.Upvalue {
	if c := f.join[n.id]; c != nil {
		return c
	}
	if o := f.oldOf(n); o != nil && o.single {
		if c := f.live.cells[o.id]; c != nil {
			f.join[n.id] = c
			return c
		}
	}
	c := f.fresh.cells[n.id]
	if c == nil {
		// Nobody captured it in the scratch VM, but its value may be known.
		v, ok := f.fresh.at(f.new.Shape.placeOf(n))
		if !ok {
			return nil
		}
		c = &lua.Upvalue{}
		c.SetValue(v)
	}
	f.join[n.id] = c
	s.at = f
	f.join[n.id] = s.moveCell(c, n.name)
	return f.join[n.id]
}

// planFor makes a plan, or takes the one that the caller has made for all VMs.
func (s *swap) planFor(old, new *Shape) *Plan {
	if s.fresh.Plan != nil {
		return s.fresh.Plan(old, new)
	}
	return PlanFor(old, new)
}
