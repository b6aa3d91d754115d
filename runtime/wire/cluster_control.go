package wire

import (
	"encoding/binary"
	"time"

	"shield/runtime/shield"
)

// heartbeatSize is the length of a heartbeat's and a ping's body. It makes their
// packets longer than 42 bytes, below which a restarted peer may not answer with
// a stateless reset (RFC 9000, 10.3), and independent of any table.
const heartbeatSize = 64

// Heartbeat says that its sender lives, and how its table stands.
type Heartbeat struct {
	Seq      uint64
	Version  shield.RoutesVersion // of the sender's own table
	Held     shield.RoutesVersion // of the receiver's table, as the sender holds it
	Heard    time.Duration        // since the sender last heard the receiver; a one-way cut shows here
	Uptime   time.Duration
	Services uint32
	Sessions uint32
	Calls    uint32 // a second, times 100
	Draining bool
}

// AppendHeartbeat appends the frame.
func AppendHeartbeat(dst []byte, h *Heartbeat) []byte {
	dst, start := beginFrame(dst, KindHeartbeat)
	dst = binary.BigEndian.AppendUint64(dst, h.Seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Version))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Held))
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(0, h.Uptime.Milliseconds())))
	dst = binary.BigEndian.AppendUint32(dst, uint32(min(max(0, h.Heard.Milliseconds()), 1<<32-1)))
	dst = binary.BigEndian.AppendUint32(dst, h.Services)
	dst = binary.BigEndian.AppendUint32(dst, h.Sessions)
	dst = binary.BigEndian.AppendUint32(dst, h.Calls)
	dst = append(dst, boolByte(h.Draining))
	return endFrame(pad(dst, start), start)
}

// DecodeHeartbeat reads a body. What a later release puts into the padding is
// ignored.
func DecodeHeartbeat(body []byte) (Heartbeat, error) {
	f := fields{b: body}
	h := Heartbeat{
		Seq:     f.u64("seq"),
		Version: shield.RoutesVersion(f.u64("version")),
		Held:    shield.RoutesVersion(f.u64("held")),
		Uptime:  millis(f.u64("uptime")),
	}
	h.Heard = millis(uint64(f.u32("heard")))
	h.Services = f.u32("services")
	h.Sessions = f.u32("sessions")
	h.Calls = f.u32("calls")
	h.Draining = f.u8("intent") != 0
	return h, f.err
}

func millis(v uint64) time.Duration {
	return time.Duration(min(v, uint64(1<<62)/1_000_000)) * time.Millisecond
}

func pad(dst []byte, start int) []byte {
	for len(dst)-start-ClusterHeader-1 < heartbeatSize {
		dst = append(dst, 0)
	}
	return dst
}

// AppendPing appends a ping (or the pong to it). A ping with nonce 0 wants no
// answer: it only provokes a restarted peer.
func AppendPing(dst []byte, k Kind, nonce uint64) []byte {
	dst, start := beginFrame(dst, k)
	dst = binary.BigEndian.AppendUint64(dst, nonce)
	return endFrame(pad(dst, start), start)
}

// DecodePing reads the body of a ping or pong.
func DecodePing(body []byte) (nonce uint64, err error) {
	f := fields{b: body}
	nonce = f.u64("nonce")
	return nonce, f.err
}

// Info is what changes rarely and is shown by tools.
type Info struct {
	Gateways []string // dialled as written: tcp://127.0.0.1:7001
}

// AppendInfo appends the frame.
func AppendInfo(dst []byte, i *Info) []byte {
	dst, start := beginFrame(dst, KindInfo)
	list := i.Gateways[:min(len(i.Gateways), maxGateways)]
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, g := range list {
		dst = appendClipped(dst, g, maxAddress)
	}
	return endFrame(dst, start)
}

// DecodeInfo reads a body; what follows the known fields is ignored.
func DecodeInfo(body []byte) (*Info, error) {
	f := fields{b: body}
	n := f.count("gateways", 1)
	if n > maxGateways {
		f.fail("gateways", ErrTooLong)
	}
	i := &Info{}
	for range n {
		if f.err != nil {
			break
		}
		i.Gateways = append(i.Gateways, f.text("gateway", maxAddress))
	}
	return i, f.err
}

// AppendGoodbye appends the last frame of a stream (KindGoodbye) or the answer
// to it (KindGoodbyeAck, whose reason is empty).
func AppendGoodbye(dst []byte, k Kind, reason string) []byte {
	dst, start := beginFrame(dst, k)
	return endFrame(appendClipped(dst, reason, maxReason), start)
}

// DecodeGoodbye reads a body.
func DecodeGoodbye(body []byte) (reason string, err error) {
	f := fields{b: body}
	reason = f.text("reason", maxReason)
	return reason, f.err
}
