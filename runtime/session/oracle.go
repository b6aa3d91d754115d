package session

import (
	"fmt"
	"sync"

	"shield/runtime/shield"
)

// Oracle checks, while a gateway runs, that what it does to sessions keeps the
// promises of this package. A gateway without one (nil) checks nothing and pays
// nothing. Its methods may be called from any goroutine; events of one session
// must come in the order in which they happened.
type Oracle struct {
	report func(breach string)

	mu       sync.Mutex
	sessions map[shield.SessionID]*witness
}

// witness is what the oracle has seen of one session.
type witness struct {
	epoch  shield.SessionEpoch
	player string
	target shield.Handle
	ended  bool
	trace  []string
}

// keptTrace is how many steps a breach is shown with.
const keptTrace = 12

// NewOracle makes an oracle. report gets each breach with the steps of its
// session that led to it, and must not call back.
func NewOracle(report func(breach string)) *Oracle {
	return &Oracle{report: report, sessions: map[shield.SessionID]*witness{}}
}

// Opened sees a new session.
func (o *Oracle) Opened(ref shield.ClientRef, target shield.Handle) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.sessions[ref.Session]; w != nil {
		w.breach(o, "opened twice")
	}
	w := &witness{epoch: ref.Epoch, player: ref.Player, target: target}
	w.note("opened at epoch %d, target %s", ref.Epoch, target)
	o.sessions[ref.Session] = w
	if ref.Epoch != 0 {
		w.breach(o, "opened at epoch %d, not 0", ref.Epoch)
	}
}

// Noticed sees a notice to a target.
func (o *Oracle) Noticed(n *shield.Notice) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.witness(n.Client.Session)
	w.note("%s at epoch %d for %q to %s", n.Kind.Hook(), n.Client.Epoch, n.Client.Player, n.Target)
	switch {
	case w.ended:
		w.breach(o, "%s after the session had ended", n.Kind.Hook())
	case n.Kind == shield.NoticeBound:
		if n.Client.Epoch != w.epoch+1 {
			w.breach(o, "bound from epoch %d to %d", w.epoch, n.Client.Epoch)
		}
		w.epoch, w.player, w.target = n.Client.Epoch, n.Client.Player, n.Target
	default:
		if n.Client.Epoch != w.epoch || n.Target != w.target || n.Client.Player != w.player {
			w.breach(o, "%s goes to %s at epoch %d, the owner is %s at %d", n.Kind.Hook(), n.Target, n.Client.Epoch, w.target, w.epoch)
		}
		w.ended = true
	}
}

// Ended sees a session end without a notice, because its target is gone.
func (o *Oracle) Ended(id shield.SessionID) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.witness(id)
	w.note("ended, target gone")
	if w.ended {
		w.breach(o, "ended twice")
	}
	w.ended = true
}

// Pushed sees a push accepted into the session's send queue.
func (o *Oracle) Pushed(ref shield.ClientRef) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.witness(ref.Session)
	switch {
	case w.ended:
		w.breach(o, "a push reached the client after the session had ended")
	case ref.Epoch != w.epoch || ref.Player != w.player:
		w.breach(o, "a push of epoch %d for %q reached the client, which is at %d for %q", ref.Epoch, ref.Player, w.epoch, w.player)
	}
}

// Forget lets go of a session that is gone, and checks that it ended.
func (o *Oracle) Forget(id shield.SessionID) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.witness(id)
	if !w.ended {
		w.breach(o, "gone without unbound or disconnected")
	}
	delete(o.sessions, id)
}

func (o *Oracle) witness(id shield.SessionID) *witness {
	w := o.sessions[id]
	if w == nil {
		w = &witness{}
		w.note("session %s", id)
		w.breach(o, "an event of a session that was never opened or is forgotten")
		o.sessions[id] = w
	}
	return w
}

func (w *witness) note(format string, args ...any) {
	if len(w.trace) == keptTrace {
		w.trace = append(w.trace[:0], w.trace[1:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *witness) breach(o *Oracle, format string, args ...any) {
	s := "session oracle: " + fmt.Sprintf(format, args...)
	for _, t := range w.trace {
		s += "\n\t" + t
	}
	o.report(s)
}
