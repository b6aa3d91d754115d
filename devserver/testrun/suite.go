package testrun

import (
	"fmt"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/luavm"
)

// block is a describe, or the file itself.
type block struct {
	name     string
	parent   *block
	items    []any // *block or *test, in the order they stand
	before   []lua.LValue
	after    []lua.LValue
	setup    []lua.LValue
	teardown []lua.LValue
}

// test is one it.
type test struct {
	name    string
	parent  *block
	fn      *lua.LFunction // nil: it is pending
	file    string
	line    int
	pending string
}

// full is the name with those of all describes around it.
func (t *test) full() string {
	names := []string{t.name}
	for b := t.parent; b != nil; b = b.parent {
		if b.name != "" {
			names = append([]string{b.name}, names...)
		}
	}
	return strings.Join(names, " ")
}

// suiteLib are the globals that make the tree.
func (r *runner) suiteLib() map[string]lua.LGFunction {
	lib := map[string]lua.LGFunction{}
	alias := func(f lua.LGFunction, names ...string) {
		for _, n := range names {
			lib[n] = f
		}
	}
	alias(r.describe, "describe", "context", "insulate", "expose")
	alias(r.it, "it", "spec", "test")
	alias(r.hook(func(b *block) *[]lua.LValue { return &b.before }), "before_each")
	alias(r.hook(func(b *block) *[]lua.LValue { return &b.after }), "after_each")
	alias(r.hook(func(b *block) *[]lua.LValue { return &b.setup }), "setup", "lazy_setup", "strict_setup")
	alias(r.hook(func(b *block) *[]lua.LValue { return &b.teardown }), "teardown", "lazy_teardown", "strict_teardown")
	alias(r.pend, "pending")
	alias(func(L *lua.LState) int {
		fn := L.CheckFunction(1)
		if r.current == nil {
			L.RaiseError("finally belongs inside an it")
		}
		r.finally = append(r.finally, fn)
		return 0
	}, "finally")
	return lib
}

func (r *runner) describe(L *lua.LState) int {
	name, fn := L.CheckString(1), L.CheckFunction(2)
	r.mustLoad(L, "describe")
	b := &block{name: name, parent: r.block}
	r.block.items = append(r.block.items, b)
	r.block = b
	defer func() { r.block = b.parent }()
	L.Push(fn)
	L.Call(0, 0)
	return 0
}

func (r *runner) it(L *lua.LState) int {
	name, fn := L.CheckString(1), L.OptFunction(2, nil)
	r.mustLoad(L, "it")
	r.add(L, &test{name: name, fn: fn})
	return 0
}

// add puts a test where it stands.
func (r *runner) add(L *lua.LState, t *test) {
	t.parent = r.block
	t.file, t.line = placeOf(L)
	r.block.items = append(r.block.items, t)
}

// pend is a test that is not written yet, or, inside one, its end.
func (r *runner) pend(L *lua.LState) int {
	why := L.OptString(1, "")
	if r.current != nil {
		r.reason = or(why, "pending")
		luavm.Abort(L, pendingReason{}, "pending")
	}
	r.add(L, &test{name: or(why, "pending"), pending: "not written yet"})
	return 0
}

// pendingReason is the reason of a turn that pending has ended.
type pendingReason struct{}

// hook makes before_each and its like.
func (r *runner) hook(list func(*block) *[]lua.LValue) lua.LGFunction {
	return func(L *lua.LState) int {
		fn := L.CheckFunction(1)
		r.mustLoad(L, "before_each and its like")
		l := list(r.block)
		*l = append(*l, fn)
		return 0
	}
}

func (r *runner) mustLoad(L *lua.LState, what string) {
	if r.loaded {
		L.RaiseError("%s must not stand inside an it", what)
	}
}

// wanted reports whether --run leaves anything of an item.
func (r *runner) wanted(item any) bool {
	switch it := item.(type) {
	case *test:
		return r.filter == nil || r.filter.MatchString(it.full())
	case *block:
		for _, i := range it.items {
			if r.wanted(i) {
				return true
			}
		}
	}
	return false
}

// runBlock runs what stands in b.
func (r *runner) runBlock(b *block) {
	if !r.wanted(b) {
		return
	}
	var broken *Failure
	for _, fn := range b.setup {
		if broken = r.call(fn); broken != nil {
			broken.Message = "setup failed: " + broken.Message
			break
		}
	}
	for _, item := range b.items {
		if !r.wanted(item) || r.guard.over.Load() {
			continue
		}
		switch it := item.(type) {
		case *block:
			r.runBlock(it)
		case *test:
			r.runTest(it, broken)
		}
	}
	for _, fn := range b.teardown {
		if f := r.call(fn); f != nil {
			f.Message = "teardown failed: " + f.Message
			r.report(&test{name: "teardown", parent: b, file: r.spec.File, line: f.Line}, time.Now(), r.book.count(), f)
		}
	}
}

// runTest runs one it between the before_each and after_each of all blocks
// around it. Those after run whatever happened.
func (r *runner) runTest(t *test, broken *Failure) {
	began, from := time.Now(), r.book.count()
	r.out.emit(&Event{Event: EventBegin, File: r.spec.File, Seed: r.spec.Seed, Name: t.full(), Line: t.line})
	if t.fn == nil {
		r.reason = or(t.pending, "no function was given")
		r.report(t, began, from, nil)
		return
	}
	r.current, r.reason, r.finally, r.logFrom = t, "", nil, from
	failure := broken
	if failure == nil {
		failure = r.around(t.parent)
	}
	if failure == nil {
		failure = r.call(t.fn)
	}
	later := func(fn lua.LValue) {
		if f := r.call(fn); failure == nil {
			failure = f
		}
	}
	for _, fn := range r.finally {
		later(fn)
	}
	for b := t.parent; b != nil; b = b.parent {
		for _, fn := range b.after {
			later(fn)
		}
	}
	r.current = nil
	r.hangUp()
	r.report(t, began, from, failure)
}

// around runs the before_each of b and of the blocks around it, outermost first.
func (r *runner) around(b *block) *Failure {
	if b == nil {
		return nil
	}
	if f := r.around(b.parent); f != nil {
		return f
	}
	for _, fn := range b.before {
		if f := r.call(fn); f != nil {
			return f
		}
	}
	return nil
}

// report tells how a test ended.
func (r *runner) report(t *test, began time.Time, from int, f *Failure) {
	e := &Event{Event: EventTest, File: r.spec.File, Seed: r.spec.Seed, Name: t.full(), Line: t.line, Result: Pass,
		VirtualMS: virtual(began), Failure: f}
	switch {
	case f != nil:
		e.Result = Fail
		r.failed++
		rows, _ := r.book.since(from)
		if n := len(rows) - maxLogLines; n > 0 {
			e.Log = append(e.Log, fmt.Sprintf("(%d earlier lines)", n))
			rows = rows[n:]
		}
		for i := range rows {
			e.Log = append(e.Log, r.book.text(&rows[i]))
		}
	case r.reason != "":
		e.Result, e.Reason = Pending, r.reason
		r.pending++
	default:
		r.passed++
	}
	r.reason = ""
	r.out.emit(e)
}

// maxLogLines is how much of the log a failing test shows: the end tells.
const maxLogLines = 60

func virtual(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Millisecond) }
