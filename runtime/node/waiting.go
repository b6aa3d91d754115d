package node

import (
	"sync"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// waiting is what nodes that are out of reach have to hear when they are back.
// A link may be lost in the eyes of one end only, and an end that never missed the
// other would go on with sessions that are over. It holds at most a frame for each
// session that was open when a node was lost; a node that is removed needs none:
// it has missed us as well by then.
type waiting struct {
	mu     sync.Mutex
	byNode map[shield.NodeID][]parcel
}

// parcel is one frame of session traffic.
type parcel struct {
	kind wire.Kind
	body []byte
}

func (w *waiting) keep(node shield.NodeID, p ...parcel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byNode == nil {
		w.byNode = map[shield.NodeID][]parcel{}
	}
	w.byNode[node] = append(w.byNode[node], p...)
}

// take gives what waits for a node; nothing waits for it any more.
func (w *waiting) take(node shield.NodeID) []parcel {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byNode[node]
	delete(w.byNode, node)
	return all
}
