package service

import (
	"sync/atomic"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// phase is where one incarnation of a service stands. It only grows.
type phase uint8

const (
	phaseInit   phase = iota // the script loads and on_init runs; the mailbox waits
	phaseRun                 // open
	phaseDrain               // on_shutdown was asked for; messages of this node are still taken
	phaseEnding              // on_exit is next or has run; nothing is taken, handlers unwind
	phaseEnded               // gone
)

// waitKind is what a parked handler waits for.
type waitKind string

const (
	waitCall  waitKind = "shield.call"
	waitSleep waitKind = "shield.sleep"
	waitSpawn waitKind = "shield.spawn"
	waitBind  waitKind = "shield.client.bind"
)

// wait is one parked handler. It belongs to its service, which uses it again
// and again: gen tells an answer for this use from one for an earlier use, so a
// late answer reaches nobody. The service's lock guards it.
type wait struct {
	s    *Service
	wake chan struct{} // capacity 1: hands the baton to the parked goroutine
	// state is gen<<1, plus one while no answer has come. It changes under the
	// lock, but for its next use, which only the holder of the baton begins.
	state atomic.Uint64

	// The answer. It belongs to the handler once it is back.
	results value.Payload
	err     *shield.Error
	handle  shield.Handle    // of a spawn
	ref     shield.ClientRef // of a bind
	killed  bool             // the service has ended: the handler must unwind
	expired bool             // its deadline has passed
	back    bool             // the handler goes on
	farID   uint64           // of a call to another node, by which it is cancelled; 0 = none

	deadline   int64     // clock; 0 = none
	in         *waitList // the one it is in
	prev, next *wait

	// For whoever asks what the service waits for.
	kind   waitKind
	to     Target
	method string
	callee *Service      // of a call within the node
	far    shield.Handle // of a call to another
	since  int64
	turn   *Turn
	stack  string // the handler's Lua stack, where it was taken
}

// Wait makes a wait a luavm.Waiter.
func (w *wait) Wait() { w.s.park(w) }

func (w *wait) gen() uint64           { return w.state.Load() >> 1 }
func (w *wait) open() bool            { return w.state.Load()&1 != 0 }
func (w *wait) close()                { w.state.Store(w.state.Load() &^ 1) }
func (w *wait) waits(gen uint64) bool { return w.state.Load() == gen<<1|1 }

// post puts m into the mailbox and sees that somebody works on it.
func (s *Service) post(m *message) *shield.Error {
	s.mu.Lock()
	if s.phase >= phaseEnding {
		s.mu.Unlock()
		return s.deadError()
	}
	if m.args.Size() > s.lim.MaxMessageSize {
		s.mu.Unlock()
		s.rt.count.messageTooLarge.Add(1)
		return shield.Errorf(shield.MessageTooLarge, "%s takes messages of %d bytes (limits.max_message_size), this one has %d", s.label(), s.lim.MaxMessageSize, m.args.Size())
	}
	if m.kind.counted() && s.box.counted >= s.lim.MaxMailbox {
		s.mu.Unlock()
		s.rt.count.mailboxFull.Add(1)
		return shield.Errorf(shield.MailboxFull, "%s has %d messages waiting (limits.max_mailbox): slow the senders down", s.label(), s.lim.MaxMailbox)
	}
	// While many services wait for a worker, a send lets its receiver line up too.
	// What somebody waits for, a call or a client's frame, is not held up by that.
	if s.idleLocked() && (m.kind != kindSend || !s.rt.workers.crowded.Load()) {
		s.held = true
		s.mu.Unlock()
		s.rt.workers.run(s, m)
		return nil
	}
	if s.held { // it has to wait
		s.box.stamp(m, s.rt.clock.now)
	}
	s.box.push(m)
	s.startLocked()
	return nil
}

// postTo is post for a target: whoever said a name that is about to lead
// somewhere else may try again, unlike whoever has a handle.
func (s *Service) postTo(to Target, m *message) *shield.Error {
	err := s.post(m)
	if err != nil && err.Code == shield.ServiceDead && to.Name != "" {
		return shield.Errorf(shield.ServiceNotFound, "%s has just ended; nothing else goes by %q yet", s.handle, to.Name)
	}
	return err
}

// pick is what the holder of the baton is to do next.
type pick uint8

const (
	pickNothing pick = iota
	pickUrgent
	pickReady
	pickInit
	pickExit
	pickMessage
	pickEnd
)

func (s *Service) pickLocked() pick {
	switch {
	case len(s.urgent) > 0:
		return pickUrgent
	case s.phase == phaseEnding && !s.exited:
		return pickExit
	case s.ready.n > 0:
		return pickReady
	case s.phase == phaseEnding && s.inflight == 0:
		return pickEnd
	case s.phase == phaseInit:
		if !s.initBegun {
			return pickInit
		}
		return pickNothing
	case s.box.n > 0 && s.phase < phaseEnding:
		return pickMessage
	}
	return pickNothing
}

// idleLocked reports whether a message that comes now would be the next thing
// to do, and at once: then it goes to a worker without passing the mailbox.
func (s *Service) idleLocked() bool {
	return !s.held && s.box.n == 0 && len(s.urgent) == 0 && s.ready.n == 0 &&
		(s.phase == phaseRun || s.phase == phaseDrain) && s.rt.cfg.Turn == nil
}

// startLocked gives the baton to somebody if nobody has it and there is work.
// The caller holds the lock, which startLocked releases.
func (s *Service) startLocked() {
	if s.held {
		s.mu.Unlock()
		return
	}
	p := s.pickLocked()
	if p == pickNothing {
		s.mu.Unlock()
		return
	}
	s.held = true
	s.passLocked(p)
}

// passLocked hands the baton on: to a parked handler whose answer has come,
// else to a worker. It releases the lock.
func (s *Service) passLocked(p pick) {
	if p == pickReady {
		w := s.ready.pop()
		s.mu.Unlock()
		w.wake <- struct{}{}
		return
	}
	s.mu.Unlock()
	s.rt.workers.run(s, nil)
}

// park waits until w has its answer. The caller holds the baton, and holds it
// again when park returns.
func (s *Service) park(w *wait) {
	t := s.turn.Load()
	s.mu.Lock()
	if s.phase >= phaseEnding && w.open() {
		w.close()
		w.killed = true
		s.mu.Unlock()
		return
	}
	if !w.open() { // answered before we got here, so it is among the ready
		if s.ready.head == w {
			s.ready.pop()
			s.mu.Unlock()
			return
		}
	} else {
		s.waiting.push(w)
		if w.deadline != 0 {
			s.rt.clock.arm(s, w.deadline)
		}
	}
	look := s.rt.cfg.Dev && s.phase == phaseInit
	if p := s.pickLocked(); p == pickNothing {
		s.held = false
		s.mu.Unlock()
	} else {
		s.passLocked(p)
	}
	if look {
		s.rt.lookForRing(s)
	}
	<-w.wake
	if turn := s.rt.cfg.Turn; turn != nil {
		turn(s.handle.ID)
	}
	if s.turn.Load() != t { // a store costs more than a look
		s.turn.Store(t)
	}
}

// answer is called by whoever has what w waits for, from any goroutine, and
// reports whether w still waited for it.
func (s *Service) answer(w *wait, gen uint64, results *value.Payload, err *shield.Error) bool {
	s.mu.Lock()
	if !w.waits(gen) {
		s.mu.Unlock()
		s.rt.count.lateReplies.Add(1)
		return false
	}
	if results != nil {
		w.results = *results
	}
	w.err = err
	s.readyLocked(w)
	s.startLocked()
	return true
}

// answerWith is answer for waits that get something else than results; fill
// puts it there.
func (s *Service) answerWith(w *wait, gen uint64, fill func(), err *shield.Error) bool {
	s.mu.Lock()
	if !w.waits(gen) {
		s.mu.Unlock()
		s.rt.count.lateReplies.Add(1)
		return false
	}
	fill()
	w.err = err
	s.readyLocked(w)
	s.startLocked()
	return true
}

// readyLocked moves w from those who wait to those who go on.
func (s *Service) readyLocked(w *wait) {
	w.close()
	s.waiting.remove(w)
	s.ready.push(w)
}

// newWait takes a wait out of the service's stock. The caller holds the baton.
func (s *Service) newWait(k waitKind, deadline int64) *wait {
	var w *wait
	if n := len(s.spare); n > 0 {
		w = s.spare[n-1]
		s.spare = s.spare[:n-1]
	} else {
		w = &wait{s: s, wake: make(chan struct{}, 1)}
	}
	w.state.Store((w.gen()+1)<<1 | 1)
	w.kind, w.deadline, w.turn = k, deadline, s.turn.Load()
	return w
}

// freeWait puts w back. The caller holds the baton and has taken what it needs.
func (s *Service) freeWait(w *wait) {
	w.results = value.Payload{}
	w.err, w.handle, w.ref = nil, shield.Handle{}, shield.ClientRef{}
	w.killed, w.expired, w.back, w.farID = false, false, false, 0
	w.to, w.method, w.callee, w.turn, w.stack = Target{}, "", nil, nil, ""
	w.far = shield.Handle{}
	if len(s.spare) < keepWaits {
		s.spare = append(s.spare, w)
	}
}

// keepWaits is how many waits an idle service holds on to.
const keepWaits = 8

// waitList is a list of waits through their links; each is in one at most.
type waitList struct {
	head, tail *wait
	n          int
}

func (l *waitList) push(w *wait) {
	w.prev, w.next = l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
	l.n++
	w.in = l
}

// remove takes w out if it is in l.
func (l *waitList) remove(w *wait) {
	if w.in != l {
		return
	}
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.in = nil, nil, nil
	l.n--
}

func (l *waitList) pop() *wait {
	w := l.head
	l.remove(w)
	return w
}
