package cluster

import (
	"context"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// Cluster is one node's membership in a cluster.
type Cluster struct{ cfg Config }

// New checks cfg and makes a Cluster that is not running yet.
func New(cfg Config) (*Cluster, error) { return &Cluster{cfg: cfg}, nil }

// Start joins: it accepts and dials, and waits for the first verdict of every
// configured peer, at most Config.Settle. A node whose id is held by a live node
// elsewhere fails here; one whose epoch a peer has seen surpassed takes a higher
// one, once, so Epoch is final only after Start.
func (c *Cluster) Start(ctx context.Context) error { return nil }

// Done is closed when the cluster has ended; Err then says why. It ends by
// itself when a peer refuses this running node as a duplicate.
func (c *Cluster) Done() <-chan struct{} { return nil }

// Err is nil after an orderly Close.
func (c *Cluster) Err() error { return nil }

// Drain leaves routing: peers see the intent draining and an empty table of
// names, while what is addressed by handle goes on.
func (c *Cluster) Drain() {}

// Close says goodbye to every peer, waits until they have read all that was
// written before, and frees everything; ctx bounds it.
func (c *Cluster) Close(ctx context.Context) error { return nil }

// Node is this node's id and Epoch its epoch.
func (c *Cluster) Node() shield.NodeID     { return c.cfg.Node }
func (c *Cluster) Epoch() shield.NodeEpoch { return c.cfg.Epoch }

// Publish and Withdraw keep the table of names that peers see. Calls for one
// name must come in order.
func (c *Cluster) Publish(name shield.Name, id shield.ServiceID) {}
func (c *Cluster) Withdraw(name shield.Name)                     {}

// Resolve turns another node's name into a handle: reachability first, then
// service_not_found.
func (c *Cluster) Resolve(node shield.NodeID, name shield.Name) (shield.Handle, error) {
	return shield.Handle{}, nil
}

// Send hands an envelope to the link of its target's node.
func (c *Cluster) Send(e *shield.Envelope) error { return nil }

// Call is Send for an envelope that wants a reply; it sets e.CallID.
func (c *Cluster) Call(e *shield.Envelope, w shield.Waiter) (callID uint64, err error) { return 0, nil }

// Cancel forgets a call; a reply that still comes is counted as late.
func (c *Cluster) Cancel(callID uint64) {}

// SendFrame hands one frame of session traffic to the data stream of a node.
// Frames pass a suspect.
func (c *Cluster) SendFrame(node shield.NodeID, kind wire.Kind, body []byte) error { return nil }

// Nodes lists this node first, then every other by id.
func (c *Cluster) Nodes() []shield.NodeRow { return nil }

// Routes lists every published name that is known, this node's included.
func (c *Cluster) Routes() []shield.RouteRow { return nil }

// Published lists what online peers publish under names that match; draining
// peers publish nothing.
func (c *Cluster) Published(match func(shield.Name) bool) []shield.Published { return nil }

// SetInfo says what peers' tools shall see of this node.
func (c *Cluster) SetInfo(i Info) {}

// Counters are the six of DESIGN.md 3.6.
func (c *Cluster) Counters() shield.ClusterCounters { return shield.ClusterCounters{} }

// Drops counts what was refused, dropped or came late, by reason.
func (c *Cluster) Drops() map[string]int64 { return nil }

// EpochStore remembers the last epoch of a node across its starts.
type EpochStore interface {
	Load() (shield.NodeEpoch, error) // 0 when there is none
	Save(shield.NodeEpoch) error
}
