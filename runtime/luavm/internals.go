package luavm

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// This file holds everything that knows the unexported parts of gopher-lua
// v1.1.2: the table of its instructions, and the fields that checkLayout
// compares with the real ones. A newer version either passes that check or
// fails the first NewWorld with the name of the field that moved.

//lint:file-ignore U1000 a mirror has every field of what it mirrors

// registryMirror is lua.registry: the values of one stack.
type registryMirror struct {
	array   []lua.LValue
	top     int
	growBy  int
	maxSize int
	alloc   unsafe.Pointer
	handler [2]unsafe.Pointer
}

// frameMirror is lua.callFrame.
type frameMirror struct {
	Idx        int
	Fn         *lua.LFunction
	Parent     *frameMirror
	Pc         int
	Base       int
	LocalBase  int
	ReturnBase int
	NArgs      int
	NRet       int
	TailCall   int
}

// framesMirror is lua.fixedCallFrameStack.
type framesMirror struct {
	array []frameMirror
	sp    int
}

// upvalueMirror is lua.Upvalue.
type upvalueMirror struct {
	next   *upvalueMirror
	reg    *registryMirror
	index  int
	value  lua.LValue
	closed bool
}

// tableMirror is lua.LTable.
type tableMirror struct {
	Metatable lua.LValue
	array     []lua.LValue
	dict      map[lua.LValue]lua.LValue
	strdict   map[string]lua.LValue
	keys      []lua.LValue
	k2i       map[lua.LValue]int
}

// The fields of lua.LState that are read.
var (
	offReg     uintptr
	offStack   uintptr
	offUvcache uintptr
	offFrame   uintptr
	offMts     uintptr // of lua.Global
)

func registryOf(L *lua.LState) *registryMirror {
	return *(**registryMirror)(unsafe.Add(unsafe.Pointer(L), offReg))
}

// framesOf relies on the fixed call stack, which newStack asks for.
func framesOf(L *lua.LState) *framesMirror {
	iface := (*[2]unsafe.Pointer)(unsafe.Add(unsafe.Pointer(L), offStack))
	return (*framesMirror)(iface[1])
}

// setCallDepth lets a stack on which nothing runs hold so many frames. It keeps the
// room that a deeper service needed: stacks go from one VM to the next.
func setCallDepth(L *lua.LState, depth int) {
	f := framesOf(L)
	switch {
	case len(f.array) == depth:
	case cap(f.array) >= depth:
		f.array = f.array[:depth]
	default:
		f.array = make([]frameMirror, depth)
	}
}

func openUpvalues(L *lua.LState) **upvalueMirror {
	return (**upvalueMirror)(unsafe.Add(unsafe.Pointer(L), offUvcache))
}

func currentFrame(L *lua.LState) *frameMirror {
	return *(**frameMirror)(unsafe.Add(unsafe.Pointer(L), offFrame))
}

// setBuiltinMetatables gives g metatables of its own for the types that share
// one; they come from the world otherwise.
func setBuiltinMetatables(g *lua.Global, mts map[int]lua.LValue) {
	*(*map[int]lua.LValue)(unsafe.Add(unsafe.Pointer(g), offMts)) = mts
}

func mirrorOf(t *lua.LTable) *tableMirror { return (*tableMirror)(unsafe.Pointer(t)) }

// flagWord is a word of each stack that the instructions below look at: minus
// one asks the stack's goroutine to call interrupt. gopher-lua reads the option
// only while it makes a stack.
func flagWord(L *lua.LState) *uintptr {
	return (*uintptr)(unsafe.Pointer(&L.Options.CallStackSize))
}

const raised = ^uintptr(0)

func flagged(L *lua.LState) bool { return atomic.LoadUintptr(flagWord(L)) == raised }
func raiseFlag(L *lua.LState)    { atomic.StoreUintptr(flagWord(L), raised) }
func lowerFlag(L *lua.LState)    { atomic.StoreUintptr(flagWord(L), 1) }

