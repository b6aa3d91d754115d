package value

import (
	lua "github.com/yuin/gopher-lua"
)

// Limits that hold where a caller names no other.
const (
	MaxSize  = 1 << 20 // bytes of the encoded form: limits.max_message_size
	MaxDepth = 64      // tables within tables
)

// few is how many values fit into a Payload itself.
const few = 3

// Payload is a list of detached Lua values: the arguments of a message or the
// results of a call. It keeps trailing nils: `1, nil, nil` is three values. The
// zero Payload is empty. Up to three values need no memory beside it.
type Payload struct {
	n    int
	size int
	refs bool
	// encoded: the form between nodes lies in in[0] (Encode), and n is zero.
	encoded bool
	in      [few]lua.LValue
	more    []lua.LValue // all values, once there are more than few
}

// Len is the number of values, nils included.
func (p *Payload) Len() int { return p.n }

// Size is how many bytes Append will add. It is zero for a payload that was put
// together with Add and not measured yet.
func (p *Payload) Size() int { return p.size }

// Measure finds out what Size says.
func (p *Payload) Measure() int {
	if p.size == 0 {
		w := walker{trail: trails.Get().(*trail)}
		w.trail.out = Append(w.trail.out[:0], p)
		p.size = len(w.trail.out)
		w.release()
	}
	return p.size
}

// Refs reports whether a handle or client ref is somewhere in the payload, so
// that the receiver has to Intern it.
func (p *Payload) Refs() bool { return p.refs }

// At is the value at i, counted from 0; nil beyond the end.
func (p *Payload) At(i int) lua.LValue {
	if i < 0 || i >= p.n {
		return lua.LNil
	}
	if p.more != nil {
		return p.more[i]
	}
	return p.in[i]
}

// Add appends a value that is detached already: a scalar, or what this package
// made. Nobody else may hold the tables in it.
func (p *Payload) Add(v lua.LValue) {
	if v == nil {
		v = lua.LNil
	}
	p.refs, p.size = p.refs || mayHoldRefs(v), 0
	p.put(v)
}

// AddPlain is Add for a value that holds no handle and no client ref, such as
// what a Codec decodes: the receiver has nothing to intern.
func (p *Payload) AddPlain(v lua.LValue) {
	if v == nil {
		v = lua.LNil
	}
	p.put(v)
}

// mayHoldRefs errs to the safe side for tables.
func mayHoldRefs(v lua.LValue) bool {
	switch v := v.(type) {
	case *lua.LTable:
		return true
	case *lua.LUserData:
		return v != Null
	}
	return false
}

func (p *Payload) put(v lua.LValue) {
	if p.n < few && p.more == nil {
		p.in[p.n] = v
		p.n++
		return
	}
	if p.more == nil {
		p.more = append(make([]lua.LValue, 0, 8), p.in[:p.n]...)
		p.in = [few]lua.LValue{}
	}
	p.more = append(p.more, v)
	p.n++
}

// reserve makes room for n values at once.
func (p *Payload) reserve(n int) {
	if n > few && p.n == 0 {
		p.more = make([]lua.LValue, 0, n)
	}
}

// Push puts all values on the stack of L and returns how many they are. The
// payload must not be used for another VM after that.
func (p *Payload) Push(L *lua.LState) int {
	for i := 0; i < p.n; i++ {
		L.Push(p.At(i))
	}
	return p.n
}

// Intern replaces every handle and client ref by what intern returns for it:
// equal ones must be the same value within one VM. It costs nothing when Refs
// is false.
func (p *Payload) Intern(intern func(*lua.LUserData) *lua.LUserData) {
	if !p.refs {
		return
	}
	for i := 0; i < p.n; i++ {
		v := Intern(p.At(i), intern)
		if p.more != nil {
			p.more[i] = v
		} else {
			p.in[i] = v
		}
	}
}

// Intern is Payload.Intern for one detached value.
func Intern(v lua.LValue, intern func(*lua.LUserData) *lua.LUserData) lua.LValue {
	switch v := v.(type) {
	case *lua.LUserData:
		if v == Null {
			return v
		}
		return intern(v)
	case *lua.LTable:
		internTable(v, intern)
	}
	return v
}

func internTable(t *lua.LTable, intern func(*lua.LUserData) *lua.LUserData) {
	array := arrayOf(t)
	for i, e := range array {
		switch e := e.(type) {
		case *lua.LTable:
			internTable(e, intern)
		case *lua.LUserData:
			array[i] = Intern(e, intern)
		}
	}
	// Only values of keys that are there already are written: the walk goes on.
	for k, e := range hashPairs(t) {
		switch e := e.(type) {
		case *lua.LTable:
			internTable(e, intern)
		case *lua.LUserData:
			t.RawSetH(k, Intern(e, intern))
		}
	}
}
