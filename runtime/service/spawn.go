package service

import (
	"strings"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// SpawnRequest asks for a new service.
type SpawnRequest struct {
	Module  string // a name from the services block, or a script's path
	Name    shield.Name
	Args    *value.Payload // one value; nil for none
	Timeout time.Duration  // 0 = limits.spawn_timeout, within the deadline of the turn
}

// Spawn starts a service and waits until its on_init has returned.
func (s *Service) Spawn(L *lua.LState, req SpawnRequest) (shield.Handle, *shield.Error) {
	var none shield.Handle
	if err := s.maySuspend(waitSpawn); err != nil {
		return none, err
	}
	spec, err := s.rt.spec(req.Module)
	if err != nil {
		return none, err
	}
	now := s.now()
	deadline := later(now, req.Timeout)
	if req.Timeout <= 0 {
		deadline = now + int64(s.lim.SpawnTimeout)
		if t := s.turn.Load(); t.deadline != 0 {
			deadline = min(deadline, t.deadline)
		}
	}
	w := s.newWait(waitSpawn, deadline)
	w.to, w.method, w.since = Target{Name: req.Module}, "on_init", now
	gen := w.gen()
	st := startup{trace: s.trace(), begun: func(child *Service, err *shield.Error) {
		if !s.answerWith(w, gen, func() { w.handle = child.handle }, err) {
			child.endWith(ending{reason: "spawn_timeout", stop: true})
		}
	}}
	if req.Args != nil {
		st.args = value.Append(nil, req.Args)
	}
	child, err := s.rt.spawn(spec, req.Name, st)
	if err != nil {
		s.freeWait(w)
		return none, err
	}
	w.callee = child
	child.launch()
	s.await(L, w)
	h, err := w.handle, w.err
	if w.expired {
		child.endWith(ending{failed: true, reason: "spawn_timeout", stop: true})
		s.rt.reg.release(child) // the name is free at once, whatever the child is doing
		err = shield.Errorf(shield.SpawnTimeout, "spawn %s: on_init has not returned within %s; the late service is ended",
			req.Module, time.Duration(deadline-now).Round(time.Millisecond))
	}
	s.freeWait(w)
	if err != nil {
		return none, err
	}
	return h, nil
}

// spawn makes a service that launch will start.
func (r *Runtime) spawn(spec *Spec, name shield.Name, st startup) (*Service, *shield.Error) {
	if r.draining.Load() || r.stopping.Load() {
		return nil, shield.Errorf(shield.RuntimeStopping, "%s is stopping and starts nothing new", r.cfg.Node)
	}
	if name != "" {
		if err := shield.CheckPublicName(string(name)); err != nil {
			return nil, shield.AsError(err, shield.InvalidName)
		}
	}
	return r.create(spec, name, st, nil)
}

// spec finds what module stands for: an entry of the services block, else a
// script.
func (r *Runtime) spec(module string) (*Spec, *shield.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if spec := r.specs[shield.Name(module)]; spec != nil {
		return spec, nil
	}
	if strings.HasSuffix(module, ".lua") {
		return &Spec{Name: shield.Name(module), Script: module, Restart: Restart{Policy: RestartNever}}, nil
	}
	var all []string
	for name := range r.specs {
		all = append(all, string(name))
	}
	sorted(all)
	if near := shield.Nearest(module, all); near != "" {
		return nil, shield.Errorf(shield.InvalidServiceModule, "no module %q (did you mean %q? known: %s)", module, near, listed(all))
	}
	return nil, shield.Errorf(shield.InvalidServiceModule, "no module %q: want a name from the services block (known: %s) or the path of a .lua script", module, listed(all))
}
