package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// EvalRequest is a piece of Lua to be run as one turn of a service.
type EvalRequest struct {
	Target  Target
	Source  string        // one expression, or statements; M is the service's module
	Name    string        // how errors call the source; "eval"
	Timeout time.Duration // waiting included; 0 = the default call_timeout
	Budget  time.Duration // of running between two suspensions; 0 = limits.max_handler_ms

	// Session keeps the locals that the source declares for the next request
	// with the same Session, also over a reload, until nobody asked for an hour.
	Session  string
	ReadOnly bool // nothing is run; see luavm.Reader
}

// Evaluated is what became of an EvalRequest.
type Evaluated struct {
	// Incomplete says what is missing at the end of the source. Nothing was run.
	// Only requests with a Session have it, others fail.
	Incomplete string

	Values value.Payload // a value that can't leave its VM is nil here
	Plain  []bool        // which of Values say all
	Text   []string      // all values as Lua text, cut where it is long
	Output string        // what the source printed, cut where it is long
	Hint   string        // what may have been meant; "" = nothing to say
	Ended  string        // why the service has ended by it; "" = it lives
	Began  bool          // the session knew of no line before this one
}

const (
	maxEvalText   = 64 << 10 // of one value, and of all that is printed
	maxEvalValues = 100
)

// Eval runs Lua in a service's VM. Only services of this node can be reached.
// Evaluated is never nil: what a failed line has printed is there too.
func (r *Runtime) Eval(ctx context.Context, req EvalRequest) (*Evaluated, Served, error) {
	local, body, by, err := r.evalTarget("eval", req.Target)
	if err != nil {
		return &Evaluated{}, by, err
	}
	if req.Name == "" {
		req.Name = "eval"
	}
	line, cerr := luavm.CompileLine(req.Name, req.Source, req.Session != "")
	var incomplete *luavm.Incomplete
	switch {
	case errors.As(cerr, &incomplete) && req.Session != "":
		return &Evaluated{Incomplete: incomplete.Error()}, by, nil
	case cerr != nil:
		return &Evaluated{}, by, loadError(req.Name, cerr)
	}
	if req.Timeout <= 0 {
		req.Timeout = r.limits.CallTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, req.Timeout)
	defer cancel()
	begun := r.clock.now()
	by.Trace = r.newTrace()
	e := &evaluation{req: req, b: body, line: line}
	c := newToolCall()
	perr := local.post(&message{kind: kindTurn, method: req.Name, trace: by.Trace, deadline: begun + int64(req.Timeout), to: c,
		job: &job{as: TurnEval, run: e.run}})
	if perr != nil {
		return &Evaluated{}, by, perr
	}
	select {
	case <-c.ch:
		by.Took = time.Duration(r.clock.now() - begun)
		by.Generation, by.Code = local.Code().Generation, local.Code().Hash
		res := e.result
		res.Output, res.Ended = e.out.text(), local.endedBy()
		if c.err != nil {
			return &res, by, c.err
		}
		return &res, by, nil
	case <-ctx.Done():
		c.gone.Store(true)
		by.Took = time.Duration(r.clock.now() - begun)
		return &Evaluated{Output: e.out.text()}, by, e.giveUp(local)
	}
}

// evalTarget finds the Lua service of this node that a tool wants to look into.
func (r *Runtime) evalTarget(verb string, to Target) (*Service, *luaBody, Served, error) {
	local, far, rerr := r.resolve(to)
	if rerr != nil {
		return nil, nil, Served{}, rerr
	}
	if local == nil {
		return nil, nil, Served{}, shield.Errorf(shield.InvalidTarget, "%s %s: the service is on %s; ask that node", verb, to, far.Node)
	}
	by := local.served()
	body, ok := local.body.(*luaBody)
	if !ok {
		return nil, nil, by, shield.Errorf(shield.InvalidTarget, "%s %s: it is a service in Go and has no VM", verb, to)
	}
	return local, body, by, nil
}

// evaluation is one request on its way.
type evaluation struct {
	req  EvalRequest
	b    *luaBody
	line *luavm.Line
	out  output
	turn atomic.Pointer[Turn]

	result Evaluated // the turn's; whoever asked may look once it was answered
}

// run is the turn of the service.
func (e *evaluation) run(k *worker, t *Turn) *shield.Error {
	e.turn.Store(t)
	t.rare = &rarer{out: &e.out}
	sc := e.b.scope(e.req.Session)
	e.result.Began = sc.fresh
	if e.req.ReadOnly {
		values, err := luavm.Reader{VM: e.b.vm, Name: sc.read}.Read(e.line)
		if err != nil {
			e.hint(sc, err.Error())
			return shield.AsError(err, shield.HandlerError)
		}
		e.show(sc, values)
		return nil
	}
	for _, name := range e.line.Locals {
		sc.own[name] = true
	}
	proto := e.line.Proto
	fn := &lua.LFunction{Proto: proto, Env: sc.env, Upvalues: make([]*lua.Upvalue, proto.NumUpvalues)}
	res, rerr := e.b.vm.Run(k.take(e.b.s.rt), luavm.Call{Fn: fn, Data: t, Name: e.req.Name, Budget: e.req.Budget, Results: k.res[:0]})
	if t.state.Load() == turnWedged {
		return nil
	}
	if rerr != nil {
		e.hint(sc, rerr.Message)
		return e.b.runError(e.req.Name, rerr)
	}
	shown := res[min(e.line.Extra, len(res)):]
	e.show(sc, shown)
	if len(shown) > 0 && shown[0] != lua.LNil {
		sc.remember(shown[0])
	}
	k.res = emptied(res)
	return nil
}

