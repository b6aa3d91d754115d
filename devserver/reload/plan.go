package reload

import (
	"fmt"
	"sort"
	"strconv"
)

// Plan says how one version of a file turns into another. It is immutable and
// may be shared by every VM that runs the old version.
type Plan struct {
	Old, New *Shape

	fns      []*function // by id of the old function: the new one, nil = gone
	oldFns   []*function // the other way round; nil = new
	locals   []*local
	oldLocal []*local
	slots    []slotPlan // parents before what they hold
	NotRun   []string   // changed lines that a reload does not run, with file:line
}

type action byte

const (
	keep   action = iota // the value lives on
	set                  // the new value is taken
	remove               // the line is gone
)

type slotPlan struct {
	act      action
	old, new *slot
}

// PlanFor matches two versions of one file.
func PlanFor(old, new *Shape) *Plan {
	p := &Plan{
		Old: old, New: new,
		fns: make([]*function, len(old.fns)), oldFns: make([]*function, len(new.fns)),
		locals: make([]*local, len(old.locals)), oldLocal: make([]*local, len(new.locals)),
	}
	if old == new {
		p.identity()
		return p
	}
	p.matchModule()
	p.matchLocals(old.fns[0], new.fns[0])
	p.matchFn(old.fns[0], new.fns[0])
	p.matchSlotFns()
	p.matchKids(old.fns[0], new.fns[0])
	p.planSlots()
	p.noteStatements()
	return p
}

// identity is the plan of a file that did not change.
func (p *Plan) identity() {
	copy(p.fns, p.New.fns)
	copy(p.oldFns, p.New.fns)
	copy(p.locals, p.New.locals)
	copy(p.oldLocal, p.New.locals)
	for _, s := range p.New.slots {
		p.slots = append(p.slots, slotPlan{keep, s, s})
	}
	p.sortSlots()
}

func (p *Plan) matchFn(o, n *function) { p.fns[o.id], p.oldFns[n.id] = n, o }

func (p *Plan) matchLocal(o, n *local) { p.locals[o.id], p.oldLocal[n.id] = n, o }

// matchModule makes the returned table the same whatever its local is called.
func (p *Plan) matchModule() {
	if p.Old.module != nil && p.New.module != nil {
		p.matchLocal(p.Old.module, p.New.module)
	}
}

// matchLocals matches what two versions of one function declare. A local is
// known by its name; where several have the same name, by who captures it, its
// initialiser, its block and its turn.
func (p *Plan) matchLocals(fo, fn *function) {
	olds, news := map[string][]*local{}, map[string][]*local{}
	var names []string
	for _, l := range p.Old.locals {
		if l.fn == fo && p.locals[l.id] == nil {
			olds[l.name] = append(olds[l.name], l)
		}
	}
	for _, l := range p.New.locals {
		if l.fn == fn && p.oldLocal[l.id] == nil {
			if news[l.name] == nil {
				names = append(names, l.name)
			}
			news[l.name] = append(news[l.name], l)
		}
	}
	for _, name := range names {
		p.matchSameName(olds[name], news[name])
	}
}

func (p *Plan) matchSameName(olds, news []*local) {
	type pair struct{ o, n, score int }
	var pairs []pair
	for i, o := range olds {
		for j, n := range news {
			if o.single == n.single {
				pairs = append(pairs, pair{i, j, alike(o, n, i == j)})
			}
		}
	}
	sort.SliceStable(pairs, func(a, b int) bool { return pairs[a].score > pairs[b].score })
	for _, c := range pairs {
		if p.locals[olds[c.o].id] == nil && p.oldLocal[news[c.n].id] == nil {
			p.matchLocal(olds[c.o], news[c.n])
		}
	}
}

func alike(o, n *local, sameTurn bool) int {
	score, both := 0, 0
	for t := range o.takers {
		if n.takers[t] {
			both++
		}
	}
	if all := len(o.takers) + len(n.takers) - both; all > 0 {
		score += 16 * both / all
	}
	if o.init == n.init {
		score += 4
	}
	if o.block == n.block {
		score += 2
	}
	if sameTurn {
		score++
	}
	return score
}

// oldKey is the key under which the old version knows the place of a slot.
func (p *Plan) oldKey(q place) (string, bool) {
	if q.root < 0 {
		return q.key(), true
	}
	o := p.oldLocal[q.root]
	if o == nil {
		return "", false
	}
	return q.id(strconv.Itoa(p.Old.placeOf(o).root)), true
}

