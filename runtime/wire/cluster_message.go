package wire

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"shield/runtime/shield"
)

// Limits of the fields of messages. Arguments and results are bounded by the
// frame.
const (
	MaxMethod  = 255
	maxCode    = 64
	maxMessage = 64 << 10
	maxDetail  = 256 << 10
)

// AppendEnvelope appends the frame. Target's node and epoch don't travel: they
// are those of the link it is written to. A time-out is carried in microseconds,
// rounded up, so that a call's last moment is not taken for none.
func AppendEnvelope(dst []byte, e *shield.Envelope) []byte {
	dst, start := beginFrame(dst, KindEnvelope)
	dst = binary.AppendUvarint(dst, e.CallID)
	dst = binary.AppendUvarint(dst, micros(e.Timeout))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Trace))
	dst = appendString(dst, string(e.Source.Node))
	dst = binary.AppendUvarint(dst, uint64(e.Source.ID))
	dst = binary.AppendUvarint(dst, uint64(e.Target.ID))
	dst = appendString(dst, e.Method)
	return endFrame(append(dst, e.Args...), start)
}

// Interner keeps the strings that come again and again on one link, so that
// decoding them takes no memory. The zero value is ready; it is used from one
// goroutine.
type Interner struct{ known map[string]string }

const maxInterned = 1024

// text gives b as a string. A nil Interner keeps nothing.
func (in *Interner) text(b []byte) string {
	if in == nil {
		return string(b)
	}
	if s, ok := in.known[string(b)]; ok {
		return s
	}
	if in.known == nil || len(in.known) >= maxInterned {
		in.known = map[string]string{}
	}
	s := string(b)
	in.known[s] = s
	return s
}

// DecodeEnvelope reads a body; the arguments are part of it, the rest is not. The
// epochs and the target's node are left for the caller, who knows the link. in
// may be nil.
func DecodeEnvelope(body []byte, in *Interner) (*shield.Envelope, error) {
	f := fields{b: body}
	e := &shield.Envelope{}
	e.CallID = f.uvarint("call id")
	us := f.uvarint("timeout")
	e.Timeout = time.Duration(min(us, uint64(1<<62)/1000)) * time.Microsecond
	e.Trace = shield.TraceID(f.u64("trace"))
	source := f.bytes("source_node", shield.MaxName)
	e.Source.ID = shield.ServiceID(f.uvarint("source service"))
	e.Target.ID = shield.ServiceID(f.uvarint("target service"))
	method := f.bytes("method", MaxMethod)
	if f.err != nil {
		return nil, f.err
	}
	e.Source.Node = shield.NodeID(in.text(source))
	e.Method = in.text(method)
	e.Args = f.rest()
	return e, nil
}

func micros(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d + time.Microsecond - 1) / time.Microsecond)
}

// Reply answers one call.
type Reply struct {
	CallID uint64
	Result []byte
	Err    *shield.Error
}

// AppendReply appends the frame. A message that is too long is cut, a detail
// that is too long or not JSON is left out: the code always arrives.
func AppendReply(dst []byte, r *Reply) []byte {
	dst, start := beginFrame(dst, KindReply)
	dst = binary.AppendUvarint(dst, r.CallID)
	if r.Err == nil {
		dst = append(dst, 0)
		return endFrame(append(dst, r.Result...), start)
	}
	dst = append(dst, 1)
	dst = appendClipped(dst, string(r.Err.Code), maxCode)
	dst = append(dst, boolByte(r.Err.Retryable()))
	dst = appendClipped(dst, r.Err.Message, maxMessage)
	var detail []byte
	if r.Err.Detail != nil {
		if b, err := json.Marshal(r.Err.Detail); err == nil && len(b) <= maxDetail {
			detail = b
		}
	}
	return endFrame(append(dst, detail...), start)
}

// DecodeReply reads a body; the result is part of it, an error is not. A code that
// this release does not know keeps what the far side said of a retry.
func DecodeReply(body []byte) (r Reply, err error) {
	f := fields{b: body}
	r.CallID = f.uvarint("call id")
	switch status := f.u8("status"); {
	case f.err != nil:
		return r, f.err
	case status == 0:
		r.Result = f.rest()
		return r, nil
	case status != 1:
		f.fail("status", ErrMalformed)
		return r, f.err
	}
	e := &shield.Error{Code: shield.Code(f.text("code", maxCode))}
	retry := f.u8("retryable") != 0
	e.Message = f.text("message", maxMessage)
	detail := f.rest()
	if f.err != nil {
		return r, f.err
	}
	if len(detail) > maxDetail {
		f.fail("detail", ErrTooLong)
		return r, f.err
	}
	if len(detail) > 0 {
		if err := json.Unmarshal(detail, &e.Detail); err != nil {
			f.fail("detail", ErrMalformed)
			return r, f.err
		}
	}
	if _, known := e.Code.Info(); !known {
		e.RetryOverride = &retry
	}
	r.Err = e
	return r, nil
}
