package service

import (
	"context"
	"log/slog"
	"math"
	"time"

	"shield/runtime/shield"
)

// startup is how a service came to be: what its next incarnation needs too.
type startup struct {
	args    []byte // encoded; what shield.spawn was given, nil for none
	static  bool   // started by Start: its row stays when it has failed for good
	trace   shield.TraceID
	retries int              // incarnations that failed in a row
	order   shield.ServiceID // id of the first incarnation: the order of the start
	// begun hears once how on_init went, while the service holds its baton.
	begun func(*Service, *shield.Error)
	// next is begun of the next incarnation, which may not come to be: then it
	// hears of no service. Guarded by s.mu; still there when s.done is closed if no
	// incarnation follows.
	next func(*Service, *shield.Error)
}

// ending is why a service ends.
type ending struct {
	failed  bool
	reason  string // what on_exit hears
	why     string // the error behind it, for people; "" = the reason says it all
	restart bool   // at once, whatever the policy says
	stop    bool   // the node stops: no restart
}

// create makes the next incarnation of a service; from is the one before, nil
// for the first. It begins when launch is called.
func (r *Runtime) create(spec *Spec, name shield.Name, st startup, from *Service) (*Service, *shield.Error) {
	s := &Service{rt: r, spec: spec, name: name, start: st, lim: spec.Limits.or(r.limits), done: make(chan struct{}), slot: -1}
	s.handle = shield.Handle{Node: r.cfg.Node, Epoch: r.cfg.Epoch, ID: r.reg.next()}
	if s.start.order == 0 {
		s.start.order = s.handle.ID
	}
	self := s.handle
	s.self = &self
	if from != nil {
		s.count.restarts.Store(from.count.restarts.Load() + 1)
		s.again = true
	}
	if spec.Go != nil {
		s.body = &goBody{s: s, impl: spec.Go()}
	} else {
		s.body = newLuaBody(s)
	}
	if err := r.reg.add(s, from); err != nil {
		s.body.close()
		return nil, err
	}
	r.count.started.Add(1)
	return s, nil
}

// launch lets the service load its code and run on_init.
func (s *Service) launch() {
	s.mu.Lock()
	s.startLocked()
}

func (s *Service) runInit(k *worker) {
	s.mu.Lock()
	s.born = s.now()
	s.mu.Unlock()
	t := &Turn{s: s, begun: s.born, Kind: TurnInit, Method: "on_init", trace: s.start.trace}
	s.inflight++
	s.turn.Store(t)
	err := s.body.init(k, t)
	if !s.end(k, t) {
		return
	}
	if err == nil && s.name != "" && !s.isEnding() {
		err = s.rt.reg.publish(s.name, s)
	}
	s.mu.Lock()
	switch {
	case s.phase >= phaseEnding: // killed, or too late for spawn_timeout
		if err == nil {
			err = shield.Errorf(shield.SpawnFailed, "%s was ended while it started: %s", s.label(), s.ending.reason)
		}
	case err == nil:
		s.phase, s.inited = phaseRun, true
	}
	s.mu.Unlock()
	if err != nil {
		s.rt.count.errors.Add(1)
		s.count.errors.Add(1)
		s.log(slog.LevelError, "start failed: "+err.Message, slog.String("event", "crash"), slog.String("error", string(err.Code)), detail(err))
		if s.body.onPanic(k, t, "init", err.Message); k.lost {
			return
		}
		s.endWith(ending{failed: true, reason: "init", why: err.Message})
		if !s.comesAgain() { // whoever hears of the failure may use the name at once
			s.rt.reg.release(s)
		}
	} else {
		s.log(slog.LevelDebug, "started", slog.String("event", "state"))
	}
	if begun := s.start.begun; begun != nil {
		s.start.begun = nil
		begun(s, err)
	}
}

// isEnding reports whether the service takes no messages any more.
func (s *Service) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase >= phaseEnding
}

func (s *Service) initialising() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseInit
}