func (p *Plan) oldSlot(n *slot) *slot {
	if id, ok := p.oldKey(n.place); ok {
		return p.Old.byKey[id]
	}
	return nil
}

// matchSlotFns matches the functions that have a place of their own: a local's,
// a field's. Where a place got several functions the last is the one in use, so
// they are counted from the end.
func (p *Plan) matchSlotFns() {
	for _, n := range p.New.slots {
		o := p.oldSlot(n)
		if o == nil {
			continue
		}
		for i := 1; i <= min(len(o.fns), len(n.fns)); i++ {
			fo, fn := o.fns[len(o.fns)-i], n.fns[len(n.fns)-i]
			p.matchPair(fo, fn)
		}
	}
}

func (p *Plan) matchPair(o, n *function) {
	p.matchFn(o, n)
	p.matchLocals(o, n)
	p.matchKids(o, n)
}

// matchKids matches the functions inside two versions of a function, the surest
// matches first.
func (p *Plan) matchKids(fo, fn *function) {
	for _, id := range []func(f *function) string{
		func(f *function) string { return f.coarse + "\x00" + f.context + "\x00" + f.body },
		func(f *function) string { return f.coarse + "\x00" + f.context },
		func(f *function) string { return f.coarse + "\x00" + f.body },
	} {
		p.matchBy(fo, fn, id, false)
	}
	p.matchBy(fo, fn, func(f *function) string { return f.coarse }, true)
	p.matchBy(fo, fn, func(f *function) string { return f.body }, true)
	p.matchBy(fo, fn, kind, true)
}

// kind is what kind of place a function without a name has.
func kind(f *function) string {
	c := f.coarse
	switch {
	case len(c) > 0 && c[len(c)-1] == ')':
		return "argument"
	case len(c) > 1 && c[len(c)-1] == '=' && c[len(c)-3] == ']':
		return "element"
	}
	return c
}

// matchBy matches kids with equal ids in their order. With even, only where
// both versions have equally many left: anything else would be a guess.
func (p *Plan) matchBy(fo, fn *function, id func(*function) string, even bool) {
	olds, news := map[string][]*function{}, map[string][]*function{}
	var ids []string
	for _, o := range fo.kids {
		if p.fns[o.id] == nil && o.slot == "" {
			olds[id(o)] = append(olds[id(o)], o)
		}
	}
	for _, n := range fn.kids {
		if p.oldFns[n.id] == nil && n.slot == "" {
			if news[id(n)] == nil {
				ids = append(ids, id(n))
			}
			news[id(n)] = append(news[id(n)], n)
		}
	}
	for _, k := range ids {
		o, n := olds[k], news[k]
		if even && len(o) != len(n) {
			continue
		}
		for i := range min(len(o), len(n)) {
			p.matchPair(o[i], n[i])
		}
	}
}

func (p *Plan) planSlots() {
	known := map[*slot]bool{}
	for _, n := range p.New.slots {
		o := p.oldSlot(n)
		switch {
		case o == nil:
			p.slots = append(p.slots, slotPlan{set, nil, n})
			continue
		case o.text == n.text:
			p.slots = append(p.slots, slotPlan{keep, o, n})
		default:
			p.slots = append(p.slots, slotPlan{set, o, n})
		}
		known[o] = true
	}
	for _, o := range p.Old.slots {
		if !known[o] {
			p.slots = append(p.slots, slotPlan{remove, o, nil})
		}
	}
	p.sortSlots()
}

func (p *Plan) sortSlots() {
	depth := func(s slotPlan) int {
		if s.new != nil {
			return len(s.new.place.keys)
		}
		return len(s.old.place.keys)
	}
	sort.SliceStable(p.slots, func(i, j int) bool { return depth(p.slots[i]) < depth(p.slots[j]) })
}

func (p *Plan) noteStatements() {
	count := map[string]int{}
	for _, s := range p.Old.stmts {
		count[s.text]++
	}
	for _, s := range p.New.stmts {
		if count[s.text]--; count[s.text] < 0 {
			p.NotRun = append(p.NotRun, fmt.Sprintf("%s:%d: not run again: %s", p.New.Path, s.line, clip(s.text, 60)))
		}
	}
	count = map[string]int{}
	for _, s := range p.New.stmts {
		count[s.text]++
	}
	for _, s := range p.Old.stmts {
		if count[s.text]--; count[s.text] < 0 {
			p.NotRun = append(p.NotRun, fmt.Sprintf("%s: what line %d did before stays done: %s", p.New.Path, s.line, clip(s.text, 60)))
		}
	}
}
