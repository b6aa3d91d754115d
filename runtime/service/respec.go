package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"shield/runtime/shield"
)

// Respecced says what Respec did, by the names of the specs.
type Respecced struct {
	Restarted []shield.Name
	Started   []shield.Name
	Stopped   []shield.Name
	// Later specs are only there to be spawned: the services that live keep what
	// they were spawned with, the next ones take the new spec.
	Later []shield.Name
}

// None reports that nothing differed.
func (d Respecced) None() bool {
	return len(d.Restarted)+len(d.Started)+len(d.Stopped)+len(d.Later) == 0
}

// Respec makes next the services block: those that differ end in good order and
// start afresh, the others do not notice. Those that depend on others are seen to
// after them. One whose new spec does not start is started again with the old
// one, and the error says so.
func (r *Runtime) Respec(ctx context.Context, next []Spec) (d Respecced, err error) {
	order, err := inOrder(next)
	if err != nil {
		return d, err
	}
	r.mu.Lock()
	old := make(map[shield.Name]*Spec, len(r.specs))
	for name, spec := range r.specs {
		old[name] = spec
	}
	r.mu.Unlock()
	var errs []error
	for _, spec := range order {
		spec := *spec
		was := old[spec.Name]
		delete(old, spec.Name)
		switch {
		case was == nil:
			started, err := r.startAll(ctx, []Spec{spec})
			d.Started, errs = append(d.Started, started...), append(errs, err)
		case spec.Go != nil && was.Go != nil || reflect.DeepEqual(*was, spec): // functions can't be compared
		case was.Instances == 0 && spec.Instances == 0:
			r.setSpec(spec)
			d.Later = append(d.Later, spec.Name)
		default:
			if err := r.replace(ctx, *was, spec); err != nil {
				errs = append(errs, err)
			} else {
				d.Restarted = append(d.Restarted, spec.Name)
			}
		}
	}
	for name := range old {
		errs = append(errs, r.withdraw(ctx, name))
		d.Stopped = append(d.Stopped, name)
	}
	slices.Sort(d.Started)
	slices.Sort(d.Stopped)
	return d, errors.Join(errs...)
}

// inOrder puts a whole services block into the order of depends_on.
func inOrder(specs []Spec) ([]*Spec, error) {
	o := orderer{added: make(map[shield.Name]*Spec, len(specs)), state: make(map[shield.Name]int)}
	for i := range specs {
		if o.added[specs[i].Name] != nil {
			return nil, twice(specs[i].Name)
		}
		o.added[specs[i].Name] = &specs[i]
	}
	for i := range specs {
		if err := o.visit(specs[i].Name, nil); err != nil {
			return nil, err
		}
	}
	return o.order, nil
}

func (r *Runtime) setSpec(spec Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs[spec.Name] = &spec
}

// replace ends what old started and starts next instead.
func (r *Runtime) replace(ctx context.Context, old, next Spec) error {
	failed := r.hasFailed(old.Name)
	if err := r.withdraw(ctx, old.Name); err != nil {
		return err
	}
	if failed { // there is nothing to go back to
		_, err := r.startAll(ctx, []Spec{next})
		return err
	}
	err := r.Start(ctx, []Spec{next})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w; %s goes on with what shield.yaml said before", err, old.Name)
	return errors.Join(err, r.withdraw(ctx, old.Name), r.Start(ctx, []Spec{old}))
}

// hasFailed reports whether a service that the block started under name has
// failed for good.
func (r *Runtime) hasFailed(name shield.Name) bool {
	return slices.ContainsFunc(r.Down(), func(d Down) bool { return d.Module == name && d.ID != 0 })
}

// withdraw ends the services that the block started under name, in good order,
// and forgets it. What was spawned from it lives on.
func (r *Runtime) withdraw(ctx context.Context, name shield.Name) error {
	var errs []error
	for _, s := range r.reg.services() {
		if s.spec.Name != name || !s.start.static {
			continue
		}
		errs = append(errs, s.shutDown(ctx, "shield.yaml changed"))
		errs = append(errs, s.stop(ctx, ending{reason: "shield.yaml changed", stop: true}))
		if s.failedForGood() { // its row was kept so that somebody sees it
			r.reg.remove(s)
		}
	}
	r.mu.Lock()
	delete(r.specs, name)
	r.mu.Unlock()
	return errors.Join(errs...)
}
