package service

import (
	"context"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// CallRequest is a call made by a tool.
type CallRequest struct {
	Target  Target
	Method  string
	Args    value.Payload // belongs to the callee from then on
	Timeout time.Duration // 0 = the default call_timeout
	Trace   shield.TraceID
	From    string // for the Calls view; "control" by default
}

// Served says who did a piece of work, and with which code.
type Served struct {
	Node       shield.NodeID
	Service    shield.Name
	ID         shield.ServiceID
	Generation int
	Code       string
	Trace      shield.TraceID
	Took       time.Duration
}

// toolCall waits for an answer outside of any service.
type toolCall struct {
	ch     chan struct{}
	gone   atomic.Bool
	from   *Service
	values value.Payload
	err    *shield.Error
}

func newToolCall() *toolCall { return &toolCall{ch: make(chan struct{})} }

func (c *toolCall) answer(from *Service, results *value.Payload, err *shield.Error) {
	if c.gone.Load() {
		from.rt.count.lateReplies.Add(1)
	}
	c.from, c.err = from, err
	if results != nil {
		c.values = *results
	}
	close(c.ch)
}

// Done makes a toolCall a shield.Waiter.
func (c *toolCall) Done(result []byte, err *shield.Error) {
	if err == nil {
		if derr := value.Decode(&c.values, result, len(result)); derr != nil {
			err = shield.AsError(derr, shield.DecodeError)
		}
	}
	c.err = err
	close(c.ch)
}

// Call calls a service as a tool does. Served is filled in as far as it is
// known, also with an error.
func (r *Runtime) Call(ctx context.Context, req CallRequest) (value.Payload, Served, error) {
	if req.Trace == 0 {
		req.Trace = r.newTrace()
	}
	if req.Timeout <= 0 {
		req.Timeout = r.limits.CallTimeout
	}
	if req.From == "" {
		req.From = "control"
	}
	begun := r.clock.now()
	values, served, err := r.call(ctx, &req)
	served.Trace, served.Took = req.Trace, time.Duration(r.clock.now()-begun)
	if hook := r.onCall.Load(); hook != nil {
		r.callRow(*hook, req.From, req.Target.String(), req.Method, req.Trace, begun, err)
	}
	if err != nil {
		return values, served, err
	}
	return values, served, nil
}

func (r *Runtime) call(ctx context.Context, req *CallRequest) (none value.Payload, by Served, err *shield.Error) {
	if r.draining.Load() {
		return none, by, shield.Errorf(shield.RuntimeStopping, "%s is stopping", r.cfg.Node)
	}
	if err := checkMethod(req.Method); err != nil {
		return none, by, err
	}
	local, far, err := r.resolve(req.Target)
	if err != nil {
		return none, by, err
	}
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	c := newToolCall()
	cancelFar := func() {}
	if local != nil {
		by = local.served()
		req.Args.Measure() // so that the service's limit holds for tools too
		err = local.postTo(req.Target, &message{kind: kindCall, method: req.Method, args: req.Args, trace: req.Trace,
			deadline: r.clock.now() + int64(req.Timeout), to: c})
	} else {
		by = Served{Node: far.Node, ID: far.ID}
		if _, name, ok := shield.SplitTarget(req.Target.Name); ok {
			by.Service = name
		}
		env := &shield.Envelope{Source: shield.Handle{Node: r.cfg.Node, Epoch: r.cfg.Epoch}, Target: far, Method: req.Method,
			Args: value.Append(nil, &req.Args), Timeout: req.Timeout, Trace: req.Trace}
		id, rerr := r.cfg.Remote.Call(env, c)
		err = shield.AsError(rerr, shield.NodeOffline)
		cancelFar = func() { r.cfg.Remote.Cancel(id) }
	}
	if err != nil {
		return none, by, err
	}
	select {
	case <-c.ch:
		if c.from != nil {
			by = c.from.served()
		}
		return c.values, by, c.err
	case <-ctx.Done():
		c.gone.Store(true)
		cancelFar()
		r.count.timeouts.Add(1)
		return none, by, shield.Errorf(shield.Timeout, "call %s %s: no reply within %s%s", req.Target, req.Method, req.Timeout, stuckText(local))
	}
}

func (s *Service) served() Served {
	c := s.Code()
	name := s.name
	if name == "" {
		name = shield.Name(s.label())
	}
	return Served{Node: s.handle.Node, Service: name, ID: s.handle.ID, Generation: c.Generation, Code: c.Hash}
}

// OnCall lets hook hear of every finished call; nil ends that. It must not
// block.
func (r *Runtime) OnCall(hook func(shield.CallRow)) {
	if hook == nil {
		r.onCall.Store(nil)
		return
	}
	r.onCall.Store(&hook)
}

func (r *Runtime) callRow(hook func(shield.CallRow), from, target, method string, trace shield.TraceID, begun int64, err *shield.Error) {
	row := shield.CallRow{Time: r.Now(), Trace: trace, From: from, Target: target, Method: method, Node: r.cfg.Node,
		Micros: (r.clock.now() - begun) / 1000, Result: "ok"}
	if err != nil {
		row.Result = string(err.Code)
	}
	hook(row)
}

// Services lists every service, by id.
func (r *Runtime) Services() []shield.ServiceRow {
	all := r.reg.services()
	rows := make([]shield.ServiceRow, 0, len(all))
	for _, s := range all {
		rows = append(rows, s.row())
	}
	return rows
}

func (s *Service) row() shield.ServiceRow {
	c := s.Code()
	row := shield.ServiceRow{
		Names: s.Names(), Node: s.handle.Node, ID: s.handle.ID, Generation: c.Generation, Code: c.Hash, Module: string(s.spec.Name),
		Calls: s.count.calls.Load(), Errors: s.count.errors.Load(), Restarts: int(s.count.restarts.Load()), Memory: s.memory.Load(),
	}
	s.mu.Lock()
	row.Mailbox = s.box.counted
	row.State = s.stateLocked()
	row.Reason = s.ending.text()
	s.mu.Unlock()
	switch {
	case len(row.Names) > 0:
		row.Name = row.Names[0]
	case s.name != "":
		row.Name = s.name
	default:
		row.Name = "(" + s.spec.Name + ")"
	}
	return row
}

func (s *Service) stateLocked() shield.ServiceState {
	switch s.phase {
	case phaseInit:
		return shield.Starting
	case phaseRun:
		return shield.Running
	case phaseDrain, phaseEnding:
		return shield.Stopping
	}
	if s.fate != "" {
		return s.fate
	}
	return shield.Stopping
}

func (s *Service) setFate(f shield.ServiceState) {
	s.mu.Lock()
	s.fate = f
	s.mu.Unlock()
}

// service finds one by id, for tools.
func (r *Runtime) service(id shield.ServiceID) (*Service, error) {
	if s := r.reg.find(id); s != nil {
		return s, nil
	}
	return nil, shield.Errorf(shield.ServiceDead, "%s has no service %d (any more)", r.cfg.Node, id)
}

// Kill ends one service as a failure: its restart policy acts.
func (r *Runtime) Kill(ctx context.Context, id shield.ServiceID, reason string) error {
	s, err := r.service(id)
	if err != nil {
		return err
	}
	return s.stop(ctx, ending{failed: true, reason: reason})
}

// Restart ends one service in good order and starts it again, under the same
// names and a new id. It returns when the new one runs, and fails when that
// can't be had within ctx.
func (r *Runtime) Restart(ctx context.Context, id shield.ServiceID, reason string) (shield.Handle, error) {
	var none shield.Handle
	s, err := r.service(id)
	if err != nil {
		return none, err
	}
	if s.name == "" {
		return none, shield.Errorf(shield.SpawnFailed, "%s has no name: nobody could find it after a restart", s.label())
	}
	started := make(chan *shield.Error, 1)
	var next *Service
	s.mu.Lock()
	s.start.next = func(n *Service, err *shield.Error) { next = n; started <- err }
	s.mu.Unlock()
	if err := s.shutDown(ctx, reason); err != nil {
		return none, err
	}
	if err := s.stop(ctx, ending{reason: reason, restart: true}); err != nil {
		return none, err
	}
	s.mu.Lock()
	unheard, fate := s.start.next != nil, s.fate
	s.mu.Unlock()
	switch { // it was ending by itself already, and what follows on that is not ours
	case !unheard:
	case fate == shield.Restarting:
		return none, shield.Errorf(shield.NameConflict, "%s has ended by itself and is about to start again", s.label())
	case s.start.static:
		return r.StartAgain(ctx, s.name)
	default:
		return none, s.deadError()
	}
	select {
	case err := <-started:
		if err != nil {
			return none, err
		}
		return next.handle, nil
	case <-ctx.Done():
		return none, shield.Errorf(shield.Timeout, "%s has not started again in time", s.label())
	}
}

// Parked is one handler that waits.
type Parked struct {
	Service shield.ServiceID
	Name    string // of the service
	Method  string // of the handler
	What    string // "shield.call", "shield.sleep", ...
	Target  string // of a call or spawn
	Calls   string // the method it calls
	Since   time.Duration
	Trace   shield.TraceID
	Stack   string        // its Lua frames, innermost first; "" in Go, and where the service can't be asked
	To      shield.Handle // of Target, where a call is waited for
	Init    bool          // the service is in on_init: it reads no messages
}

// Waits lists every parked handler of the node, with its Lua stack, oldest
// first. A service that does not come between two turns within ctx is listed
// without stacks.
func (r *Runtime) Waits(ctx context.Context) []Parked {
	var all []Parked
	for _, s := range r.reg.services() {
		s.mu.Lock()
		n := s.waiting.n
		s.mu.Unlock()
		if n == 0 {
			continue
		}
		asked := make(chan []Parked, 1)
		if s.inside(ctx, func(*worker) { asked <- s.parkedRows() }) == nil {
			all = append(all, <-asked...)
		} else {
			all = append(all, s.waitRows(nil)...)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Since > all[j].Since })
	return all
}

// parkedRows lists the handlers that wait. It needs the baton.
func (s *Service) parkedRows() []Parked {
	stacks := make(map[*Turn]string)
	if vm := s.VM(); vm != nil {
		for _, p := range vm.Parked() {
			if t, ok := p.Data.(*Turn); ok {
				stacks[t] = p.Stack
			}
		}
	}
	return s.waitRows(stacks)
}

// waitRows is parkedRows with the stacks that are known.
func (s *Service) waitRows(stacks map[*Turn]string) []Parked {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make([]Parked, 0, s.waiting.n)
	for w := s.waiting.head; w != nil; w = w.next {
		p := Parked{Service: s.handle.ID, Name: s.label(), What: string(w.kind), Calls: w.method, Since: time.Duration(now - w.since), Stack: w.stack}
		if w.kind != waitSleep {
			p.Target = w.to.String()
		}
		p.Init = s.phase == phaseInit
		if p.To = w.far; w.callee != nil {
			p.To = w.callee.handle
		}
		if w.turn != nil {
			p.Method, p.Trace = w.turn.Method, w.turn.trace
			if stack := stacks[w.turn]; stack != "" {
				p.Stack = stack
			}
		}
		rows = append(rows, p)
	}
	return rows
}

// visit is something to be done between two turns.
type visit struct {
	do   func(*worker)
	done chan bool // capacity 1; false = the service has ended
}

// inside runs do between two turns, with the baton, and waits for it. The
// error says that the service has ended, or that ctx was over first: then do is
// not run any more, unless it had begun.
func (s *Service) inside(ctx context.Context, do func(*worker)) error {
	v := &visit{do: do, done: make(chan bool, 1)}
	s.mu.Lock()
	if s.phase == phaseEnded || s.abandoned {
		s.mu.Unlock()
		return s.deadError()
	}
	s.urgent = append(s.urgent, v)
	s.startLocked()
	select {
	case ok := <-v.done:
		if !ok {
			return s.deadError()
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.urgent = slices.DeleteFunc(s.urgent, func(o *visit) bool { return o == v })
		s.mu.Unlock()
		return shield.Errorf(shield.Timeout, "%s is inside a turn that does not end", s.label())
	}
}
