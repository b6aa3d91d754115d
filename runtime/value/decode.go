package value

import (
	"encoding/binary"
	"math"

	"github.com/tinylib/msgp/msgp"
	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// Decode reads what Append wrote into p, which must be empty. b may be reused
// afterwards. limit bounds its length; 0 stands for MaxSize. The error carries
// decode_error or message_too_large.
func Decode(p *Payload, b []byte, limit int) error {
	if limit <= 0 {
		limit = MaxSize
	}
	if len(b) > limit {
		return shield.Errorf(shield.MessageTooLarge, "a message of %d bytes, the limit is %s", len(b), byteCount(limit))
	}
	d := decoder{b: b, room: len(b), slots: limit, peer: true}
	n := d.arrayHeader()
	if !d.bad {
		p.reserve(n)
	}
	for i := 0; i < n && !d.bad; i++ {
		p.put(d.value(MaxDepth))
	}
	if d.bad || len(d.b) > 0 {
		return shield.Errorf(shield.DecodeError, "a message of %d bytes from another node is malformed at byte %d", len(b), len(b)-len(d.b))
	}
	p.size, p.refs = len(b), d.refs
	return nil
}

// decoder reads msgpack. After the first fault bad is set and every method
// returns at once.
type decoder struct {
	b     []byte
	room  int  // what the headers of tables may still claim: each element takes a byte at least
	slots int  // array slots that keys beyond an array's end may still open
	peer  bool // another node wrote it: its extensions are ours
	refs  bool
	bad   bool
	lossy bool // bad because an integer has no exact Lua number
	gap   bool // bad because of slots
}

func (d *decoder) fail() lua.LValue {
	d.bad = true
	return lua.LNil
}

// value reads one value, at most depth tables deep.
func (d *decoder) value(depth int) lua.LValue {
	if d.bad || len(d.b) == 0 {
		return d.fail()
	}
	switch c := d.b[0]; {
	case c < 0x80, c >= 0xe0, c >= 0xcc && c <= 0xd3:
		return d.integer()
	case c >= 0xa0 && c < 0xc0, c >= 0xd9 && c <= 0xdb:
		return lua.LString(d.str())
	case c >= 0x80 && c < 0x90, c == 0xde, c == 0xdf:
		return d.mapTable(depth)
	case c >= 0x90 && c < 0xa0, c == 0xdc, c == 0xdd:
		return d.array(depth, !d.peer)
	case c == 0xc0:
		d.b = d.b[1:]
		return lua.LNil
	case c == 0xc2, c == 0xc3:
		d.b = d.b[1:]
		return lua.LBool(c == 0xc3)
	case c == 0xca, c == 0xcb:
		return d.float()
	case c >= 0xc4 && c <= 0xc6:
		return d.bin()
	case d.peer && c == fixExt1:
		return d.null()
	case d.peer && c == ext32:
		return d.ext(depth)
	}
	return d.fail()
}

func (d *decoder) integer() lua.LValue {
	if d.b[0] == 0xcf {
		u, rest, err := msgp.ReadUint64Bytes(d.b)
		if err != nil {
			return d.fail()
		}
		d.b = rest
		// What 1<<64 converts back to depends on the machine: keep away from it.
		if f := float64(u); f < 1<<64 && uint64(f) == u {
			return integer(f)
		}
		d.lossy = true
		return d.fail()
	}
	i, rest, err := msgp.ReadInt64Bytes(d.b)
	if err != nil {
		return d.fail()
	}
	d.b = rest
	f := float64(i)
	if f < 1<<63 && int64(f) == i {
		return integer(f)
	}
	d.lossy = true
	return d.fail()
}

func (d *decoder) float() lua.LValue {
	f, rest, err := msgp.ReadFloat64Bytes(d.b)
	if err != nil {
		return d.fail()
	}
	d.b = rest
	return lua.LNumber(f)
}

func (d *decoder) str() string {
	s, rest, err := msgp.ReadStringBytes(d.b)
	if err != nil {
		d.bad = true
		return ""
	}
	d.b = rest
	return s
}

func (d *decoder) bin() lua.LValue {
	s, rest, err := msgp.ReadBytesZC(d.b)
	if err != nil {
		return d.fail()
	}
	d.b = rest
	return lua.LString(s)
}

func (d *decoder) uint() uint64 {
	if d.bad {
		return 0
	}
	u, rest, err := msgp.ReadUint64Bytes(d.b)
	if err != nil {
		d.bad = true
		return 0
	}
	d.b = rest
	return u
}

// claim refuses a table that the bytes at hand can't hold, or all of them
// together, before any memory is taken for it.
func (d *decoder) claim(n int64) bool {
	if n > int64(min(len(d.b), d.room)) {
		d.bad = true
		return false
	}
	d.room -= int(n)
	return true
}

func (d *decoder) arrayHeader() int {
	if d.bad {
		return 0
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(d.b)
	if err != nil {
		d.bad = true
		return 0
	}
	d.b = rest
	if !d.claim(int64(n)) {
		return 0
	}
	return int(n)
}

func (d *decoder) mapHeader() int {
	if d.bad {
		return 0
	}
	n, rest, err := msgp.ReadMapHeaderBytes(d.b)
	if err != nil {
		d.bad = true
		return 0
	}
	d.b = rest
	if !d.claim(2 * int64(n)) {
		return 0
	}
	return int(n)
}

func (d *decoder) array(depth int, marked bool) lua.LValue {
	n := d.arrayHeader()
	if d.bad || depth == 0 {
		return d.fail()
	}
	t := newTable(n, 0)
	if marked {
		t.Metatable = arrayMark
	}
	d.items(t, n, depth)
	return t
}

func (d *decoder) items(t *lua.LTable, n, depth int) {
	for i := 1; i <= n; i++ {
		v := d.value(depth - 1)
		if d.bad {
			return
		}
		if v == lua.LNil {
			if d.peer {
				continue
			}
			v = Null // a client's nil inside an array keeps its place
		}
		t.RawSetInt(i, v)
	}
}

func (d *decoder) mapTable(depth int) lua.LValue {
	n := d.mapHeader()
	if d.bad || depth == 0 {
		return d.fail()
	}
	if t := d.record(n, depth); !d.bad {
		return t
	}
	return lua.LNil
}

func (d *decoder) pairs(t *lua.LTable, n, depth int) {
	for range n {
		key := d.value(0)
		if d.bad {
			return
		}
		v := d.value(depth - 1)
		if d.bad {
			return
		}
		if v == lua.LNil {
			if d.peer {
				continue
			}
			v = Null
		}
		switch k := key.(type) {
		case lua.LString:
			setField(t, key, v)
		case lua.LNumber:
			d.setNumber(t, k, v)
		default:
			d.bad = true
		}
	}
}

// setNumber writes t[k]. A key in the range of arrays makes the table grow to
// it, so all of them together are bounded.
func (d *decoder) setNumber(t *lua.LTable, k lua.LNumber, v lua.LValue) {
	i, ok := keyInteger(k)
	if !ok {
		d.bad = true
		return
	}
	if i < 1 || i >= int64(lua.MaxArrayIndex) {
		t.RawSetH(lua.LNumber(i), v)
		return
	}
	if over := int(i) - t.MaxN() - 1; over > 0 {
		if d.slots -= over; d.slots < 0 {
			d.bad, d.gap = true, true
			return
		}
	}
	t.RawSetInt(int(i), v)
}

func (d *decoder) null() lua.LValue {
	if len(d.b) < nullSize || d.b[1] != extNull || d.b[2] != 0 {
		return d.fail()
	}
	d.b = d.b[nullSize:]
	return Null
}

// ext reads one of our extensions; its body must end where its header says.
func (d *decoder) ext(depth int) lua.LValue {
	if len(d.b) < extHeaderSize {
		return d.fail()
	}
	size, kind := int64(binary.BigEndian.Uint32(d.b[1:])), d.b[5]
	body := d.b[extHeaderSize:]
	if size > int64(len(body)) {
		return d.fail()
	}
	outer := body[size:]
	d.b = body[:size:size]
	v := d.extBody(kind, depth)
	if d.bad || len(d.b) > 0 {
		return d.fail()
	}
	d.b = outer
	return v
}

func (d *decoder) extBody(kind byte, depth int) lua.LValue {
	switch kind {
	case extArray:
		return d.array(depth, true)
	case extMixed:
		return d.mixed(depth)
	case extHandle:
		h := shield.Handle{Node: shield.NodeID(d.str())}
		h.Epoch, h.ID = shield.NodeEpoch(d.uint()), shield.ServiceID(d.uint())
		d.refs = true
		return NewHandle(h)
	case extClient:
		r := shield.ClientRef{Gateway: shield.GatewayID(d.str()), Session: shield.SessionID(d.str())}
		epoch := d.uint()
		if epoch > math.MaxUint32 {
			return d.fail()
		}
		r.Epoch, r.Player, r.Profile = shield.SessionEpoch(epoch), d.str(), d.str()
		d.refs = true
		return NewClientRef(r)
	}
	return d.fail()
}

func (d *decoder) mixed(depth int) lua.LValue {
	if len(d.b) == 0 || d.b[0] > 1 {
		return d.fail()
	}
	marked := d.b[0] == 1
	d.b = d.b[1:]
	h := d.uint()
	n := d.arrayHeader()
	if d.bad || depth == 0 || h > math.MaxInt32 || !d.claim(2*int64(h)) {
		return d.fail()
	}
	t := newTable(n, int(h))
	if marked {
		t.Metatable = arrayMark
	}
	d.items(t, n, depth)
	d.pairs(t, int(h), depth)
	return t
}
