package node

import (
	"maps"
	"slices"
	"sync"
	"time"

	"shield/runtime/shield"
)

// guests are the sessions of other nodes' gateways that are bound to services
// of this node. The gateway tells the target what happens to a session; guests
// is how the target's side can, when the gateway's node is gone, and how a
// gateway learns that its target is.
type guests struct {
	mu       sync.Mutex
	byNode   map[shield.NodeID]map[shield.SessionID]guest
	byTarget map[shield.Handle]map[shield.SessionID]shield.NodeID // the same, for the end of a target
}

type guest struct {
	client shield.ClientRef
	target shield.Handle
	since  time.Time
}

// heard keeps track of a notice from another node's gateway, and reports whether
// the session was known to be bound to that target.
func (g *guests) heard(from shield.NodeID, n *shield.Notice) (known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := n.Client.Session
	is, ok := g.byNode[from][id]
	if n.Kind == shield.NoticeBound {
		g.remove(from, id)
		g.add(from, id, guest{n.Client, n.Target, time.Now()})
		return true
	}
	// The session may have been bound to another target of this node since.
	if known = ok && is.target == n.Target; known {
		g.remove(from, id)
	}
	return known
}

// forget drops one session that its target never had.
func (g *guests) forget(from shield.NodeID, id shield.SessionID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(from, id)
}

// leave forgets the sessions of a node that was lost at a moment, and returns
// the notices that its gateways can no longer send. The news of the loss may come
// late: sessions that were bound since, over a new link, stay.
func (g *guests) leave(node shield.NodeID, lost time.Time, reason string) []*shield.Notice {
	g.mu.Lock()
	defer g.mu.Unlock()
	var notices []*shield.Notice
	of := g.byNode[node]
	for _, id := range slices.Sorted(maps.Keys(of)) { // a run in virtual time repeats
		is := of[id]
		if is.since.After(lost) {
			continue
		}
		notices = append(notices, &shield.Notice{
			Kind: shield.NoticeDisconnected, Client: is.client, Target: is.target, Reason: reason,
		})
		g.remove(node, id)
	}
	return notices
}

// dead forgets the sessions bound to a service that has ended, and returns
// them.
func (g *guests) dead(target shield.Handle) []shield.ClientRef {
	g.mu.Lock()
	defer g.mu.Unlock()
	var clients []shield.ClientRef
	of := g.byTarget[target]
	for _, id := range slices.Sorted(maps.Keys(of)) { // as in leave
		node := of[id]
		clients = append(clients, g.byNode[node][id].client)
		g.remove(node, id)
	}
	return clients
}

// add and remove need mu.
func (g *guests) add(node shield.NodeID, id shield.SessionID, is guest) {
	if g.byNode == nil {
		g.byNode = map[shield.NodeID]map[shield.SessionID]guest{}
		g.byTarget = map[shield.Handle]map[shield.SessionID]shield.NodeID{}
	}
	if g.byNode[node] == nil {
		g.byNode[node] = map[shield.SessionID]guest{}
	}
	if g.byTarget[is.target] == nil {
		g.byTarget[is.target] = map[shield.SessionID]shield.NodeID{}
	}
	g.byNode[node][id] = is
	g.byTarget[is.target][id] = node
}

func (g *guests) remove(node shield.NodeID, id shield.SessionID) {
	is, ok := g.byNode[node][id]
	if !ok {
		return
	}
	delete(g.byNode[node], id)
	delete(g.byTarget[is.target], id)
	if len(g.byNode[node]) == 0 {
		delete(g.byNode, node)
	}
	if len(g.byTarget[is.target]) == 0 {
		delete(g.byTarget, is.target)
	}
}

// count adds the sessions bound to each service to those of the gateways here.
func (g *guests) count(bound map[shield.ServiceID]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.byNode {
		for _, is := range of {
			bound[is.target.ID]++
		}
	}
}
