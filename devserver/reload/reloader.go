package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sort"
	"sync"
	"time"

	"shield/devserver/watch"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// turnTime is how long a service may keep a reload waiting: a handler may run
// for five seconds before it is aborted.
const turnTime = 8 * time.Second

// Node is one node whose services are reloaded.
type Node struct {
	ID      shield.NodeID
	Runtime *service.Runtime
}

// Config is what a Reloader is made of.
type Config struct {
	Nodes func() []Node // those that run now
	Files luavm.Files   // what the watcher does not see; may be nil
	Log   *slog.Logger  // discarded by default
}

// Reloader brings the services of all nodes up to what the files hold. It is
// safe from any goroutine; one round runs at a time. It is also the luavm.Files
// that nodes should load scripts from: what a service reads when it starts is
// the last content that worked.
type Reloader struct {
	cfg    Config
	shapes shapes

	round sync.Mutex // held for a whole round; guards what follows
	all   map[targetKey]*target
	stale map[targetKey]bool // what it should run is on disk, but could not be had
	bad   map[targetKey]bool // of them, those whose new code does not load
	last  []targetKey        // of the last round that swapped anything

	mu   sync.RWMutex // guards what follows
	disk *watch.Snapshot
	runs map[string]string     // instead of what is on disk
	held map[string]watch.Hash // undone: this content is not loaded again
}

type targetKey struct {
	node shield.NodeID
	epch shield.NodeEpoch
	id   shield.ServiceID
}

// Outcomes of a Result.
const (
	Reloaded  = "reloaded"
	Unchanged = "unchanged"
	Failed    = "failed"    // the new code does not load
	Refusal   = "refused"   // it loads, but something can't be carried over
	HeldBack  = "held back" // another service that needs the same files failed
	Undone    = "undone"
	Restarted = "restarted"
	Started   = "started" // it had failed for good and runs again
)

// Result is what became of one service on one node.
type Result struct {
	Service  shield.Name // its first name, else its module in parentheses
	Node     shield.NodeID
	ID       shield.ServiceID
	Outcome  string
	From, To int    // generations
	Code     string // short hash
	Files    []string
	Took     time.Duration // of the swap itself, scratch load included
	Err      error         // a *Problem, a *Refused, or why the service could not be asked
	Warnings []string
	Lost     []string // by an undo: what had changed since the swap
}

// New makes a Reloader for what is on disk now.
func New(cfg Config, disk *watch.Snapshot) *Reloader {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Reloader{cfg: cfg, disk: disk, all: map[targetKey]*target{}, stale: map[targetKey]bool{}, bad: map[targetKey]bool{},
		runs: map[string]string{}, held: map[string]watch.Hash{}}
}

// ReadFile gives what a service that starts now should load.
func (rl *Reloader) ReadFile(name string) ([]byte, error) {
	rl.mu.RLock()
	src, ok := rl.runs[name]
	rl.mu.RUnlock()
	if ok {
		return []byte(src), nil
	}
	return rl.onDisk(name)
}

