package luavm

import (
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// Writing a field is what game code does most after calling functions, and
// gopher-lua makes three things of it that cost more than the write: it boxes
// the key again, to look for it in the list of keys; it makes room for 32
// fields in a table that was written as {}; and it lets the list of keys grow
// step by step in one whose fields the compiler has counted. The instructions
// here do the same to the table without that.

const (
	opSetTable   = 11
	opSetTableKS = 12
	opNewTable   = 13
	bitRK        = 1 << 8 // of an operand that is a constant, not a register
)

func init() {
	for _, op := range []int{opSetTable, opSetTableKS} {
		plain := jumpTable[op]
		jumpTable[op] = func(L *lua.LState, inst uint32, base unsafe.Pointer) int {
			if setField(L, inst) {
				return 0
			}
			return plain(L, inst, base)
		}
	}
	plain := jumpTable[opNewTable]
	jumpTable[opNewTable] = func(L *lua.LState, inst uint32, base unsafe.Pointer) int {
		ret := plain(L, inst, base)
		if n := int(inst>>9) & 0x1ff; n > 0 {
			at := currentFrame(L).LocalBase + int(inst>>18)&0xff
			m := mirrorOf(registryOf(L).array[at].(*lua.LTable))
			m.keys, m.k2i = make([]lua.LValue, 0, n), make(map[lua.LValue]int, n)
		}
		return ret
	}
}

// setField does R(A)[RK(B)] := RK(C) for a table, a string and a value that is
// not nil, where no metatable has a say. It reports whether it did.
func setField(L *lua.LState, inst uint32) bool {
	f := currentFrame(L)
	regs := registryOf(L).array[f.LocalBase:]
	t, ok := regs[inst>>18&0xff].(*lua.LTable)
	if !ok {
		return false
	}
	operand := func(i uint32) lua.LValue {
		if i&bitRK != 0 {
			return f.Fn.Proto.Constants[i&^bitRK]
		}
		return regs[i]
	}
	key := operand(inst & 0x1ff)
	s, ok := key.(lua.LString)
	if !ok {
		return false
	}
	v := operand(inst >> 9 & 0x1ff)
	if v == nil || v == lua.LNil {
		return false
	}
	m := mirrorOf(t)
	if _, there := m.strdict[string(s)]; there {
		m.strdict[string(s)] = v
		return true
	}
	if t.Metatable != lua.LNil {
		return false
	}
	if m.strdict == nil {
		m.strdict = make(map[string]lua.LValue)
	}
	if m.k2i == nil {
		m.k2i = make(map[lua.LValue]int)
	}
	// A key that was deleted is still in its place of the list.
	dead := len(m.keys) - len(m.strdict) - len(m.dict)
	m.strdict[string(s)] = v
	if dead > 0 {
		if _, listed := m.k2i[key]; listed {
			return true
		}
	}
	m.k2i[key] = len(m.keys)
	m.keys = append(m.keys, key)
	return true
}

// next is Lua's: the key that comes after one, and its value; nil at the end. ok is
// false for a key that the table never had. gopher-lua's takes such a key for the
// first one, and the end of an array that has become shorter as well.
func next(t *lua.LTable, key lua.LValue) (k, v lua.LValue, ok bool) {
	m := mirrorOf(t)
	i, at := 0, 0 // in the array, and in the list of keys
	if n, isNumber := key.(lua.LNumber); isNumber && n >= 1 && n < lua.LNumber(lua.MaxArrayIndex) && n == lua.LNumber(int(n)) {
		i = int(n)
	} else if key != lua.LNil {
		if at, ok = m.k2i[key]; !ok {
			return lua.LNil, lua.LNil, false
		}
		i, at = len(m.array), at+1
	}
	for ; i < len(m.array); i++ {
		if v := m.array[i]; v != nil && v != lua.LNil {
			return lua.LNumber(i + 1), v, true
		}
	}
	for ; at < len(m.keys); at++ {
		if v := t.RawGetH(m.keys[at]); v != lua.LNil {
			return m.keys[at], v, true
		}
	}
	return lua.LNil, lua.LNil, true
}
