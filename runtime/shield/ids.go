package shield

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// NodeID names one runtime instance, unique within a cluster. It follows the
// rule for names, so it never holds a colon.
type NodeID string

// LocalNode is the id a node goes by in rows and handles while no cluster is
// configured.
const LocalNode NodeID = "local"

// NodeEpoch tells two starts of the same node apart: it rises at every start
// of that node id. Zero means unknown.
type NodeEpoch uint64

// String gives the decimal form, the only form that Lua, JSON and people see:
// a double would lose digits.
func (e NodeEpoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// MarshalJSON writes a decimal string, or null for an unknown epoch.
func (e NodeEpoch) MarshalJSON() ([]byte, error) {
	if e == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, e.String()), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *NodeEpoch) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*e = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("node epoch: %w", err)
	}
	v, err := ParseNodeEpoch(s)
	*e = v
	return err
}

// ParseNodeEpoch reads the decimal form.
func ParseNodeEpoch(s string) (NodeEpoch, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("node epoch %q: not a decimal number of 64 bits", s)
	}
	return NodeEpoch(v), nil
}

// ServiceID numbers the services of one node in one epoch. Ids grow and are
// never reused; zero addresses the node itself.
type ServiceID uint64

// RoutesVersion counts the changes of one node's table of published names.
type RoutesVersion uint64

// SessionID names one client connection within the cluster.
type SessionID string

// Short is the beginning of a session's id, enough for a person and a log line.
// Tools take it where no other session begins alike.
func (s SessionID) Short() string { return string(s[:min(len(s), len("s-")+8)]) }

// SessionEpoch rises by one at each bind of a session and when its binding is
// invalidated; it is never lowered.
type SessionEpoch uint32

// GatewayID names one gateway: "node:gateway".
type GatewayID string

// MakeGatewayID joins the node and the name a gateway has in shield.yaml.
func MakeGatewayID(node NodeID, name string) GatewayID {
	return GatewayID(string(node) + ":" + name)
}

// Node is the node that owns the gateway.
func (g GatewayID) Node() NodeID {
	node, _, _ := cutColon(string(g))
	return NodeID(node)
}

// Name is the gateway's name in shield.yaml.
func (g GatewayID) Name() string {
	_, name, _ := cutColon(string(g))
	return name
}

// TraceID follows one piece of work through every call it causes. Zero means
// untraced.
type TraceID uint64

// String gives 16 hexadecimal digits.
func (t TraceID) String() string { return fmt.Sprintf("%016x", uint64(t)) }

// ParseTraceID reads what String wrote.
func ParseTraceID(s string) (TraceID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("trace id %q: want 16 hexadecimal digits", s)
	}
	return TraceID(v), nil
}

// MarshalJSON writes the hexadecimal form, or null for none.
func (t TraceID) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, t.String()), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *TraceID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("trace id: %w", err)
	}
	v, err := ParseTraceID(s)
	*t = v
	return err
}
