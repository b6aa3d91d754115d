package service

import (
	"runtime/debug"
	"slices"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// body is what differs between a service in Lua and one in Go. Its methods run
// on the goroutine that holds the baton; those that take a Turn may give it
// away and get it back.
type body interface {
	// init loads the code and runs its on_init.
	init(k *worker, t *Turn) *shield.Error
	// handle runs m. Its answer goes to k.out.
	handle(k *worker, t *Turn, m *message) *shield.Error
	has(hook string) bool
	// onError tells the code that turn t failed.
	onError(k *worker, t *Turn, err *shield.Error)
	onPanic(k *worker, t *Turn, kind, reason string)
	methods() []string
	// tidy looks after memory between two turns; the error ends the service.
	tidy() *shield.Error
	close()
}

// worker is a pooled goroutine and what it needs to run a turn. While a
// handler of it is parked, it is nobody else's.
type worker struct {
	job     chan *Service
	msg     message
	brought bool          // msg came with the job
	out     value.Payload // the answer of the turn that runs
	hand    *luavm.Hand
	args    []lua.LValue
	res     []lua.LValue
	lost    bool // the turn it ran was given up: it must not touch the service
}

// work runs s until there is nothing to do or a parked handler goes on. The
// worker holds the baton when work begins, and has given it away at the end.
func (s *Service) work(k *worker) {
	if k.brought {
		k.brought = false
		if s.dispatch(k, &k.msg); k.lost {
			return
		}
	}
	for {
		s.mu.Lock()
		p := s.pickLocked()
		if turn := s.rt.cfg.Turn; turn != nil && p != pickNothing && p != pickReady {
			s.mu.Unlock()
			turn(s.handle.ID)
			s.mu.Lock()
			p = s.pickLocked() // what came meanwhile may go first
		}
		switch p {
		case pickMessage:
			s.box.pop(&k.msg)
			s.mu.Unlock()
			s.dispatch(k, &k.msg)
		case pickUrgent:
			v := s.urgent[0]
			s.urgent = slices.Delete(s.urgent, 0, 1)
			s.mu.Unlock()
			v.do(k)
			v.done <- true
		case pickInit:
			s.initBegun = true
			s.mu.Unlock()
			s.runInit(k)
			k.give() // many may start or end at once, and wait for the registry's lock
		case pickExit:
			s.exited = true
			s.mu.Unlock()
			k.give()
			s.runExit(k)
		case pickEnd:
			s.finish() // releases the lock
			return
		case pickReady:
			s.passLocked(p)
			return
		default:
			if s.box.big() {
				s.trimAt = s.now() + ringRest
				s.rt.clock.arm(s, s.trimAt)
			}
			s.held = false
			s.mu.Unlock()
			return
		}
		if k.lost {
			return
		}
	}
}

// dispatch does away with one message: it is run as a turn, if there is still a
// reason to.
func (s *Service) dispatch(k *worker, m *message) {
	now := s.now()
	switch {
	case m.deadline != 0 && m.deadline <= now:
		s.rt.count.expired.Add(1)
		s.reply(k, m, shield.Errorf(shield.Timeout, "the deadline of %s passed before %s got to it", m.method, s.label()))
	case m.kind == kindTimer && m.timer.off:
	case s.inflight-s.forking >= s.lim.MaxCoroutines && m.kind != kindFork && m.kind != kindTurn:
		s.refuse(k, m)
	default:
		s.runTurn(k, m, now)
	}
	if !k.lost && s.shut {
		s.tellDrained()
	}
}

// runTurn runs one message as a turn, with all that follows from how it went.
func (s *Service) runTurn(k *worker, m *message, now int64) {
	t := s.begin(m, now)
	t.k = k
	s.turn.Store(t)
	err := s.body.handle(k, t, m)
	if !s.end(k, t) {
		return
	}
	s.timed(t, err)
	if m.kind == kindTimer && s.timerDone(m.timer, err != nil) {
		s.timerStopped(m.timer)
	}
	if err != nil {
		if err = s.failed(k, t, m, err); k.lost { // one of its hooks never came back
			s.reply(k, m, err)
			return
		}
	} else if m.kind != kindTurn {
		s.errors = 0
	}
	if m.wait != nil || m.to != nil {
		s.reply(k, m, err)
		k.out = value.Payload{}
	}
	s.afterTurn(t)
}

// begin makes the turn of a message.
func (s *Service) begin(m *message, now int64) *Turn {
	t := &Turn{s: s, begun: now, Method: m.method, sender: m.sender, trace: m.trace, deadline: m.deadline}
	switch m.kind {
	case kindCall, kindSend:
		t.Kind = TurnHandler
		s.count.calls.Add(1)
	case kindClient:
		t.Kind = TurnClient
		s.count.calls.Add(1)
	case kindNotice:
		t.Kind, t.Method = TurnClient, m.notice.Kind.Hook()
	case kindTimer:
		t.Kind = TurnTimer
	case kindFork:
		t.Kind = TurnFork
		s.forking++
	case kindTurn:
		if t.Kind = m.as; m.reason != "" {
			t.rare = &rarer{reason: m.reason}
		}
		if m.hook != "" {
			t.Method = m.hook
		}
	}
	if m.wait != nil || m.to != nil {
		t.answers = true
		s.answering++
	}
	s.inflight++
	return t
}

// end closes a turn. It is false when the turn was given up meanwhile, and then
// the goroutine must leave the service alone.
func (s *Service) end(k *worker, t *Turn) bool {
	if !t.state.CompareAndSwap(turnRuns, turnOver) {
		k.lost = true
		return false
	}
	s.inflight--
	if t.Kind == TurnFork {
		s.forks--
		s.forking--
	}
	if t.answers {
		s.answering--
	}
	return true
}

// reply gives the answer of m, which is in k.out unless err says otherwise, to
// whoever waits for it.
func (s *Service) reply(k *worker, m *message, err *shield.Error) {
	var out *value.Payload
	if err == nil {
		out = &k.out
	}
	switch {
	case m.wait != nil:
		m.wait.s.answer(m.wait, m.gen, out, err)
	case m.to != nil:
		m.to.answer(s, out, err)
	}
}

// refuse is dispatch for a service at max_coroutines.
func (s *Service) refuse(k *worker, m *message) {
	s.rt.count.coroutineLimit.Add(1)
	err := shield.Errorf(shield.CoroutineLimit, "%s has %d handlers in flight (limits.max_coroutines): see what they wait for with `shield services`", s.label(), s.inflight)
	s.reportFull(err)
	switch m.kind {
	case kindTimer:
		s.timerDone(m.timer, false)
	case kindCall:
		s.reply(k, m, err)
	default:
		s.deadLetter(m, err)
	}
}

// contain turns a Go panic into an error of the turn.
func (s *Service) contain(what string, err **shield.Error) {
	if p := recover(); p != nil {
		if u, ok := p.(unwound); ok {
			*err = u.err
			return
		}
		s.rt.count.panics.Add(1)
		*err = shield.Errorf(shield.HandlerError, "%s: Go panic: %v", what, p)
		(*err).Detail = string(debug.Stack())
	}
}

// unwound is what a killed turn of a Go service panics with.
type unwound struct{ err *shield.Error }
