package devserver

import (
	"fmt"
	"slices"
	"strings"

	"shield/devserver/watch"
)

// warnOfNames logs names that mean nothing in the scripts that were just saved.
// The code runs all the same: Lua finds out when the line does. Needs round.
func (r *reloading) warnOfNames(set watch.ChangeSet) {
	alive := r.s.alive()
	if len(alive) == 0 {
		return
	}
	sources := map[string][]byte{}
	for _, path := range set.Snapshot.Paths() {
		if f := set.Snapshot.File(path); f != nil && strings.HasSuffix(path, ".lua") {
			sources[path] = f.Content
		}
	}
	r.mu.Lock()
	routes := r.is.RPC
	r.mu.Unlock()
	for _, p := range r.names.Wrong(alive[0].Runtime().World(), routes, sources) {
		if !slices.ContainsFunc(set.Changes, func(c watch.Change) bool { return c.Path == p.File }) {
			continue
		}
		r.s.log.Warn(fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message), "service", "reload", "event", "reload", "detail", p.Excerpt)
	}
}
