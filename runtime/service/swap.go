package service

import (
	"context"
	"errors"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// Loaded is one service in Lua and the files it runs.
type Loaded struct {
	ID     shield.ServiceID
	Name   shield.Name // "" for one without a name
	Module shield.Name // of its Spec
	Script string
	Paths  []string // the script's and those of every module it requires
	Code   Code
	Err    error // why Paths is not known: it did not come to rest in time
}

// Loaded lists the services in Lua that run, by id, with their files. Each is
// asked between two turns, and waited for as long as patience.
func (r *Runtime) Loaded(ctx context.Context, patience time.Duration) []Loaded {
	var all []Loaded
	for _, s := range r.reg.services() {
		b, ok := s.body.(*luaBody)
		if !ok {
			continue
		}
		l := Loaded{ID: s.handle.ID, Name: s.name, Module: s.spec.Name, Script: s.spec.Script}
		asking, cancel := context.WithTimeout(ctx, patience)
		l.Err = s.inside(asking, func(*worker) {
			for _, m := range b.vm.Modules() {
				l.Paths = append(l.Paths, m.Path)
			}
		})
		cancel()
		if errors.Is(l.Err, shield.ServiceDead) {
			continue
		}
		l.Code = s.Code()
		all = append(all, l)
	}
	return all
}

// Swapping is a service that stands still between two turns.
type Swapping struct {
	s *Service
	b *luaBody
	k *worker
}

// Service is the one that stands still.
func (w *Swapping) Service() *Service { return w.s }

// VM is its VM.
func (w *Swapping) VM() *luavm.VM { return w.b.vm }

// Hand is a Lua stack to run things with.
func (w *Swapping) Hand() *luavm.Hand { return w.k.take(w.s.rt) }

// Module is the table that its script returned; SetModule puts another in its
// place.
func (w *Swapping) Module() *lua.LTable { return w.b.module }

// SetModule makes t the table of the service's methods.
func (w *Swapping) SetModule(t *lua.LTable) { w.b.module = t }

// Functions passes every function that the runtime holds for the service
// (timers, forks that have not begun, event listeners) through replace and
// keeps what that returns.
func (w *Swapping) Functions(replace func(*lua.LFunction) *lua.LFunction) {
	for _, ls := range w.b.listeners {
		for i := range ls {
			ls[i].fn = replace(ls[i].fn)
		}
	}
	for _, sc := range w.b.sessions {
		sc.replace(replace)
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timers.byID {
		if t.fn != nil {
			t.fn = replace(t.fn)
		}
	}
	for i := range s.box.n {
		if m := s.box.at(i); m.job != nil && m.fn != nil {
			m.fn = replace(m.fn)
		}
	}
}

// Swap runs do while the service stands between two turns. When it returns nil
// the service's generation rises, its code hash is taken anew, and on_reload
// runs as its next turn if the script has it.
func (r *Runtime) Swap(ctx context.Context, id shield.ServiceID, do func(*Swapping) error) error {
	s, err := r.service(id)
	if err != nil {
		return err
	}
	b, ok := s.body.(*luaBody)
	if !ok {
		return shield.Errorf(shield.InvalidTarget, "%s is a service in Go: its code can't be swapped", s.label())
	}
	var failed error
	ierr := s.inside(ctx, func(k *worker) {
		if !s.inited {
			failed = shield.Errorf(shield.SpawnFailed, "%s is still in on_init: its code can't be swapped yet", s.label())
			return
		}
		if failed = do(&Swapping{s: s, b: b, k: k}); failed != nil {
			return
		}
		s.code.Store(&Code{Generation: s.Code().Generation + 1, Hash: b.vm.CodeHash()})
		if b.has("on_reload") {
			args, aerr := b.initArgs()
			if aerr != nil {
				failed = aerr
				return
			}
			m := message{kind: kindTurn, trace: r.newTrace(), job: &job{as: TurnReload, hook: "on_reload"}}
			m.args.Add(args)
			s.mu.Lock()
			s.box.pushFront(&m)
			s.mu.Unlock()
		}
	})
	if ierr != nil {
		return ierr
	}
	return failed
}
