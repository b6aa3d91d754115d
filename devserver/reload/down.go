package reload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shield/devserver/watch"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// This file is about services that do not run: there is no live code to swap,
// so what is on disk is simply started.

// startTime bounds how long one service may take to start; its own
// limits.spawn_timeout is usually shorter.
const startTime = 60 * time.Second

// See makes what services load from now on what snapshot holds, without
// touching those that run: Change does that.
func (rl *Reloader) See(snapshot *watch.Snapshot) {
	rl.mu.Lock()
	rl.disk = snapshot
	rl.mu.Unlock()
}

// startFailed starts again what has failed for good, of all services or of those
// named.
func (rl *Reloader) startFailed(ctx context.Context, names []shield.Name) []Result {
	return rl.startDown(ctx, Started, func(d *service.Down) bool {
		return d.ID != 0 && (len(names) == 0 || slices.Contains(names, d.Name) || slices.Contains(names, d.Module))
	})
}

// startNamed starts the named services where they do not run, whatever ended
// them.
func (rl *Reloader) startNamed(ctx context.Context, names []shield.Name) []Result {
	return rl.startDown(ctx, Restarted, func(d *service.Down) bool {
		return slices.Contains(names, d.Name) || slices.Contains(names, d.Module)
	})
}

func (rl *Reloader) startDown(ctx context.Context, outcome string, want func(*service.Down) bool) []Result {
	var results []Result
	for _, n := range rl.cfg.Nodes() {
		for _, d := range n.Runtime.Down() {
			if want(&d) {
				results = append(results, rl.start(ctx, n, &d, outcome))
			}
		}
	}
	return results
}

// start starts one service. What goes wrong is logged by the service itself.
func (rl *Reloader) start(ctx context.Context, n Node, d *service.Down, outcome string) Result {
	if d.Script != "" { // nothing runs it, so there is no better content than that on disk
		rl.mu.Lock()
		delete(rl.runs, d.Script)
		delete(rl.held, d.Script)
		rl.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	began := time.Now()
	r := Result{Service: d.Name, Node: n.ID, ID: d.ID, Outcome: outcome, Files: []string{d.Script}}
	h, err := n.Runtime.StartAgain(ctx, d.Name)
	r.Took = time.Since(began)
	if err != nil {
		r.Outcome, r.Err = Failed, rl.startProblem(d.Script, err)
		for _, again := range n.Runtime.Down() {
			if again.Name == d.Name { // it failed under a new id
				r.ID = again.ID
			}
		}
		return r
	}
	r.ID, r.To, r.Code = h.ID, 1, codeOf(n, h.ID)
	rl.cfg.Log.Info(fmt.Sprintf("%s runs again: gen 1 (%s)", d.Name, r.Code), "service", "reload", "event", "reload", "node", string(n.ID))
	return r
}

// codeOf is the hash of what a service runs; "" where it has ended meanwhile.
func codeOf(n Node, id shield.ServiceID) string {
	for _, row := range n.Runtime.Services() {
		if row.ID == id {
			return row.Code
		}
	}
	return ""
}

// startProblem tells a script's error with its line, and any other as it is.
func (rl *Reloader) startProblem(script string, err error) error {
	var se *luavm.ScriptError
	var re *luavm.RunError
	if errors.As(err, &se) || errors.As(err, &re) {
		return problem(script, rl, err)
	}
	return err
}
