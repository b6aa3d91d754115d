package value

import (
	"sync"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// Noun is how the path in an error begins.
type Noun string

const (
	Args    Noun = "args"
	Results Noun = "results"
)

// Copy checks vals and puts a detached copy of them into p, which must be
// empty. limit bounds the encoded size in bytes; 0 stands for MaxSize. The
// error carries encode_failed with the path of the offending key, or
// message_too_large; p is then not to be used.
func Copy(p *Payload, noun Noun, limit int, vals ...lua.LValue) error {
	var w walker
	w.begin(len(vals), limit)
	p.reserve(len(vals))
	for i, v := range vals {
		if err := w.add(p, noun, i, v); err != nil {
			return err
		}
	}
	w.end(p)
	return nil
}

// CopyStack is Copy for the values on the stack of L from index from, counted
// from 1, to the top.
func CopyStack(p *Payload, noun Noun, limit int, L *lua.LState, from int) error {
	return TakeStack(p, noun, limit, L, from, 0)
}

// TakeStack is CopyStack for a stack on which some tables can be seen by nobody
// else: those are checked and handed over themselves, and only what is in them
// is copied. own says which of all values on the stack, the lowest bit being the
// one at index 1. They are not to be used after that, whatever TakeStack returns.
func TakeStack(p *Payload, noun Noun, limit int, L *lua.LState, from int, own uint64) error {
	n := max(L.GetTop()-from+1, 0)
	var w walker
	w.begin(n, limit)
	p.reserve(n)
	own >>= from - 1
	for i := range n {
		w.own = own&1 != 0
		own >>= 1
		if err := w.add(p, noun, i, L.Get(from+i)); err != nil {
			return err
		}
	}
	w.end(p)
	return nil
}

// CopyValue copies one value. The path in its error begins with noun alone.
func CopyValue(v lua.LValue, noun Noun, limit int) (lua.LValue, error) {
	var w walker
	w.begin(0, limit)
	c, bad := w.value(v)
	w.release()
	if bad != nil {
		return nil, bad.error(string(noun))
	}
	return c, nil
}

// walker is one walk over live values. Scalars need no more than its counters;
// tables take a trail from a pool.
type walker struct {
	size, limit int
	refs        bool
	own         bool // the next table is handed over
	trail       *trail
}

// trail is where a walk stands among tables.
type trail struct {
	depth int
	open  [MaxDepth]*lua.LTable // the tables the walk is inside of
	used  int                   // how many of open were written
	out   []byte                // of Encode
}

// keepOut is the largest buffer that the pool holds on to.
const keepOut = 64 << 10

var trails = sync.Pool{New: func() any { return new(trail) }}

func (w *walker) begin(n, limit int) {
	if limit <= 0 {
		limit = MaxSize
	}
	w.limit = limit
	w.size = headerSize(n)
}

func (w *walker) add(p *Payload, noun Noun, i int, v lua.LValue) error {
	c, bad := w.value(v)
	if bad != nil {
		w.release()
		bad.within(lua.LNumber(i + 1))
		return bad.error(string(noun))
	}
	p.put(c)
	return nil
}

func (w *walker) end(p *Payload) {
	p.size, p.refs = w.size, w.refs
	w.release()
}

func (w *walker) release() {
	t := w.trail
	if t == nil {
		return
	}
	w.trail = nil
	clear(t.open[:t.used]) // the pool must keep no table alive
	t.depth, t.used = 0, 0
	if cap(t.out) > keepOut {
		t.out = nil
	}
	trails.Put(t)
}

// grow counts n more bytes.
func (w *walker) grow(n int) *refusal {
	w.size += n
	if w.size > w.limit {
		return tooLarge(w.limit)
	}
	return nil
}

func (w *walker) value(v lua.LValue) (lua.LValue, *refusal) {
	if t, ok := v.(*lua.LTable); ok {
		return w.table(t)
	}
	return w.scalar(v)
}

// scalar is value for whatever is no table. It is handed on as it is: boxing it
// again would cost memory.
func (w *walker) scalar(v lua.LValue) (lua.LValue, *refusal) {
	switch x := v.(type) {
	case lua.LNumber:
		return v, w.grow(numberSize(x))
	case lua.LString:
		return v, w.grow(stringSize(len(x)))
	case lua.LBool, *lua.LNilType:
		return v, w.grow(1)
	case *lua.LUserData:
		return w.userdata(x)
	case nil:
		return lua.LNil, w.grow(1)
	}
	return nil, refuse(v)
}

func (w *walker) userdata(u *lua.LUserData) (lua.LValue, *refusal) {
	if u == Null {
		return u, w.grow(nullSize)
	}
	switch x := u.Value.(type) {
	case shield.Handle:
		w.refs = true
		return &lua.LUserData{Value: u.Value, Metatable: lua.LNil}, w.grow(handleSize(x))
	case shield.ClientRef:
		w.refs = true
		return &lua.LUserData{Value: u.Value, Metatable: lua.LNil}, w.grow(clientRefSize(x))
	}
	return nil, refuse(u)
}

// openTable steps into t and counts what it costs beside its elements.
func (w *walker) openTable(t *lua.LTable) (array []lua.LValue, h int, marked bool, bad *refusal) {
	if bad := w.enter(t); bad != nil {
		return nil, 0, false, bad
	}
	array, h, marked = arrayOf(t), hashLen(t), IsArrayMark(t.Metatable)
	// An element takes a byte at least, a pair two: no table is made that the
	// limit could not hold.
	if w.size+len(array)+2*h > w.limit {
		return nil, 0, false, tooLarge(w.limit)
	}
	return array, h, marked, w.grow(tableSize(len(array), h, marked))
}

func (w *walker) table(t *lua.LTable) (lua.LValue, *refusal) {
	own := w.own && t.Metatable == lua.LNil
	w.own = false
	array, h, marked, bad := w.openTable(t)
	if bad != nil {
		return nil, bad
	}
	c := t
	if own {
		mirror(t).array = array[:0]
	} else {
		c = newTable(len(array), 0)
	}
	if marked {
		c.Metatable = arrayMark
	}
	m := mirror(c)
	for i, e := range array {
		v, bad := w.value(e)
		if bad != nil {
			return nil, bad.within(lua.LNumber(i + 1))
		}
		m.array = append(m.array, v)
	}
	if h > 0 {
		if bad := w.fields(c, t, h); bad != nil {
			return nil, bad
		}
	}
	w.trail.depth--
	return c, nil
}

// fields copies the h pairs in the hash part of t to c, which has none yet, or
// is t.
func (w *walker) fields(c, t *lua.LTable, h int) *refusal {
	there := c == t
	if !there && isRecord(t) {
		cloneRecord(c, t)
		there = true
	} else if !there {
		reserveFields(c, h)
	}
	for k, e := range hashPairs(t) {
		if bad := w.key(k); bad != nil {
			return bad
		}
		v, bad := w.value(e)
		if bad != nil {
			return bad.within(k)
		}
		switch x := k.(type) {
		case lua.LString:
			if !there || v != e {
				setField(c, k, v)
			}
		case lua.LNumber:
			switch {
			case x == 0:
				setZero(c, v)
			case !there || v != e:
				c.RawSetH(k, v)
			}
		}
	}
	return nil
}

// key checks and counts a key of the hash part.
func (w *walker) key(k lua.LValue) *refusal {
	size := 0
	switch x := k.(type) {
	case lua.LString:
		size = stringSize(len(x))
	case lua.LNumber:
		i, ok := keyInteger(x)
		if !ok {
			return badKey(k)
		}
		size = intSize(i)
	default:
		return badKey(k)
	}
	if bad := w.grow(size); bad != nil {
		return bad.within(k)
	}
	return nil
}

// enter steps into t, unless the walk is inside of it already.
func (w *walker) enter(t *lua.LTable) *refusal {
	if w.trail == nil {
		w.trail = trails.Get().(*trail)
	}
	tr := w.trail
	for i := tr.depth - 1; i >= 0; i-- {
		if tr.open[i] == t {
			return unfit("cyclic table")
		}
	}
	if tr.depth == MaxDepth {
		return unfit("table nested deeper than 64 levels")
	}
	tr.open[tr.depth] = t
	tr.depth++
	tr.used = max(tr.used, tr.depth)
	return nil
}

// keyInteger is asInteger for keys, where zero has no sign.
func keyInteger(k lua.LNumber) (int64, bool) {
	if k == 0 {
		return 0, true
	}
	return asInteger(k)
}
