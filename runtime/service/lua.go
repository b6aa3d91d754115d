package service

import (
	"errors"
	"strings"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// API is what package luaapi gives: shield.* and the metatables of what Lua
// sees as userdata. The metatables are locked and shared by all VMs.
type API struct {
	Shield    luavm.Lib
	Pure      []string
	Error     func(*shield.Error) lua.LValue
	Context   *lua.LTable // of ctx; its userdata holds a *Turn
	Client    *lua.LTable // of client; its userdata holds a *Client
	Handle    *lua.LTable // of handles; their userdata holds a shield.Handle
	ClientRef *lua.LTable
}

// Client is what Lua sees as client: a session as it was when its frame was
// read, for the length of one turn.
type Client struct {
	Ref  shield.ClientRef
	Turn *Turn
}

// luaBody is a service in Lua.
type luaBody struct {
	s      *Service
	vm     *luavm.VM
	module *lua.LTable

	listeners    map[string][]listener // shield.event
	lastListener uint64
	sessions     map[string]*scope // of tools that run lines
}

func newLuaBody(s *Service) *luaBody {
	b := &luaBody{s: s}
	b.vm = s.rt.world.NewVM(luavm.VMConfig{
		Owner: s,
		Limits: luavm.Limits{
			HandlerTime: s.lim.MaxHandler,
			Memory:      s.lim.MaxMemory,
			Coroutines:  s.lim.MaxCoroutines,
			CallDepth:   s.lim.MaxCallDepth,
		},
		Now:   s.rt.Now,
		Seed:  s.rt.seed(s.handle.ID),
		Roots: b.roots,
	})
	return b
}

// Of finds the service whose Lua calls a Go function.
func Of(L *lua.LState) *Service { return luavm.OwnerOf(L).(*Service) }

// VM is the service's Lua; nil for a Go service. It needs the baton.
func (s *Service) VM() *luavm.VM {
	if b, ok := s.body.(*luaBody); ok {
		return b.vm
	}
	return nil
}

func (b *luaBody) init(k *worker, t *Turn) *shield.Error {
	m, err := b.vm.Load(k.take(b.s.rt), b.s.spec.Script, t)
	if err != nil {
		return loadError(b.s.spec.Script, err)
	}
	b.s.code.Store(&Code{Generation: 1, Hash: b.vm.CodeHash()})
	module, ok := m.Value.(*lua.LTable)
	if !ok {
		return shield.Errorf(shield.InvalidServiceModule, "%s returns %s, not a table of functions: end the file with `return M`", m.Path, m.Value.Type())
	}
	b.module = module
	fn, ok := module.RawGetString("on_init").(*lua.LFunction)
	if !ok {
		return nil
	}
	args, aerr := b.initArgs()
	if aerr != nil {
		return aerr
	}
	res, rerr := b.vm.Run(k.take(b.s.rt), luavm.Call{Fn: fn, Args: []lua.LValue{args}, Data: t, Name: "on_init", Results: k.res})
	if rerr != nil {
		e := b.runError("on_init", rerr)
		if e.Code == shield.HandlerError {
			e.Code = shield.InitFailed
		}
		return e
	}
	if len(res) > 0 && (res[0] == lua.LFalse || res[0] == lua.LNil && len(res) > 1 && res[1] != lua.LNil) {
		why := "on_init returned " + res[0].String()
		if len(res) > 1 && res[1] != lua.LNil {
			why = textOf(res[1])
		}
		return shield.Errorf(shield.InitFailed, "%s: %s", b.s.label(), why)
	}
	return nil
}

// initArgs is the table that on_init gets.
func (b *luaBody) initArgs() (*lua.LTable, *shield.Error) {
	s := b.s
	t := (*lua.LState)(nil).CreateTable(0, 4)
	if s.name != "" {
		t.RawSetString("name", lua.LString(s.name))
	}
	t.RawSetString("id", lua.LNumber(s.handle.ID))
	cfg, err := value.FromGo(s.spec.Config)
	if err != nil {
		return nil, shield.Errorf(shield.InitFailed, "config of %s: %w", s.label(), err)
	}
	if cfg == lua.LNil || cfg == lua.LValue(value.Null) {
		cfg = (*lua.LState)(nil).CreateTable(0, 0)
	}
	t.RawSetString("config", cfg)
	if s.start.args != nil {
		var p value.Payload
		if err := value.Decode(&p, s.start.args, len(s.start.args)); err != nil {
			return nil, shield.Errorf(shield.InitFailed, "args of %s: %w", s.label(), err)
		}
		b.intern(&p)
		t.RawSetString("args", p.At(0))
	}
	return t, nil
}

func (b *luaBody) handle(k *worker, t *Turn, m *message) *shield.Error {
	if m.kind == kindTurn && m.run != nil {
		return m.run(k, t)
	}
	name := t.Method
	var fn *lua.LFunction
	args := k.args[:0]
	switch m.kind {
	case kindTimer:
		fn, name = m.timer.fn, "timer"
	case kindFork:
		fn, name = m.fn, "fork"
	default:
		fn, _ = b.module.RawGetString(t.Method).(*lua.LFunction)
		if fn == nil {
			return b.missing(t, m)
		}
		args = b.arguments(args, t, m)
	}
	k.args = args
	res, rerr := b.vm.Run(k.take(b.s.rt), luavm.Call{Fn: fn, Args: args, Data: t, Name: name, Results: k.res[:0]})
	if t.state.Load() == turnWedged {
		return nil
	}
	k.args = emptied(k.args)
	if rerr != nil {
		return b.runError(name, rerr)
	}
	var err *shield.Error
	if m.wait != nil || m.to != nil {
		take := value.Copy
		if _, leaves := m.to.(*farCaller); leaves {
			take = value.Encode
		}
		if cerr := take(&k.out, value.Results, b.s.lim.MaxMessageSize, res...); cerr != nil {
			k.out = value.Payload{}
			err = b.s.CopyError(cerr)
		}
	}
	k.res = emptied(res)
	return err
}

// arguments are what a handler or hook is called with.
func (b *luaBody) arguments(args []lua.LValue, t *Turn, m *message) []lua.LValue {
	switch m.kind {
	case kindCall, kindSend:
		args = append(args, b.context(t))
	case kindClient:
		args = append(args, b.context(t), b.client(t, m.client))
	case kindNotice:
		args = append(args, b.client(t, m.notice.Client))
		if m.notice.Kind != shield.NoticeBound {
			args = append(args, lua.LString(m.notice.Reason))
		}
		return args
	case kindTurn:
		switch m.hook {
		case "on_exit":
			return append(args, lua.LString(m.reason))
		case "on_reload":
			return append(args, m.args.At(0))
		}
		return append(args, b.context(t))
	}
	b.intern(&m.args)
	for i := range m.args.Len() {
		args = append(args, m.args.At(i))
	}
	return args
}

// missing is the error for a method that is not there.
func (b *luaBody) missing(t *Turn, m *message) *shield.Error {
	if m.kind == kindTurn || m.kind == kindNotice {
		return nil // a hook that the script does without
	}
	all := b.methods()
	hint := "it has " + listed(all)
	if near := shield.Nearest(t.Method, all); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	if m.kind == kindClient {
		b.s.rt.count.handlerMissing.Add(1)
		return shield.Errorf(shield.RPCHandlerMissing, "%s has no handler %s for the client's %s (%s)", b.s.label(), t.Method, m.route, hint)
	}
	return shield.Errorf(shield.MethodNotFound, "%s has no method %s (%s)", b.s.label(), t.Method, hint)
}

func (b *luaBody) methods() []string {
	var all []string
	b.module.ForEach(func(k, v lua.LValue) {
		name, ok := k.(lua.LString)
		if _, isFn := v.(*lua.LFunction); ok && isFn && !strings.HasPrefix(string(name), "on_") {
			all = append(all, string(name))
		}
	})
	return sorted(all)
}

func (b *luaBody) has(hook string) bool {
	if b.module == nil {
		return false
	}
	_, ok := b.module.RawGetString(hook).(*lua.LFunction)
	return ok
}

// hook calls a hook of the script inside the turn that failed, with the turn's
// trace. What it throws is logged and goes no further.
func (b *luaBody) hook(k *worker, t *Turn, name string, args ...lua.LValue) {
	fn, ok := b.module.RawGetString(name).(*lua.LFunction)
	if !ok {
		return
	}
	h := &Turn{s: b.s, begun: b.s.now(), Kind: t.Kind, Method: name, sender: t.sender, trace: t.Trace()}
	b.s.inflight++
	b.s.turn.Store(h)
	_, rerr := b.vm.Run(k.take(b.s.rt), luavm.Call{Fn: fn, Args: args, Data: h, Name: name})
	if !b.s.end(k, h) || rerr == nil {
		return
	}
	if _, killed := rerr.Reason.(killedTurn); !killed {
		b.s.report(h, b.runError(name, rerr))
	}
}

func (b *luaBody) onError(k *worker, t *Turn, err *shield.Error) {
	b.hook(k, t, "on_error", b.s.rt.cfg.API.Error(err), b.errorContext(t))
}

// errorContext is the context that on_error gets.
func (b *luaBody) errorContext(t *Turn) *lua.LTable {
	c := (*lua.LState)(nil).CreateTable(0, 3)
	c.RawSetString("type", lua.LString(t.Kind.String()))
	c.RawSetString("trace", lua.LString(t.Trace().String()))
	switch {
	case t.Method == "":
	case t.Kind == TurnEvent:
		c.RawSetString("event", lua.LString(t.Method))
	default:
		c.RawSetString("method", lua.LString(t.Method))
	}
	return c
}

func (b *luaBody) onPanic(k *worker, t *Turn, kind, reason string) {
	if b.module == nil || k.lost {
		return
	}
	c := (*lua.LState)(nil).CreateTable(0, 1)
	c.RawSetString("type", lua.LString(kind))
	b.hook(k, t, "on_panic", lua.LString(reason), c)
}

func (b *luaBody) tidy() *shield.Error {
	u, ok := b.vm.Tidy()
	if !ok {
		return nil
	}
	b.s.memory.Store(u.Bytes)
	if u.Over(b.s.lim.MaxMemory) {
		return shield.Errorf(shield.MemoryLimit, "%s holds about %d MiB (limits.max_memory is %d MiB)", b.s.label(), u.Bytes>>20, b.s.lim.MaxMemory>>20)
	}
	return nil
}

func (b *luaBody) close() { b.vm.Close() }

// roots visits what the service holds for its script.
func (b *luaBody) roots(visit func(lua.LValue)) {
	if b.module != nil {
		visit(b.module)
	}
	for _, ls := range b.listeners {
		for _, l := range ls {
			visit(l.fn)
		}
	}
	for _, sc := range b.sessions {
		visit(sc.env)
	}
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timers.byID {
		if t.fn != nil {
			visit(t.fn)
		}
	}
	for i := range s.box.n {
		if m := s.box.at(i); m.job != nil && m.fn != nil {
			visit(m.fn)
		}
	}
}

// context makes the ctx of a turn.
func (b *luaBody) context(t *Turn) lua.LValue {
	t.Userdata.Value, t.Userdata.Metatable = t, b.s.rt.cfg.API.Context
	return &t.Userdata
}

func (b *luaBody) client(t *Turn, ref shield.ClientRef) lua.LValue {
	return &lua.LUserData{Value: &Client{Ref: ref, Turn: t}, Metatable: b.s.rt.cfg.API.Client}
}

func (b *luaBody) intern(p *value.Payload) {
	if p.Refs() {
		p.Intern(b.internRef)
	}
}

// internRef finds the one userdata of this VM for a handle or client ref.
func (b *luaBody) internRef(u *lua.LUserData) *lua.LUserData {
	return b.vm.Intern(u.Value, func() *lua.LUserData {
		n := &lua.LUserData{Value: u.Value, Metatable: b.s.rt.cfg.API.Handle}
		if _, ok := u.Value.(shield.ClientRef); ok {
			n.Metatable = b.s.rt.cfg.API.ClientRef
		}
		return n
	})
}

// Ref makes the Lua form of a handle or client ref in this service's VM.
func (s *Service) Ref(v any) lua.LValue {
	return s.body.(*luaBody).internRef(&lua.LUserData{Value: v})
}

// InternPayload makes handles and client refs of p the service's own values.
func (s *Service) InternPayload(p *value.Payload) { s.body.(*luaBody).intern(p) }

// CopyError counts what Copy refused.
func (s *Service) CopyError(err error) *shield.Error {
	e := shield.AsError(err, shield.EncodeFailed)
	if e.Code == shield.MessageTooLarge {
		s.rt.count.messageTooLarge.Add(1)
	}
	return e
}

// checkSize is for values that did not come through Copy.
func (s *Service) checkSize(p *value.Payload) error {
	if n := p.Measure(); n > s.lim.MaxMessageSize {
		s.rt.count.messageTooLarge.Add(1)
		return shield.Errorf(shield.MessageTooLarge, "the values take %d bytes (limits.max_message_size is %d)", n, s.lim.MaxMessageSize)
	}
	return nil
}

// runError makes a caller's error of a turn's.
func (b *luaBody) runError(name string, e *luavm.RunError) *shield.Error {
	switch r := e.Reason.(type) {
	case killedTurn:
		return b.s.deadError()
	case panicTurn:
		return &shield.Error{Code: shield.HandlerError, Message: "panic: " + r.reason, Detail: e.Traceback, Err: panicked(r)}
	}
	switch e.Kind {
	case luavm.KindPanic:
		b.s.rt.count.panics.Add(1)
	case luavm.KindOverflow:
		b.s.rt.count.stackOverflow.Add(1)
	}
	err := &shield.Error{Code: e.Kind.Code(), Message: thrown(e), Err: e}
	if e.Traceback != "" {
		err.Detail = e.Traceback
	}
	return err
}

// loadError makes script_load_failed of what Load said.
func loadError(script string, err error) *shield.Error {
	var se *luavm.ScriptError
	var re *luavm.RunError
	switch {
	case errors.As(err, &se):
		e := shield.Errorf(shield.ScriptLoadFailed, "%w", err)
		if se.SourceLine != "" {
			e.Detail = se.Excerpt()
		}
		return e
	case errors.As(err, &re):
		return &shield.Error{Code: shield.ScriptLoadFailed, Message: thrown(re), Detail: re.Traceback, Err: re}
	}
	return shield.Errorf(shield.ScriptLoadFailed, "%s: %w", script, err)
}

// thrown is the message of a failed turn. A table that says nothing a person
// could read as a message is shown as it is.
func thrown(e *luavm.RunError) string {
	t, ok := e.Value.(*lua.LTable)
	if !ok {
		return e.Message
	}
	for _, field := range []string{"message", "code"} {
		if s, ok := t.RawGetString(field).(lua.LString); ok && s != "" {
			return e.Message
		}
	}
	return textOf(t)
}

// textOf is a thrown or returned value as a text.
func textOf(v lua.LValue) string {
	t, ok := v.(*lua.LTable)
	if !ok {
		return v.String()
	}
	if msg := t.RawGetString("message"); msg != lua.LNil {
		if code := t.RawGetString("code"); code != lua.LNil {
			return code.String() + ": " + msg.String()
		}
		return msg.String()
	}
	return value.Text(v)
}

// emptied makes a buffer ready for the next turn. One that has become big is not
// kept: there are hundreds of workers.
func emptied(buf []lua.LValue) []lua.LValue {
	const keep = 256
	if cap(buf) > keep {
		return nil
	}
	clear(buf)
	return buf[:0]
}

// take gives the worker a Lua stack for as long as it works.
func (k *worker) take(r *Runtime) *luavm.Hand {
	if k.hand == nil {
		k.hand = r.world.Take()
	}
	return k.hand
}

// give returns the stack.
func (k *worker) give() {
	if k.hand != nil {
		k.hand.Give()
		k.hand = nil
	}
}

// onStuck is the watcher's call for a turn that ignores its abort.
func (r *Runtime) onStuck(vm *luavm.VM, e *luavm.RunError) {
	s, ok := vm.Owner().(*Service)
	if !ok {
		return
	}
	// A turn that has just begun is another one: the stuck one ended after all.
	if t := s.turn.Load(); t != nil && s.now()-t.begun >= int64(r.cfg.Lua.StuckAfter) {
		s.wedge(t, &shield.Error{Code: e.Kind.Code(), Message: e.Message, Detail: e.Traceback})
	}
}