func (rl *Reloader) onDisk(name string) ([]byte, error) {
	rl.mu.RLock()
	f := rl.disk.File(path.Clean(name))
	rl.mu.RUnlock()
	if f != nil {
		return f.Content, nil
	}
	if rl.cfg.Files != nil && !watch.Project(name) {
		return rl.cfg.Files.ReadFile(name)
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// saved is what the files hold, but for contents that were undone.
type saved struct{ rl *Reloader }

func (s saved) ReadFile(name string) ([]byte, error) {
	s.rl.mu.RLock()
	f, h := s.rl.disk.File(path.Clean(name)), s.rl.held[name]
	src, undone := s.rl.runs[name]
	s.rl.mu.RUnlock()
	if undone && f != nil && f.Hash == h {
		return []byte(src), nil
	}
	return s.rl.onDisk(name)
}

// Change brings every service that uses a changed file up to it, and tries
// those again that failed before.
func (rl *Reloader) Change(ctx context.Context, set watch.ChangeSet) []Result {
	rl.round.Lock()
	defer rl.round.Unlock()
	touched, removed := map[string]bool{}, map[string]bool{}
	rl.mu.Lock()
	rl.disk = set.Snapshot
	for _, c := range set.Changes {
		touched[c.Path] = true
		removed[c.Path] = c.Kind == watch.Removed
		delete(rl.held, c.Path)
	}
	rl.mu.Unlock()
	unused := maps.Clone(touched)
	results := rl.bring(ctx, removed, func(k targetKey, l *service.Loaded) bool {
		for _, p := range l.Paths {
			delete(unused, p)
		}
		return rl.stale[k] || slices.ContainsFunc(l.Paths, func(p string) bool { return touched[p] })
	}, false)
	// What no service runs is read from disk again by the next that starts.
	rl.release(slices.Collect(maps.Keys(unused)))
	results = append(results, rl.startFailed(ctx, nil)...)
	sortResults(results)
	return results
}

// release lets services that start load what is on disk for paths, except for
// contents that were undone.
func (rl *Reloader) release(paths []string) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for _, p := range paths {
		if f := rl.disk.File(p); f == nil || f.Hash != rl.held[p] {
			delete(rl.runs, p)
		}
	}
}

// Reload brings the named services, or all, up to what the files held when the
// watcher last looked.
func (rl *Reloader) Reload(ctx context.Context, names ...shield.Name) []Result {
	rl.round.Lock()
	defer rl.round.Unlock()
	results := rl.bring(ctx, nil, func(_ targetKey, l *service.Loaded) bool { return named(l, names) }, true)
	results = append(results, rl.startFailed(ctx, names)...)
	sortResults(results)
	return results
}

func named(l *service.Loaded, names []shield.Name) bool {
	return len(names) == 0 || slices.Contains(names, l.Name) || slices.Contains(names, l.Module)
}

// change is one service that differs from the files.
type change struct {
	t     *target
	key   targetKey
	name  shield.Name
	from  service.Code
	paths []string
	runs  map[string]string
	bad   *Problem
	// missing: a module that runs was deleted some time ago.
	missing bool
}

func (c *change) result(outcome string, err error) Result {
	return Result{Service: c.name, Node: c.key.node, ID: c.key.id, Outcome: outcome,
		From: c.from.Generation, To: c.from.Generation, Code: c.from.Hash, Files: c.paths, Err: err}
}

// bring is one round over the services that want names.
func (rl *Reloader) bring(ctx context.Context, removed map[string]bool, want func(targetKey, *service.Loaded) bool, all bool) []Result {
	var changes []*change
	var results, restored []Result
	rl.each(ctx, func(t *target, k targetKey, l *service.Loaded) {
		wanted := want(k, l) || l.Err != nil && !all // it may run a file that was saved
		if !wanted {
			return
		}
		c := &change{t: t, key: k, name: label(l), from: l.Code}
		if l.Err != nil {
			rl.stale[k] = true
			results = append(results, c.result(Failed, l.Err))
			return
		}
		rl.warm(t.node, l.Paths)
		err := rl.within(ctx, func(ctx context.Context) error {
			return t.ask(ctx, func(w *service.Swapping) error {
				c.differs(w, saved{rl}, removed)
				return nil
			})
		})
		switch {
		case errors.Is(err, shield.ServiceDead):
			// It has ended meanwhile; whatever starts in its place reads the files.
		case err != nil:
			rl.stale[k] = true
			results = append(results, c.result(Failed, err))
		case len(c.paths) > 0:
			changes = append(changes, c)
		case c.missing && rl.bad[k]:
			// Its deletion was refused, and the file is still gone: what runs is the
			// last that worked, also for those that start.
		default:
			if rl.bad[k] {
				restored = append(restored, c.result(Unchanged, nil))
			}
			rl.fresh(k)
			rl.release(l.Paths)
		}
		if err == nil && len(c.paths) == 0 && all {
			results = append(results, c.result(Unchanged, nil))
		}
	})
	rl.tellRestored(restored)
	var swapped []targetKey
	for _, g := range groups(changes) {
		began := time.Now()
		rs := rl.group(ctx, g)
		for _, r := range rs {
			for _, c := range g {
				if r.Outcome == Reloaded && r.Node == c.key.node && r.ID == c.key.id {
					swapped = append(swapped, c.key)
				}
			}
		}
		rl.tell(rs, time.Since(began))
		results = append(results, rs...)
	}
	if len(swapped) > 0 {
		rl.last = swapped
	}
	rl.shapes.forgetPlans()
	sortResults(results)
	return results
}

// warm compiles and reads what a service will need, before it has to wait for
// that. Errors come again in its turn.
func (rl *Reloader) warm(n Node, paths []string) {
	for _, p := range paths {
		if src, err := (saved{rl}).ReadFile(p); err == nil {
			if code, err := n.Runtime.World().Compile(p, src); err == nil {
				_, _ = rl.shape(code)
			}
		}
	}
}

func sortResults(rs []Result) {
	sort.SliceStable(rs, func(i, j int) bool {
		if rs[i].Service != rs[j].Service {
			return rs[i].Service < rs[j].Service
		}
		return rs[i].Node < rs[j].Node
	})
}

func label(l *service.Loaded) shield.Name {
	if l.Name != "" {
		return l.Name
	}
	return "(" + l.Module + ")"
}

// each visits the services that run and forgets those that no longer do.
func (rl *Reloader) each(ctx context.Context, visit func(*target, targetKey, *service.Loaded)) {
	now := map[targetKey]*target{}
	for _, n := range rl.cfg.Nodes() {
		for _, l := range n.Runtime.Loaded(ctx, turnTime) {
			k := targetKey{n.ID, n.Runtime.Epoch(), l.ID}
			t := rl.all[k]
			if t == nil {
				t = &target{rl: rl, node: n, id: l.ID}
			}
			now[k] = t
			visit(t, k, &l)
		}
	}
	for k := range rl.stale {
		if now[k] == nil {
			rl.fresh(k)
		}
	}
	rl.all = now
}

// fresh forgets that a service was behind the files.
func (rl *Reloader) fresh(k targetKey) {
	delete(rl.stale, k)
	delete(rl.bad, k)
}

func (rl *Reloader) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	return do(ctx)
}

