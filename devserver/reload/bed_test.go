package reload

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	lua "github.com/yuin/gopher-lua"
)

// bed is one service on plain gopher-lua: what reload needs of a runtime and no
// more. One goroutine at a time is inside its VM; shield.sleep lets the others
// in.
type bed struct {
	t       *testing.T
	baton   sync.Mutex
	files   map[string]string
	vm      *bareVM
	state   *State
	gen     int
	last    error
	out     *Outcome
	waiting map[string]chan result
	hands   map[*lua.LState]bool // those that run a handler
}

type result struct {
	values []lua.LValue
	err    error
}

// bareVM is a VM and what its Go side holds.
type bareVM struct {
	L       *lua.LState
	files   map[string]string
	modules []*Module
	loaded  map[string]lua.LValue
	held    []lua.LValue
	timers  []*lua.LFunction
	inert   bool
}

func newBareVM(b *bed, files map[string]string, inert bool) *bareVM {
	vm := &bareVM{L: lua.NewState(), files: files, loaded: map[string]lua.LValue{}, inert: inert}
	vm.L.SetGlobal("require", vm.L.NewFunction(vm.require))
	shield := vm.L.NewTable()
	vm.L.SetFuncs(shield, map[string]lua.LGFunction{
		"sleep": func(L *lua.LState) int {
			b.baton.Unlock()
			time.Sleep(time.Duration(L.CheckNumber(1)) * time.Millisecond)
			b.baton.Lock()
			return 0
		},
		"timer": vm.hold, "fork": vm.hold, "on": vm.hold,
	})
	vm.L.SetGlobal("shield", shield)
	return vm
}

// hold is every function that keeps a callback.
func (vm *bareVM) hold(L *lua.LState) int {
	for i := 1; i <= L.GetTop(); i++ {
		if fn, ok := L.Get(i).(*lua.LFunction); ok {
			vm.held = append(vm.held, fn)
			if !vm.inert {
				vm.timers = append(vm.timers, fn)
			}
		}
	}
	L.Push(lua.LNumber(len(vm.held)))
	return 1
}

func (vm *bareVM) require(L *lua.LState) int {
	name := L.CheckString(1)
	if v, ok := vm.loaded[name]; ok {
		L.Push(v)
		return 1
	}
	m, err := vm.load(L, strings.ReplaceAll(name, ".", "/")+".lua")
	if err != nil {
		L.RaiseError("%s", err.Error())
	}
	vm.loaded[name] = m.Value
	vm.modules = append(vm.modules, m)
	L.Push(m.Value)
	return 1
}

func (vm *bareVM) load(L *lua.LState, path string) (*Module, error) {
	src, ok := vm.files[path]
	if !ok {
		return nil, fmt.Errorf("no file %s", path)
	}
	shape, err := Analyse(path, []byte(src))
	if err != nil {
		return nil, err
	}
	proto, err := compileForTest(path, src)
	if err != nil {
		return nil, err
	}
	L.Push(L.NewFunctionFromProto(proto))
	if err := L.PCall(0, 1, nil); err != nil {
		var api *lua.ApiError
		if errors.As(err, &api) {
			return nil, runProblem(path, []byte(src), api.Object.String())
		}
		return nil, err
	}
	v := L.Get(-1)
	L.Pop(1)
	return &Module{Path: path, Shape: shape, Proto: proto, Value: v}, nil
}

var protoCache sync.Map

// compileForTest gives equal texts one prototype, as a world does.
func compileForTest(path, src string) (*lua.FunctionProto, error) {
	if p, ok := protoCache.Load(path + "\x00" + src); ok {
		return p.(*lua.FunctionProto), nil
	}
	fn, err := lua.NewState(lua.Options{SkipOpenLibs: true}).Load(strings.NewReader(string(Clean([]byte(src)))), path)
	if err != nil {
		return nil, err
	}
	protoCache.Store(path+"\x00"+src, fn.Proto)
	return fn.Proto, nil
}

func (vm *bareVM) image() *Image {
	return &Image{
		Globals: vm.L.G.Global, Modules: vm.modules,
		Roots: func(visit func(lua.LValue)) {
			for _, v := range vm.held {
				visit(v)
			}
		},
	}
}

