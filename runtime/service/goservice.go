package service

import (
	"log/slog"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// GoService is a service written in Go. It has the same mailbox, names, calls
// and limits as one in Lua: at most one goroutine is inside it, and it may wait
// only through its GoContext, which lets the next message in meanwhile.
type GoService interface {
	Init(ctx *GoContext, args GoArgs) error
	// Handle answers a message. args and what it returns are detached values:
	// whoever gets them owns them. An error that carries a code arrives with
	// that code at the caller, any other as handler_error. What it returns for a
	// send goes nowhere.
	Handle(ctx *GoContext, method string, args value.Payload) (value.Payload, error)
	// Shutdown may wait, as long as ctx.Deadline allows.
	Shutdown(ctx *GoContext, reason string)
	// Exit is the last call; it may not wait.
	Exit(reason string)
}

// GoClients is what a GoService implements to have clients.
type GoClients interface {
	HandleClient(ctx *GoContext, client shield.ClientRef, method string, body any) error
	Notice(ctx *GoContext, n shield.Notice)
}

// GoArgs are what Init gets.
type GoArgs struct {
	Name   shield.Name
	ID     shield.ServiceID
	Config any
	Args   any // what shield.spawn was given, as plain Go
}

// GoContext is a Go service's way to the runtime for the length of one turn. It
// must not be used after that, nor from another goroutine.
type GoContext struct{ t *Turn }

// Turn says what the turn is about.
func (c *GoContext) Turn() *Turn { return c.t }

// Self is the service's own handle.
func (c *GoContext) Self() shield.Handle { return c.t.s.handle }

// Sender is who sent the message; false when no service did.
func (c *GoContext) Sender() (shield.Handle, bool) { return c.t.Sender() }

// Deadline is what is left of the caller's deadline; false without one.
func (c *GoContext) Deadline() (left time.Duration, ok bool) { return c.t.Deadline() }

// Trace follows the work through every call it causes.
func (c *GoContext) Trace() shield.TraceID { return c.t.Trace() }

// Send posts a message. Args are plain Go values, as value.FromGo takes them.
func (c *GoContext) Send(to Target, method string, args ...any) error {
	p, err := c.payload(args)
	if err != nil {
		return err
	}
	return orNil(c.t.s.Send(to, method, &p))
}

// Call posts a message and waits for the answer.
func (c *GoContext) Call(to Target, method string, args ...any) (value.Payload, error) {
	return c.CallTimeout(0, to, method, args...)
}

// CallTimeout is Call with a time-out of its own.
func (c *GoContext) CallTimeout(d time.Duration, to Target, method string, args ...any) (out value.Payload, err error) {
	p, err := c.payload(args)
	if err != nil {
		return out, err
	}
	err = orNil(c.t.s.Call(nil, to, method, &p, d, &out))
	return out, err
}

func (c *GoContext) payload(args []any) (value.Payload, error) {
	p, err := value.PayloadOf(args...)
	if err != nil {
		return p, c.t.s.CopyError(err)
	}
	return p, c.t.s.checkSize(&p)
}

// Sleep lets d pass.
func (c *GoContext) Sleep(d time.Duration) error { return orNil(c.t.s.Sleep(nil, d)) }

// Spawn starts a service and waits until it runs.
func (c *GoContext) Spawn(req SpawnRequest) (shield.Handle, error) {
	h, err := c.t.s.Spawn(nil, req)
	return h, orNil(err)
}

// Bind moves a client's session.
func (c *GoContext) Bind(ref shield.ClientRef, to Target, player string) (shield.ClientRef, error) {
	bound, err := c.t.s.Bind(nil, ref, to, player)
	return bound, orNil(err)
}

// Fork runs fn as a turn of its own, soon.
func (c *GoContext) Fork(fn func(*GoContext) error) error {
	return orNil(c.t.s.fork(&message{job: &job{goFn: fn}}))
}

// Timer lets fn run after d, and again and again when it repeats.
func (c *GoContext) Timer(d time.Duration, repeats bool, fn func(*GoContext) error) (uint64, error) {
	id, err := c.t.s.addTimer(d, &timer{goFn: fn}, repeats)
	return id, orNil(err)
}

// CancelTimer forgets a timer.
func (c *GoContext) CancelTimer(id uint64) error { return orNil(c.t.s.CancelTimer(id)) }

// Register publishes one more name for the service.
func (c *GoContext) Register(name shield.Name) error {
	return orNil(c.t.s.Register(name, shield.Handle{}))
}

// Unregister withdraws a name.
func (c *GoContext) Unregister(name shield.Name) error { return orNil(c.t.s.Unregister(name)) }

// Exit ends the service when the turn is over.
func (c *GoContext) Exit(reason string) { c.t.s.Exit(reason) }

// Panic ends the turn and, as a failure, the service. It does not return.
func (c *GoContext) Panic(reason string) { c.t.s.Panic(nil, reason) }

// Log writes a line.
func (c *GoContext) Log(level slog.Level, msg string, fields ...slog.Attr) {
	c.t.s.Log(level, msg, fields...)
}

func orNil(err *shield.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// goBody is a service in Go.
type goBody struct {
	s    *Service
	impl GoService
}

func (b *goBody) init(_ *worker, t *Turn) (err *shield.Error) {
	defer b.s.contain("Init", &err)
	args := GoArgs{Name: b.s.name, ID: b.s.handle.ID, Config: b.s.spec.Config}
	if b.s.start.args != nil {
		var p value.Payload
		if err := value.Decode(&p, b.s.start.args, len(b.s.start.args)); err != nil {
			return shield.AsError(err, shield.InitFailed)
		}
		args.Args = value.ToGo(p.At(0))
	}
	b.s.code.Store(&Code{Generation: 1, Hash: "go"})
	return shield.AsError(b.impl.Init(&GoContext{t}, args), shield.InitFailed)
}

func (b *goBody) handle(k *worker, t *Turn, m *message) (err *shield.Error) {
	defer b.s.contain(t.Method, &err)
	c := &GoContext{t}
	switch m.kind {
	case kindCall, kindSend:
		out, herr := b.impl.Handle(c, m.method, m.args)
		if herr != nil {
			return failure(herr)
		}
		if !t.answers {
			return nil // k.out must stay empty for the next turn
		}
		if serr := b.s.checkSize(&out); serr != nil {
			return shield.AsError(serr, shield.MessageTooLarge)
		}
		k.out = out
	case kindClient, kindNotice:
		return b.client(c, m)
	case kindTimer:
		return failure(m.timer.goFn(c))
	case kindFork:
		return failure(m.goFn(c))
	case kindTurn:
		switch {
		case m.run != nil:
			return m.run(k, t)
		case m.hook == "on_shutdown":
			b.impl.Shutdown(c, m.reason)
		case m.hook == "on_exit":
			b.impl.Exit(m.reason)
		}
	}
	return nil
}

// failure is the error of a Go handler as its caller hears it: with the code that
// it carries, and with the words around that.
func failure(err error) *shield.Error {
	e := shield.AsError(err, shield.HandlerError)
	switch err.(type) {
	case nil, *shield.Error, shield.Code:
		return e
	}
	if shield.CodeOf(err) == "" {
		return e // its words are all there already
	}
	wrapped := *e
	wrapped.Message, wrapped.Err = err.Error(), err
	return &wrapped
}

func (b *goBody) client(c *GoContext, m *message) *shield.Error {
	impl, ok := b.impl.(GoClients)
	switch {
	case m.kind == kindNotice:
		if ok {
			impl.Notice(c, *m.notice)
		}
		return nil
	case !ok:
		b.s.rt.count.handlerMissing.Add(1)
		return shield.Errorf(shield.RPCHandlerMissing, "%s is a Go service without HandleClient", b.s.label())
	}
	return failure(impl.HandleClient(c, m.client, m.method, value.ToGo(m.args.At(0))))
}

func (b *goBody) has(hook string) bool {
	return hook == "on_shutdown" || hook == "on_exit"
}

func (b *goBody) onError(*worker, *Turn, *shield.Error)  {}
func (b *goBody) onPanic(*worker, *Turn, string, string) {}
func (b *goBody) methods() []string                      { return nil }
func (b *goBody) tidy() *shield.Error                    { return nil }
func (b *goBody) close()                                 {}
