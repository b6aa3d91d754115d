package shield

import "strconv"

// Handle is an opaque reference to a service: never a pointer, never a
// connection. Two handles are the same service exactly when they are equal.
type Handle struct {
	Node  NodeID
	Epoch NodeEpoch
	ID    ServiceID
}

// IsZero reports whether h refers to nothing.
func (h Handle) IsZero() bool { return h == Handle{} }

// String gives "node#id", for people; it is not parsed back.
func (h Handle) String() string {
	if h.IsZero() {
		return "(none)"
	}
	return string(h.Node) + "#" + strconv.FormatUint(uint64(h.ID), 10)
}

// ClientRef names a session at one epoch of its binding. It is a value: it may
// be stored and sent to other services, and goes stale at the next bind.
type ClientRef struct {
	Gateway GatewayID
	Session SessionID
	Epoch   SessionEpoch
	Player  string // "" before login
	// Profile is "protocol/provider" of the listener the session came through,
	// so that a push can be encoded where it is made. An empty provider leaves
	// the choice to the route's codec.
	Profile string
}

// IsZero reports whether c refers to nothing.
func (c ClientRef) IsZero() bool { return c == ClientRef{} }

// String gives "session@epoch player", for people; it is not parsed back.
func (c ClientRef) String() string {
	s := string(c.Session) + "@" + strconv.FormatUint(uint64(c.Epoch), 10)
	if c.Player != "" {
		s += " " + c.Player
	}
	return s
}

// Published is one name of one node and the service behind it.
type Published struct {
	Node   NodeID
	Name   Name
	Handle Handle
}
