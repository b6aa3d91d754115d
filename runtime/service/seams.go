package service

import (
	"time"

	"shield/runtime/shield"
)

// Remote reaches the services of other nodes. Every method returns at once;
// none is called under a lock of this package.
type Remote interface {
	// Resolve turns another node's name into a handle: reachability first
	// (node_not_found, node_suspect, node_offline, node_removed), then
	// service_not_found.
	Resolve(node shield.NodeID, name shield.Name) (shield.Handle, error)
	// Send hands an envelope to the link. nil means accepted, no more.
	Send(env *shield.Envelope) error
	// Call is Send for an envelope that wants a reply. w hears it exactly once,
	// unless Call failed or Cancel came first.
	Call(env *shield.Envelope, w shield.Waiter) (callID uint64, err error)
	// Cancel forgets a call: a reply that still comes is counted as late.
	Cancel(callID uint64)
	Nodes() []shield.NodeRow
	// Published lists what online peers publish under names that match.
	Published(match func(shield.Name) bool) []Published
}

// Published is one name of one node.
type Published = shield.Published

// Clients reaches the sessions of this node's gateways and, through the
// cluster, of others. Every method returns at once.
type Clients interface {
	// Bind moves ref's session to target and player if the session is still at
	// ref's epoch. done is called exactly once, from any goroutine.
	Bind(ref shield.ClientRef, target shield.Handle, player string, timeout time.Duration, done func(shield.ClientRef, error))
	// Push hands one frame over; what becomes of it is counted at the gateway.
	Push(p *shield.Push)
	// Close ends ref's session, whatever its epoch.
	Close(ref shield.ClientRef, reason string) error
}
