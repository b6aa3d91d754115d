package luavm

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The global functions. Those that gopher-lua has are written anew where its
// own reach a shared table, the process or the pooled stack, or are wrong:
// setmetatable and setfenv (shared tables), pcall and xpcall (swallowed panics,
// open upvalues), print, dofile, collectgarbage (the process), error (level 2
// names level 1), assert (loses a table), tonumber ("1e5" is nil).

func baseLib() Lib {
	return Lib{
		"assert": baseAssert, "collectgarbage": baseCollect, "error": baseError, "getfenv": baseGetfenv,
		"getmetatable": baseGetmetatable, "ipairs": baseIpairs, "load": baseLoad, "loadstring": baseLoadstring,
		"next": baseNext, "pairs": basePairs, "pcall": basePcall, "print": basePrint, "rawequal": baseRawequal,
		"rawget": baseRawget, "rawlen": baseRawlen, "rawset": baseRawset, "require": require, "select": baseSelect,
		"setfenv": baseSetfenv, "setmetatable": baseSetmetatable, "tonumber": baseTonumber, "tostring": baseTostring,
		"type": baseType, "unpack": unpack, "xpcall": baseXpcall,
	}
}

// baseCollect answers with estimates: a collection of the whole process is not
// a script's to start.
func baseCollect(L *lua.LState) int {
	switch opt := L.OptString(1, "collect"); opt {
	case "count":
		vm := VMOf(L)
		if vm.tidy.last.Bytes == 0 {
			vm.measure()
		}
		L.Push(lua.LNumber(float64(vm.tidy.last.Bytes) / 1024))
	case "step", "isrunning":
		L.Push(lua.LTrue)
	case "collect", "stop", "restart", "setpause", "setstepmul":
		L.Push(lua.LNumber(0))
	default:
		L.ArgError(1, "invalid option '"+clip(opt, 40)+"'")
	}
	return 1
}

// functionAt gives the Lua function at a level of the stack, or nil.
func functionAt(L *lua.LState, level int) *lua.LFunction {
	dbg, ok := L.GetStack(level)
	if !ok {
		return nil
	}
	v, err := L.GetInfo("f", dbg, lua.LNil)
	fn, ok := v.(*lua.LFunction)
	if err != nil || !ok || fn.IsG {
		return nil
	}
	return fn
}

func baseGetfenv(L *lua.LState) int {
	var fn *lua.LFunction
	switch v := L.Get(1).(type) {
	case *lua.LFunction:
		fn = v
	default:
		if level := optInt(L, 1, 1); level > 0 {
			fn = functionAt(L, level)
		}
	}
	if fn == nil || fn.IsG {
		L.Push(L.G.Global)
	} else {
		L.Push(fn.Env)
	}
	return 1
}

func baseSetfenv(L *lua.LState) int {
	env := L.CheckTable(2)
	fn, _ := L.Get(1).(*lua.LFunction)
	if fn == nil {
		level := checkInt(L, 1)
		if level < 1 {
			L.ArgError(1, "the environment of a whole service can't be changed")
		}
		fn = functionAt(L, level)
	}
	if fn == nil || fn.IsG {
		L.RaiseError("setfenv: the environment of this function can't be changed")
	}
	fn.Env = env
	L.Push(fn)
	return 1
}

func baseGetmetatable(L *lua.LState) int {
	v := L.CheckAny(1)
	if t, ok := v.(*lua.LTable); ok && VMOf(L).world.libs.standsFor(t) != nil {
		L.Push(lua.LNil) // how a library's own table is built is not a script's business
		return 1
	}
	if t, ok := v.(*lua.LTable); ok {
		if _, mark := t.Metatable.(*lua.LUserData); mark {
			L.Push(lua.LNil) // shield.array's mark, not a metatable
			return 1
		}
	}
	L.Push(L.GetMetatable(v))
	return 1
}

// baseSetmetatable takes tables only: the metatables of other types are shared
// by all VMs.
func baseSetmetatable(L *lua.LState) int {
	t := L.CheckTable(1)
	L.CheckTypes(2, lua.LTNil, lua.LTTable)
	vm := VMOf(L)
	if vm.world.libs.standsFor(t) != nil {
		vm.world.libs.whole(vm, t)
	} else if mt, ok := t.Metatable.(*lua.LTable); ok && mt.RawGetString("__metatable") != lua.LNil {
		L.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = L.Get(2)
	L.SetTop(1)
	return 1
}

func baseIpairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(VMOf(L).world.libs.ipairsNext)
	L.Push(t)
	L.Push(lua.LNumber(0))
	return 3
}

