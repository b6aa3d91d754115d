package luavm

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
	"weak"

	lua "github.com/yuin/gopher-lua"
)

// Limits bound one VM. Zero values are the defaults of DESIGN.md 2.3.
type Limits struct {
	HandlerTime time.Duration // running time between two suspensions; 5 s
	Memory      int64         // bytes, as Tidy estimates them; 64 MiB
	Coroutines  int           // coroutines and turns in flight; 1000
	CallDepth   int           // Lua frames of one stack; WorldConfig.MaxCallDepth
}

// VMConfig makes one VM.
type VMConfig struct {
	Owner  any // what OwnerOf finds from inside a Go function
	Limits Limits
	Now    func() time.Time // the business clock of os.time and os.date; time.Now
	Seed   uint64           // of math.random; 0 = random
	Files  Files            // instead of the world's, for a scratch VM with new files
	Inert  bool             // a scratch VM: shield.* does nothing but its pure part
	// Roots visits values that the owner holds in Go (timer functions,
	// listeners): they count as memory of this VM. May be nil.
	Roots func(visit func(lua.LValue))
}

// VM is one service's Lua. It holds no stack while nothing runs. All its
// methods need the baton, unless they say otherwise.
type VM struct {
	world *World
	g     *lua.Global
	cfg   *VMConfig
	cur   *thread // the stack that runs now; nil between turns
	turns *turn   // in flight: running or parked, newest first

	modules []*Module          // in the order they finished loading
	byName  map[string]*Module // what require cached, by the name it was asked for
	loading []*Module          // being loaded, outermost first

	coroutines map[*worker]weak.Pointer[coroutine] // started and not dead
	interned   map[any]weak.Pointer[lua.LUserData]
	internNext int // sweep interned at this size
	rand       *rand.Rand
	born       time.Time
	tidy       tidyState
	strings    *lua.LTable   // this VM's own string table, once a script used it
	badScript  *ScriptError  // what require met last, for Load
	inFlight   int           // turns
	ran        uint64        // turns that ended
	kept       []lua.LValue  // handed to the inert shield; see Kept
	openFiles  *atomic.Int32 // see scriptFile; nil until the first
	closed     bool
}

// NewVM makes a VM that has run nothing yet.
func (w *World) NewVM(cfg VMConfig) *VM {
	if cfg.Limits.HandlerTime <= 0 {
		cfg.Limits.HandlerTime = 5 * time.Second
	}
	if cfg.Limits.Memory <= 0 {
		cfg.Limits.Memory = 64 << 20
	}
	if cfg.Limits.Coroutines <= 0 {
		cfg.Limits.Coroutines = 1000
	}
	if cfg.Limits.CallDepth <= 0 {
		cfg.Limits.CallDepth = w.cfg.MaxCallDepth
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Files == nil {
		cfg.Files = w.cfg.Files
	}
	vm := &VM{world: w, cfg: &cfg, g: new(lua.Global), born: time.Now()}
	vm.tidy.at, vm.tidy.live = time.Duration(w.watch.now.Load()), w.watch.live.Load()
	w.libs.install(vm)
	return vm
}

// Owner is what VMConfig named. Safe from any goroutine.
func (vm *VM) Owner() any { return vm.cfg.Owner }

// Globals is the VM's _G.
func (vm *VM) Globals() *lua.LTable { return vm.g.Global }

// VMOf finds the VM whose Lua calls a Go function.
func VMOf(L *lua.LState) *VM {
	ud, _ := L.G.Registry.RawGetInt(1).(*lua.LUserData)
	if ud == nil {
		return nil
	}
	vm, _ := ud.Value.(*VM)
	return vm
}

// OwnerOf finds the owner of the VM whose Lua calls a Go function.
func OwnerOf(L *lua.LState) any { return VMOf(L).cfg.Owner }

// Inert reports whether a Go function is called from a scratch VM.
func Inert(L *lua.LState) bool { return VMOf(L).cfg.Inert }

// TurnOf gives the Data of the Call that is running, also from inside a
// coroutine that an earlier turn created.
func TurnOf(L *lua.LState) any {
	if th := VMOf(L).cur; th != nil {
		return th.turn.data
	}
	return nil
}

// Close ends the VM's suspended coroutines. Turns that are still parked end
// when their wait does.
func (vm *VM) Close() {
	if vm.closed {
		return
	}
	vm.closed = true
	for k := range vm.coroutines {
		vm.world.end(k)
	}
	vm.coroutines = nil
}

// Intern returns the one userdata that stands for key inside this VM, so that
// equal handles are the same Lua value. make builds it when there is none; the
// VM keeps it only as long as Lua does.
func (vm *VM) Intern(key any, make func() *lua.LUserData) *lua.LUserData {
	if ud := vm.interned[key].Value(); ud != nil {
		return ud
	}
	if vm.interned == nil {
		vm.interned, vm.internNext = map[any]weak.Pointer[lua.LUserData]{}, 64
	}
	if len(vm.interned) >= vm.internNext {
		vm.pruneInterned()
	}
	ud := make()
	vm.interned[key] = weak.Make(ud)
	return ud
}

// pruneInterned drops the values that the collector has taken. A map keeps the
// room of what it held once, so the rest gets a new one.
func (vm *VM) pruneInterned() {
	live := 0
	for _, p := range vm.interned {
		if p.Value() != nil {
			live++
		}
	}
	if live < len(vm.interned) {
		rest := make(map[any]weak.Pointer[lua.LUserData], live)
		for k, p := range vm.interned {
			if p.Value() != nil {
				rest[k] = p
			}
		}
		vm.interned = rest
	}
	vm.internNext = max(64, 2*len(vm.interned))
}
