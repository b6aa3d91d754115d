package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"shield/runtime/shield"
)

// trigger is what can move a member from one state to another.
type trigger uint8

const (
	onHandshake trigger = iota // its identity was adopted
	onHeartbeat                // it said that it lives and hears us
	onQuiet                    // nothing for the suspect time-out
	onSilent                   // nothing for the offline time-out
	onDeaf                     // it lives, but has not heard us for the suspect time-out
	onClosed                   // its connection is known closed, or it said goodbye
	onVanished                 // discovery no longer lists it
	onForgotten                // offline for the removed time-out
)

// transitions is the whole state machine; what is not here changes nothing.
// docs/cluster.md prints it.
var transitions = map[shield.NodeState]map[trigger]shield.NodeState{
	shield.Connecting: {
		onHandshake: shield.Online,
		onSilent:    shield.Offline,
		onVanished:  shield.Offline,
	},
	shield.Online: {
		onHandshake: shield.Online,
		onQuiet:     shield.Suspect,
		onDeaf:      shield.Suspect,
		onVanished:  shield.Suspect,
		onSilent:    shield.Offline,
		onClosed:    shield.Offline,
	},
	shield.Suspect: {
		onHandshake: shield.Online,
		onHeartbeat: shield.Online,
		onSilent:    shield.Offline,
		onClosed:    shield.Offline,
	},
	shield.Offline: {
		onHandshake: shield.Online,
		onHeartbeat: shield.Online,
		onForgotten: shield.Removed,
	},
	shield.Removed: {
		onHandshake: shield.Online,
	},
}

// member is what the owner knows of one peer. Times count from the cluster's
// own beginning on the monotonic clock.
type member struct {
	id      shield.NodeID // "" while a placeholder
	epoch   shield.NodeEpoch
	address string // where it is dialled, then where it says it is
	state   shield.NodeState
	reason  string
	since   time.Duration // of this state
	// mutual is when it last said that it lives and hears us.
	mutual time.Duration
	linked bool // it has been adopted before
}

// timeouts are those of the configuration.
type timeouts struct{ suspect, offline, removed time.Duration }

// apply moves m by t. It reports whether the state changed.
func (m *member) apply(t trigger, reason string, now time.Duration) (from shield.NodeState, changed bool) {
	from = m.state
	to, ok := transitions[from][t]
	if !ok {
		return from, false
	}
	if to == shield.Online {
		m.mutual = now
	}
	if to == from {
		return from, false
	}
	m.state, m.reason, m.since = to, reason, now
	return from, true
}

// due says which time-out of m has passed, with its reason.
func (m *member) due(lim timeouts, now time.Duration) (t trigger, reason string, ok bool) {
	quiet := now - m.mutual
	switch m.state {
	case shield.Connecting:
		if now-m.since >= lim.offline {
			return onSilent, fmt.Sprintf("never answered at %s", m.address), true
		}
	case shield.Online, shield.Suspect:
		if quiet >= lim.offline {
			return onSilent, fmt.Sprintf("no heartbeat for %v", quiet.Round(time.Millisecond)), true
		}
		if quiet >= lim.suspect && m.state == shield.Online {
			return onQuiet, fmt.Sprintf("no heartbeat for %v", quiet.Round(time.Millisecond)), true
		}
	case shield.Offline:
		if now-m.since >= lim.removed {
			return onForgotten, fmt.Sprintf("offline for %v", lim.removed), true
		}
	}
	return 0, "", false
}

// excuse discards m's deadlines: this process did not run for gap and can't
// know what it missed.
func (m *member) excuse(gap, now time.Duration) {
	m.since += gap
	m.mutual = now
}

// members are all peers: placeholders by address, the others by id.
type members struct {
	all  []*member
	byID map[shield.NodeID]*member
}

func newMembers() *members { return &members{byID: map[shield.NodeID]*member{}} }

// placeholder adds a peer of which only the address is known; it does nothing
// when somebody has that address.
func (ms *members) placeholder(addr string, now time.Duration) (m *member, added bool) {
	for _, m := range ms.all {
		if m.address == addr {
			return m, false
		}
	}
	m = &member{address: addr, state: shield.Connecting, reason: "dialling", since: now}
	ms.all = append(ms.all, m)
	return m, true
}

// identify finds or makes the member of an id. A placeholder for one of its
// addresses (where it was dialled, what it names as its own, where its packets
// come from) takes the id; when the id had a member already the placeholder is
// dropped.
func (ms *members) identify(id shield.NodeID, now time.Duration, addresses ...string) *member {
	m := ms.byID[id]
	for _, p := range slices.Clone(ms.all) {
		if p.id != "" || !slices.Contains(addresses, p.address) {
			continue
		}
		if m == nil {
			m, p.id = p, id
			ms.byID[id] = p
			continue
		}
		ms.drop(p)
	}
	if m == nil {
		m = &member{id: id, state: shield.Connecting, reason: "it dialled us", since: now}
		ms.all = append(ms.all, m)
		ms.byID[id] = m
	}
	return m
}

func (ms *members) drop(m *member) {
	ms.all = slices.DeleteFunc(ms.all, func(o *member) bool { return o == m })
	if m.id != "" && ms.byID[m.id] == m {
		delete(ms.byID, m.id)
	}
}

// maxTombstones bounds the removed members that are remembered; their epochs
// refuse an older start of the same id.
const maxTombstones = 1024

// prune forgets the oldest tombstones.
func (ms *members) prune() (gone []*member) {
	var dead []*member
	for _, m := range ms.all {
		if m.state == shield.Removed {
			dead = append(dead, m)
		}
	}
	if len(dead) <= maxTombstones {
		return nil
	}
	slices.SortFunc(dead, func(a, b *member) int { return cmp.Compare(a.since, b.since) })
	gone = dead[:len(dead)-maxTombstones]
	for _, m := range gone {
		ms.drop(m)
	}
	return gone
}
