package luavm

import (
	"strconv"
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

func baseAssert(L *lua.LState) int {
	if lua.LVAsBool(L.CheckAny(1)) {
		return L.GetTop()
	}
	if L.GetTop() < 2 {
		L.RaiseError("assertion failed!")
	}
	L.Error(L.Get(2), 0)
	return 0
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

func baseError(L *lua.LState) int {
	v := L.Get(1)
	level := L.OptInt(2, 1)
	if s, ok := v.(lua.LString); ok && level > 0 {
		v = lua.LString(whereLevel(L, level)) + s
	}
	L.Error(v, 0)
	return 0
}

// whereLevel gives "file:line: " of the function at a level, or "".
func whereLevel(L *lua.LState, level int) string {
	dbg, ok := L.GetStack(level)
	if !ok {
		return ""
	}
	if _, err := L.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.Source == "" {
		return ""
	}
	return dbg.Source + ":" + strconv.Itoa(dbg.CurrentLine) + ": "
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
		if level := L.OptInt(1, 1); level > 0 {
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
		level := L.CheckInt(1)
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
	k, v := t.Next(key)
	if k == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(k)
	L.Push(v)
	return 2
}

func callable(L *lua.LState, v lua.LValue) bool {
	return v.Type() == lua.LTFunction || L.GetMetaField(v, "__call").Type() == lua.LTFunction
}

func basePcall(L *lua.LState) int {
	v := L.CheckAny(1)
	if !callable(L, v) {
		L.Push(lua.LFalse)
		L.Push(lua.LString("attempt to call a " + v.Type().String() + " value"))
		return 2
	}
	if api := protect(L, L.GetTop()-1, lua.MultRet); api != nil {
		L.Push(lua.LFalse)
		L.Push(api.Object)
		return 2
	}
	L.Insert(lua.LTrue, 1)
	return L.GetTop()
}

// baseXpcall runs the handler after the stack is unwound, because a handler
// given to PCall leaves upvalues open; what debug.traceback says inside it is
// the place where the error was thrown all the same.
func baseXpcall(L *lua.LState) int {
	fn, handler := L.CheckAny(1), L.CheckAny(2)
	n := L.GetTop() - 2
	L.Remove(2)
	if !callable(L, fn) {
		L.SetTop(0)
		return handled(L, handler, &lua.ApiError{Object: lua.LString("attempt to call a " + fn.Type().String() + " value")})
	}
	if api := protect(L, n, lua.MultRet); api != nil {
		return handled(L, handler, api)
	}
	L.Insert(lua.LTrue, 1)
	return L.GetTop()
}

func handled(L *lua.LState, handler lua.LValue, api *lua.ApiError) int {
	th := VMOf(L).cur
	before := th.thrown
	th.thrown = tidyTrace(api.StackTrace, th.entry())
	L.Push(handler)
	L.Push(api.Object)
	failed := protect(L, 1, lua.MultRet)
	th.thrown = before
	if failed != nil {
		L.Push(lua.LFalse)
		L.Push(failed.Object)
		return 2
	}
	L.Insert(lua.LFalse, 1)
	return L.GetTop()
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
	i := L.CheckInt(1)
	switch {
	case i < 0 && -i <= n:
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

func baseTonumber(L *lua.LState) int {
	v := L.CheckAny(1)
	if L.Get(2) != lua.LNil {
		base := L.CheckInt(2)
		if base < 2 || base > 36 {
			L.ArgError(2, "base out of range")
		}
		L.Push(parseBase(L.CheckString(1), base))
		return 1
	}
	switch v := v.(type) {
	case lua.LNumber:
		L.Push(v)
	case lua.LString:
		L.Push(parseNumber(string(v)))
	default:
		L.Push(lua.LNil)
	}
	return 1
}

const space = " \t\n\r\v\f"

// parseNumber reads what Lua's own grammar takes for a number.
func parseNumber(s string) lua.LValue {
	s = strings.Trim(s, space)
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || body == "" {
		return lua.LNil
	}
	if len(body) > 2 && (body[:2] == "0x" || body[:2] == "0X") {
		return parseBase(s, 16)
	}
	if strings.Trim(body, "0123456789.eE+-") != "" {
		return lua.LNil // ParseFloat also takes inf, nan, 1_0 and 0x1p4
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !strings.Contains(err.Error(), "range") {
		return lua.LNil
	}
	return lua.LNumber(f)
}

func parseBase(s string, base int) lua.LValue {
	s = strings.Trim(s, space)
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	if strings.ContainsAny(s, "_+-") {
		return lua.LNil
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return lua.LNil
	}
	if negative {
		return -lua.LNumber(n)
	}
	return lua.LNumber(n)
}

// unpack refuses what no stack can take before it fills one.
func unpack(L *lua.LState) int {
	t := L.CheckTable(1)
	i, j := toInt64(L.OptNumber(2, 1)), int64(t.Len())
	if L.Get(3) != lua.LNil {
		j = toInt64(L.CheckNumber(3))
	}
	if i > j {
		return 0
	}
	if n := float64(j) - float64(i) + 1; n > maxRegistry/2 {
		L.RaiseError("unpack: too many results (%.0f, at most %d)", n, maxRegistry/2)
	}
	for k := i; ; k++ {
		L.Push(t.RawGet(lua.LNumber(k)))
		if k == j {
			return int(j-i) + 1
		}
	}
}

func baseLoad(L *lua.LState) int {
	if _, ok := L.Get(1).(lua.LString); ok {
		return baseLoadstring(L)
	}
	fn := L.CheckFunction(1)
	var src strings.Builder
	for {
		L.Push(fn)
		L.Call(0, 1)
		piece := L.Get(-1)
		L.Pop(1)
		if piece == lua.LNil || piece == lua.LString("") {
			break
		}
		s, ok := piece.(lua.LString)
		if !ok {
			L.RaiseError("load: the reader function must return a string")
		}
		src.WriteString(string(s))
		if src.Len() > maxLoad {
			break // loadChunk says why
		}
	}
	return loadChunk(L, src.String(), "=(load)")
}

func baseLoadstring(L *lua.LState) int {
	src := L.CheckString(1)
	line, _, _ := strings.Cut(src, "\n")
	return loadChunk(L, src, "="+`[string "`+clip(line, 40)+`"]`)
}

// maxLoad is the longest source that a running script may have compiled: the
// compiler can't be interrupted, and takes a hundred times the memory.
const maxLoad = 512 << 10

// loadChunk compiles source into a function of the caller's globals, or of the
// environment in argument 4.
func loadChunk(L *lua.LState, src, name string) int {
	name = L.OptString(2, name)
	if len(src) > maxLoad {
		L.RaiseError("load: the source is longer than %d bytes; keep data in another form", maxLoad)
	}
	if strings.HasPrefix(src, "\x1b") {
		L.Push(lua.LNil)
		L.Push(lua.LString("load: binary chunks are not taken"))
		return 2
	}
	code, err := compile(strings.TrimLeft(name, "=@"), src)
	if err != nil {
		L.Push(lua.LNil)
		L.Push(lua.LString(err.Error()))
		return 2
	}
	fn := VMOf(L).closure(code.Proto)
	if env, ok := L.Get(4).(*lua.LTable); ok {
		checkWrite(L, env)
		fn.Env = env
	}
	L.Push(fn)
	return 1
}
