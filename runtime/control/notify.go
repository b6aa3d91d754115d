package control

import (
	"sync"
	"sync/atomic"
)

// Notifier is the part of a Host that tells watchers. While nobody watches,
// Changed is one atomic load. The zero value is ready.
type Notifier struct {
	mu   sync.Mutex
	next int
	subs map[int]func(Topic)
	any  atomic.Bool
}

// Notify calls changed, which must not block, at each Changed until stop.
func (n *Notifier) Notify(changed func(Topic)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.subs == nil {
		n.subs = make(map[int]func(Topic))
	}
	id := n.next
	n.next++
	n.subs[id] = changed
	n.any.Store(true)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.subs, id)
		n.any.Store(len(n.subs) > 0)
	}
}

// Changed says that rows of topic are not what they were.
func (n *Notifier) Changed(topic Topic) {
	if !n.any.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, changed := range n.subs {
		changed(topic)
	}
}

// Watched reports whether anybody would hear Changed.
func (n *Notifier) Watched() bool { return n.any.Load() }
