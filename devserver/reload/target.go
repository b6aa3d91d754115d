package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// scratchTime bounds the top level of a new version. The service waits
// meanwhile, so it is shorter than a handler's.
const scratchTime = 2 * time.Second

// target is one live service in Lua on one node.
type target struct {
	rl   *Reloader
	node Node
	id   shield.ServiceID

	// Below is read and written in the service's turn only.
	vm      *luavm.VM
	state   *State
	before  []*luavm.Module // what the VM had loaded before the last swap
	changed []string        // paths that the last swap changed
	last    *service.Service
}

// errAsked ends a turn that must not count as a swap.
var errAsked = errors.New("only asked")

// turn runs do in the service's turn. With an error the service's generation
// stays. When ctx is over before the turn begins, it will never begin.
func (t *target) turn(ctx context.Context, do func(*service.Swapping) error) error {
	for {
		err := t.tryTurn(ctx, do)
		var se *shield.Error
		if !errors.As(err, &se) || se.Code != shield.SpawnFailed {
			return err
		}
		// Still in on_init, with code that is older than what was saved.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (t *target) tryTurn(ctx context.Context, do func(*service.Swapping) error) error {
	var claimed atomic.Bool // by the turn, or by us for giving up
	over := make(chan error, 1)
	err := t.node.Runtime.Swap(ctx, t.id, func(w *service.Swapping) (err error) {
		if !claimed.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		defer func() {
			// A mistake in here must not end the service's goroutine.
			if v := recover(); v != nil {
				err = fmt.Errorf("hot reload: internal error: %v\n%s", v, debug.Stack())
			}
			over <- err
		}()
		t.last = w.Service()
		return do(w)
	})
	if ctx.Err() != nil && !claimed.CompareAndSwap(false, true) {
		return <-over // it had begun
	}
	return err
}

// ask runs do in the service's turn without swapping anything.
func (t *target) ask(ctx context.Context, do func(*service.Swapping) error) error {
	err := t.turn(ctx, func(w *service.Swapping) error {
		if err := do(w); err != nil {
			return err
		}
		return errAsked
	})
	if errors.Is(err, errAsked) {
		return nil
	}
	return err
}

// open brings the target's state up to what its VM runs.
func (t *target) open(w *service.Swapping) error {
	vm := w.VM()
	modules, err := t.rl.modules(vm.Modules())
	if err != nil {
		return err
	}
	if t.vm == vm && t.state != nil {
		t.bind(w)
		return t.state.see(modules)
	}
	t.vm, t.before, t.changed = vm, nil, nil
	t.state, err = NewState(&Image{Globals: vm.Globals(), Modules: modules})
	t.bind(w)
	return err
}

// bind gives the live image its eyes for this turn.
func (t *target) bind(w *service.Swapping) {
	if t.state == nil {
		return
	}
	vm, world := w.VM(), t.node.Runtime.World()
	im := t.state.live
	im.Roots = func(visit func(lua.LValue)) {
		w.Functions(func(fn *lua.LFunction) *lua.LFunction {
			visit(fn)
			return fn
		})
	}
	im.Stacks, im.Inside = vm.Stacks, vm.Inside
	im.Shared = func(t *lua.LTable) bool { return world.Shared(t) || value.IsArrayMark(t) || isErrorMeta(t) }
}

// isErrorMeta knows the metatable of Errors, which all VMs share.
func isErrorMeta(t *lua.LTable) bool { return t.RawGetString("__metatable") == lua.LString("Error") }

// load loads the service's script, and everything else it has loaded, from
// files into a scratch VM.
func (t *target) load(w *service.Swapping, files luavm.Files) (*Image, []*luavm.Module, error) {
	live, world := w.VM(), t.node.Runtime.World()
	script := live.Modules()[0].Path
	vm := world.NewVM(luavm.VMConfig{
		Owner: live.Owner(), Files: files, Inert: true, Now: t.node.Runtime.Now, Seed: 1,
		Limits: luavm.Limits{HandlerTime: scratchTime},
	})
	defer vm.Close()
	h := world.Take()
	defer h.Give()
	if _, err := vm.Load(h, script, nil); err != nil {
		return nil, nil, problem(script, files, err)
	}
	if err := t.loadRest(vm, h, live, files); err != nil {
		return nil, nil, err
	}
	if _, ok := vm.Modules()[0].Value.(*lua.LTable); !ok {
		return nil, nil, &Problem{Path: script, Text: "it no longer returns a table of functions; end the file with `return M`"}
	}
	modules, err := t.rl.modules(vm.Modules())
	if err != nil {
		return nil, nil, err
	}
	own := libraries(vm, live, world)
	im := &Image{Globals: vm.Globals(), Modules: modules, Roots: vm.Kept, Shared: t.state.live.Shared, Plan: t.rl.plan,
		Twin: func(v lua.LValue) (lua.LValue, bool) {
			if to, ok := own[v]; ok {
				return to, true
			}
			return world.Twin(v)
		}}
	return im, vm.Modules(), nil
}

// loadRest loads what only running code has required. A file that is gone is
// nothing to load: what the service has of it stays.
func (t *target) loadRest(vm *luavm.VM, h *luavm.Hand, live *luavm.VM, files luavm.Files) error {
	ask, err := t.node.Runtime.World().Compile("(reload)", []byte("local name = ... return require(name)"))
	if err != nil {
		return err
	}
	for _, m := range live.Modules()[1:] {
		if slices.ContainsFunc(vm.Modules(), func(o *luavm.Module) bool { return o.Path == m.Path }) {
			continue
		}
		if _, err := files.ReadFile(m.Path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fn := &lua.LFunction{Env: vm.Globals(), Proto: ask.Proto}
		if _, re := vm.Run(h, luavm.Call{Fn: fn, Args: []lua.LValue{lua.LString(m.Name)}}); re != nil {
			return problem(m.Path, files, re)
		}
	}
	return nil
}

// libraries pairs the scratch VM's own library tables with the live ones.
func libraries(vm, live *luavm.VM, world *luavm.World) map[lua.LValue]lua.LValue {
	own := map[lua.LValue]lua.LValue{}
	vm.Globals().ForEach(func(k, v lua.LValue) {
		t, ok := v.(*lua.LTable)
		if !ok || t == vm.Globals() || !world.IsLibrary(t) {
			return
		}
		if l, ok := live.Library(k.String()).(*lua.LTable); ok {
			own[t] = l
		}
	})
	return own
}

// differs notes which of the service's files have other code in files, the
// sources that run instead, and the first that can't become code. removed are
// files that were just deleted.
func (c *change) differs(w *service.Swapping, files luavm.Files, removed map[string]bool) {
	world := c.t.node.Runtime.World()
	c.runs = map[string]string{}
	for i, m := range w.VM().Modules() {
		src, err := files.ReadFile(m.Path)
		var code *luavm.Code
		if err == nil {
			code, err = world.Compile(m.Path, src)
		}
		switch {
		case err == nil && code.Hash == m.Code.Hash:
			continue
		case errors.Is(err, fs.ErrNotExist) && i > 0 && !removed[m.Path]:
			c.missing = true
			continue // nothing to load: what the service has of it stays
		case errors.Is(err, fs.ErrNotExist) && i > 0:
			err = nil // the script may have stopped to require it
		case errors.Is(err, fs.ErrNotExist):
			err = &luavm.ScriptError{File: m.Path, Message: "the file is gone; the service goes on with the code it has"}
		}
		c.paths, c.runs[m.Path] = append(c.paths, m.Path), m.Code.Source
		if err != nil && c.bad == nil {
			c.bad = problem(m.Path, files, err)
		}
	}
}

// check finds out whether a swap would be refused.
func (t *target) check(w *service.Swapping, files luavm.Files) error {
	if err := t.open(w); err != nil {
		return err
	}
	fresh, _, err := t.load(w, files)
	if err != nil {
		return err
	}
	return t.state.Check(fresh)
}

// swap loads and swaps in one turn.
func (t *target) swap(w *service.Swapping, files luavm.Files, changed []string) (*Outcome, error) {
	if err := t.open(w); err != nil {
		return nil, err
	}
	fresh, loaded, err := t.load(w, files)
	if err != nil {
		return nil, err
	}
	out, err := t.state.Swap(fresh)
	if err != nil {
		return nil, err
	}
	t.before = slices.Clone(w.VM().Modules())
	t.changed = changed
	t.install(w, append(slices.Clone(loaded), t.before...), out.Modules)
	return out, nil
}

// undo goes back to the moment before the last swap.
func (t *target) undo(w *service.Swapping) (*Outcome, []string, error) {
	if t.vm != w.VM() || t.state == nil {
		return nil, nil, ErrNothingToUndo
	}
	t.bind(w)
	out, lost, err := t.state.Undo()
	if err != nil {
		return nil, nil, err
	}
	t.install(w, t.before, out.Modules)
	t.before = nil
	return out, lost, nil
}

// install tells the VM and the service what is loaded now: of each path the
// first module of loaded.
func (t *target) install(w *service.Swapping, loaded []*luavm.Module, now []*Module) {
	vm := w.VM()
	var all []*luavm.Module
	for _, m := range now {
		i := slices.IndexFunc(loaded, func(o *luavm.Module) bool { return o.Path == m.Path && o.Code.Proto == m.Proto })
		if i < 0 {
			continue
		}
		lm := *loaded[i]
		lm.Value = m.Value
		if lm.Main != nil {
			main := *lm.Main
			main.Env = vm.Globals()
			lm.Main = &main
		}
		all = append(all, &lm)
	}
	for _, m := range all {
		m.Requires = slices.Clone(m.Requires)
		for i, r := range m.Requires {
			if j := slices.IndexFunc(all, func(o *luavm.Module) bool { return o.Path == r.Path }); j >= 0 {
				m.Requires[i] = all[j]
			}
		}
	}
	vm.SetModules(all)
	if table, ok := all[0].Value.(*lua.LTable); ok {
		w.SetModule(table)
	}
}

// shapes remembers what was analysed, by hash: all nodes run the same files. A
// shape lives as long as some VM runs the code, so that a thousand reloads leave
// nothing behind.
type shapes struct {
	mu     sync.Mutex
	byHash map[shapeKey]weak.Pointer[Shape]
	sweep  int // at this size the dead ones are dropped
	plans  map[[2]*Shape]*Plan
}

type shapeKey struct {
	path string
	hash [32]byte
}

func (rl *Reloader) modules(loaded []*luavm.Module) ([]*Module, error) {
	var all []*Module
	for _, m := range loaded {
		shape, err := rl.shape(m.Code)
		if err != nil {
			return nil, err
		}
		all = append(all, &Module{Path: m.Path, Shape: shape, Proto: m.Code.Proto, Value: m.Value})
	}
	return all, nil
}

func (rl *Reloader) shape(c *luavm.Code) (*Shape, error) {
	sh := &rl.shapes
	k := shapeKey{c.Path, c.Hash}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s := sh.byHash[k].Value(); s != nil {
		return s, nil
	}
	s, err := Analyse(c.Path, c.Source)
	if err != nil {
		return nil, err
	}
	if sh.byHash == nil {
		sh.byHash, sh.sweep = map[shapeKey]weak.Pointer[Shape]{}, 64
	}
	if len(sh.byHash) >= sh.sweep {
		maps.DeleteFunc(sh.byHash, func(_ shapeKey, p weak.Pointer[Shape]) bool { return p.Value() == nil })
		sh.sweep = max(64, 2*len(sh.byHash))
	}
	sh.byHash[k] = weak.Make(s)
	return s, nil
}

// plan makes each plan of one round once.
func (rl *Reloader) plan(old, new *Shape) *Plan {
	sh := &rl.shapes
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := [2]*Shape{old, new}
	p := sh.plans[k]
	if p == nil {
		p = PlanFor(old, new)
		if sh.plans == nil {
			sh.plans = map[[2]*Shape]*Plan{}
		}
		sh.plans[k] = p
	}
	return p
}
