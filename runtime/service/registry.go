package service

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"shield/runtime/shield"
)

// registry knows the services of the node by id, and who has published or
// reserved which name. Its lock is a leaf; changes of published names are told
// to OnName in their order, after the lock is released.
type registry struct {
	onName func(shield.Name, shield.ServiceID, bool)

	mu        sync.RWMutex
	last      shield.ServiceID
	byID      map[shield.ServiceID]*Service
	callsGone int64 // that services handled which are in byID no more
	names     map[shield.Name]*Service
	reserved  map[shield.Name]*Service // published soon, if on_init succeeds
	version   uint64                   // of names
	told      []nameChange             // not told yet
	telling   bool
	closed    bool
}

type nameChange struct {
	name      shield.Name
	id        shield.ServiceID
	published bool
}

func newRegistry(onName func(shield.Name, shield.ServiceID, bool)) *registry {
	return &registry{
		onName:   onName,
		byID:     make(map[shield.ServiceID]*Service),
		names:    make(map[shield.Name]*Service),
		reserved: make(map[shield.Name]*Service),
	}
}

func (r *registry) lookup(name shield.Name) *Service {
	r.mu.RLock()
	s := r.names[name]
	r.mu.RUnlock()
	return s
}

func (r *registry) find(id shield.ServiceID) *Service {
	r.mu.RLock()
	s := r.byID[id]
	r.mu.RUnlock()
	return s
}

// next is a new id.
func (r *registry) next() shield.ServiceID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return r.last
}

// add makes s known, complete as it is, and, unless it has no name, reserves
// that. from is the incarnation that s follows, or nil.
func (r *registry) add(s, from *Service) *shield.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return shield.Errorf(shield.RuntimeStopping, "the node is stopping and starts nothing new")
	}
	if s.name != "" {
		if from != nil && r.reserved[s.name] == from {
			delete(r.reserved, s.name)
		}
		if err := r.free(s.name, s); err != nil {
			return err
		}
		r.reserved[s.name] = s
	}
	if from != nil {
		r.forgetLocked(from)
	}
	r.byID[s.handle.ID] = s
	return nil
}

// close refuses everything new from now on.
func (r *registry) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

// free says why name can't be taken by s, or nil. The caller holds the lock.
func (r *registry) free(name shield.Name, s *Service) *shield.Error {
	if h := r.names[name]; h != nil && h != s {
		return shield.Errorf(shield.NameConflict, "name %q is published by service %s (%s)", name, h.handle, h.spec.Name)
	}
	if h := r.reserved[name]; h != nil && h != s {
		return shield.Errorf(shield.NameConflict, "name %q is reserved by service %s (%s), which is starting", name, h.handle, h.spec.Name)
	}
	return nil
}

// publish makes name lead to s.
func (r *registry) publish(name shield.Name, s *Service) *shield.Error {
	r.mu.Lock()
	if err := r.free(name, s); err != nil {
		r.mu.Unlock()
		return err
	}
	delete(r.reserved, name)
	if r.names[name] != s {
		r.names[name] = s
		s.names = append(s.names, name)
		r.changed(name, s, true)
	}
	r.mu.Unlock()
	r.tell()
	return nil
}

// withdraw takes one name back; false when s does not publish it.
func (r *registry) withdraw(name shield.Name, s *Service) bool {
	r.mu.Lock()
	ok := r.names[name] == s
	if ok {
		delete(r.names, name)
		s.names = slices.DeleteFunc(s.names, func(n shield.Name) bool { return n == name })
		r.changed(name, s, false)
	}
	r.mu.Unlock()
	r.tell()
	return ok
}

// withdrawAll takes all names of s back. keep leaves its own name reserved for
// the next incarnation.
func (r *registry) withdrawAll(s *Service, keep bool) {
	r.mu.Lock()
	for _, name := range s.names {
		delete(r.names, name)
		r.changed(name, s, false)
	}
	s.names = nil
	switch {
	case s.name == "":
	case keep:
		r.reserved[s.name] = s
	case r.reserved[s.name] == s:
		delete(r.reserved, s.name)
	}
	r.mu.Unlock()
	r.tell()
}

// release gives the reservation of s up; s itself stays known.
func (r *registry) release(s *Service) {
	r.mu.Lock()
	if r.reserved[s.name] == s {
		delete(r.reserved, s.name)
	}
	r.mu.Unlock()
}

// remove forgets s and its reservation.
func (r *registry) remove(s *Service) {
	r.mu.Lock()
	if r.reserved[s.name] == s {
		delete(r.reserved, s.name)
	}
	r.forgetLocked(s)
	r.mu.Unlock()
}

func (r *registry) forgetLocked(s *Service) {
	if r.byID[s.handle.ID] == s {
		delete(r.byID, s.handle.ID)
		r.callsGone += s.count.calls.Load()
	}
}

// calls is how many all services have handled, also those that are gone.
func (r *registry) calls() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n := r.callsGone
	for _, s := range r.byID {
		n += s.count.calls.Load()
	}
	return n
}

func (r *registry) changed(name shield.Name, s *Service, published bool) {
	r.version++
	if r.onName != nil {
		r.told = append(r.told, nameChange{name, s.handle.ID, published})
	}
}

// tell passes changes on until none is left. Only one goroutine does so at a
// time; the others leave theirs to it.
func (r *registry) tell() {
	for {
		r.mu.Lock()
		if r.telling || len(r.told) == 0 {
			r.mu.Unlock()
			return
		}
		batch := r.told
		r.told, r.telling = nil, true
		r.mu.Unlock()
		for _, c := range batch {
			r.onName(c.name, c.id, c.published)
		}
		r.mu.Lock()
		r.telling = false
		r.mu.Unlock()
	}
}

// services lists all services by id.
func (r *registry) services() []*Service {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.byID))
	r.mu.RUnlock()
	sort.Slice(all, func(i, j int) bool { return all[i].handle.ID < all[j].handle.ID })
	return all
}

// newestFirst lists all services in the reverse of the order they were first
// started in, restarts disregarded.
func (r *registry) newestFirst() []*Service {
	all := r.services()
	sort.SliceStable(all, func(i, j int) bool { return all[i].start.order > all[j].start.order })
	return all
}

func (r *registry) published() (rows []Published, version uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	rows = make([]Published, 0, len(r.names))
	for name, s := range r.names {
		rows = append(rows, Published{Node: s.handle.Node, Name: name, Handle: s.handle})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Name < rows[j].Name })
	return rows, r.version
}

// known lists published names for an error text.
func (r *registry) known() []string {
	rows, _ := r.published()
	names := make([]string, len(rows))
	for i, p := range rows {
		names[i] = string(p.Name)
	}
	return names
}

// listed joins what is known for an error text, no more than a line of it.
func listed(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