func ipairsNext(L *lua.LState) int {
	t := L.CheckTable(1)
	i := L.CheckInt(2) + 1
	v := t.RawGetInt(i)
	if v == lua.LNil {
		return 0
	}
	L.Push(lua.LNumber(i))
	L.Push(v)
	return 2
}

func basePairs(L *lua.LState) int {
	t := L.CheckTable(1)
	libs := VMOf(L).world.libs
	if _, ok := t.Metatable.(*lua.LTable); ok {
		t = libs.whole(VMOf(L), t)
	}
	L.Push(libs.next)
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

func baseNext(L *lua.LState) int {
	t := L.CheckTable(1)
	key := L.Get(2)
	if _, ok := t.Metatable.(*lua.LTable); ok {
		t = VMOf(L).world.libs.whole(VMOf(L), t)
	}
	k, v, ok := next(t, key)
	if !ok {
		L.RaiseError("invalid key to 'next': the table does not have it")
	}
	if k == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(k)
	L.Push(v)
	return 2
}

// maxLine is how much of one print is kept.
const maxLine = 64 << 10

func basePrint(L *lua.LState) int {
	var b strings.Builder
	for i, n := 1, L.GetTop(); i <= n && b.Len() < maxLine; i++ {
		if i > 1 {
			b.WriteByte('\t')
		}
		b.WriteString(clip(tostring(L, L.Get(i)), maxLine))
	}
	VMOf(L).world.print(L, b.String())
	return 0
}

// print is silent in a scratch VM, whose script has said it all before.
func (w *World) print(L *lua.LState, line string) {
	if VMOf(L).cfg.Inert {
		return
	}
	if w.cfg.Print != nil {
		w.cfg.Print(L, line)
		return
	}
	w.cfg.Log.Info(line)
}

func baseRawequal(L *lua.LState) int {
	L.Push(lua.LBool(L.CheckAny(1) == L.CheckAny(2)))
	return 1
}

func baseRawget(L *lua.LState) int {
	t, k := L.CheckTable(1), L.CheckAny(2)
	v := t.RawGet(k)
	if v == lua.LNil {
		vm := VMOf(L)
		if real := vm.world.libs.standsFor(t); real != nil {
			if v = real.RawGet(k); v == lua.LNil && real == vm.world.libs.base {
				v = vm.world.libs.ownTable(vm, lua.LVAsString(k))
			}
		}
	}
	L.Push(v)
	return 1
}

func baseRawlen(L *lua.LState) int {
	switch v := L.CheckAny(1).(type) {
	case lua.LString:
		L.Push(lua.LNumber(len(v)))
	default:
		L.Push(lua.LNumber(L.CheckTable(1).Len()))
	}
	return 1
}

func baseRawset(L *lua.LState) int {
	t := L.CheckTable(1)
	checkWrite(L, t)
	L.RawSet(t, L.CheckAny(2), L.CheckAny(3))
	L.SetTop(1)
	return 1
}

func baseSelect(L *lua.LState) int {
	n := L.GetTop() - 1
	if s, ok := L.Get(1).(lua.LString); ok && s == "#" {
		L.Push(lua.LNumber(n))
		return 1
	}
	i := checkInt(L, 1)
	switch {
	case i < 0 && i >= -n:
		return -i
	case i <= 0:
		L.ArgError(1, "index out of range")
	case i > n:
		return 0
	}
	return n - i + 1
}

func baseTostring(L *lua.LState) int {
	L.Push(lua.LString(tostring(L, L.CheckAny(1))))
	return 1
}

// tostring is Lua's. A thread or userdata of ours does not show its address's
// type twice, and __tostring must give a string.
func tostring(L *lua.LState, v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return v.String()
	}
	if L.GetMetaField(v, "__tostring") == lua.LNil {
		return v.String()
	}
	s := L.ToStringMeta(v)
	if !lua.LVCanConvToString(s) {
		L.RaiseError("'__tostring' must return a string")
	}
	return s.String()
}

func baseType(L *lua.LState) int {
	L.Push(lua.LString(L.CheckAny(1).Type().String()))
	return 1
}

// unpack refuses what no stack can take before it fills one.
func unpack(L *lua.LState) int {
	t := L.CheckTable(1)
	i, j := optInt(L, 2, 1), optInt(L, 3, t.Len())
	if i > j {
		return 0
	}
	if n := float64(j) - float64(i) + 1; n > maxRegistry/2 {
		L.RaiseError("unpack: too many results (%.0f, at most %d)", n, maxRegistry/2)
	}
	for k := i; ; k++ {
		L.Push(t.RawGet(lua.LNumber(k)))
		if k == j {
			return j - i + 1
		}
	}
}