// show makes texts and copies of the values, as far as they can be made.
func (e *evaluation) show(sc *scope, values []lua.LValue) {
	r := &e.result
	if n := len(values) - maxEvalValues; n > 0 {
		values = values[:maxEvalValues]
		r.Hint = fmt.Sprintf("%d more values are not shown", n)
	}
	printer := value.Printer{Items: 100, String: 4 << 10, Depth: 5}
	room := e.b.s.lim.MaxMessageSize
	for _, v := range values {
		text := printer.Print(v)
		if s, ok := v.(lua.LString); ok && len(s) <= printer.String {
			text = value.Text(v) // a string alone is not worth cutting at once
			if len(s) > 200 {
				text = value.Printer{String: len(s)}.Print(v)
			}
		}
		r.Text = append(r.Text, cutText(text))
		c, err := value.CopyValue(v, "value", room)
		if err != nil {
			c = lua.LNil
		}
		r.Values.Add(c)
		r.Plain = append(r.Plain, err == nil)
	}
	if len(values) == 1 && values[0] == lua.LNil {
		e.hint(sc, "nil")
	}
}

func cutText(s string) string {
	if len(s) <= maxEvalText {
		return s
	}
	return fmt.Sprintf("%s ... (%d bytes)", strings.ToValidUTF8(s[:maxEvalText], ""), len(s))
}

// hint looks for the first name in the line that leads nowhere.
func (e *evaluation) hint(sc *scope, message string) {
	if strings.Contains(message, "nil") || strings.Contains(message, "non-function") {
		e.result.Hint = sc.hint(e.line)
	}
}

// stackTime is how long a line that is given up may take to say where it waits.
const stackTime = 200 * time.Millisecond

// giveUp ends a turn that has taken too long and says where it was.
func (e *evaluation) giveUp(s *Service) *shield.Error {
	t := e.turn.Load()
	if t == nil {
		err := shield.Errorf(shield.Timeout, "%s is inside a turn that does not end; the line has not been run within %s", s.label(), e.req.Timeout)
		if st := s.stuck(); st != nil {
			err.Message += fmt.Sprintf(": it is in %s since %s", st.Method, st.For.Round(time.Millisecond))
		}
		return err
	}
	err := shield.Errorf(shield.Timeout, "the line was not done within %s and is given up", e.req.Timeout)
	ctx, cancel := context.WithTimeout(context.Background(), stackTime)
	defer cancel()
	parked := make(chan string, 1)
	var stack string
	if s.inside(ctx, func(*worker) { parked <- e.parkedStack(t) }) == nil {
		stack = <-parked
	} else {
		stack, _ = e.b.vm.Running(ctx)
	}
	if stack != "" {
		err.Detail = stack
	}
	s.cancelTurn(t)
	return err
}

// parkedStack is where the turn waits; "" when it does not. It needs the baton.
func (e *evaluation) parkedStack(t *Turn) string {
	for _, p := range e.b.vm.Parked() {
		if p.Data == t {
			return p.Stack
		}
	}
	return ""
}

// cancelTurn unwinds a turn that waits. One that runs is left to its budget.
func (s *Service) cancelTurn(t *Turn) {
	s.mu.Lock()
	for w := s.waiting.head; w != nil; w = w.next {
		if w.turn == t {
			w.killed = true
			s.readyLocked(w)
			break
		}
	}
	s.startLocked()
}

// endedBy is why the service is ending; "" while it is not.
func (s *Service) endedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < phaseEnding {
		return ""
	}
	return s.ending.reason
}

// output is what a turn prints, for whoever asked for the turn.
type output struct {
	mu  sync.Mutex
	buf strings.Builder
	cut int
}

// add takes a line and reports whether there was room for all of it.
func (o *output) add(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := maxEvalText - o.buf.Len()
	if o.cut > 0 || len(line) >= room {
		o.cut += len(line) + 1
		if room > 1 && o.cut == len(line)+1 {
			part := strings.ToValidUTF8(line[:room-1], "")
			o.buf.WriteString(part + "\n")
			o.cut -= len(part)
		}
		return false
	}
	o.buf.WriteString(line + "\n")
	return true
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut > 0 {
		return o.buf.String() + fmt.Sprintf("... (%d more bytes were printed)\n", o.cut)
	}
	return o.buf.String()
}