// endWith ends the service as soon as the turn that runs now returns or
// suspends. It is false when the service is ending already. Any goroutine.
func (s *Service) endWith(e ending) bool {
	s.mu.Lock()
	if s.phase >= phaseEnding {
		s.mu.Unlock()
		return false
	}
	s.phase, s.ending = phaseEnding, e
	s.startLocked()
	return true
}

// runExit gives the names back, lets the code say its last words, and ends
// whatever waits in the service and for it.
func (s *Service) runExit(k *worker) {
	s.rt.reg.withdrawAll(s, s.comesAgain())
	if s.inited && s.body.has("on_exit") {
		m := message{kind: kindTurn, job: &job{as: TurnExit, hook: "on_exit", reason: s.ending.reason}}
		t := s.begin(&m, s.now())
		s.turn.Store(t)
		err := s.body.handle(k, t, &m)
		if !s.end(k, t) {
			return
		}
		if err != nil {
			s.report(t, err)
		}
	}
	s.mu.Lock()
	left := s.cutLocked()
	s.mu.Unlock()
	s.bury(left)
}

// cutLocked ends timers and waits and takes what is left in the mailbox out.
func (s *Service) cutLocked() []message {
	s.timers.clear()
	for w := s.waiting.head; w != nil; w = s.waiting.head {
		s.readyLocked(w)
	}
	for w := s.ready.head; w != nil; w = w.next {
		w.killed = true
	}
	left := make([]message, 0, s.box.n)
	for s.box.n > 0 {
		var m message
		s.box.pop(&m)
		left = append(left, m)
	}
	return left
}

// bury answers the messages that a service did not get to.
func (s *Service) bury(left []message) {
	for i := range left {
		m := &left[i]
		if m.kind == kindTimer || m.kind == kindFork {
			continue
		}
		s.deadLetter(m, s.deadError())
	}
}

// deadLetter is for a message that nobody takes.
func (s *Service) deadLetter(m *message, err *shield.Error) {
	if m.wait != nil || m.to != nil {
		var k worker
		s.reply(&k, m, err)
		return
	}
	if m.kind == kindTurn {
		return
	}
	s.rt.count.deadLetters.Add(1)
	s.rt.civil.log(s, slog.LevelWarn, "dead letter: "+m.subject()+" was not delivered: "+err.Error(), slog.String("error", string(err.Code)), m.session())
}

// session is the one that a message came from, for the log.
func (m *message) session() slog.Attr {
	switch m.kind {
	case kindClient:
		return slog.String("session", string(m.client.Session))
	case kindNotice:
		return slog.String("session", string(m.notice.Client.Session))
	}
	return slog.Attr{}
}

// subject names a message in a log line.
func (m *message) subject() string {
	switch {
	case m.kind == kindNotice:
		return m.notice.Kind.Hook()
	case m.kind == kindClient:
		return "client frame " + m.route
	}
	return m.method
}

// finish is the last thing that happens to a service. The caller holds its lock
// and its baton; the baton is never given away again.
func (s *Service) finish() {
	s.phase = phaseEnded
	visits := s.urgent
	s.urgent, s.box, s.spare = nil, ring{}, nil
	s.mu.Unlock()
	for _, v := range visits {
		v.done <- false
	}
	if begun := s.start.begun; begun != nil { // it ended before on_init had begun
		s.start.begun = nil
		begun(s, shield.Errorf(shield.SpawnFailed, "%s was ended before it had started: %s", s.label(), s.ending.reason))
	}
	if !s.abandoned {
		s.body.close()
	}
	r := s.rt
	r.count.ended.Add(1)
	s.log(slog.LevelDebug, "ended: "+s.ending.reason, slog.String("event", "state"))
	if s.inited && r.cfg.OnDead != nil {
		r.cfg.OnDead(s.handle, shield.ServiceDead)
	}
	s.succeed()
	close(s.done)
}

