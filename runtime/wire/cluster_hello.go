package wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"shield/runtime/shield"
)

// Feature is a bit for what may differ between releases of one wire version. A
// link uses the features that both ends announce.
type Feature uint64

const (
	// FeatureRouteChange: a change of the table of names travels alone; without
	// it the whole table does.
	FeatureRouteChange Feature = 1 << 0
)

// Features are those of this release.
const Features = FeatureRouteChange

// AuthMode is how a node proves itself; the two ends must agree.
type AuthMode uint8

const (
	AuthNone  AuthMode = 0
	AuthToken AuthMode = 1
	AuthMTLS  AuthMode = 2
)

func (m AuthMode) String() string {
	switch m {
	case AuthNone:
		return "none"
	case AuthToken:
		return "token"
	case AuthMTLS:
		return "mtls"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// NonceSize and ProofSize are the lengths of a challenge and of its answer
// (HMAC-SHA256).
const (
	NonceSize = 32
	ProofSize = 32
)

// Limits of the handshake's fields.
const (
	maxAddress  = 255
	maxProofs   = 2
	maxReason   = 512
	maxGateways = 64
)

// Identity is what a node says of itself in a handshake.
type Identity struct {
	Cluster  string
	Node     shield.NodeID
	Epoch    shield.NodeEpoch
	PID      uint32
	Address  string // where others can dial it
	Features Feature
	Auth     AuthMode
	Nonce    [NonceSize]byte // the challenge the other end has to answer
	Time     time.Time       // its UTC clock, in milliseconds
}

// RefuseReason says why a handshake was refused. Zero is no refusal.
type RefuseReason uint8

const (
	Accepted           RefuseReason = 0
	RefuseVersion      RefuseReason = 1
	RefuseCluster      RefuseReason = 2
	RefuseAuth         RefuseReason = 3
	RefuseClock        RefuseReason = 4
	RefuseDuplicate    RefuseReason = 5
	RefuseSelf         RefuseReason = 6
	RefuseSimultaneous RefuseReason = 7
	RefuseStopping     RefuseReason = 8
)

func (r RefuseReason) String() string {
	switch r {
	case Accepted:
		return "accepted"
	case RefuseVersion:
		return "version"
	case RefuseCluster:
		return "cluster_name"
	case RefuseAuth:
		return "auth"
	case RefuseClock:
		return "clock"
	case RefuseDuplicate:
		return "duplicate_node_id"
	case RefuseSelf:
		return "self"
	case RefuseSimultaneous:
		return "simultaneous"
	case RefuseStopping:
		return "stopping"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Verdict is how one end of a handshake answers the other: accepted, or refused
// with a reason and, for a duplicate id, who holds it.
type Verdict struct {
	Reason  RefuseReason
	Text    string // for people
	Address string // of the holder
	PID     uint32
	Epoch   shield.NodeEpoch
	Live    bool // the holder answered just now; false: its epoch is only remembered
}

// Hello opens a handshake; the dialling end sends it.
type Hello struct {
	Version  uint16
	Identity Identity
}

// HelloAck answers it. Proofs is what the accepting end can prove, one for each
// of its keys, over everything before them (HandshakeProof).
type HelloAck struct {
	Version  uint16
	Identity Identity
	Verdict  Verdict
	Proofs   [][ProofSize]byte
	// Signed is how much of the body the proofs cover: all that comes before
	// them. DecodeHelloAck sets it.
	Signed int
}

// HelloFin ends the handshake: the dialling end's own verdict and proof.
type HelloFin struct {
	Verdict Verdict
	Proof   [ProofSize]byte
	Signed  int
}

// AppendHello appends the frame.
func AppendHello(dst []byte, h *Hello) []byte {
	dst, start := beginFrame(dst, KindHello)
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	return endFrame(appendIdentity(dst, &h.Identity), start)
}

// DecodeHello reads a body. Only Version is set, without an error, when the
// version is another: nothing else of such a frame can be relied on. Bytes after
// the known fields belong to later releases and are ignored.
func DecodeHello(body []byte) (*Hello, error) {
	f := fields{b: body}
	h := &Hello{Version: f.u16("version")}
	if f.err == nil && h.Version != ClusterVersion {
		return h, nil
	}
	readIdentity(&f, &h.Identity)
	return h, f.err
}

// AppendHelloAckUnsigned appends the part of a body that the proofs cover.
func AppendHelloAckUnsigned(dst []byte, h *HelloAck) []byte {
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = appendIdentity(dst, &h.Identity)
	return appendVerdict(dst, &h.Verdict)
}

// AppendHelloAck appends the frame: signed is what AppendHelloAckUnsigned gave.
func AppendHelloAck(dst, signed []byte, proofs [][ProofSize]byte) []byte {
	dst, start := beginFrame(dst, KindHelloAck)
	dst = append(dst, signed...)
	dst = append(dst, byte(len(proofs)))
	for i := range proofs {
		dst = append(dst, proofs[i][:]...)
	}
	return endFrame(dst, start)
}

// DecodeHelloAck reads a body; see DecodeHello for versions and later releases.
func DecodeHelloAck(body []byte) (*HelloAck, error) {
	f := fields{b: body}
	h := &HelloAck{Version: f.u16("version")}
	if f.err == nil && h.Version != ClusterVersion {
		return h, nil
	}
	readIdentity(&f, &h.Identity)
	readVerdict(&f, &h.Verdict)
	h.Signed = len(body) - len(f.b)
	n := f.u8("proofs")
	if n > maxProofs {
		f.fail("proofs", ErrTooLong)
	}
	for range n {
		var p [ProofSize]byte
		copy(p[:], f.take("proof", ProofSize))
		h.Proofs = append(h.Proofs, p)
	}
	return h, f.err
}

// AppendHelloFinUnsigned appends the part of a body that the proof covers.
func AppendHelloFinUnsigned(dst []byte, v *Verdict) []byte { return appendVerdict(dst, v) }

// AppendHelloFin appends the frame: signed is what AppendHelloFinUnsigned gave.
func AppendHelloFin(dst, signed []byte, proof [ProofSize]byte) []byte {
	dst, start := beginFrame(dst, KindHelloFin)
	dst = append(dst, signed...)
	return endFrame(append(dst, proof[:]...), start)
}

// DecodeHelloFin reads a body.
func DecodeHelloFin(body []byte) (*HelloFin, error) {
	f := fields{b: body}
	h := &HelloFin{}
	readVerdict(&f, &h.Verdict)
	h.Signed = len(body) - len(f.b)
	copy(h.Proof[:], f.take("proof", ProofSize))
	return h, f.err
}

func appendIdentity(dst []byte, id *Identity) []byte {
	dst = appendClipped(dst, id.Cluster, shield.MaxName)
	dst = appendClipped(dst, string(id.Node), shield.MaxName)
	dst = binary.BigEndian.AppendUint64(dst, uint64(id.Epoch))
	dst = binary.BigEndian.AppendUint32(dst, id.PID)
	dst = appendClipped(dst, id.Address, maxAddress)
	dst = binary.BigEndian.AppendUint64(dst, uint64(id.Features))
	dst = append(dst, byte(id.Auth))
	dst = append(dst, id.Nonce[:]...)
	return binary.BigEndian.AppendUint64(dst, uint64(id.Time.UnixMilli()))
}

func readIdentity(f *fields, id *Identity) {
	id.Cluster = f.text("cluster name", shield.MaxName)
	id.Node = f.node("node_id")
	id.Epoch = shield.NodeEpoch(f.u64("epoch"))
	id.PID = f.u32("pid")
	id.Address = f.text("address", maxAddress)
	id.Features = Feature(f.u64("features"))
	id.Auth = AuthMode(f.u8("auth"))
	copy(id.Nonce[:], f.take("nonce", NonceSize))
	id.Time = time.UnixMilli(int64(f.u64("time"))).UTC()
	if f.err == nil && id.Epoch == 0 {
		f.fail("epoch", ErrMalformed)
	}
}

func appendVerdict(dst []byte, v *Verdict) []byte {
	dst = append(dst, byte(v.Reason))
	if v.Reason == Accepted {
		return dst
	}
	dst = appendClipped(dst, v.Text, maxReason)
	dst = appendClipped(dst, v.Address, maxAddress)
	dst = binary.BigEndian.AppendUint32(dst, v.PID)
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Epoch))
	return append(dst, boolByte(v.Live))
}

func readVerdict(f *fields, v *Verdict) {
	v.Reason = RefuseReason(f.u8("verdict"))
	if v.Reason == Accepted {
		return
	}
	v.Text = f.text("verdict text", maxReason)
	v.Address = f.text("verdict address", maxAddress)
	v.PID = f.u32("verdict pid")
	v.Epoch = shield.NodeEpoch(f.u64("verdict epoch"))
	v.Live = f.u8("verdict live") != 0
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// node reads a node id, which must follow the rule for names.
func (f *fields) node(what string) shield.NodeID {
	s := f.text(what, shield.MaxName)
	if f.err == nil && shield.CheckName(s) != nil {
		f.fail(what, ErrMalformed)
		return ""
	}
	return shield.NodeID(s)
}
