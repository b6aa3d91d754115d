package value

import (
	"github.com/tinylib/msgp/msgp"
	lua "github.com/yuin/gopher-lua"
)

// Encode is Copy for a payload that leaves the node: it takes and refuses the
// same values with the same errors, but puts the bytes of Append into p instead
// of copies that nobody would look at. Such a payload is for Append only.
func Encode(p *Payload, noun Noun, limit int, vals ...lua.LValue) error {
	var w walker
	w.beginEncoding(len(vals), limit)
	for i, v := range vals {
		if err := w.addEncoded(noun, i, v); err != nil {
			return err
		}
	}
	w.endEncoding(p)
	return nil
}

// EncodeStack is Encode for the values on the stack of L from index from, counted
// from 1, to the top.
func EncodeStack(p *Payload, noun Noun, limit int, L *lua.LState, from int) error {
	n := max(L.GetTop()-from+1, 0)
	var w walker
	w.beginEncoding(n, limit)
	for i := range n {
		if err := w.addEncoded(noun, i, L.Get(from+i)); err != nil {
			return err
		}
	}
	w.endEncoding(p)
	return nil
}

func (w *walker) beginEncoding(n, limit int) {
	w.begin(n, limit)
	w.trail = trails.Get().(*trail)
	w.trail.out = msgp.AppendArrayHeader(w.trail.out[:0], uint32(n))
}

func (w *walker) addEncoded(noun Noun, i int, v lua.LValue) error {
	bad := w.encode(v)
	if bad == nil {
		return nil
	}
	w.release()
	bad.within(lua.LNumber(i + 1))
	return bad.error(string(noun))
}

func (w *walker) endEncoding(p *Payload) {
	p.size, p.refs, p.encoded = w.size, w.refs, true
	p.in[0] = lua.LString(w.trail.out)
	w.release()
}

// encode is value for bytes. What it counts and refuses, and in which order, is
// what value does.
func (w *walker) encode(v lua.LValue) *refusal {
	if t, ok := v.(*lua.LTable); ok {
		return w.encodeTable(t)
	}
	if _, bad := w.scalar(v); bad != nil {
		return bad
	}
	w.trail.out = appendValue(w.trail.out, v)
	return nil
}

func (w *walker) encodeTable(t *lua.LTable) *refusal {
	array, h, marked, bad := w.openTable(t)
	if bad != nil {
		return bad
	}
	tr := w.trail
	var at int
	tr.out, at = appendTableHeader(tr.out, len(array), h, marked)
	for i, e := range array {
		if bad := w.encode(e); bad != nil {
			return bad.within(lua.LNumber(i + 1))
		}
	}
	if h > 0 {
		for k, e := range hashPairs(t) {
			if bad := w.key(k); bad != nil {
				return bad
			}
			tr.out = appendKey(tr.out, k)
			if bad := w.encode(e); bad != nil {
				return bad.within(k)
			}
		}
	}
	if at > 0 {
		tr.out = endExt(tr.out, at)
	}
	tr.depth--
	return nil
}