// instruction is lua.instFunc.
type instruction func(L *lua.LState, inst uint32, base unsafe.Pointer) int

// The numbers of the instructions that are hooked, of lua's opcode.go.
const (
	opConcat   = 24
	opJmp      = 25
	opCall     = 31
	opTailCall = 32
	opForLoop  = 34
	opTForLoop = 36
	opCount    = 42
)

//go:linkname jumpTable github.com/yuin/gopher-lua.jumpTable
var jumpTable [opCount]instruction

// The guard: gopher-lua polls only a context, before every instruction, which
// costs up to 85 %. Every loop passes one of these instructions, so only they
// look at the flag. Concatenation also checks the size of its result first: a
// doubling string ends the process otherwise. The hooks let stacks that are not
// ours pass, and are set once, before main.
func init() {
	for _, op := range []int{opJmp, opCall, opForLoop, opTForLoop} {
		plain := jumpTable[op]
		jumpTable[op] = func(L *lua.LState, inst uint32, base unsafe.Pointer) int {
			if flagged(L) {
				interrupt(L)
			}
			return plain(L, inst, base)
		}
	}
	// gopher-lua counts tail calls without end, and a traceback has a line for
	// each: one error after a hundred million of them takes all memory.
	tailCall := jumpTable[opTailCall]
	jumpTable[opTailCall] = func(L *lua.LState, inst uint32, base unsafe.Pointer) int {
		if flagged(L) {
			interrupt(L)
		}
		if f := currentFrame(L); f.TailCall > 2 {
			f.TailCall = 2
		}
		return tailCall(L, inst, base)
	}
	concat := jumpTable[opConcat]
	jumpTable[opConcat] = func(L *lua.LState, inst uint32, base unsafe.Pointer) int {
		lbase := currentFrame(L).LocalBase
		first, last := lbase+int(inst&0x1ff), lbase+int(inst>>9)&0x1ff
		checkConcat(L, registryOf(L).array[first:last+1])
		return concat(L, inst, base)
	}
	// A gap of this many slots is where an assignment to an integer key stops
	// filling an array: the default lets t[60000000]=1 take 3 GB and 12 s.
	lua.MaxArrayIndex = 4 << 20
}

// checkLayout compares the mirrors with the types they mirror.
var checkLayout = sync.OnceValue(func() error {
	state := reflect.TypeFor[lua.LState]()
	for name, off := range map[string]*uintptr{"reg": &offReg, "stack": &offStack, "uvcache": &offUvcache, "currentFrame": &offFrame} {
		f, ok := state.FieldByName(name)
		if !ok {
			return layoutError("LState." + name)
		}
		*off = f.Offset
	}
	mts, ok := reflect.TypeFor[lua.Global]().FieldByName("builtinMts")
	if !ok || mts.Type != reflect.TypeFor[map[int]lua.LValue]() {
		return layoutError("Global.builtinMts")
	}
	offMts = mts.Offset
	reg, _ := state.FieldByName("reg")
	frame, _ := state.FieldByName("currentFrame")
	upvalues, _ := state.FieldByName("uvcache")
	for _, pair := range []struct{ real, mirror reflect.Type }{
		{reg.Type.Elem(), reflect.TypeFor[registryMirror]()},
		{frame.Type.Elem(), reflect.TypeFor[frameMirror]()},
		{upvalues.Type.Elem(), reflect.TypeFor[upvalueMirror]()},
		{reflect.TypeFor[lua.LTable](), reflect.TypeFor[tableMirror]()},
	} {
		if err := sameLayout(pair.real, pair.mirror); err != nil {
			return err
		}
	}
	L := lua.NewState(lua.Options{CallStackSize: 2, RegistrySize: 128, SkipOpenLibs: true})
	stack := reflect.ValueOf(L).Elem().FieldByName("stack").Elem()
	return sameLayout(stack.Type().Elem(), reflect.TypeFor[framesMirror]())
})

