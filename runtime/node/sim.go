package node

import (
	"time"

	"shield/runtime/cluster"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/transport"
)

// Sim is what a test of a game replaces so that a run in virtual time can be
// repeated. Every field is needed, but for Cover.
type Sim struct {
	Transport cluster.Transport      // instead of QUIC on Config.Conn; owned
	Unplug    func()                 // takes Transport off the network, so that a Kill tells nobody
	Turn      func(shield.ServiceID) // gives out turns; see service.Config
	Rand      func() uint64          // of session ids and traces, and of the pauses between dials
	Watch     func(look func(now time.Time))
	Cover     luavm.Cover
}

// Jitter is a part of d.
func (s *Sim) Jitter(d time.Duration) time.Duration {
	return time.Duration(s.Rand() % uint64(max(d, 1)))
}

func (s *Sim) services(cfg *service.Config) {
	cfg.Turn, cfg.Lua.Watch, cfg.Lua.Cover = s.Turn, s.Watch, s.Cover
}

// transport opens the way to other nodes.
func (n *Node) transport() (cluster.Transport, error) {
	if n.cfg.Sim != nil {
		return n.cfg.Sim.Transport, nil
	}
	c := n.cfg.Project.Cluster
	return transport.New(transport.Config{Conn: n.cfg.Conn, Node: c.NodeID, Token: c.Auth.Token, Log: n.log})
}

// Rest lets the cluster stand still, as cluster.Rest says, for tests that let
// days pass. All nodes must rest and wake together.
func (n *Node) Rest(on bool) {
	if on {
		n.infoTick.Stop()
	} else {
		n.infoTick.Reset(tellEvery)
	}
	if n.cluster != nil {
		n.cluster.Rest(on)
	}
}
