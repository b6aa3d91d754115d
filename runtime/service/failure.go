package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// The reasons that turns are unwound for, as luavm.Abort takes them.
type (
	killedTurn struct{}                // the service has ended
	panicTurn  struct{ reason string } // shield.panic
)

// unwind ends the turn that runs because its service has ended.
func (s *Service) unwind(L *lua.LState) {
	if L == nil {
		panic(unwound{s.deadError()})
	}
	luavm.Abort(L, killedTurn{}, "the service has ended")
}

// Exit ends the service in good order when the turn that runs returns or
// suspends.
func (s *Service) Exit(reason string) {
	if reason == "" {
		reason = "exit"
	}
	s.endWith(ending{reason: reason})
}

// Panic unwinds the turn that runs and ends the service as a failure. In Lua it
// does not return.
func (s *Service) Panic(L *lua.LState, reason string) {
	if L == nil {
		panic(unwound{&shield.Error{Code: shield.HandlerError, Message: "panic: " + reason, Err: panicked{reason}}})
	}
	luavm.Abort(L, panicTurn{reason}, "panic: "+reason)
}

// panicked marks the error of a turn that asked for the end of its service.
type panicked struct{ reason string }

func (p panicked) Error() string { return p.reason }

// failed does what a failed turn entails and returns the error its caller
// hears.
func (s *Service) failed(k *worker, t *Turn, m *message, err *shield.Error) *shield.Error {
	if err.Code == shield.ServiceDead && s.isEnding() {
		return err // unwound because the service has ended: not its fault
	}
	switch err.Code {
	case shield.MethodNotFound, shield.DecodeError, shield.RPCHandlerMissing:
		if m.kind != kindCall {
			s.deadLetter(m, err)
		}
		return err
	}
	var p panicked
	if t.Kind == TurnEval && err.Code != shield.MemoryLimit && !asPanicked(err, &p) {
		return err // whoever asked sees it; the service has done nothing wrong
	}
	s.report(t, err, m.session())
	if s.has("on_error") && t.Kind <= TurnReload && err.Code != shield.MemoryLimit {
		s.body.onError(k, t, err)
	}
	switch {
	case k.lost:
	case err.Code == shield.MemoryLimit:
		s.body.onPanic(k, t, "vm", err.Message)
		s.endWith(ending{failed: true, reason: "memory_limit"})
	case asPanicked(err, &p):
		s.body.onPanic(k, t, "explicit", p.reason)
		s.endWith(ending{failed: true, reason: "panic"})
	case t.Kind > TurnReload:
	default:
		if s.errors++; s.errors >= s.lim.MaxErrors {
			s.errors = 0
			why := fmt.Sprintf("%d turns in a row have failed, the last with: %s", s.lim.MaxErrors, err.Message)
			s.log(slog.LevelError, why, slog.String("event", "crash"))
			s.body.onPanic(k, t, "threshold", why)
			s.endWith(ending{failed: true, reason: "panic"})
		}
	}
	return err
}

func (s *Service) has(hook string) bool { return s.body.has(hook) }

func asPanicked(err *shield.Error, p *panicked) bool {
	v, ok := err.Err.(panicked)
	*p = v
	return ok
}

// report counts and logs the failure of a turn.
func (s *Service) report(t *Turn, err *shield.Error, about ...slog.Attr) {
	c := &s.rt.count
	c.errors.Add(1)
	s.count.errors.Add(1)
	switch err.Code {
	case shield.HandlerTimeout:
		c.handlerTimeout.Add(1)
	case shield.MemoryLimit:
		c.memoryLimit.Add(1)
	}
	what := t.Method
	if what == "" {
		what = t.Kind.String()
	}
	s.rt.civil.log(s, slog.LevelError, what+": "+err.Message, append(about, slog.String("error", string(err.Code)),
		slog.String("trace", t.Trace().String()), detail(err))...)
}

// detail is the traceback of an error, for the log.
func detail(err *shield.Error) slog.Attr {
	if d, ok := err.Detail.(string); ok && d != "" {
		return slog.String("detail", d)
	}
	return slog.Attr{}
}

// afterTurn acts on what a turn has left behind.
func (s *Service) afterTurn(t *Turn) {
	if err := s.body.tidy(); err != nil {
		s.report(t, err)
		s.endWith(ending{failed: true, reason: "memory_limit"})
	}
	if t.Kind == TurnShutdown {
		s.shut = true
	}
}

// tellDrained tells whoever shuts the service down when on_shutdown is through
// and nobody waits for an answer.
func (s *Service) tellDrained() {
	if s.answering > 0 {
		return
	}
	s.mu.Lock()
	if s.drained != nil && s.box.counted == 0 {
		close(s.drained)
		s.drained = nil
	}
	s.mu.Unlock()
}

// log writes a line that says which service and which code it is about.
func (s *Service) log(level slog.Level, msg string, attrs ...slog.Attr) {
	l := s.rt.cfg.Log
	if !l.Enabled(context.Background(), level) {
		return
	}
	l.LogAttrs(context.Background(), level, msg, append(s.attrs(), attrs...)...)
}

func (s *Service) attrs() []slog.Attr {
	c := s.Code()
	return []slog.Attr{slog.String("service", s.label()), slog.Int("gen", c.Generation), slog.String("code", c.Hash)}
}

// Log writes a line of the service's own code, with the fields it names.
func (s *Service) Log(level slog.Level, msg string, fields ...slog.Attr) {
	if t := s.turn.Load(); t != nil && s.rt.cfg.Log.Enabled(context.Background(), level) {
		fields = append(fields, slog.String("trace", t.Trace().String()))
	}
	s.log(level, msg, fields...)
}

// printed is where print of a script goes.
func printed(L *lua.LState, line string) {
	if t, ok := luavm.TurnOf(L).(*Turn); ok && t.rare != nil && t.rare.out != nil {
		if !t.rare.out.add(line) {
			return // what is too much for a person is too much for the log
		}
	}
	if s, ok := luavm.OwnerOf(L).(*Service); ok {
		s.Log(slog.LevelInfo, line)
	}
}

// civil lets through what a person can read: of the lines of one service, a few
// a second; the others are counted and the count is told with the next. What is
// about no service of this node counts as id 0.
type civil struct {
	mu   sync.Mutex
	seen map[shield.ServiceID]*civilCount
}

type civilCount struct {
	since   int64
	lines   int
	dropped int
}

const (
	civilLines  = 10
	civilPeriod = int64(1e9)
	civilKept   = 1024
)

func (c *civil) log(s *Service, level slog.Level, msg string, attrs ...slog.Attr) {
	ok, dropped := c.admit(s.handle.ID, s.now())
	if !ok {
		return
	}
	if dropped > 0 {
		attrs = append(attrs, suppressed(dropped))
	}
	s.log(level, msg, attrs...)
}

func suppressed(n int) slog.Attr { return slog.Int("suppressed", n) }

// admit reports whether one more line about a service may be written now, and
// how many were not since the last.
func (c *civil) admit(id shield.ServiceID, now int64) (ok bool, dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.seen[id]
	if n == nil {
		if c.seen == nil || len(c.seen) >= civilKept {
			c.seen = make(map[shield.ServiceID]*civilCount)
		}
		n = &civilCount{since: now}
		c.seen[id] = n
	}
	if now-n.since >= civilPeriod {
		n.since, n.lines = now, 0
	}
	if n.lines >= civilLines {
		n.dropped++
		return false, 0
	}
	n.lines++
	dropped, n.dropped = n.dropped, 0
	return true, dropped
}