func (vm *bareVM) start(script string) error {
	m, err := vm.load(vm.L, script)
	if err != nil {
		return err
	}
	vm.modules = append([]*Module{m}, vm.modules...)
	return nil
}

func newBed(t *testing.T, files map[string]string) *bed {
	t.Helper()
	b := &bed{t: t, files: maps.Clone(files), gen: 1, waiting: map[string]chan result{}, hands: map[*lua.LState]bool{}}
	b.vm = newBareVM(b, maps.Clone(files), false)
	if err := b.vm.start("svc.lua"); err != nil {
		t.Fatalf("start svc.lua: %v", err)
	}
	im := b.vm.image()
	im.Stacks = func(visit func(*lua.LState)) {
		for L := range b.hands {
			visit(L)
		}
	}
	st, err := NewState(im)
	if err != nil {
		t.Fatal(err)
	}
	b.state = st
	return b
}

// call runs a handler on a hand of its own.
func (b *bed) call(method string, args ...lua.LValue) ([]lua.LValue, error) {
	b.baton.Lock()
	defer b.baton.Unlock()
	return b.enter(func() lua.LValue {
		m, _ := b.state.Modules()[0].Value.(*lua.LTable)
		if m == nil {
			return lua.LNil
		}
		return m.RawGetString(method)
	}, append([]lua.LValue{lua.LNil}, args...))
}

func (b *bed) enter(find func() lua.LValue, args []lua.LValue) ([]lua.LValue, error) {
	fn, ok := find().(*lua.LFunction)
	if !ok {
		return nil, errors.New("method_not_found")
	}
	hand := lua.NewState(lua.Options{SkipOpenLibs: true})
	hand.G, hand.Env = b.vm.L.G, b.vm.L.G.Global
	b.hands[hand] = true
	defer delete(b.hands, hand)
	hand.Push(fn)
	for _, a := range args {
		hand.Push(a)
	}
	if err := hand.PCall(len(args), lua.MultRet, nil); err != nil {
		return nil, err
	}
	var out []lua.LValue
	for i := 1; i <= hand.GetTop(); i++ {
		out = append(out, hand.Get(i))
	}
	return out, nil
}

// tick runs every timer once.
func (b *bed) tick() []string {
	b.baton.Lock()
	defer b.baton.Unlock()
	var out []string
	for _, fn := range b.vm.timers {
		vs, err := b.enter(func() lua.LValue { return fn }, nil)
		out = append(out, show(vs, err))
	}
	return out
}

// save writes files and reloads.
func (b *bed) save(files map[string]string) {
	b.t.Helper()
	maps.Copy(b.files, files)
	b.last = nil
	scratch := newBareVM(b, maps.Clone(b.files), true)
	defer scratch.L.Close()
	if b.last = scratch.start("svc.lua"); b.last != nil {
		return
	}
	b.baton.Lock()
	defer b.baton.Unlock()
	for _, m := range b.state.Modules()[1:] {
		if scratch.image().module(m.Path) == nil && b.files[m.Path] != "" {
			scratch.L.Push(scratch.L.NewFunction(scratch.require))
			scratch.L.Push(lua.LString(strings.TrimSuffix(strings.ReplaceAll(m.Path, "/", "."), ".lua")))
			if b.last = scratch.L.PCall(1, 0, nil); b.last != nil {
				return
			}
		}
	}
	b.out, b.last = b.state.Swap(scratch.image())
	if b.last == nil {
		b.gen++
		for _, m := range b.state.Modules() {
			name := strings.TrimSuffix(strings.ReplaceAll(m.Path, "/", "."), ".lua")
			b.vm.loaded[name] = m.Value
		}
	}
}