func sameLayout(real, mirror reflect.Type) error {
	if real.Kind() != reflect.Struct || real.Size() != mirror.Size() || real.NumField() != mirror.NumField() {
		return layoutError(real.String())
	}
	for i := range real.NumField() {
		r, m := real.Field(i), mirror.Field(i)
		if r.Name != m.Name || r.Offset != m.Offset || r.Type.Size() != m.Type.Size() {
			return layoutError(real.String() + "." + r.Name)
		}
	}
	return nil
}

func layoutError(what string) error {
	return fmt.Errorf("this gopher-lua lays out %s differently from v1.1.2, which Shield is built for; go back to that version in go.mod", what)
}

// parkedStack is what a suspended coroutine's stack held. The goroutine that
// waits in yield keeps its lua.LState alive; with the values moved out of it,
// into the object that Lua sees, a coroutine that nobody can resume is garbage
// like any other (see coroutine).
type parkedStack struct {
	reg *registryMirror // apart, because closures outside may hold it
	fns []*lua.LFunction
	up  *upvalueMirror
	g   *lua.Global
	env *lua.LTable
}

func (p *parkedStack) save(L *lua.LState) {
	r := registryOf(L)
	if p.reg == nil {
		p.reg = new(registryMirror)
	}
	*p.reg = *r
	r.array = nil
	open := openUpvalues(L)
	for u := *open; u != nil; u = u.next {
		u.reg = p.reg
	}
	p.up, *open = *open, nil
	p.fns = takeFunctions(L, p.fns[:0])
	p.g, p.env = L.G, L.Env
	L.G, L.Env = nil, nil
}

func (p *parkedStack) restore(L *lua.LState) {
	r := registryOf(L)
	*r = *p.reg
	p.reg.array = nil
	for u := p.up; u != nil; u = u.next {
		u.reg = r
	}
	*openUpvalues(L), p.up = p.up, nil
	frames := framesOf(L)
	for i, fn := range p.fns {
		frames.array[i].Fn = fn
	}
	clear(p.fns)
	L.G, L.Env = p.g, p.env
	p.g, p.env = nil, nil
}

// values are the registers of a saved stack.
func (p *parkedStack) values() []lua.LValue {
	if p.reg == nil || p.reg.array == nil {
		return nil
	}
	return p.reg.array[:p.reg.top]
}

// takeFunctions empties the call frames of L, also those it has returned from,
// which gopher-lua never clears, and appends the functions of the live ones.
func takeFunctions(L *lua.LState, to []*lua.LFunction) []*lua.LFunction {
	frames := framesOf(L)
	for i := range frames.array {
		f := &frames.array[i]
		if f.Fn == nil && i >= frames.sp {
			break // the dead ones are contiguous
		}
		if i < frames.sp {
			to = append(to, f.Fn)
		}
		f.Fn = nil
	}
	return to
}

// registers are the values on a stack that is not saved.
func registers(L *lua.LState) []lua.LValue {
	r := registryOf(L)
	return r.array[:r.top]
}

// newStack makes an LState that can become a hand or a coroutine's. A call
// stack that grows by itself (MinimizeStackMemory) is corrupt after an overflow
// inside pcall (state.go:264), so it has its full size from the start. The
// registry grows in steps that keep a big unpack from being quadratic.
func (w *World) newStack() *lua.LState {
	L := lua.NewState(lua.Options{
		CallStackSize: w.cfg.MaxCallDepth, RegistrySize: 256, RegistryGrowStep: 2048, RegistryMaxSize: maxRegistry,
		SkipOpenLibs: true, IncludeGoStackTrace: true,
	})
	lowerFlag(L)
	L.G, L.Env = w.libs.idle, w.libs.idle.Global
	return L
}

// maxRegistry is how many values one stack holds at most: what a call can
// return, and unpack can spread.
const maxRegistry = 1 << 17

// bloated reports a stack that grew too big to keep in the pool.
func bloated(L *lua.LState) bool { return cap(registryOf(L).array) > 8192 }
