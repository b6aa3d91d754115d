package service

import (
	"slices"
	"sort"

	"shield/runtime/shield"
)

// Lookup finds a published name of this node.
func (r *Runtime) Lookup(name shield.Name) (shield.Handle, bool) {
	if s := r.reg.lookup(name); s != nil {
		return s.handle, true
	}
	return shield.Handle{}, false
}

// Names lists the published names, sorted. Version rises with every change.
func (r *Runtime) Names() (rows []Published, version uint64) { return r.reg.published() }

// Valid reports whether a message to h would find a service, as far as this
// node knows.
func (r *Runtime) Valid(h shield.Handle) bool {
	if h.Node == r.cfg.Node {
		s, _, err := r.resolveHandle(h)
		return err == nil && !s.isEnding()
	}
	if r.cfg.Remote == nil {
		return false
	}
	for _, n := range r.cfg.Remote.Nodes() {
		if n.Node == h.Node {
			return n.Epoch == h.Epoch && n.State == shield.Online
		}
	}
	return false
}

// Names are what the service publishes.
func (s *Service) Names() []shield.Name {
	s.rt.reg.mu.RLock()
	names := slices.Clone(s.names)
	s.rt.reg.mu.RUnlock()
	slices.Sort(names)
	return names
}

// Register publishes one more name, for the service itself or, with a handle,
// for another live one of this node.
func (s *Service) Register(name shield.Name, h shield.Handle) *shield.Error {
	if err := shield.CheckPublicName(string(name)); err != nil {
		return shield.AsError(err, shield.InvalidName)
	}
	who := s
	if !h.IsZero() && h != s.handle {
		if h.Node != s.rt.cfg.Node {
			return shield.Errorf(shield.RegisterFailed, "%q: %s is on another node, and a node publishes its own services only", name, h)
		}
		other, _, err := s.rt.resolveHandle(h)
		if err != nil {
			return shield.Errorf(shield.RegisterFailed, "%q: %s", name, err.Message)
		}
		who = other
	}
	who.mu.Lock()
	phase := who.phase
	who.mu.Unlock()
	if phase >= phaseEnding {
		return shield.Errorf(shield.RegisterFailed, "%q: %s has ended", name, who.label())
	}
	if err := s.rt.reg.publish(name, who); err != nil {
		return err
	}
	if who != s && who.isEnding() { // it ended between the two: nothing of it may stay
		s.rt.reg.withdraw(name, who)
		return shield.Errorf(shield.RegisterFailed, "%q: %s has ended", name, who.label())
	}
	return nil
}

// Unregister withdraws a name that leads to the service.
func (s *Service) Unregister(name shield.Name) *shield.Error {
	if s.rt.reg.withdraw(name, s) {
		return nil
	}
	if other := s.rt.reg.lookup(name); other != nil {
		return shield.Errorf(shield.UnregisterFailed, "%q belongs to %s", name, other.label())
	}
	return shield.Errorf(shield.UnregisterFailed, "%q is not published here", name)
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}

// NamesVersion rises with every change of the published names.
func (r *Runtime) NamesVersion() uint64 {
	r.reg.mu.RLock()
	defer r.reg.mu.RUnlock()
	return r.reg.version
}
