package value

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/tinylib/msgp/msgp"
	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// The form between nodes is msgpack: a payload is an array of its values; a
// table is an array when it has an array part only (holes are nil), a map when
// it has none. What msgpack has no type for is an extension:
//
//	1 null     one byte, 0
//	2 array    an array that is marked (shield.array)
//	3 mixed    one byte (1 = marked), count of pairs as uint, the array part as array, the pairs
//	4 handle   node as str, epoch and id as uint
//	5 client   gateway and session as str, epoch as uint, player and profile as str
const (
	extNull   = 1
	extArray  = 2
	extMixed  = 3
	extHandle = 4
	extClient = 5
)

const (
	fixExt1 = 0xd4
	ext32   = 0xc9
)

// Append adds the form between nodes to b. It can't fail: a payload holds
// only what travels.
func Append(b []byte, p *Payload) []byte {
	if p.encoded {
		return append(b, p.in[0].(lua.LString)...)
	}
	b = slices.Grow(b, p.size)
	b = msgp.AppendArrayHeader(b, uint32(p.n))
	for i := range p.n {
		b = appendValue(b, p.At(i))
	}
	return b
}

// Bytes is Append to nothing. Those of a payload that Encode made are its own:
// nobody may write to them.
func Bytes(p *Payload) []byte {
	if p.encoded {
		s := string(p.in[0].(lua.LString))
		return unsafe.Slice(unsafe.StringData(s), len(s))
	}
	return Append(nil, p)
}

func appendValue(b []byte, v lua.LValue) []byte {
	switch v := v.(type) {
	case lua.LNumber:
		return appendNumber(b, v)
	case lua.LString:
		return msgp.AppendString(b, string(v))
	case lua.LBool:
		return msgp.AppendBool(b, bool(v))
	case *lua.LTable:
		return appendTable(b, v)
	case *lua.LUserData:
		return appendUserData(b, v)
	}
	return msgp.AppendNil(b)
}

func appendNumber(b []byte, x lua.LNumber) []byte {
	if i, ok := asInteger(x); ok {
		return msgp.AppendInt64(b, i)
	}
	return msgp.AppendFloat64(b, float64(x))
}

func appendUserData(b []byte, u *lua.LUserData) []byte {
	var at int
	switch x := u.Value.(type) {
	case shield.Handle:
		b, at = beginExt(b, extHandle)
		b = msgp.AppendString(b, string(x.Node))
		b = msgp.AppendUint64(b, uint64(x.Epoch))
		b = msgp.AppendUint64(b, uint64(x.ID))
	case shield.ClientRef:
		b, at = beginExt(b, extClient)
		b = msgp.AppendString(b, string(x.Gateway))
		b = msgp.AppendString(b, string(x.Session))
		b = msgp.AppendUint64(b, uint64(x.Epoch))
		b = msgp.AppendString(b, x.Player)
		b = msgp.AppendString(b, x.Profile)
	default:
		return append(b, fixExt1, extNull, 0)
	}
	return endExt(b, at)
}

func appendTable(b []byte, t *lua.LTable) []byte {
	array := arrayOf(t)
	b, at := appendTableHeader(b, len(array), hashLen(t), IsArrayMark(t.Metatable))
	for _, e := range array {
		b = appendValue(b, e)
	}
	for k, v := range hashPairs(t) {
		b = appendKey(b, k)
		b = appendValue(b, v)
	}
	if at > 0 {
		b = endExt(b, at)
	}
	return b
}

// appendTableHeader begins a table of n elements in the array part and h in the
// hash part. at is for endExt, 0 when there is no need for it.
func appendTableHeader(b []byte, n, h int, marked bool) (grown []byte, at int) {
	switch {
	case h > 0 && (n > 0 || marked):
		b, at = beginExt(b, extMixed)
		b = append(b, flag(marked))
		b = msgp.AppendUint64(b, uint64(h))
		b = msgp.AppendArrayHeader(b, uint32(n))
	case marked:
		b, at = beginExt(b, extArray)
		b = msgp.AppendArrayHeader(b, uint32(n))
	case n > 0:
		b = msgp.AppendArrayHeader(b, uint32(n))
	default:
		b = msgp.AppendMapHeader(b, uint32(h))
	}
	return b, at
}

// appendKey writes a key that was checked.
func appendKey(b []byte, k lua.LValue) []byte {
	if x, ok := k.(lua.LNumber); ok {
		i, _ := keyInteger(x)
		return msgp.AppendInt64(b, i)
	}
	return msgp.AppendString(b, string(k.(lua.LString)))
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// beginExt leaves room for the length, which endExt fills in.
func beginExt(b []byte, kind byte) (grown []byte, at int) {
	b = append(b, ext32, 0, 0, 0, 0, kind)
	return b, len(b)
}

func endExt(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at-5:], uint32(len(b)-at))
	return b
}
