package client

import (
	"context"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// WatchRequest says what to follow.
type WatchRequest struct {
	Topics []control.Topic
	From   shield.NodeID // whose view of nodes and routes; "" = the first node
	// Rows limits changes that are merely counted to these keys (see
	// control.NodeKey and its sisters), per topic; a topic that is not a key
	// here sends them for every row.
	Rows map[control.Topic][]string
	// Tail is how many old log lines and calls the snapshot brings; 0 = 200.
	Tail int
}

// LinkState is whether the rows a watcher shows are alive.
type LinkState string

const (
	LinkUp    LinkState = "up"    // attached, or attached again: a snapshot follows
	LinkStale LinkState = "stale" // the server is gone or does not answer; it is tried again until Close
)

// Update is one thing that a Watch tells: exactly one of the fields Link and
// Event is set.
type Update struct {
	Link  LinkState
	Err   error     // stale: why
	Since time.Time // stale: when the server was last heard
	Event *control.Event
}

// Watch follows a server across restarts.
type Watch struct {
	// C gives Link up, a snapshot, deltas; Link stale when the server goes, and
	// so on. It is closed by Close. A reader that is slow makes the server send
	// lagged and a new snapshot; it blocks nobody.
	C <-chan Update

	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends the watch and waits for its goroutine.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// Watch begins to follow. It never fails: what is wrong comes as LinkStale.
func (c *Client) Watch(ctx context.Context, r WatchRequest) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	ch := make(chan Update)
	w := &Watch{C: ch, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer close(ch)
		c.follow(ctx, r, ch)
	}()
	return w
}
