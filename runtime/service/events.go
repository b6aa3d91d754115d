package service

import (
	"fmt"
	"slices"
	"strings"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// listener is one function that hears an event inside its own service.
type listener struct {
	id uint64
	fn *lua.LFunction
}

// The methods on listeners need the baton and are for services in Lua.

// Listen lets fn hear the event name.
func (s *Service) Listen(name string, fn *lua.LFunction) uint64 {
	b := s.body.(*luaBody)
	if b.listeners == nil {
		b.listeners = make(map[string][]listener)
	}
	b.lastListener++
	b.listeners[name] = append(b.listeners[name], listener{b.lastListener, fn})
	return b.lastListener
}

// Unlisten removes the listeners of an event that have this id or this
// function, or all of them when neither is given. It returns how many there
// were.
func (s *Service) Unlisten(name string, id uint64, fn *lua.LFunction) int {
	b := s.body.(*luaBody)
	before := b.listeners[name]
	after := slices.DeleteFunc(slices.Clone(before), func(l listener) bool {
		return id == 0 && fn == nil || id != 0 && l.id == id || fn != nil && l.fn == fn
	})
	if len(after) == 0 {
		delete(b.listeners, name)
	} else {
		b.listeners[name] = after
	}
	return len(before) - len(after)
}

// ClearListeners removes all listeners of all events.
func (s *Service) ClearListeners() { clear(s.body.(*luaBody).listeners) }

// Listeners are the functions that hear an event now.
func (s *Service) Listeners(name string) []*lua.LFunction {
	ls := s.body.(*luaBody).listeners[name]
	fns := make([]*lua.LFunction, len(ls))
	for i, l := range ls {
		fns[i] = l.fn
	}
	return fns
}

// EventFailed reports a listener that threw, to the log and to on_error. It
// runs inside the turn that emitted the event.
func (s *Service) EventFailed(L *lua.LState, name string, fn *lua.LFunction, rerr *luavm.RunError) {
	b := s.body.(*luaBody)
	t := &Turn{s: s, Kind: TurnEvent, Method: name, trace: s.trace()}
	err := b.runError(name, rerr)
	heard := fmt.Sprintf("event %q", name) // a name alone reads like a method's
	if at := placeOf(fn); at != "" && !strings.HasPrefix(err.Message, fn.Proto.SourceName+":") {
		heard += ", listener of " + at // the error does not say where
	}
	s.report(&Turn{s: s, Kind: TurnEvent, Method: heard, trace: t.trace}, err)
	fn, ok := b.module.RawGetString("on_error").(*lua.LFunction)
	if !ok {
		return
	}
	top := L.GetTop()
	L.Push(fn)
	L.Push(s.rt.cfg.API.Error(err))
	L.Push(b.errorContext(t))
	if rerr := luavm.PCall(L, 2, 0); rerr != nil {
		L.SetTop(top)
		s.report(&Turn{s: s, Kind: TurnEvent, Method: "on_error", trace: t.trace}, b.runError("on_error", rerr))
	}
}

// placeOf is the file and line where a function begins, or "" for one of Go.
func placeOf(fn *lua.LFunction) string {
	if fn == nil || fn.Proto == nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", fn.Proto.SourceName, fn.Proto.LineDefined)
}

// Config reads a key of the service's configuration; dots go deeper.
func (s *Service) Config(key string) (any, bool) {
	v := s.spec.Config
	if m, ok := v.(map[string]any); ok {
		if v, ok := m[key]; ok {
			return v, true
		}
	}
	for key != "" {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		var step string
		step, key, _ = strings.Cut(key, ".")
		if v, ok = m[step]; !ok {
			return nil, false
		}
	}
	return v, true
}

// Query finds a name in the local registry, and says what there is when it is
// not there.
func (s *Service) Query(name shield.Name) (shield.Handle, *shield.Error) {
	if found := s.rt.reg.lookup(name); found != nil {
		return found.handle, nil
	}
	return shield.Handle{}, s.rt.notFound(name)
}

// Routes is the RPC table of this moment; nil when there is none.
func (r *Runtime) Routes() *shield.RPCTable {
	if r.cfg.Routes == nil {
		return nil
	}
	return r.cfg.Routes()
}
