package cluster

import (
	"sync/atomic"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// drop numbers the reasons for which something was refused, dropped or late.
type drop int

const (
	dropLateReply drop = iota
	dropReplyGone
	dropReplyTwice
	dropQueueFull
	dropNotAuthenticated
	dropIdentityMismatch
	dropGarbage
	dropHandshakeFailed
	dropStaleTable
	dropExpired
	dropRecordExpired
	dropEvents
	dropPaused
	dropRepaired
	drops // how many there are
)

// dropNames are the keys of Drops.
var dropNames = [drops]string{
	dropLateReply:        "late_replies",
	dropReplyGone:        "replies_to_lost_links",
	dropReplyTwice:       "replies_given_twice",
	dropQueueFull:        "link_queue_full",
	dropNotAuthenticated: "peer_not_authenticated",
	dropIdentityMismatch: "peer_identity_mismatch",
	dropGarbage:          "garbage",
	dropHandshakeFailed:  "handshakes_failed",
	dropStaleTable:       "stale_tables",
	dropExpired:          "expired_on_arrival",
	dropRecordExpired:    "call_records_expired",
	dropEvents:           "events_dropped",
	dropPaused:           "pauses_noticed",
	dropRepaired:         "tables_repaired",
}

const refusals = int(wire.RefuseStopping) + 1

// stats are the cluster's counters.
type stats struct {
	connections  atomic.Int64
	reconnects   atomic.Int64
	txMessages   atomic.Int64
	rxMessages   atomic.Int64
	txHeartbeats atomic.Int64
	rxHeartbeats atomic.Int64
	drops        [drops]atomic.Int64
	refused      [refusals]atomic.Int64 // handshakes that we refused, or that were refused to us
}

func (s *stats) count(d drop) { s.drops[d].Add(1) }

func (s *stats) refusal(r wire.RefuseReason) {
	if int(r) < refusals {
		s.refused[r].Add(1)
	}
}

// Strangers counts what reached a transport and never became a link.
type Strangers struct {
	Datagrams int64  // that belong to no connection: garbage, or for a life before a restart
	Refused   int64  // connections for which there was no place
	Silent    int64  // connections that began no handshake in time
	Last      string // where the last of these connections came from
}

// outsider is a Transport that knows of strangers.
type outsider interface{ Strangers() Strangers }

// tellOfStrangers logs the connections that a transport ended before there was a
// link to log of.
func (c *Cluster) tellOfStrangers() {
	t, ok := c.cfg.Transport.(outsider)
	if !ok {
		return
	}
	now, told := t.Strangers(), &c.own.told
	if n := now.Refused - told.Refused; n > 0 {
		c.civil.warn(c.log, "crowd", "connections were turned away: too many have not finished their handshake, so a peer may be late to join",
			"event", "strangers", "connections", n, "last", now.Last)
	}
	if n := now.Silent - told.Silent; n > 0 {
		c.civil.warn(c.log, "silent", "connections were closed: they began no handshake",
			"event", "strangers", "connections", n, "last", now.Last)
	}
	*told = now
}

// Counters are the six of DESIGN.md 3.6.
func (c *Cluster) Counters() shield.ClusterCounters {
	s := &c.stats
	return shield.ClusterCounters{
		Connections: s.connections.Load(), Reconnects: s.reconnects.Load(),
		TxMessages: s.txMessages.Load(), RxMessages: s.rxMessages.Load(),
		TxHeartbeats: s.txHeartbeats.Load(), RxHeartbeats: s.rxHeartbeats.Load(),
	}
}

// Drops counts what was refused, dropped or came late, by reason; reasons that
// never happened are there with 0.
func (c *Cluster) Drops() map[string]int64 {
	out := make(map[string]int64, int(drops)+refusals)
	for i := range c.stats.drops {
		out[dropNames[i]] = c.stats.drops[i].Load()
	}
	for i := 1; i < refusals; i++ {
		out["refused_"+wire.RefuseReason(i).String()] = c.stats.refused[i].Load()
	}
	if t, ok := c.cfg.Transport.(outsider); ok {
		s := t.Strangers()
		out["stray_datagrams"], out["strangers_turned_away"], out["strangers_silent"] = s.Datagrams, s.Refused, s.Silent
	}
	return out
}
