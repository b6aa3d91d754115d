package service

import (
	"context"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// Count is how many services the node has.
func (r *Runtime) Count() int {
	r.reg.mu.RLock()
	defer r.reg.mu.RUnlock()
	return len(r.reg.byID)
}

// NameOf finds a name that a service of this node publishes: the one it was
// started under if that is published, else the first.
func (r *Runtime) NameOf(h shield.Handle) (shield.Name, bool) {
	s := r.reg.find(h.ID)
	if s == nil || s.handle != h {
		return "", false
	}
	names := s.Names()
	for _, n := range names {
		if n == s.name {
			return n, true
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return names[0], true
}

// Methods lists what may be called on a service of this node, sorted. It waits
// for the end of the turn that runs.
func (r *Runtime) Methods(ctx context.Context, name shield.Name) ([]string, error) {
	s := r.reg.lookup(name)
	if s == nil {
		return nil, r.notFound(name)
	}
	b, ok := s.body.(*luaBody)
	if !ok {
		return nil, nil // a Go service answers to whatever it likes
	}
	var all []string
	err := s.inside(ctx, func(*worker) {
		if b.module != nil {
			all = b.methods()
		}
	})
	if err != nil {
		return nil, err // and all belongs to a visit that may be under way
	}
	return all, nil
}

// ModuleMethods lists the methods of a module, an entry of the services block or
// a script, without starting it: its script is loaded in a scratch VM whose
// shield.* does nothing to anybody.
func (r *Runtime) ModuleMethods(module shield.Name) ([]string, error) {
	spec, serr := r.spec(string(module))
	if serr != nil {
		return nil, serr
	}
	return r.methodsOf(spec)
}

// SpecMethods is ModuleMethods for a module that this Runtime was not told of.
func (r *Runtime) SpecMethods(spec Spec) ([]string, error) { return r.methodsOf(&spec) }

func (r *Runtime) methodsOf(spec *Spec) ([]string, error) {
	if spec.Script == "" {
		return nil, nil // a Go service answers to whatever it likes
	}
	nobody := &Service{rt: r, spec: spec, name: spec.Name, handle: shield.Handle{Node: r.cfg.Node, Epoch: r.cfg.Epoch}, lim: spec.Limits.or(r.limits)}
	vm := r.world.NewVM(luavm.VMConfig{Inert: true, Owner: nobody})
	defer vm.Close()
	h := r.world.Take()
	defer h.Give()
	m, err := vm.Load(h, spec.Script, nil)
	if err != nil {
		return nil, err
	}
	t, ok := m.Value.(*lua.LTable)
	if !ok {
		return nil, shield.Errorf(shield.InvalidServiceModule, "%s returned a %s, not a table of methods: end it with `return M`", spec.Script, m.Value.Type())
	}
	return (&luaBody{module: t}).methods(), nil
}
