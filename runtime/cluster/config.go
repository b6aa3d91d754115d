// Package cluster joins nodes: it keeps who is a member and in which state, which
// names every member publishes, and carries envelopes, replies and the frames of
// sessions between them. It knows no QUIC: package transport gives it Links.
//
// One goroutine owns the membership; it never blocks. Send, Call, Resolve and
// the like never wait for it: they read what it published, and may be called
// from any goroutine. Everything one goroutine sends to one node arrives in that
// order while the link lives. Local is called from one goroutine for each link,
// in the order of arrival, and must not block. Config.OnEvent is called from a
// goroutine of its own, in order, with no lock held.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// Stream is one of the two ordered streams of a link. They have no mutual order.
type Stream int

const (
	// Control carries the handshake, then heartbeats, table repair and goodbye.
	Control Stream = iota
	// Data carries everything whose order Lua or a client can see.
	Data
)

// Transport makes links. Package transport satisfies it.
type Transport interface {
	// Dial connects to addr (host:port).
	Dial(ctx context.Context, addr string) (Link, error)
	// Accept waits for a peer that dialled us. Its error means that the
	// transport is closed.
	Accept(ctx context.Context) (Link, error)
	// Addr is where the transport listens.
	Addr() net.Addr
	// Close ends every link, frees the socket and waits for its goroutines.
	Close() error
}

// Link is one connection to a peer: two ordered streams of frames. Its methods
// may be called from any goroutine, but Read of one stream from one at a time.
type Link interface {
	// Write queues whole frames, header included, and never blocks. It copies
	// them. An error means that nothing was queued: the queue is full
	// (ErrQueueFull), or the link is closed.
	Write(s Stream, frames []byte) error
	// Read waits for the next frame and returns its kind and body, which are
	// valid until the next Read of that stream.
	Read(s Stream) (wire.Kind, []byte, error)
	// Trust lifts the limits on a peer that has proved nothing: until it is
	// called frames are short and only the control stream is read.
	Trust()
	// Exporter gives keying material that only the two ends of this connection
	// know, to bind a proof to it.
	Exporter(label string) ([]byte, error)
	RemoteAddr() net.Addr
	// Close ends the link now; reason reaches the peer and Err. What is queued
	// may be lost. Only the first call counts.
	Close(reason string)
	// Done is closed when the link has ended, for the reason that Err gives.
	Done() <-chan struct{}
	Err() error
	Stats() LinkStats
}

// LinkStats are figures of a link for people.
type LinkStats struct {
	RTT         time.Duration
	PacketsSent uint64
	PacketsLost uint64
	BytesSent   uint64
	BytesRead   uint64
	Queued      int // bytes waiting to be written
}

// Local is the node that a cluster serves. Its methods are called in the order
// of arrival on a link's own goroutine and must not block.
type Local interface {
	// Deliver hands over one envelope. reply is nil for a send, and is used
	// exactly once for a call. e belongs to the callee, but for e.Args, which are
	// valid only during the call.
	Deliver(e *shield.Envelope, reply shield.Replier)
	// Frame hands over one frame of session traffic. body is valid only during
	// the call; the Decode functions of package wire copy.
	Frame(from shield.NodeID, epoch shield.NodeEpoch, kind wire.Kind, body []byte)
}

// Candidate is a node that a discovery backend knows of.
type Candidate struct {
	Node      shield.NodeID
	Addr      string
	StartedAt time.Time
}

// Discovery is a place where nodes find each other. A backend only adds
// candidates and demotes vanished ones to suspect, once. Its methods are called
// from one goroutine, with contexts that end; the cluster decides when, retries,
// and logs.
type Discovery interface {
	// Announce registers self or renews its registration.
	Announce(ctx context.Context, self Candidate) error
	// Scan lists the nodes that are registered now, self perhaps among them. A
	// failed scan is an error, never a shorter list.
	Scan(ctx context.Context) ([]Candidate, error)
	// Withdraw takes the registration of node away.
	Withdraw(ctx context.Context, node shield.NodeID) error
	// Close frees what the backend holds.
	Close() error
}

// Auth is how nodes prove themselves to each other.
type Auth struct {
	Mode     wire.AuthMode
	Token    string // AuthToken: the key that this node proves itself with
	Previous string // AuthToken: a second key that is accepted during a rotation
	// MaxClockSkew refuses a peer whose UTC clock differs by more; 0 = never.
	MaxClockSkew time.Duration
}

// Config is what a Cluster is made of. Zero means the default.
type Config struct {
	Name      string // of the cluster; nodes of other clusters are refused
	Node      shield.NodeID
	Epoch     shield.NodeEpoch // see NextEpoch
	Advertise string           // where others can dial us; default: the transport's address
	Peers     []string         // host:port of static peers

	Heartbeat time.Duration // 2 s, at least 50 ms
	Suspect   time.Duration // 6 s
	Offline   time.Duration // 10 s
	Removed   time.Duration // 60 s

	Auth      Auth
	Transport Transport // owned: Close closes it
	Local     Local
	Discovery Discovery // nil = static peers only; owned
	// AnnounceEvery and ScanEvery time the discovery: 3 s each.
	AnnounceEvery time.Duration
	ScanEvery     time.Duration

	// Settle bounds how long Start waits for the configured peers' verdicts:
	// 600 ms; negative = not at all.
	Settle time.Duration

	Log *slog.Logger
	// OnEvent hears every change of a member's state; may be nil.
	OnEvent func(Event)
	// Wall is the UTC clock that peers are told; default time.Now.
	Wall func() time.Time
	// Jitter gives a random part of d, for the pause before a redial; default
	// rand.N. Tests that must repeat hand in their own.
	Jitter func(d time.Duration) time.Duration
}

// Event is a change of a member's state.
type Event struct {
	Time    time.Time
	Node    shield.NodeID // "" while a placeholder
	Address string
	Epoch   shield.NodeEpoch
	From    shield.NodeState
	To      shield.NodeState
	Reason  string
}

// Info is what a node tells its peers about itself, for their rows.
type Info struct {
	Gateways       []string
	Services       int
	Sessions       int
	CallsPerSecond float64
}

// ErrQueueFull is a Link's answer when the peer reads too slowly.
var ErrQueueFull = errors.New("the link's queue is full")
