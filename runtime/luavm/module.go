package luavm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// Module is one file that a VM has loaded.
type Module struct {
	Name     string // as it was first required; the script's own is its path
	Path     string
	Code     *Code
	Main     *lua.LFunction // the closure of the whole file
	Value    lua.LValue     // what it returned; true where that was nothing
	Requires []*Module      // directly, in order, each once
	turn     *turn          // which loads it; nil when it is done
}

// Load runs the script at path as the VM's main module. The turn may suspend
// like any other. The error is a *ScriptError when a file can't be loaded, also
// a required one, and else a *RunError.
func (vm *VM) Load(h *Hand, path string, data any) (*Module, error) {
	code, err := vm.world.read(vm.cfg.Files, path)
	if err != nil {
		return nil, err
	}
	m := &Module{Name: path, Path: path, Code: code, turn: &h.turn}
	m.Main = vm.closure(code.Proto)
	vm.loading = append(vm.loading, m)
	results, failure := vm.Run(h, Call{Fn: m.Main, Data: data})
	vm.loaded(m)
	if failure != nil {
		if se := vm.badScript; se != nil && failure.Value == lua.LString(se.Error()) {
			return nil, se
		}
		return nil, failure
	}
	m.Value = lua.LNil
	if len(results) > 0 {
		m.Value = results[0]
	}
	m.turn = nil
	vm.modules = slices.Insert(vm.modules, 0, m)
	return m, nil
}

// closure makes the function of a whole file.
func (vm *VM) closure(p *lua.FunctionProto) *lua.LFunction {
	return &lua.LFunction{Env: vm.g.Global, Proto: p, Upvalues: make([]*lua.Upvalue, p.NumUpvalues)}
}

// loaded takes m out of the modules being loaded.
func (vm *VM) loaded(m *Module) {
	vm.loading = slices.DeleteFunc(vm.loading, func(o *Module) bool { return o == m })
}

// Modules lists what the VM has loaded: the script first, then the modules it
// requires in the order they finished loading.
func (vm *VM) Modules() []*Module { return vm.modules }

// CodeHash is a short hash (7 hexadecimal digits) over all files the VM runs,
// for people to see which code served them.
func (vm *VM) CodeHash() string {
	if len(vm.modules) == 0 {
		return ""
	}
	all := slices.Clone(vm.modules)
	slices.SortFunc(all, func(a, b *Module) int { return strings.Compare(a.Path, b.Path) })
	sum := sha256.New()
	for _, m := range all {
		sum.Write([]byte(m.Path))
		sum.Write([]byte{0})
		sum.Write(m.Code.Hash[:])
	}
	return hex.EncodeToString(sum.Sum(nil))[:7]
}

// SetModules replaces what the VM has loaded: a hot reload moves the modules of
// a scratch VM into the live one. The script comes first.
func (vm *VM) SetModules(all []*Module) {
	vm.modules = all
	vm.byName = nil
	for _, m := range all[min(1, len(all)):] {
		vm.remember(m.Name, m)
	}
}

func (vm *VM) remember(name string, m *Module) {
	if vm.byName == nil {
		vm.byName = map[string]*Module{}
	}
	vm.byName[name] = m
}

// require is Lua's: one value for a module in each VM. Two names of one file
// give one module.
func require(L *lua.LState) int {
	name := L.CheckString(1)
	vm := VMOf(L)
	m := vm.byName[name]
	if m == nil {
		m = vm.load(L, name)
	}
	if by := vm.requirer(L); by != nil && by != m && !slices.Contains(by.Requires, m) {
		by.Requires = append(by.Requires, m)
	}
	L.Push(m.Value)
	return 1
}

// requirer is the module whose file the calling function stands in.
func (vm *VM) requirer(L *lua.LState) *Module {
	dbg, ok := L.GetStack(1)
	if !ok {
		return nil
	}
	if _, err := L.GetInfo("S", dbg, lua.LNil); err != nil {
		return nil
	}
	for _, m := range vm.loading {
		if m.Path == dbg.Source {
			return m
		}
	}
	for _, m := range vm.modules {
		if m.Path == dbg.Source {
			return m
		}
	}
	return nil
}

func (vm *VM) load(L *lua.LState, name string) *Module {
	code := vm.find(L, name)
	for _, m := range vm.modules {
		if m.Path == code.Path {
			vm.remember(name, m)
			return m
		}
	}
	t := vm.cur.turn
	for i, m := range vm.loading {
		if m.Path == code.Path {
			vm.refuseCycle(L, name, vm.loading[i:], m.turn == t)
		}
	}
	if len(vm.loading) >= maxNested {
		L.RaiseError("require '%s': modules nest deeper than %d", name, maxNested)
	}
	m := &Module{Name: name, Path: code.Path, Code: code, turn: t}
	m.Main = vm.closure(code.Proto)
	m.Value = vm.callModule(L, m)
	m.turn = nil
	vm.modules = append(vm.modules, m)
	vm.remember(name, m)
	return m
}

// callModule runs a module's file. An error in it passes through as it is, with
// the whole stack in its traceback, and the next require tries again.
func (vm *VM) callModule(L *lua.LState, m *Module) lua.LValue {
	vm.loading = append(vm.loading, m)
	defer vm.loaded(m)
	L.Push(m.Main)
	L.Push(lua.LString(m.Name))
	L.Call(1, 1)
	v := L.Get(-1)
	L.Pop(1)
	if v == lua.LNil {
		return lua.LTrue
	}
	return v
}

func (vm *VM) refuseCycle(L *lua.LState, name string, chain []*Module, own bool) {
	if !own {
		L.RaiseError("require '%s': another handler is loading it and has not finished; require it at the top of the file", name)
	}
	var names []string
	for _, m := range chain {
		names = append(names, m.Name)
	}
	L.RaiseError("require '%s': modules require each other in a circle: %s -> %s; move what they share into a module of its own",
		name, strings.Join(names, " -> "), name)
}

// find locates the file of a module along the module path.
func (vm *VM) find(L *lua.LState, name string) *Code {
	if why := badModuleName(name); why != "" {
		L.RaiseError("require '%s': %s", clip(name, 100), why)
	}
	file := strings.ReplaceAll(name, ".", "/")
	var tried []string
	for pattern := range strings.SplitSeq(vm.world.cfg.ModulePath, ";") {
		if pattern == "" {
			continue
		}
		path := path.Clean(strings.ReplaceAll(pattern, "?", file)) // two spellings are one module
		code, err := vm.world.read(vm.cfg.Files, path)
		if err == nil {
			return code
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errors.As(err, &vm.badScript)
			L.Error(lua.LString(err.Error()), 0)
		}
		tried = append(tried, path)
	}
	L.RaiseError("require '%s': no such module; looked for %s (lua.module_path)", name, strings.Join(tried, ", "))
	return nil
}

func badModuleName(name string) string {
	switch {
	case name == "":
		return "a module name must not be empty"
	case len(name) > 200:
		return "a module name is at most 200 bytes long"
	case strings.ContainsAny(name, "\x00\\:;?*") || strings.HasPrefix(name, "/") || strings.HasSuffix(name, ".lua"):
		return `write it like "lib.items": no extension, no absolute path`
	case strings.Contains(name, ".."), strings.HasPrefix(name, "."), strings.HasSuffix(name, "."):
		return "a module can't leave the project's folder"
	}
	return ""
}