func show(vs []lua.LValue, err error) string {
	if err != nil {
		return "error " + strings.SplitN(err.Error(), "\n", 2)[0]
	}
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = jsonOf(v)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func jsonOf(v lua.LValue) string {
	switch x := v.(type) {
	case lua.LString:
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(string(x)); err != nil {
			return err.Error()
		}
		return strings.TrimSpace(b.String())
	case *lua.LNilType:
		return "null"
	case *lua.LTable:
		var parts []string
		for i := 1; i <= x.Len(); i++ {
			parts = append(parts, jsonOf(x.RawGetInt(i)))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return v.String()
}

func luaOf(t *testing.T, arg string) lua.LValue {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(arg), &v); err != nil {
		t.Fatalf("argument %s: %v", arg, err)
	}
	switch x := v.(type) {
	case float64:
		return lua.LNumber(x)
	case string:
		return lua.LString(x)
	case bool:
		return lua.LBool(x)
	}
	return lua.LNil
}

// TestCases runs every case of testdata/reload.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/reload/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			runCase(t, txtar.Parse(data))
		})
	}
}

func filesOf(ar *txtar.Archive, dir string) map[string]string {
	files := map[string]string{}
	for _, f := range ar.Files {
		if p, ok := strings.CutPrefix(f.Name, dir+"/"); ok {
			files[p] = string(f.Data)
		}
	}
	return files
}

func runCase(t *testing.T, ar *txtar.Archive) {
	b := newBed(t, filesOf(ar, "before"))
	steps := ""
	for _, f := range ar.Files {
		if f.Name == "steps" {
			steps = string(f.Data)
		}
	}
	for n, line := range strings.Split(steps, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			b.step(ar, n+1, line)
		}
	}
}

func (b *bed) step(ar *txtar.Archive, n int, line string) {
	t := b.t
	t.Helper()
	left, want, _ := strings.Cut(line, " => ")
	words := strings.Fields(left)
	switch words[0] {
	case "call", "eventually":
		if words[0] == "eventually" {
			words = words[1:]
		}
		got := show(b.call(words[1], b.args(words[2:])...))
		b.same(n, line, got, want)
	case "start":
		ch := make(chan result, 1)
		b.waiting[words[1]] = ch
		entered := make(chan struct{})
		go func() {
			b.baton.Lock()
			defer b.baton.Unlock()
			close(entered)
			vs, err := b.enter(func() lua.LValue {
				return b.state.Modules()[0].Value.(*lua.LTable).RawGetString(words[2])
			}, append([]lua.LValue{lua.LNil}, b.args(words[3:])...))
			ch <- result{vs, err}
		}()
		<-entered
	case "wait":
		r := <-b.waiting[words[1]]
		b.same(n, line, show(r.values, r.err), want)
	case "tick":
		b.same(n, line, strings.Join(b.tick(), " "), want)
	case "save":
		b.save(filesOf(ar, words[1]))
	case "undo":
		b.baton.Lock()
		_, lost, err := b.state.Undo()
		b.baton.Unlock()
		if err != nil {
			t.Fatalf("steps:%d: undo: %v", n, err)
		}
		b.same(n, line, strings.Join(lost, "; "), want)
	case "warns":
		if got := strings.Join(b.out.Warnings, "\n"); !strings.Contains(got, strings.TrimPrefix(line, "warns ")) {
			t.Fatalf("steps:%d: %s: warnings are %q", n, line, got)
		}
	case "generation":
		b.same(n, line, fmt.Sprint(b.gen), want)
	case "expect":
		b.expect(n, line, words[2], strings.Join(words[3:], " "))
	default:
		t.Fatalf("steps:%d: unknown step %q", n, line)
	}
}

func (b *bed) args(words []string) []lua.LValue {
	var vs []lua.LValue
	for _, w := range words {
		vs = append(vs, luaOf(b.t, w))
	}
	return vs
}

func (b *bed) same(n int, line, got, want string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("steps:%d: %s: got %s (last reload: %v)", n, line, got, b.last)
	}
}

func (b *bed) expect(n int, line, what, text string) {
	b.t.Helper()
	var refused *Refused
	var problem *Problem
	got := "ok"
	switch {
	case errors.As(b.last, &refused):
		got = "refused"
	case errors.As(b.last, &problem) || b.last != nil:
		got = "failed"
	}
	if got != what || b.last != nil && !strings.Contains(b.last.Error(), text) {
		b.t.Fatalf("steps:%d: %s: the reload was %s: %v", n, line, got, b.last)
	}
}
