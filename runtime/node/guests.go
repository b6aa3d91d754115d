package node

import (
	"sync"
	"time"

	"shield/runtime/shield"
)

// guests are the sessions of other nodes' gateways that are bound to services
// of this node. The gateway tells the target what happens to a session; guests
// is how the target's side can, when the gateway's node is gone, and how a
// gateway learns that its target is.
type guests struct {
	mu     sync.Mutex
	byNode map[shield.NodeID]map[shield.SessionID]guest
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
	of := g.byNode[from]
	if n.Kind == shield.NoticeBound {
		if g.byNode == nil {
			g.byNode = map[shield.NodeID]map[shield.SessionID]guest{}
		}
		if of == nil {
			of = map[shield.SessionID]guest{}
			g.byNode[from] = of
		}
		of[n.Client.Session] = guest{n.Client, n.Target, time.Now()}
		return true
	}
	// The session may have been bound to another target of this node since.
	is, ok := of[n.Client.Session]
	if known = ok && is.target == n.Target; known {
		delete(of, n.Client.Session)
	}
	return known
}

// forget drops one session that its target never had.
func (g *guests) forget(from shield.NodeID, id shield.SessionID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byNode[from], id)
}

// leave forgets the sessions of a node that was lost at a moment, and returns
// the notices that its gateways can no longer send. The news of the loss may come
// late: sessions that were bound since, over a new link, stay.
func (g *guests) leave(node shield.NodeID, lost time.Time, reason string) []*shield.Notice {
	g.mu.Lock()
	defer g.mu.Unlock()
	var notices []*shield.Notice
	for id, is := range g.byNode[node] {
		if is.since.After(lost) {
			continue
		}
		notices = append(notices, &shield.Notice{
			Kind: shield.NoticeDisconnected, Client: is.client, Target: is.target, Reason: reason,
		})
		delete(g.byNode[node], id)
	}
	return notices
}

// dead forgets the sessions bound to a service that has ended, and returns
// them.
func (g *guests) dead(target shield.Handle) []shield.ClientRef {
	g.mu.Lock()
	defer g.mu.Unlock()
	var clients []shield.ClientRef
	for _, of := range g.byNode {
		for id, is := range of {
			if is.target == target {
				clients = append(clients, is.client)
				delete(of, id)
			}
		}
	}
	return clients
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
