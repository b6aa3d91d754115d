package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shield/runtime/shield"
)

// Down is a service of the services block that should run and does not.
type Down struct {
	Name   shield.Name // its own: "room.2" where the block asks for several
	Module shield.Name // of its Spec
	Script string
	ID     shield.ServiceID // of the incarnation that failed; 0 = it has ended and left nothing
	Why    string           // "" for one that has ended in good order
}

// Down lists the services of the block that have failed for good, or have ended
// and are not there any more, in the order of their names.
func (r *Runtime) Down() []Down {
	there := make(map[shield.Name]*Service)
	for _, s := range r.reg.services() {
		if s.name != "" {
			there[s.name] = s
		}
	}
	r.mu.Lock()
	specs := slices.Collect(maps.Values(r.specs))
	r.mu.Unlock()
	var all []Down
	for _, spec := range specs {
		for i := range spec.Instances {
			d := Down{Name: spec.instance(i), Module: spec.Name, Script: spec.Script}
			if s := there[d.Name]; s != nil {
				if !s.failedForGood() {
					continue
				}
				d.ID, d.Why = s.handle.ID, s.reason()
			}
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b Down) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// StartAgain starts a service that Down lists, afresh and with a new id, and
// returns when its on_init has. One that fails again leaves one row, as before.
func (r *Runtime) StartAgain(ctx context.Context, name shield.Name) (shield.Handle, error) {
	all := r.Down()
	i := slices.IndexFunc(all, func(d Down) bool { return d.Name == name })
	if i < 0 {
		return shield.Handle{}, shield.Errorf(shield.NameConflict, "start %s: it runs, or is about to; restart it instead", name)
	}
	r.mu.Lock()
	spec := r.specs[all[i].Module]
	r.mu.Unlock()
	if spec == nil {
		return shield.Handle{}, shield.Errorf(shield.ServiceNotFound, "start %s: shield.yaml no longer has %s", name, all[i].Module)
	}
	s, err := r.begin(ctx, spec, name, r.reg.find(all[i].ID))
	if err != nil {
		return shield.Handle{}, err
	}
	return s.handle, nil
}

// startAll is Start for a node that runs: what fails does not keep the others
// from starting. It returns the names of the specs that run now.
func (r *Runtime) startAll(ctx context.Context, specs []Spec) (started []shield.Name, err error) {
	order, err := r.admit(specs)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, spec := range order {
		ok := true
		for i := range spec.Instances {
			name := spec.instance(i)
			if _, err := r.begin(ctx, spec, name, nil); err != nil {
				ok = false
				errs = append(errs, fmt.Errorf("start %s: %w", name, err))
			}
		}
		if ok {
			started = append(started, spec.Name)
		}
	}
	slices.Sort(started)
	return started, errors.Join(errs...)
}

// instance is the name of the spec's i-th service, from 0.
func (s *Spec) instance(i int) shield.Name {
	if s.Instances == 1 {
		return s.Name
	}
	return shield.Name(fmt.Sprintf("%s.%d", s.Name, i+1))
}

// failedForGood reports whether nothing but a person will start s again.
func (s *Service) failedForGood() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseEnded && s.fate == shield.Failed
}

// reason is why s ends or has ended: a word, and what was behind it.
func (s *Service) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending.text()
}

func (e *ending) text() string {
	if e.why == "" {
		return e.reason
	}
	line, _, _ := strings.Cut(e.why, "\n")
	return e.reason + ": " + line
}
