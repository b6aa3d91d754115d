package value

import (
	"maps"
	"slices"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
)

// Between two services the same few records go back and forth. knownShapes remembers
// the keys of those that were decoded last: a record of a known shape takes its
// keys from there and its maps as copies, without hashing or boxing a key. It is
// a cache: who is not in it is decoded the long way, and whoever sends a thousand
// shapes pushes out those of others, no more.
var knownShapes [shapeSlots]atomic.Pointer[shape]

const (
	shapeSlots = 256
	// maxShapeKey is the longest key that msgpack writes with a header of one
	// byte.
	maxShapeKey = 31
	// shapeMisses is after how many other records a slot changes hands.
	shapeMisses = 8
)

// shape is the keys of a record. Nothing in it changes but misses.
type shape struct {
	keys    []lua.LValue // shared by the tables: gopher-lua only ever appends, and there is no room
	strdict map[string]lua.LValue
	k2i     map[lua.LValue]int
	misses  atomic.Uint32
}

// record reads n pairs into a new table.
func (d *decoder) record(n, depth int) *lua.LTable {
	if n == 0 || n > maxRecord || len(d.b) == 0 || d.b[0]&0xe0 != 0xa0 {
		t := newTable(0, n)
		d.pairs(t, n, depth)
		return t
	}
	slot := d.slot(n)
	s := slot.Load()
	if s == nil || len(s.keys) != n {
		return d.otherRecord(slot, s, nil, n, depth)
	}
	var values [maxRecord]lua.LValue
	for i, k := range s.keys {
		if !d.skipKey(string(k.(lua.LString))) {
			return d.otherRecord(slot, s, values[:i], n, depth)
		}
		values[i] = d.value(depth - 1)
		if d.bad {
			return nil
		}
		if values[i] == lua.LNil {
			return d.otherRecord(slot, s, values[:i+1], n, depth)
		}
	}
	t := &lua.LTable{Metatable: lua.LNil}
	m := mirror(t)
	m.strdict, m.keys, m.k2i = maps.Clone(s.strdict), s.keys, maps.Clone(s.k2i)
	for i, k := range s.keys {
		m.strdict[string(k.(lua.LString))] = values[i]
	}
	return t
}

// slot is where the shape of the record that begins at d.b belongs.
func (d *decoder) slot(n int) *atomic.Pointer[shape] {
	h := uint32(2166136261) ^ uint32(n)
	for _, c := range d.b[:min(len(d.b), 1+int(d.b[0]&maxShapeKey))] {
		h = (h ^ uint32(c)) * 16777619
	}
	return &knownShapes[(h^h>>16)%shapeSlots]
}

// skipKey moves on if key is what comes.
func (d *decoder) skipKey(key string) bool {
	n := 1 + len(key)
	if len(d.b) < n || d.b[0] != 0xa0|byte(len(key)) || string(d.b[1:n]) != key {
		return false
	}
	d.b = d.b[n:]
	return true
}

// otherRecord reads a record whose shape is not s. The values of its first keys,
// which are those of s, were read already: nothing is ever read twice, or tables
// within tables would cost twice as much at each level.
func (d *decoder) otherRecord(slot *atomic.Pointer[shape], s *shape, read []lua.LValue, n, depth int) *lua.LTable {
	t := newTable(0, n)
	for i, v := range read {
		if v == lua.LNil {
			if d.peer {
				continue
			}
			v = Null
		}
		setField(t, s.keys[i], v)
	}
	d.pairs(t, n-len(read), depth)
	m := mirror(t)
	if d.bad || !isRecord(t) || len(m.keys) != n || len(m.array) > 0 {
		return t
	}
	if s != nil && s.misses.Add(1)%shapeMisses != 0 {
		return t
	}
	next := &shape{keys: slices.Clip(slices.Clone(m.keys)), strdict: make(map[string]lua.LValue, n), k2i: maps.Clone(m.k2i)}
	for _, k := range m.keys {
		key := string(k.(lua.LString))
		if len(key) > maxShapeKey {
			return t
		}
		next.strdict[key] = lua.LNil
	}
	slot.Store(next)
	return t
}
