package service

import (
	"time"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// The methods in this file are what shield.* and GoContext are made of. Their
// caller is inside a turn of s and so holds its baton. Those that suspend take
// the Lua stack they were called with, nil in Go; they give the baton away and
// have it back when they return.

// Send posts a message and does not wait. args belongs to the receiver after
// that. nil means accepted for delivery, no more.
func (s *Service) Send(to Target, method string, args *value.Payload) *shield.Error {
	if err := checkMethod(method); err != nil {
		return err
	}
	local, far, err := s.rt.resolve(to)
	if err != nil {
		return err
	}
	if local != nil {
		return local.postTo(to, &message{kind: kindSend, method: method, args: *args, sender: s.self, trace: s.trace()})
	}
	env := &shield.Envelope{Source: s.handle, Target: far, Method: method, Args: value.Bytes(args), Trace: s.trace()}
	if err := s.rt.cfg.Remote.Send(env); err != nil {
		return shield.AsError(err, shield.NodeOffline)
	}
	return nil
}

// Call posts a message and waits for the answer, which goes to out. timeout 0
// is the default, and then the call never outlives the deadline of the turn
// that makes it; a timeout of one's own may.
func (s *Service) Call(L *lua.LState, to Target, method string, args *value.Payload, timeout time.Duration, out *value.Payload) *shield.Error {
	if err := checkMethod(method); err != nil {
		return err
	}
	if err := s.maySuspend(waitCall); err != nil {
		return err
	}
	if s.pending >= s.lim.MaxPendingCalls {
		s.rt.count.pendingCallLimit.Add(1)
		return shield.Errorf(shield.PendingCallLimit, "%s waits for %d replies already (limits.max_pending_calls)", s.label(), s.pending)
	}
	local, far, err := s.rt.resolve(to)
	if err != nil {
		return err
	}
	now := s.now()
	deadline := s.deadline(now, timeout)
	if deadline <= now {
		s.rt.count.timeouts.Add(1)
		return shield.Errorf(shield.Timeout, "call %s %s: no time is left of the caller's deadline", to, method)
	}
	w := s.newWait(waitCall, deadline)
	w.to, w.method, w.callee, w.far, w.since = to, method, local, far, now
	if local != nil {
		err = local.postTo(to, &message{kind: kindCall, method: method, args: *args, sender: s.self, trace: s.trace(),
			deadline: deadline, wait: w, gen: w.gen()})
		if err != nil {
			s.freeWait(w)
			return err
		}
		s.await(L, w)
	} else if err = s.callFar(L, w, far, args, deadline-now); err != nil {
		s.freeWait(w)
		return err
	}
	switch {
	case w.expired:
		s.rt.count.timeouts.Add(1)
		err = shield.Errorf(shield.Timeout, "call %s %s: no reply within %s%s", to, method, time.Duration(deadline-now).Round(time.Millisecond), stuckText(local))
	case w.err != nil:
		err = w.err
	default:
		*out = w.results
	}
	if hook := s.rt.onCall.Load(); hook != nil {
		s.rt.callRow(*hook, s.label(), to.String(), method, s.trace(), now, err)
	}
	s.freeWait(w)
	return err
}

// callFar is the part of Call that crosses nodes.
func (s *Service) callFar(L *lua.LState, w *wait, far shield.Handle, args *value.Payload, left int64) *shield.Error {
	f := &farCall{w: w, gen: w.gen(), env: shield.Envelope{Source: s.handle, Target: far, Method: w.method, Args: value.Bytes(args),
		Timeout: time.Duration(left), Trace: s.trace()}}
	id, err := s.rt.cfg.Remote.Call(&f.env, f)
	if err != nil {
		return shield.AsError(err, shield.NodeOffline)
	}
	f.env.Args = nil // they are on their way, and f lives until the reply comes
	w.farID = id
	s.await(L, w)
	return nil
}

// farCall is a call to another node: what goes there and, apart from a wait that
// is used again and again, who hears the reply.
type farCall struct {
	w   *wait
	gen uint64
	env shield.Envelope
}

// Done makes farCall a shield.Waiter.
func (f *farCall) Done(result []byte, err *shield.Error) {
	var p value.Payload
	if err == nil {
		if derr := value.Decode(&p, result, len(result)); derr != nil {
			err = shield.AsError(derr, shield.DecodeError)
		}
	}
	f.w.s.answer(f.w, f.gen, &p, err)
}

// await parks the turn until w is answered. It does not return, but unwinds
// the turn, when the service has ended meanwhile.
func (s *Service) await(L *lua.LState, w *wait) {
	if w.kind == waitCall {
		s.pending++
	}
	// Deferred, because luavm unwinds a turn that was aborted while it waited.
	defer s.awaited(w)
	if L == nil {
		s.park(w)
	} else {
		if s.rt.cfg.Dev && s.initialising() {
			w.stack = luavm.Stack(L)
		}
		luavm.Suspend(L, string(w.kind), w)
	}
	w.back = true
	if w.killed {
		s.unwind(L)
	}
}

func (s *Service) awaited(w *wait) {
	if w.kind == waitCall {
		s.pending--
	}
	if w.farID != 0 && (!w.back || w.expired || w.killed) {
		s.rt.cfg.Remote.Cancel(w.farID)
	}
}

// deadline is when a wait that begins now ends.
func (s *Service) deadline(now int64, timeout time.Duration) int64 {
	if timeout > 0 {
		return later(now, timeout)
	}
	d := now + int64(s.lim.CallTimeout)
	if t := s.turn.Load(); t != nil && t.deadline != 0 {
		d = min(d, t.deadline)
	}
	return d
}

// trace is that of the turn that runs.
func (s *Service) trace() shield.TraceID {
	t := s.turn.Load()
	if t == nil {
		return 0
	}
	return t.Trace()
}

// maySuspend refuses what suspends where nothing may.
func (s *Service) maySuspend(k waitKind) *shield.Error {
	if t := s.turn.Load(); t != nil && t.Kind == TurnExit {
		return shield.Errorf(shield.APINotAllowedInExit, "%s suspends, and on_exit may not: move it to on_shutdown", k)
	}
	return nil
}

// Sleep lets d pass. The service goes on with its mailbox meanwhile.
func (s *Service) Sleep(L *lua.LState, d time.Duration) *shield.Error {
	if err := s.maySuspend(waitSleep); err != nil {
		return err
	}
	now := s.now()
	w := s.newWait(waitSleep, later(now, max(d, 1)))
	w.since = now
	s.await(L, w)
	s.freeWait(w)
	return nil
}

// Bind moves a session to target and player, as a compare-and-set on the epoch
// of ref.
func (s *Service) Bind(L *lua.LState, ref shield.ClientRef, to Target, player string) (shield.ClientRef, *shield.Error) {
	if err := s.maySuspend(waitBind); err != nil {
		return ref, err
	}
	if s.rt.cfg.Clients == nil {
		return ref, noGateway()
	}
	local, h, err := s.rt.resolve(to)
	if err != nil {
		return ref, err
	}
	if local != nil {
		h = local.handle
	}
	now := s.now()
	w := s.newWait(waitBind, s.deadline(now, 0))
	w.to, w.method, w.since = to, ref.String(), now
	gen := w.gen()
	s.rt.cfg.Clients.Bind(ref, h, player, time.Duration(w.deadline-now), func(bound shield.ClientRef, err error) {
		s.answerWith(w, gen, func() { w.ref = bound }, shield.AsError(err, shield.SessionClosed))
	})
	s.await(L, w)
	bound, err := w.ref, w.err
	if w.expired {
		s.rt.count.timeouts.Add(1)
		err = shield.Errorf(shield.Timeout, "bind %s: gateway %s has not answered; the bind may still happen", ref, ref.Gateway)
	}
	s.freeWait(w)
	return bound, err
}

func noGateway() *shield.Error {
	return shield.Errorf(shield.ModuleUnavailable, "no gateway is configured: add a gateways block to shield.yaml")
}

// Push hands one frame for a client over.
func (s *Service) Push(ref shield.ClientRef, route shield.RouteID, body []byte) *shield.Error {
	if s.rt.cfg.Clients == nil {
		return noGateway()
	}
	s.rt.cfg.Clients.Push(&shield.Push{Client: ref, Route: route, Body: body})
	return nil
}

// CloseClient ends a client's session.
func (s *Service) CloseClient(ref shield.ClientRef, reason string) *shield.Error {
	if s.rt.cfg.Clients == nil {
		return noGateway()
	}
	return shield.AsError(s.rt.cfg.Clients.Close(ref, reason), shield.SessionClosed)
}

// Fork runs fn as a turn of its own, soon.
func (s *Service) Fork(fn *lua.LFunction) *shield.Error { return s.fork(&message{job: &job{fn: fn}}) }

func (s *Service) fork(m *message) *shield.Error {
	if s.forks >= s.lim.MaxForks {
		s.rt.count.forkLimit.Add(1)
		return shield.Errorf(shield.ForkLimit, "%s has %d forks in flight (limits.max_fork_tasks)", s.label(), s.forks)
	}
	m.kind, m.trace = kindFork, s.trace()
	if err := s.post(m); err != nil {
		return err
	}
	s.forks++
	return nil
}