// groups puts together what needs the same changed files: they change together
// or not at all.
func groups(changes []*change) [][]*change {
	group := make([]int, len(changes))
	owner := map[string]int{}
	find := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	for i, c := range changes {
		group[i] = i
		for _, p := range c.paths {
			if o, ok := owner[p]; ok {
				group[find(i)] = find(o)
			} else {
				owner[p] = i
			}
		}
	}
	at := map[int]int{}
	var out [][]*change
	for i, c := range changes {
		root := find(i)
		n, ok := at[root]
		if !ok {
			n = len(out)
			at[root] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], c)
	}
	return out
}

// group reloads what belongs together: first every service is tried, then all
// are swapped, or none. One that ends meanwhile is none of them any more.
func (rl *Reloader) group(ctx context.Context, g []*change) []Result {
	for i, c := range g {
		if c.bad != nil {
			return rl.fail(g, i, c.bad)
		}
	}
	if len(g) > 1 {
		for i, c := range g {
			err := rl.within(ctx, func(ctx context.Context) error {
				return c.t.ask(ctx, func(w *service.Swapping) error { return c.t.check(w, saved{rl}) })
			})
			if err != nil && !errors.Is(err, shield.ServiceDead) {
				return rl.fail(g, i, err)
			}
		}
	}
	var results []Result
	for i, c := range g {
		r, err := rl.swap(ctx, c)
		switch {
		case errors.Is(err, shield.ServiceDead):
		case err != nil:
			rl.goBack(ctx, g[:i])
			return rl.fail(g, i, err)
		default:
			results = append(results, r)
		}
	}
	rl.accept(g)
	return results
}

// swap makes one service run its new code.
func (rl *Reloader) swap(ctx context.Context, c *change) (Result, error) {
	var out *Outcome
	var took time.Duration
	err := rl.within(ctx, func(ctx context.Context) error {
		return c.t.turn(ctx, func(w *service.Swapping) (err error) {
			began := time.Now()
			out, err = c.t.swap(w, saved{rl}, c.paths)
			took = time.Since(began)
			return err
		})
	})
	if err != nil {
		return Result{}, err
	}
	r := c.result(Reloaded, nil)
	now := c.t.last.Code()
	r.To, r.Code, r.Took, r.Warnings = now.Generation, now.Hash, took, out.Warnings
	for _, line := range out.NotRun {
		r.Warnings = append(r.Warnings, line+restartHint(c.name))
	}
	return r, nil
}

// goBack undoes the swaps of a group that could not be finished. It happens
// when a service changed between its trial and its swap.
func (rl *Reloader) goBack(ctx context.Context, done []*change) {
	for _, c := range done {
		err := rl.within(ctx, func(ctx context.Context) error {
			return c.t.turn(ctx, func(w *service.Swapping) error {
				_, _, err := c.t.undo(w)
				return err
			})
		})
		if err != nil && !errors.Is(err, shield.ServiceDead) {
			rl.cfg.Log.Error("a reload could not be taken back: "+err.Error(), "service", string(c.name), "node", string(c.key.node), "event", "reload")
		}
	}
}

func (rl *Reloader) accept(g []*change) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for _, c := range g {
		rl.fresh(c.key)
		for _, p := range c.paths {
			delete(rl.runs, p)
			delete(rl.held, p)
		}
	}
}

// fail keeps the code that runs, also for services that start from now on.
func (rl *Reloader) fail(g []*change, culprit int, err error) []Result {
	rl.mu.Lock()
	for _, c := range g {
		rl.stale[c.key], rl.bad[c.key] = true, true
		for p, src := range c.runs {
			rl.runs[p] = src
		}
	}
	rl.mu.Unlock()
	outcome := Failed
	var refused *Refused
	if errors.As(err, &refused) {
		outcome = Refusal
	}
	results := make([]Result, len(g))
	for i, c := range g {
		switch {
		case i == culprit || slices.Equal(c.paths, g[culprit].paths) && c.name == g[culprit].name:
			results[i] = c.result(outcome, err)
		default:
			results[i] = c.result(HeldBack, fmt.Errorf("%s needs the same files and can't take them: %w", g[culprit].name, err))
		}
	}
	return results
}

func (sh *shapes) forgetPlans() {
	sh.mu.Lock()
	sh.plans = nil
	sh.mu.Unlock()
}
