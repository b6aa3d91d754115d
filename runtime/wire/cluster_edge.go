package wire

import (
	"encoding/binary"

	"shield/runtime/shield"
)

// What gateways and targets on different nodes say to each other. The cluster
// carries these bodies without looking into them: Append... give a body, not a
// frame, for cluster.SendFrame; Decode... take what cluster.Local gets, and own
// their memory.

// Limits of the fields of edge frames; bodies are bounded by the frame.
const (
	maxGateway = 2*shield.MaxName + 1
	maxSession = 64
	maxPlayer  = 1024
	maxProfile = 255
	maxCodec   = 255
)

// Close asks the gateway that owns a session to close it.
type Close struct {
	Client shield.ClientRef
	// Gone: the target is, and Reason is the code. It ends the binding of Client's
	// epoch only; any other close ends the session whatever its epoch.
	Gone   bool
	Reason string // empty reads "kicked"
	Trace  shield.TraceID
}

// AppendIngress appends the body of a client's frame on its way to its target.
// Decoded does not travel.
func AppendIngress(dst []byte, i *shield.Ingress) []byte {
	dst = appendClient(dst, &i.Client)
	dst = appendHandle(dst, i.Target)
	dst = binary.BigEndian.AppendUint32(dst, uint32(i.Route))
	dst = appendString(dst, i.Codec)
	dst = binary.BigEndian.AppendUint64(dst, uint64(i.Trace))
	return append(dst, i.Body...)
}

// DecodeIngress reads what AppendIngress wrote.
func DecodeIngress(body []byte) (*shield.Ingress, error) {
	f := fields{b: body}
	i := &shield.Ingress{}
	readClient(&f, &i.Client)
	i.Target = readHandle(&f)
	i.Route = shield.RouteID(f.u32("route"))
	i.Codec = f.text("codec", maxCodec)
	i.Trace = shield.TraceID(f.u64("trace"))
	if f.err != nil {
		return nil, f.err
	}
	i.Body = append([]byte(nil), f.rest()...)
	return i, nil
}

// AppendPush appends the body of a service's frame on its way to a client.
func AppendPush(dst []byte, p *shield.Push) []byte {
	dst = appendClient(dst, &p.Client)
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Route))
	return append(dst, p.Body...)
}

// DecodePush reads what AppendPush wrote.
func DecodePush(body []byte) (*shield.Push, error) {
	f := fields{b: body}
	p := &shield.Push{}
	readClient(&f, &p.Client)
	p.Route = shield.RouteID(f.u32("route"))
	if f.err != nil {
		return nil, f.err
	}
	p.Body = append([]byte(nil), f.rest()...)
	return p, nil
}

// AppendNotice appends the body of what a target is told about a session.
func AppendNotice(dst []byte, n *shield.Notice) []byte {
	dst = append(dst, byte(n.Kind))
	dst = appendClient(dst, &n.Client)
	dst = appendHandle(dst, n.Target)
	return appendClipped(dst, n.Reason, maxReason)
}

// DecodeNotice reads what AppendNotice wrote.
func DecodeNotice(body []byte) (*shield.Notice, error) {
	f := fields{b: body}
	n := &shield.Notice{Kind: shield.NoticeKind(f.u8("kind"))}
	readClient(&f, &n.Client)
	n.Target = readHandle(&f)
	n.Reason = f.text("reason", maxReason)
	if f.err == nil && (n.Kind < shield.NoticeBound || n.Kind > shield.NoticeMoved) {
		f.fail("kind", ErrMalformed)
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	return n, nil
}

// AppendClose appends the body of a request to close a session.
func AppendClose(dst []byte, c *Close) []byte {
	dst = appendClient(dst, &c.Client)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Trace))
	dst = append(dst, boolByte(c.Gone))
	return appendClipped(dst, c.Reason, maxReason)
}

// DecodeClose reads what AppendClose wrote.
func DecodeClose(body []byte) (*Close, error) {
	f := fields{b: body}
	c := &Close{}
	readClient(&f, &c.Client)
	c.Trace = shield.TraceID(f.u64("trace"))
	c.Gone = f.u8("gone") != 0
	c.Reason = f.text("reason", maxReason)
	if err := f.done(); err != nil {
		return nil, err
	}
	return c, nil
}

func appendClient(dst []byte, c *shield.ClientRef) []byte {
	dst = appendString(dst, string(c.Gateway))
	dst = appendString(dst, string(c.Session))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Epoch))
	dst = appendString(dst, c.Player)
	return appendString(dst, c.Profile)
}

func readClient(f *fields, c *shield.ClientRef) {
	c.Gateway = shield.GatewayID(f.text("gateway", maxGateway))
	c.Session = shield.SessionID(f.text("session", maxSession))
	c.Epoch = shield.SessionEpoch(f.u32("session epoch"))
	c.Player = f.text("player", maxPlayer)
	c.Profile = f.text("profile", maxProfile)
}

func appendHandle(dst []byte, h shield.Handle) []byte {
	dst = appendString(dst, string(h.Node))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Epoch))
	return binary.AppendUvarint(dst, uint64(h.ID))
}

func readHandle(f *fields) shield.Handle {
	return shield.Handle{
		Node:  shield.NodeID(f.text("target node", shield.MaxName)),
		Epoch: shield.NodeEpoch(f.u64("target epoch")),
		ID:    shield.ServiceID(f.uvarint("target service")),
	}
}
