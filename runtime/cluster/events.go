package cluster

import (
	"log/slog"
	"sync"

	"shield/runtime/shield"
)

// maxEvents bounds the events that a slow OnEvent may leave waiting.
const maxEvents = 4096

// events hands events to the log and to Config.OnEvent, in order, from one
// goroutine, so that neither can hold up the owner.
type events struct {
	wake chan struct{}

	mu      sync.Mutex
	queue   []Event
	closing bool
}

func newEvents() *events { return &events{wake: make(chan struct{}, 1)} }

// push queues e. It reports false when too many wait.
func (q *events) push(e Event) bool {
	q.mu.Lock()
	full := len(q.queue) >= maxEvents
	if !full {
		q.queue = append(q.queue, e)
	}
	q.mu.Unlock()
	q.signal()
	return !full
}

func (q *events) close() {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	q.signal()
}

func (q *events) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run delivers until close, and then what is left.
func (q *events) run(deliver func(Event)) {
	for range q.wake {
		q.mu.Lock()
		batch, closing := q.queue, q.closing
		q.queue = nil
		q.mu.Unlock()
		for _, e := range batch {
			deliver(e)
		}
		if closing {
			return
		}
	}
}

func (c *Cluster) deliverEvent(e Event) {
	level := slog.LevelInfo
	if e.To == shield.Suspect || e.To == shield.Offline {
		level = slog.LevelWarn
	}
	if c.closing.Load() {
		level = slog.LevelDebug // it is this node that goes
	}
	c.log.Log(c.ctx, level, eventText(e), "event", "state", "peer", string(e.Node), "address", e.Address,
		"from", string(e.From), "to", string(e.To), "reason", e.Reason, "epoch", e.Epoch.String())
	if c.cfg.OnEvent != nil {
		c.cfg.OnEvent(e)
	}
}

func eventText(e Event) string {
	who := string(e.Node)
	if who == "" {
		who = e.Address
	}
	return who + " is " + string(e.To) + ": " + e.Reason
}
