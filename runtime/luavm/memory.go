package luavm

import (
	"time"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// Usage is what a look at a VM's memory found.
type Usage struct {
	Bytes     int64 // of what Lua can reach: an estimate, within a third of what the heap says
	Objects   int   // tables, functions, userdata, coroutines
	Compacted int   // tables that held many dead keys and were made smaller
	// Dead is the part of Bytes that dead keys take in tables that are in use, so
	// that only a look between two turns can free it.
	Dead int64
}

// Over reports that a VM must end for its memory. Dead keys are forgiven up to
// once the limit: the next look frees them.
func (u Usage) Over(limit int64) bool { return u.Bytes > 2*limit || u.Bytes-u.Dead > limit }

// tidyState says when the next look is due. Times are the watcher's: those of
// its last tick, which cost a load to read.
type tidyState struct {
	last Usage
	ran  uint64        // vm.ran at the last look
	live int64         // bytes that the process held then
	at   time.Duration // when
	took time.Duration // how long it was, but for making tables smaller: each dead key costs that once
	due  bool          // whatever the rest says: a turn was forgiven its dead keys
}

// A look costs some 200 ns an object, so it has to be worth it: the process must
// have grown noticeably since the last one, or so many turns have passed that it
// adds no more than tidyCost to each.
const (
	tidyTurns = 256
	tidyEvery = time.Second
	tidyShare = 100 // at most one part in so many of the time
	tidyRest  = 10 * time.Second
	tidyCost  = 20 // ns
	// When the process has grown by so many limits of the VM, a few short turns may
	// have done it, each over before the watcher saw it.
	tidyUrgent = 4
)

// Tidy looks at the VM's memory if that is due, and makes tables smaller that
// hold many dead keys. The service calls it between two turns; most calls cost a
// comparison. ok is false when nothing was done. A VM whose Bytes are over its
// limit must end with memory_limit.
func (vm *VM) Tidy() (u Usage, ok bool) {
	s, watch := &vm.tidy, &vm.world.watch
	if s.due {
		return vm.look(), true
	}
	turns := vm.ran - s.ran
	live := watch.live.Load()
	s.live = min(s.live, live)
	urgent := live-s.live > tidyUrgent*vm.cfg.Limits.Memory
	if turns < tidyTurns && !urgent {
		return s.last, false
	}
	since := time.Duration(watch.now.Load()) - s.at
	if since < s.took*tidyShare || since < tidyEvery && !urgent {
		return s.last, false
	}
	grown := live-s.live > max(vm.cfg.Limits.Memory, live)/16
	if !grown && (since < tidyRest || turns < uint64(s.took/tidyCost)) {
		return s.last, false
	}
	return vm.look(), true
}

// look measures between two turns and says when.
func (vm *VM) look() Usage {
	s, watch := &vm.tidy, &vm.world.watch
	u := vm.measure()
	s.ran, s.live, s.at, s.due = vm.ran, watch.live.Load(), time.Duration(watch.now.Load()), false
	vm.prune()
	return u
}

// Measure looks at the VM's memory now, whatever it costs.
func (vm *VM) Measure() Usage { return vm.measure() }

// walker visits everything that a VM can reach, without recursion.
type walker struct {
	vm    *VM
	seen  map[unsafe.Pointer]struct{}
	todo  []lua.LValue
	bytes int64
	count int
	fresh []*lua.LTable // tables with many dead keys
}

func (vm *VM) newWalker() *walker {
	w := &walker{vm: vm, seen: make(map[unsafe.Pointer]struct{}, max(64, vm.tidy.last.Objects)), bytes: 1024}
	for _, m := range vm.modules {
		w.proto(m.Code.Proto)
	}
	w.bytes = 1024 // their code is shared
	return w
}

func (vm *VM) measure() Usage {
	start := time.Now()
	w := vm.newWalker()
	w.visit(vm.g.Global)
	if vm.strings != nil {
		w.visit(vm.strings)
	}
	for _, m := range vm.modules {
		w.visit(m.Value)
		w.visit(m.Main)
	}
	for t := vm.turns; t != nil; t = t.older {
		for th := t.top; th != nil; th = th.parent {
			w.stack(th.L)
		}
	}
	if vm.cfg.Roots != nil {
		vm.cfg.Roots(w.visit)
	}
	for len(w.todo) > 0 {
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.children(v)
	}
	vm.tidy.took = time.Since(start)
	n, dead := w.compact()
	u := Usage{Bytes: w.bytes, Objects: w.count, Compacted: n, Dead: dead}
	vm.tidy.last = u
	return u
}

// stackBytes is what a Lua stack takes beside its registers and frames: its
// goroutine.
const stackBytes = 4 << 10

// stack visits the registers and functions of a stack.
func (w *walker) stack(L *lua.LState) {
	frames := framesOf(L)
	w.bytes += stackBytes + int64(cap(registryOf(L).array))*16 + int64(len(frames.array))*int64(unsafe.Sizeof(frameMirror{}))
	for _, v := range registers(L) {
		if v != nil {
			w.visit(v)
		}
	}
	for i := range frames.array[:frames.sp] {
		if fn := frames.array[i].Fn; fn != nil {
			w.visit(fn)
		}
	}
}

// visit counts v and remembers to look inside.
func (w *walker) visit(v lua.LValue) {
	switch v := v.(type) {
	case lua.LNumber:
		if v < 0 || v >= 128 || v != lua.LNumber(int(v)) { // the others are made once
			w.bytes += 24 // gopher-lua makes them by the block, and one keeps its neighbours
		}
	case lua.LString:
		w.bytes += 16
		w.text(string(v))
	case *lua.LTable:
		w.object(unsafe.Pointer(v), v)
	case *lua.LFunction:
		w.object(unsafe.Pointer(v), v)
	case *lua.LUserData:
		w.object(unsafe.Pointer(v), v)
	case *lua.LState:
		w.object(unsafe.Pointer(v), v)
	}
}

// text counts the bytes of a string. One that is held in many places is there
// once, which for short ones isn't worth finding out.
func (w *walker) text(s string) {
	if len(s) < 64 || w.once(unsafe.Pointer(unsafe.StringData(s))) {
		w.bytes += int64(len(s))
	}
}

// object puts a thing that has an identity on the list once.
func (w *walker) object(p unsafe.Pointer, v lua.LValue) {
	if w.once(p) {
		w.count++
		w.todo = append(w.todo, v)
	}
}

func (w *walker) children(v lua.LValue) {
	switch v := v.(type) {
	case *lua.LTable:
		w.table(v)
	case *lua.LFunction:
		w.bytes += 88
		if !v.IsG { // else it is shared, or a closure of the runtime
			w.visit(v.Env)
			w.proto(v.Proto)
		}
		for _, u := range v.Upvalues {
			if u != nil {
				w.bytes += 64
				w.visit(u.Value())
			}
		}
	case *lua.LUserData:
		w.bytes += 64
		if mt, ok := v.Metatable.(*lua.LTable); ok && w.vm.world.libs.locked[mt] == nil {
			w.visit(mt)
		}
	case *lua.LState:
		if co := asCoroutine(v); co != nil {
			w.coroutine(co)
		}
	}
}

// proto counts code that is this VM's own: what it has compiled itself. That of
// files is shared.
func (w *walker) proto(p *lua.FunctionProto) {
	if !w.once(unsafe.Pointer(p)) {
		return
	}
	w.bytes += 400 + int64(cap(p.Code))*4 + int64(cap(p.DbgSourcePositions))*8
	w.bytes += int64(cap(p.Constants))*(16+16) + int64(cap(p.DbgCalls))*24 + int64(len(p.DbgLocals))*64 // the texts of constants stand in a list of their own as well
	for _, k := range p.Constants {
		w.visit(k)
	}
	for _, inner := range p.FunctionPrototypes {
		w.proto(inner)
	}
}

// once reports whether p was not seen before.
func (w *walker) once(p unsafe.Pointer) bool {
	if _, ok := w.seen[p]; ok {
		return false
	}
	w.seen[p] = struct{}{}
	return true
}

func (w *walker) coroutine(co *coroutine) {
	w.bytes += 512
	if co.fn != nil {
		w.visit(co.fn)
	}
	if co.k == nil {
		return
	}
	w.bytes += stackBytes + int64(cap(co.stack.values()))*16
	for _, v := range co.stack.values() {
		if v != nil {
			w.visit(v)
		}
	}
	for _, fn := range co.stack.fns {
		if fn != nil {
			w.visit(fn)
		}
	}
}

// table counts a table as its maps were filled: deleted keys keep their room.
func (w *walker) table(t *lua.LTable) {
	m := mirrorOf(t)
	if mt, ok := t.Metatable.(*lua.LTable); ok {
		if w.vm.world.libs.locked[mt] != nil || w.vm.world.libs.standIn[mt] == nil {
			w.visit(mt)
		}
	}
	w.bytes += ownBytes(m)
	for _, v := range m.array {
		if v != nil {
			w.visit(v)
		}
	}
	for k, v := range m.strdict {
		w.bytes += int64(len(k)) + 24 // and boxed for the list of keys
		w.visit(v)
	}
	for k, v := range m.dict {
		w.visit(k)
		w.visit(v)
	}
	live := len(m.strdict) + len(m.dict)
	if dead := len(m.keys) - live; dead > 256 && dead > live {
		w.fresh = append(w.fresh, t)
	} else if hole := len(m.array) - t.Len(); hole > 1024 && hole > t.Len() {
		w.fresh = append(w.fresh, t)
	}
}

// ownBytes is what a table takes beside what is in it.
func ownBytes(m *tableMirror) int64 {
	n := 112 + int64(cap(m.array)+cap(m.keys))*16
	if m.k2i != nil {
		n += mapBytes(len(m.k2i), 24)
	}
	if m.strdict != nil {
		n += mapBytes(max(len(m.strdict), len(m.keys)-len(m.dict)), 32)
	}
	if m.dict != nil {
		n += mapBytes(max(len(m.dict), len(m.keys)-len(m.strdict)), 32)
	}
	return n
}

// mapBytes is about what a Go map of n entries takes: groups of eight slots and
// their control words, seven eighths full at most.
func mapBytes(n, slot int) int64 {
	slots := 8
	for slots < 1024 && slots*7/8 < n {
		slots *= 2
	}
	if n > 896 {
		slots = n * 3 / 2 // many small maps by then, each somewhere between half full and full
	}
	return 48 + int64(slots)*int64(slot+1)
}

// compact rebuilds the tables that hold mostly dead keys. gopher-lua never
// forgets one (table.go:212), so a map of players online would grow for ever.
// The order of the live keys stays, so a traversal goes on where it was, unless
// it stands on a key that it has deleted itself; therefore a table that is on
// any stack, as the one that a for loop walks through is, waits for the next
// time.
func (w *walker) compact() (n int, dead int64) {
	if len(w.fresh) == 0 {
		return 0, 0
	}
	busy := map[*lua.LTable]bool{}
	mark := func(values []lua.LValue) {
		for _, v := range values {
			if t, ok := v.(*lua.LTable); ok {
				busy[t] = true
			}
		}
	}
	for t := w.vm.turns; t != nil; t = t.older {
		for th := t.top; th != nil; th = th.parent {
			mark(registers(th.L))
		}
	}
	for _, p := range w.vm.coroutines {
		if co := p.Value(); co != nil {
			mark(co.stack.values())
		}
	}
	for _, t := range w.fresh {
		m := mirrorOf(t)
		before := ownBytes(m)
		if busy[t] {
			live := len(m.strdict) + len(m.dict)
			dead += before * int64(len(m.keys)-live) / int64(max(len(m.keys), 1))
			continue
		}
		shrink(t)
		w.bytes -= before - ownBytes(m) // what was freed ends no service
		n++
	}
	return n, dead
}

// shrink gives t maps and slices that fit what it holds.
func shrink(t *lua.LTable) {
	m := mirrorOf(t)
	live := len(m.strdict) + len(m.dict)
	keys := make([]lua.LValue, 0, live)
	k2i := make(map[lua.LValue]int, live)
	strdict := make(map[string]lua.LValue, len(m.strdict))
	var dict map[lua.LValue]lua.LValue
	if m.dict != nil {
		dict = make(map[lua.LValue]lua.LValue, len(m.dict))
	}
	for _, k := range m.keys {
		v := t.RawGetH(k)
		if v == lua.LNil {
			continue
		}
		k2i[k] = len(keys)
		keys = append(keys, k)
		if s, ok := k.(lua.LString); ok {
			strdict[string(s)] = v
		} else {
			dict[k] = v
		}
	}
	m.keys, m.k2i, m.strdict, m.dict = keys, k2i, strdict, dict
	if n := t.Len(); n < cap(m.array)/2 {
		m.array = append(make([]lua.LValue, 0, n), m.array[:n]...)
	}
}
