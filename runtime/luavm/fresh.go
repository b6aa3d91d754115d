package luavm

import (
	"sync/atomic"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// A message is mostly written where it is sent: shield.send(to, "hit", {by = id}).
// Such a table is seen by nobody but the call, so it can be handed to the
// receiver instead of a copy of it, which halves the cost of a small send. Who
// can see it is read off the compiled code, once for each place of a call.

// freshSites remembers what was read off, by place. A place that loses its
// entry to another is looked at again.
type freshSites [512]atomic.Pointer[freshSite]

type freshSite struct {
	proto *lua.FunctionProto
	pc    int
	args  uint64
}

// Fresh says which arguments of the Go function that L is in are tables that
// its Lua caller has made in place, so that no other reference to them exists:
// bit 0 is argument 1. The Go function must not have moved its arguments.
// Whoever gives such a table away calls Forget for it.
func Fresh(L *lua.LState) uint64 {
	f := currentFrame(L)
	caller := f.Parent
	if caller == nil || caller.Fn == nil || caller.Fn.IsG || caller.Pc < 1 {
		return 0
	}
	vm := VMOf(L)
	if vm == nil {
		return 0
	}
	p := caller.Fn.Proto
	slot := &vm.world.fresh[(uintptr(unsafe.Pointer(p))>>6^uintptr(caller.Pc)*31)%uintptr(len(freshSites{}))]
	site := slot.Load()
	if site == nil || site.proto != p || site.pc != caller.Pc {
		site = &freshSite{p, caller.Pc, freshArgs(p.Code, caller.Pc-1)}
		slot.Store(site)
	}
	if site.args == 0 || f.LocalBase != caller.LocalBase+operandA(p.Code[caller.Pc-1])+1 {
		return 0
	}
	return site.args
}

// Forget clears argument i, counted from 1: the table that was there has left
// the VM, and nobody who looks through the stack may find it.
func Forget(L *lua.LState, i int) {
	registryOf(L).array[currentFrame(L).LocalBase+i-1] = lua.LNil
}

// The instructions that freshArgs knows beside those of internals.go, cover.go and
// fields.go; those between opAdd and opPow calculate.
const (
	opMove       = 0
	opMoveN      = 1
	opLoadBool   = 3
	opLoadNil    = 4
	opGetUpval   = 5
	opGetTable   = 7
	opGetTableKS = 8
	opSelf       = 14
	opAdd        = 15
	opPow        = 20
	opUnm        = 21
	opLen        = 23
	opEq         = 26
	opTestSet    = 30
	opForPrep    = 35
	opSetList    = 37
	opVararg     = 40
)

func operandA(inst uint32) int { return int(inst >> 18 & 0xff) }
func operandB(inst uint32) int { return int(inst & 0x1ff) }
func operandC(inst uint32) int { return int(inst >> 9 & 0x1ff) }

// freshArgs looks at the call at place at: an argument is fresh when its
// register was written last by a table constructor, nothing on the way to the
// call has read it, and no jump can leave or enter that way.
func freshArgs(code []uint32, at int) (args uint64) {
	call := code[at]
	if call>>26 != opCall {
		return 0
	}
	fn, n := operandA(call), operandB(call)-1 // n < 0: as many as there are
	for i := range min(n, 64) {
		r := fn + 1 + i
		for from := at - 1; from >= 0; from-- {
			inst := code[from]
			if inst>>26 == opNewTable && operandA(inst) == r {
				if !jumpsInto(code, from, at) {
					args |= 1 << i
				}
				break
			}
			if !keepsApart(inst, r) {
				break
			}
		}
	}
	return args
}

// keepsApart reports whether an instruction goes on to the next one and neither
// writes register r nor lets anybody else see the table in it. Of those that
// are not listed it is not known.
func keepsApart(inst uint32, r int) bool {
	a, b, c := operandA(inst), operandB(inst), operandC(inst) // a constant is never equal to r
	switch op := inst >> 26; op {
	case opMove, opMoveN, opUnm, opUnm + 1, opLen:
		return a != r && b != r
	case opLoadK, opGetUpval, opGetGlobal, opNewTable:
		return a != r
	case opLoadBool:
		return a != r && c == 0
	case opLoadNil:
		return r < a || r > b
	case opGetTable, opGetTableKS:
		return a != r && b != r && c != r
	case opSetTable, opSetTableKS: // into the table in r is fine
		return b != r && c != r
	case opSelf:
		return a != r && a+1 != r && b != r && c != r
	case opConcat:
		return a != r && (r < b || r > c)
	case opCall, opVararg:
		return a > r // all they touch is above
	case opSetList:
		return a >= r && c != 0
	default:
		return op >= opAdd && op <= opPow && a != r && b != r && c != r
	}
}

// jumpsInto reports whether anything in code can jump behind from, up to the
// instruction at to.
func jumpsInto(code []uint32, from, to int) bool {
	for i, inst := range code {
		target := -1
		switch op := inst >> 26; {
		case op == opJmp, op == opForLoop, op == opForPrep:
			target = i + 1 + int(inst&0x3ffff) - 0x1ffff
		case op >= opEq && op <= opTestSet, op == opTForLoop, op == opLoadBool:
			target = i + 2 // they may skip the next
		}
		if target > from && target <= to {
			return true
		}
	}
	return false
}
