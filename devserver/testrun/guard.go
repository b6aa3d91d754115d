package testrun

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// guard holds the limits that must hold in real time: it runs outside the
// bubble, where time goes on while a script loops. It touches nothing of the
// bubble but atomics.
type guard struct {
	spec  *Spec
	out   *emitter
	turns atomic.Pointer[Turns]
	over  atomic.Bool            // the file's time is over
	why   atomic.Pointer[string] // what kept it from ending, as far as that is known

	mu    sync.Mutex
	looks []func(time.Time) // at the file's own world
	nodes []func(time.Time) // at the worlds of the cluster
}

func newGuard(spec *Spec, out *emitter) *guard { return &guard{spec: spec, out: out} }

// watch takes the watcher of the file's Lua world.
func (g *guard) watch(look func(time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks = append(g.looks, look)
}

// watchNode takes that of a node's, until forgetNodes: it holds the whole node.
func (g *guard) watchNode(look func(time.Time)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes = append(g.nodes, look)
}

func (g *guard) forgetNodes() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes = nil
}

const guardTick = 10 * time.Millisecond

// run looks at what runs until the process ends. At the limit every turn that
// runs is aborted and over is set; where that does not end the file, the process
// ends with all its stacks.
func (g *guard) run() {
	began, limit := time.Now(), g.spec.limit()
	for range time.Tick(guardTick) {
		now := time.Now()
		ran := now.Sub(began)
		if ran >= limit {
			g.end()
			now = now.Add(24 * time.Hour) // past every limit of a turn
		}
		g.mu.Lock()
		looks := slices.Concat(g.looks, g.nodes)
		g.mu.Unlock()
		for _, look := range looks {
			look(now)
		}
		if ran >= limit+graceAfterLimit {
			g.fatal(limit)
		}
	}
}

// graceAfterLimit is the time for a file whose limit is over to end in good
// order.
const graceAfterLimit = 2 * time.Second

func (s *Spec) limit() time.Duration { return time.Duration(s.Timeout) * time.Millisecond }

// end says that the time is over: from now on only the test itself gets turns,
// and its next call of anything that waits ends it.
func (g *guard) end() {
	if g.over.Load() {
		return
	}
	why := ""
	if t := g.turns.Load(); t != nil {
		if stuck := t.Stuck(); stuck != "" {
			why = "; " + stuck
		}
	}
	g.why.Store(&why)
	g.over.Store(true)
}

// fatal ends the process of a file that does not end.
func (g *guard) fatal(limit time.Duration) {
	text := fmt.Sprintf("not done within %v of real time (--timeout), and could not be ended", limit)
	if why := g.why.Load(); why != nil {
		text += *why
	}
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	g.out.emit(&Event{Event: EventFileEnd, File: g.spec.File, Seed: g.spec.Seed, Result: Error, Errors: 1,
		Failure: &Failure{Message: text, Stacks: string(buf)}})
	os.Exit(childFatal)
}