// comesAgain reports whether a new incarnation will follow.
func (s *Service) comesAgain() bool {
	e, p := &s.ending, &s.spec.Restart
	switch {
	case e.stop || s.rt.stopping.Load() || s.name == "":
		return false
	case e.restart:
		return true
	case !s.inited && s.start.retries == 0 && !s.again:
		return false // whoever started it hears why it failed
	}
	switch p.policy() {
	case RestartNever:
		return false
	case RestartOnFailure:
		if !e.failed {
			return false
		}
	}
	return p.MaxRetries < 0 || s.retries() < p.maxRetries()
}

// retries is how many incarnations in a row have failed before this one. One
// that held out longer than the longest delay starts the count anew.
func (s *Service) retries() int {
	if s.inited && s.now()-s.born > int64(s.spec.Restart.maxDelay()) {
		return 0
	}
	return s.start.retries
}

// succeed starts the next incarnation, now or later, or gives up.
func (s *Service) succeed() {
	r := s.rt
	if !s.comesAgain() {
		if s.ending.failed && s.start.static && !s.ending.stop {
			s.log(slog.LevelError, "failed for good: "+s.ending.reason+s.mendHint(), slog.String("event", "state"))
			r.reg.release(s)
			s.setFate(shield.Failed)
			return
		}
		if s.start.static && s.inited && !s.ending.stop && !r.stopping.Load() {
			s.log(slog.LevelInfo, "ended: "+s.ending.reason+"; its restart policy leaves it at that", slog.String("event", "state"))
		}
		r.reg.remove(s) // whoever misses it finds the line that says why
		return
	}
	s.mu.Lock()
	st := s.start
	st.begun, st.next = s.start.next, nil
	s.start.next = nil
	s.mu.Unlock()
	none := func(err *shield.Error) {
		r.reg.remove(s)
		if st.begun != nil {
			st.begun(nil, err)
		}
	}
	delay := time.Duration(0)
	if s.ending.restart {
		st.retries = 0
	} else {
		n := s.retries()
		delay = s.spec.Restart.delay(n)
		st.retries = n + 1
	}
	s.setFate(shield.Restarting)
	s.log(slog.LevelWarn, "restarting in "+delay.String()+": "+s.ending.reason, slog.String("event", "restart"), slog.Int("retry", st.retries))
	r.afterwards(delay, func() {
		r.count.restarts.Add(1)
		n, err := r.create(s.spec, s.name, st, s)
		if err != nil {
			if err.Code != shield.RuntimeStopping {
				s.log(slog.LevelError, "restart failed: "+err.Error(), slog.String("event", "crash"))
			}
			none(err)
			return
		}
		n.launch()
	}, func() {
		none(shield.Errorf(shield.RuntimeStopping, "%s does not start again: its node is stopping", s.label()))
	})
}

// mendHint says how a service that failed for good comes back.
func (s *Service) mendHint() string {
	if s.rt.cfg.Dev {
		return "; it starts again when a script is saved, or with shield reload --restart " + string(s.name) + " --yes"
	}
	return ""
}

func (p *Restart) policy() Policy {
	if p.Policy == "" {
		return RestartOnFailure
	}
	return p.Policy
}

func (p *Restart) maxRetries() int {
	if p.MaxRetries == 0 {
		return 5
	}
	return p.MaxRetries
}

func (p *Restart) maxDelay() time.Duration {
	if p.MaxDelay <= 0 {
		return 30 * time.Second
	}
	return p.MaxDelay
}

// delay is how long to wait after n failures in a row.
func (p *Restart) delay(n int) time.Duration {
	first, factor := p.InitialDelay, p.Multiplier
	if first <= 0 {
		first = time.Second
	}
	if factor < 1 {
		factor = 2
	}
	d := float64(first) * math.Pow(factor, float64(n))
	if limit := float64(p.maxDelay()); d > limit || math.IsInf(d, 0) {
		d = limit
	}
	return time.Duration(d)
}

// shutdown is an on_shutdown that is under way.
type shutdown struct {
	s       *Service
	drained chan struct{} // nil = there is nothing to wait for
}

