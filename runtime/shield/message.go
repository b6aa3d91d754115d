package shield

import "time"

// Envelope is a message on its way between nodes: a send, or a call that wants
// one reply. Args are encoded values (package value); whoever is handed an
// envelope may read them until it returns, and nobody may write to them.
type Envelope struct {
	Source  Handle // ID 0 when no service sent it: a tool, or the node itself
	Target  Handle // ID 0 addresses the node itself
	Method  string
	Args    []byte
	CallID  uint64        // 0 = a send; set by the cluster on the caller's side
	Timeout time.Duration // what is left of the caller's deadline; calls only
	Trace   TraceID
}

// Waiter waits for the reply to one call. Done is called exactly once unless
// the call was cancelled first, from any goroutine, and must not block. result
// is valid until it returns.
type Waiter interface {
	Done(result []byte, err *Error)
}

// Replier takes the answer to one inbound call, exactly once, from any
// goroutine, without blocking. result may be used again afterwards.
type Replier interface {
	Reply(result []byte, err *Error)
}

// Ingress is one client frame on its way to its session's target. It carries
// the binding of the moment it was read.
type Ingress struct {
	Client ClientRef
	Target Handle
	Route  RouteID
	Codec  string // how Body is encoded: json, raw, msgpack, ...
	Body   []byte
	// Decoded is Body as a detached Lua value, where the gateway has decoded it
	// already; it does not travel between nodes.
	Decoded any
	Trace   TraceID
}

// NoticeKind is what a target is told about one of its sessions.
type NoticeKind uint8

const (
	NoticeBound        NoticeKind = 1
	NoticeUnbound      NoticeKind = 2
	NoticeDisconnected NoticeKind = 3
	// NoticeMoved is for the node of a target that a session was bound to before;
	// the target itself hears nothing.
	NoticeMoved NoticeKind = 4
)

// Hook is the name of the Lua hook that hears the notice.
func (k NoticeKind) Hook() string {
	switch k {
	case NoticeBound:
		return "on_client_bound"
	case NoticeUnbound:
		return "on_client_unbound"
	default:
		return "on_client_disconnected"
	}
}

// Notice tells a target that a session was bound to it or is no longer.
type Notice struct {
	Kind   NoticeKind
	Client ClientRef // with the last epoch that was valid
	Target Handle
	Reason string // not for NoticeBound
}

// Push is one frame from a service to a client.
type Push struct {
	Client ClientRef
	Route  RouteID
	Body   []byte
}
