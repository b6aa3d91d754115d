package reload

import (
	"context"
	"slices"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
)

// This file is what people ask for by hand: going back, and starting afresh.

// Undo puts back what the last round swapped, or the last swap of the named
// services.
func (rl *Reloader) Undo(ctx context.Context, names ...shield.Name) []Result {
	rl.round.Lock()
	defer rl.round.Unlock()
	began := time.Now()
	var results []Result
	rl.each(ctx, func(t *target, k targetKey, l *service.Loaded) {
		if !named(l, names) || len(names) == 0 && !slices.Contains(rl.last, k) {
			return
		}
		c := &change{t: t, key: k, name: label(l), from: l.Code}
		runs := map[string]string{}
		var lost []string
		var warnings []string
		err := rl.within(ctx, func(ctx context.Context) error {
			return t.turn(ctx, func(w *service.Swapping) error {
				out, gone, err := t.undo(w)
				if err != nil {
					return err
				}
				lost, warnings = gone, out.Warnings
				for _, m := range w.VM().Modules() {
					runs[m.Path] = m.Code.Source
				}
				return nil
			})
		})
		c.paths = t.changed
		if err != nil {
			results = append(results, c.result(Failed, err))
			return
		}
		rl.hold(t.changed, runs)
		r := c.result(Undone, nil)
		now := t.last.Code()
		r.To, r.Code, r.Lost, r.Warnings = now.Generation, now.Hash, lost, warnings
		results = append(results, r)
	})
	rl.last = nil
	sortResults(results)
	took := time.Since(began)
	for _, outcome := range []string{Undone, Failed} { // a service that could not go back is another story
		rl.tell(slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Outcome != outcome }), took)
	}
	return results
}

// hold makes paths run what runs has, until their content changes on disk.
func (rl *Reloader) hold(paths []string, runs map[string]string) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for _, p := range paths {
		if f := rl.disk.File(p); f != nil {
			rl.held[p] = f.Hash
			rl.runs[p] = runs[p]
		}
	}
}

// Restart starts the named services afresh with what is on disk: their state is
// gone.
func (rl *Reloader) Restart(ctx context.Context, names ...shield.Name) []Result {
	rl.round.Lock()
	defer rl.round.Unlock()
	var results []Result
	rl.each(ctx, func(t *target, k targetKey, l *service.Loaded) {
		if len(names) == 0 || !named(l, names) {
			return
		}
		rl.mu.Lock()
		for _, p := range l.Paths {
			delete(rl.runs, p)
			delete(rl.held, p)
		}
		rl.mu.Unlock()
		c := &change{t: t, key: k, name: label(l), from: l.Code, paths: l.Paths}
		h, err := t.node.Runtime.Restart(ctx, l.ID, "reload --restart")
		if err != nil {
			results = append(results, c.result(Failed, rl.startProblem(l.Script, err)))
			return
		}
		rl.fresh(k)
		r := c.result(Restarted, nil)
		r.ID, r.To, r.Code = h.ID, 1, codeOf(t.node, h.ID)
		results = append(results, r)
	})
	results = append(results, rl.startNamed(ctx, names)...)
	sortResults(results)
	return results
}
