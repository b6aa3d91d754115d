package value

import (
	"github.com/tinylib/msgp/msgp"
	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// Codec turns the bodies of client frames into Lua values and back. A client is
// not trusted: it can't name handles or client refs in any codec. All methods
// may be called from any goroutine.
type Codec interface {
	Name() string
	// Decode reads one whole body into a detached value. An empty body is nil
	// (the empty string for raw). The error carries decode_error.
	Decode(body []byte) (lua.LValue, error)
	// Append adds the body for a live Lua value to b, checking it on the way.
	// The error carries encode_failed or message_too_large.
	Append(b []byte, v lua.LValue) ([]byte, error)
}

// The codecs that need nothing but their name. protobuf needs the project's
// descriptors: CodecByName does not know it yet.
var (
	JSON    Codec = jsonCodec{}
	Raw     Codec = rawCodec{}
	Msgpack Codec = msgpackCodec{slots: clientSlots}
)

// CodecByName finds a codec; nil when there is none of that name. An empty name
// is json, the default.
func CodecByName(name string) Codec {
	switch name {
	case "", "json":
		return JSON
	case "raw":
		return Raw
	case "msgpack":
		return Msgpack
	}
	return nil
}

// Trusting is c for bodies that the server wrote: a player table may have gaps
// that a client's may not.
func Trusting(c Codec) Codec {
	if c == Msgpack {
		return msgpackCodec{slots: MaxSize}
	}
	return c
}

// CodecNames lists what CodecByName knows.
func CodecNames() []string { return []string{"json", "msgpack", "raw"} }

// AppendBody makes the body of a push: a Lua string is the body's bytes as they
// are, any other value is encoded with c.
func AppendBody(c Codec, b []byte, v lua.LValue) ([]byte, error) {
	if s, ok := v.(lua.LString); ok {
		return append(b, s...), nil
	}
	return c.Append(b, v)
}

// body is how the path in an error of a codec begins.
const body = "body"

type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Decode(b []byte) (lua.LValue, error) {
	if len(b) == 0 {
		return lua.LNil, nil
	}
	p := jsonParser{s: b}
	v := p.document()
	if p.err != "" {
		return nil, p.error()
	}
	return v, nil
}

func (jsonCodec) Append(b []byte, v lua.LValue) ([]byte, error) {
	w := jsonWriter{b: b, limit: len(b) + MaxSize}
	if bad := w.value(v, MaxDepth); bad != nil {
		return b, bad.error(body)
	}
	if len(w.b) > w.limit {
		return b, bodyTooLarge().error(body)
	}
	return w.b, nil
}

type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Decode(b []byte) (lua.LValue, error) { return lua.LString(b), nil }

func (rawCodec) Append(b []byte, v lua.LValue) ([]byte, error) {
	switch v := v.(type) {
	case lua.LString:
		return append(b, v...), nil
	case *lua.LNilType:
		return b, nil
	}
	return b, shield.Errorf(shield.EncodeFailed, "body: %s (the codec raw takes strings only)", typeName(v))
}

// clientSlots is how many empty places the integer keys of one body may open.
// Eight bytes could make an array of 16 MB otherwise.
const clientSlots = 64 << 10

type msgpackCodec struct{ slots int }

func (msgpackCodec) Name() string { return "msgpack" }

func (c msgpackCodec) Decode(b []byte) (lua.LValue, error) {
	if len(b) == 0 {
		return lua.LNil, nil
	}
	d := decoder{b: b, room: len(b), slots: c.slots}
	v := d.value(MaxDepth)
	switch {
	case d.lossy:
		return nil, shield.Errorf(shield.DecodeError, "msgpack: an integer loses digits in Lua, whose numbers are exact to 2^53 only: send it as a string")
	case d.gap:
		return nil, shield.Errorf(shield.DecodeError, "msgpack: an integer key leaves more than %d empty places below it, which a Lua table keeps: send it as a string", c.slots)
	case d.bad:
		return nil, shield.Errorf(shield.DecodeError, "msgpack: malformed at byte %d of %d", len(b)-len(d.b), len(b))
	case len(d.b) > 0:
		return nil, shield.Errorf(shield.DecodeError, "msgpack: %d bytes follow the value", len(d.b))
	}
	return v, nil
}

func (msgpackCodec) Append(b []byte, v lua.LValue) ([]byte, error) {
	w := msgpackWriter{b: b, limit: len(b) + MaxSize}
	if bad := w.value(v, MaxDepth); bad != nil {
		return b, bad.error(body)
	}
	if len(w.b) > w.limit {
		return b, bodyTooLarge().error(body)
	}
	return w.b, nil
}

// msgpackWriter writes live values as plain msgpack, which any client can read:
// Null is nil, a table that is not an array is a map.
type msgpackWriter struct {
	b     []byte
	limit int
}

func (w *msgpackWriter) value(v lua.LValue, depth int) *refusal {
	if len(w.b) > w.limit {
		return bodyTooLarge()
	}
	switch v := v.(type) {
	case *lua.LTable:
		if depth == 0 {
			return unfit("cyclic table, or one nested deeper than 64 levels")
		}
		return w.table(v, depth)
	case *lua.LUserData:
		if v == Null {
			w.b = msgp.AppendNil(w.b)
			return nil
		}
		if name := refName(v); name != "" {
			return &refusal{code: shield.EncodeFailed, what: name, why: "it means nothing outside the cluster"}
		}
		return refuse(v)
	case lua.LNumber, lua.LString, lua.LBool, *lua.LNilType:
		w.b = appendValue(w.b, v)
		return nil
	}
	return refuse(v)
}

func (w *msgpackWriter) table(t *lua.LTable, depth int) *refusal {
	if n, ok := listLen(t); ok {
		if len(w.b)+n > w.limit {
			return bodyTooLarge()
		}
		w.b = msgp.AppendArrayHeader(w.b, uint32(n))
		for i := 1; i <= n; i++ {
			if bad := w.value(element(t, i), depth-1); bad != nil {
				return bad.within(lua.LNumber(i))
			}
		}
		return nil
	}
	count := hashLen(t)
	for _, e := range arrayOf(t) {
		if e != lua.LNil {
			count++
		}
	}
	w.b = msgp.AppendMapHeader(w.b, uint32(count))
	for k, v := range allPairs(t) {
		switch x := k.(type) {
		case lua.LString:
			w.b = msgp.AppendString(w.b, string(x))
		case lua.LNumber:
			i, ok := keyInteger(x)
			if !ok {
				return badKey(k)
			}
			w.b = msgp.AppendInt64(w.b, i)
		default:
			return badKey(k)
		}
		if bad := w.value(v, depth-1); bad != nil {
			return bad.within(k)
		}
	}
	return nil
}
