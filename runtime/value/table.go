package value

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// Every message that is copied, sent or encoded walks tables. lua.LTable.Next
// looks each key up to find the following one, and no method makes a table whose
// list of keys has room; both together double the cost of a record. So this file
// knows the unexported fields of gopher-lua v1.1.2, as package luavm does, and
// refuses to start with a version whose fields differ.

// tableMirror is lua.LTable.
type tableMirror struct {
	Metatable lua.LValue
	array     []lua.LValue
	dict      map[lua.LValue]lua.LValue
	strdict   map[string]lua.LValue
	keys      []lua.LValue // of both maps, in the order of insertion; never shortened
	k2i       map[lua.LValue]int
}

var _ = mustMatch(reflect.TypeFor[tableMirror](), reflect.TypeFor[lua.LTable]())

func mustMatch(mine, theirs reflect.Type) struct{} {
	same := mine.Size() == theirs.Size() && mine.NumField() == theirs.NumField()
	for i := 0; same && i < mine.NumField(); i++ {
		a, b := mine.Field(i), theirs.Field(i)
		same = a.Name == b.Name && a.Type == b.Type && a.Offset == b.Offset
	}
	if !same {
		panic(fmt.Sprintf("package value was built with a gopher-lua whose %s is not that of v1.1.2", theirs))
	}
	return struct{}{}
}

func mirror(t *lua.LTable) *tableMirror { return (*tableMirror)(unsafe.Pointer(t)) }

// newTable makes a table that belongs to no VM, with room for narr elements and
// nrec other keys.
func newTable(narr, nrec int) *lua.LTable {
	t := &lua.LTable{Metatable: lua.LNil}
	m := mirror(t)
	if narr > 0 {
		m.array = make([]lua.LValue, 0, narr)
	}
	if nrec > 0 {
		reserveFields(t, nrec)
	}
	return t
}

// reserveFields makes room for n fields in a table that has none.
func reserveFields(t *lua.LTable, n int) {
	m := mirror(t)
	m.strdict = make(map[string]lua.LValue, n)
	m.keys = make([]lua.LValue, 0, n)
	m.k2i = make(map[lua.LValue]int, n)
}

// maxRecord is up to how many fields a table counts as a record. Go keeps so
// many entries of a map in one block, which is copied without hashing a key.
const maxRecord = 8

// isRecord says whether the hash part of t is small, has string keys only and
// never lost one: then its maps can be taken over as they are.
func isRecord(t *lua.LTable) bool {
	m := mirror(t)
	return len(m.keys) <= maxRecord && len(m.keys) == len(m.strdict)
}

// cloneRecord gives c the fields of the record t.
func cloneRecord(c, t *lua.LTable) {
	from, to := mirror(t), mirror(c)
	to.strdict, to.keys, to.k2i = maps.Clone(from.strdict), slices.Clone(from.keys), maps.Clone(from.k2i)
}

// boxed holds the integers that messages are full of as interface values: they
// need no memory.
var boxed = func() (b [257]lua.LValue) {
	for i := range b {
		b[i] = lua.LNumber(i)
	}
	return b
}()

// integer boxes a whole number.
func integer(f float64) lua.LValue {
	if f >= 0 && f < float64(len(boxed)) {
		return boxed[int(f)]
	}
	return lua.LNumber(f)
}

// arrayOf is the array part of t up to its last value. Holes are LNil.
func arrayOf(t *lua.LTable) []lua.LValue {
	a := mirror(t).array
	for len(a) > 0 && (a[len(a)-1] == lua.LNil || a[len(a)-1] == nil) {
		a = a[:len(a)-1]
	}
	return a
}

// hashLen is how many keys t has beside its array part.
func hashLen(t *lua.LTable) int {
	m := mirror(t)
	return len(m.strdict) + len(m.dict)
}

// listLen decides what is a list outside a VM: a table whose keys are 1 to n and
// nothing else, wherever Lua keeps them, and one that shield.array marked. Any
// other is a map, so that a table by player id has one shape whatever the ids.
// The holes of a marked table are null.
func listLen(t *lua.LTable) (n int, ok bool) {
	array, m := arrayOf(t), mirror(t)
	if hashLen(t) == 0 {
		if IsArrayMark(t.Metatable) {
			return len(array), true
		}
		return len(array), len(array) > 0 && !slices.Contains(array, lua.LValue(lua.LNil))
	}
	if len(m.strdict) > 0 {
		return 0, false
	}
	n = len(array) + len(m.dict)
	for _, v := range array {
		if v == lua.LNil {
			n--
		}
	}
	for k := range m.dict {
		if i, isInt := k.(lua.LNumber); !isInt || i < 1 || i > lua.LNumber(n) || i != lua.LNumber(int(i)) {
			return 0, false
		}
	}
	return n, len(array) <= n
}

// element is t[i] of a list.
func element(t *lua.LTable, i int) lua.LValue {
	if a := mirror(t).array; i <= len(a) {
		if v := a[i-1]; v != nil && v != lua.LNil {
			return v
		}
	}
	if v, ok := mirror(t).dict[lua.LNumber(i)]; ok {
		return v
	}
	return lua.LNil
}

// hashPairs walks what is not in the array part, in the order of pairs.
func hashPairs(t *lua.LTable) iter.Seq2[lua.LValue, lua.LValue] {
	return func(yield func(k, v lua.LValue) bool) {
		m := mirror(t)
		for _, k := range m.keys {
			var v lua.LValue
			if s, ok := k.(lua.LString); ok {
				v = m.strdict[string(s)]
			} else {
				v = m.dict[k]
			}
			if v != nil && v != lua.LNil && !yield(k, v) { // a deleted key stays in keys
				return
			}
		}
	}
}

// setField writes t[k] for a string key, without boxing k again.
func setField(t *lua.LTable, k lua.LValue, v lua.LValue) {
	m := mirror(t)
	s := string(k.(lua.LString))
	if m.strdict == nil {
		t.RawSetString(s, v)
		return
	}
	if _, there := m.strdict[s]; !there {
		m.k2i[k] = len(m.keys)
		m.keys = append(m.keys, k)
	}
	m.strdict[s] = v
}

// setZero writes t[0]. gopher-lua takes 0 and -0 for one key, but pairs gives it
// with the sign that it was written with first; between services it has none.
func setZero(t *lua.LTable, v lua.LValue) {
	zero, m := integer(0), mirror(t)
	t.RawSetH(zero, v)
	m.keys[m.k2i[zero]] = zero
}

// allPairs walks everything, in the order of pairs.
func allPairs(t *lua.LTable) iter.Seq2[lua.LValue, lua.LValue] {
	return func(yield func(k, v lua.LValue) bool) {
		for i, v := range arrayOf(t) {
			if v != nil && v != lua.LNil && !yield(lua.LNumber(i+1), v) {
				return
			}
		}
		hashPairs(t)(yield)
	}
}
