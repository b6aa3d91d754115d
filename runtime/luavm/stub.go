package luavm

import lua "github.com/yuin/gopher-lua"

// This file goes away as the real parts arrive.

type libraries struct{}
type codeCache struct{}
type order int

const orderEnd order = 0

type worker struct{ in chan order }
type coroutine struct{}
type watcher struct{}
type watched struct{}
type tidyState struct{}

func (w *watcher) stop()                         {}
func (w *World) startWatcher()                   {}
func newLibraries(w *World) (*libraries, error)  { return &libraries{}, nil }
func (l *libraries) install(vm *VM)              {}
func checkLayout() error                         { return nil }
func (w *World) end(k *worker)                   {}
func (w *World) abandon(vm *VM)                  {}
func (w *World) newStack() *lua.LState           { return lua.NewState() }
func (vm *VM) begin(t *turn, c *Call)            {}
func (vm *VM) end(t *turn)                       {}
func (vm *VM) fail(h *Hand, err error) *RunError { return nil }

// Load runs the script at path as the VM's main module and returns its value.
// The turn may suspend, like any other. The error is a *ScriptError when a file
// can't be loaded and a *RunError when its top level throws.
func (vm *VM) Load(h *Hand, path string, data any) (*Module, error) { return nil, nil }

// Modules lists what the VM has loaded: the script first, then the modules it
// requires in the order they finished loading.
func (vm *VM) Modules() []*Module { return vm.modules }

// CodeHash is a short hash (7 hexadecimal digits) over all files the VM runs.
func (vm *VM) CodeHash() string { return "" }

// Compile compiles source without running it, through the world's cache.
func (w *World) Compile(path string, source []byte) (*Code, error) { return nil, nil }

// Usage is what Tidy found.
type Usage struct {
	Bytes     int64 // estimated within a third
	Objects   int
	Compacted int // tables that had garbage keys
}

// Tidy measures the VM's memory and compacts tables that hold many dead keys,
// if it is due; ok is false when it is not. The service calls it between turns.
// The error is memory_limit when the VM is over its budget.
func (vm *VM) Tidy() (u Usage, ok bool) { return Usage{}, false }