// shutDown runs on_shutdown and waits until it has returned and the calls that
// the service has begun are answered.
func (s *Service) shutDown(ctx context.Context, reason string) error {
	if d := s.beginShutDown(ctx, reason); !d.wait(ctx) {
		return d.late()
	}
	return nil
}

func (s *Service) beginShutDown(ctx context.Context, reason string) shutdown {
	deadline := int64(0)
	if d, ok := ctx.Deadline(); ok {
		deadline = s.now() + int64(time.Until(d))
	}
	s.mu.Lock()
	if s.phase != phaseRun {
		s.mu.Unlock()
		return shutdown{s: s}
	}
	s.phase = phaseDrain
	drained := make(chan struct{})
	s.drained = drained
	s.box.push(&message{kind: kindTurn, deadline: deadline, job: &job{as: TurnShutdown, hook: "on_shutdown", reason: reason}})
	s.startLocked()
	return shutdown{s, drained}
}

// wait reports whether the service was through before ctx was over.
func (d shutdown) wait(ctx context.Context) bool {
	if d.drained == nil {
		return true
	}
	select {
	case <-d.drained:
		return true
	case <-d.s.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// late says what a service is at that was not through in time.
func (d shutdown) late() error {
	s := d.s
	if st := s.stuck(); st != nil {
		return shield.Errorf(shield.Timeout, "%s was not ready to stop in time: %s has been running for %s", s.label(), st.what(), st.For.Round(time.Millisecond))
	}
	if rows := s.waitRows(nil); len(rows) > 0 {
		oldest := rows[0]
		return shield.Errorf(shield.Timeout, "%s was not ready to stop in time: %s has waited in %s for %s", s.label(), oldest.Method, oldest.What, oldest.Since.Round(time.Millisecond))
	}
	return shield.Errorf(shield.Timeout, "%s was not ready to stop in time: its on_shutdown or a call that it has begun is not through", s.label())
}

// stop ends the service and waits until it is gone.
func (s *Service) stop(ctx context.Context, e ending) error {
	s.endWith(e)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return shield.Errorf(shield.Timeout, "%s has not ended in time: a handler does not return", s.label())
	}
}

// wedge gives up on a turn that has ignored its abort: its VM is left to it,
// and everything else of the service ends. The watcher calls it while the turn
// still runs.
func (s *Service) wedge(t *Turn, err *shield.Error) {
	s.mu.Lock()
	if !t.state.CompareAndSwap(turnRuns, turnWedged) {
		s.mu.Unlock()
		return
	}
	s.abandoned, s.exited = true, true
	if s.phase < phaseEnding {
		s.phase, s.ending = phaseEnding, ending{failed: true, reason: "wedged"}
	}
	s.inflight--
	left, visits := s.cutLocked(), s.urgent
	s.urgent = nil // nobody may look into a VM that is left to its turn
	s.mu.Unlock()
	for _, v := range visits {
		v.done <- false
	}
	s.rt.count.wedged.Add(1)
	s.log(slog.LevelError, "wedged: "+err.Message+"; the VM is abandoned", slog.String("event", "crash"), slog.String("error", string(err.Code)), detail(err))
	s.rt.reg.withdrawAll(s, s.comesAgain())
	t.fail(err)
	if begun := s.start.begun; begun != nil {
		s.start.begun = nil
		begun(s, err)
	}
	s.bury(left)
	s.rt.workers.run(s, nil) // it takes the baton that the wedged goroutine will never pass on
}

// fail tells whoever waits for the turn's answer that none will come. The turn
// must be wedged: its worker stands still.
func (t *Turn) fail(err *shield.Error) {
	if t.k == nil {
		return
	}
	switch m := &t.k.msg; {
	case m.wait != nil:
		m.wait.s.answer(m.wait, m.gen, nil, err)
	case m.to != nil:
		m.to.answer(t.s, nil, err)
	}
}
