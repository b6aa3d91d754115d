package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ClusterVersion is the version of the wire between nodes. Nodes of different
// versions refuse each other; what may differ between releases is a Feature.
const ClusterVersion = 2

// ClusterHeader is the length of the header of a cluster frame: a 32-bit
// big-endian length that counts the kind and the body.
const ClusterHeader = 4

// MaxHandshakeFrame bounds a frame of a peer that has proved nothing yet.
const MaxHandshakeFrame = 4 << 10

// Kind says what a cluster frame holds.
type Kind uint8

// The kinds of the handshake travel on the control stream before anything else.
const (
	KindHello    Kind = 1
	KindHelloAck Kind = 2
	KindHelloFin Kind = 3
)

// The kinds of the data stream, whose order Lua or a client can see. Ingress to
// Close are opaque to the cluster: it carries them from node to node.
const (
	KindEnvelope    Kind = 16
	KindReply       Kind = 17
	KindRoutes      Kind = 18 // on the control stream when it repairs
	KindRouteChange Kind = 19
	KindIngress     Kind = 24
	KindPush        Kind = 25
	KindNotice      Kind = 26
	KindClose       Kind = 27
	// FirstOpaque to LastOpaque are handed to cluster.Local as they came.
	FirstOpaque Kind = 24
	LastOpaque  Kind = 31
)

// The kinds of the control stream. Goodbye is the last frame of the data stream
// as well.
const (
	KindHeartbeat  Kind = 48
	KindInfo       Kind = 49
	KindPing       Kind = 50
	KindPong       Kind = 51
	KindGoodbye    Kind = 52
	KindGoodbyeAck Kind = 53
)

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var kindNames = map[Kind]string{
	KindHello: "hello", KindHelloAck: "hello_ack", KindHelloFin: "hello_fin",
	KindEnvelope: "envelope", KindReply: "reply", KindRoutes: "routes", KindRouteChange: "route_change",
	KindIngress: "ingress", KindPush: "push", KindNotice: "notice", KindClose: "close",
	KindHeartbeat: "heartbeat", KindInfo: "info", KindPing: "ping", KindPong: "pong",
	KindGoodbye: "goodbye", KindGoodbyeAck: "goodbye_ack",
}

// Opaque reports whether the cluster carries frames of this kind without
// looking into them.
func (k Kind) Opaque() bool { return k >= FirstOpaque && k <= LastOpaque }

// Errors of decoding. A decoder's error Is one of them.
var (
	ErrTruncated = errors.New("frame ends too early")
	ErrTooLong   = errors.New("field is longer than allowed")
	ErrMalformed = errors.New("field is malformed")
)

// AppendClusterFrame appends a whole frame: header, kind and body.
func AppendClusterFrame(dst []byte, k Kind, body []byte) []byte {
	dst, start := beginFrame(dst, k)
	return endFrame(append(dst, body...), start)
}

// ClusterFrameLen reads a header: how many bytes of kind and body follow it. It
// is an error when that is none or more than limit, so that no memory is taken
// for it.
func ClusterFrameLen(header [ClusterHeader]byte, limit int) (int, error) {
	n := binary.BigEndian.Uint32(header[:])
	if n == 0 {
		return 0, fmt.Errorf("cluster frame of length 0: %w", ErrMalformed)
	}
	if uint64(n) > uint64(limit) {
		return 0, fmt.Errorf("cluster frame of %d bytes, the limit is %d: %w", n, limit, ErrTooLong)
	}
	return int(n), nil
}

func beginFrame(dst []byte, k Kind) (out []byte, start int) {
	return append(dst, 0, 0, 0, 0, byte(k)), len(dst)
}

func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-ClusterHeader))
	return dst
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendClipped appends at most limit bytes of s: texts for people are cut
// rather than refused.
func appendClipped(dst []byte, s string, limit int) []byte {
	if len(s) > limit {
		s = s[:limit]
	}
	return appendString(dst, s)
}

// fields reads the fields of one body in their order. The first failure sticks,
// and every later read gives a zero value.
type fields struct {
	b   []byte
	err error
}

func (f *fields) fail(what string, err error) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", what, err)
	}
	f.b = nil
}

func (f *fields) take(what string, n int) []byte {
	if len(f.b) < n {
		f.fail(what, ErrTruncated)
		return nil
	}
	out := f.b[:n]
	f.b = f.b[n:]
	return out
}

func (f *fields) u8(what string) uint8 {
	if b := f.take(what, 1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) u16(what string) uint16 {
	if b := f.take(what, 2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) u32(what string) uint32 {
	if b := f.take(what, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (f *fields) u64(what string) uint64 {
	if b := f.take(what, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (f *fields) uvarint(what string) uint64 {
	v, n := binary.Uvarint(f.b)
	switch {
	case n > 0:
		f.b = f.b[n:]
		return v
	case n == 0:
		f.fail(what, ErrTruncated)
	default:
		f.fail(what, ErrMalformed)
	}
	return 0
}

// bytes reads a length and that many bytes; the result aliases the input.
func (f *fields) bytes(what string, limit int) []byte {
	n := f.uvarint(what)
	if f.err != nil {
		return nil
	}
	if n > uint64(limit) {
		f.fail(what, ErrTooLong)
		return nil
	}
	return f.take(what, int(n))
}

func (f *fields) text(what string, limit int) string { return string(f.bytes(what, limit)) }

// count reads how many elements follow, each of at least minSize bytes, so that
// a lying count takes no memory.
func (f *fields) count(what string, minSize int) int {
	n := f.uvarint(what)
	if f.err == nil && n > uint64(len(f.b)/minSize) {
		f.fail(what, ErrTruncated)
		return 0
	}
	return int(n)
}

// rest is all that is left.
func (f *fields) rest() []byte {
	out := f.b
	f.b = nil
	return out
}

// done ends a body to which no later release may append.
func (f *fields) done() error {
	if f.err == nil && len(f.b) > 0 {
		f.fail("end of frame", ErrTooLong)
	}
	return f.err
}
