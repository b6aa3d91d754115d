package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// Config is what a Runtime is made of. Zero fields mean default.
type Config struct {
	Node   shield.NodeID    // LocalNode by default
	Epoch  shield.NodeEpoch // rises at every start of Node; 1 by default
	Log    *slog.Logger     // discarded by default
	Limits Limits           // defaults of every service

	// Lua says how VMs are built: Files, ModulePath, what the sandbox allows.
	// The rest of it is filled in here.
	Lua luavm.Config
	API API // luaapi.New()

	// Remote and Clients may be nil: what needs them gives module_unavailable.
	Remote  Remote
	Clients Clients
	// Routes is the RPC table of this moment; nil means no routes.
	Routes func() *shield.RPCTable

	// OnName hears every published or withdrawn name, in the order of the
	// changes, outside of all locks.
	OnName func(name shield.Name, id shield.ServiceID, published bool)
	// OnDead hears once of every service that has ended, after its names are
	// withdrawn. A restarted service is a new one.
	OnDead func(h shield.Handle, code shield.Code)

	// Turn is called by a goroutine that holds a service's baton, before it begins
	// a turn or goes on with one that was parked, and returns when it may. It is
	// how `shield test` gives out turns one at a time; nil costs a comparison.
	Turn func(shield.ServiceID)

	Dev  bool  // waits that can't end are looked for and reported
	Seed int64 // of every service's math.random and of trace ids; 0 = random
}

// Runtime runs the services of one node.
type Runtime struct {
	cfg     Config
	limits  Limits
	world   *luavm.World
	reg     *registry
	clock   *clock
	workers workers
	count   counters
	civil   civil
	onCall  atomic.Pointer[func(shield.CallRow)]
	offset  atomic.Int64 // of the business clock
	traces  atomic.Uint64

	draining atomic.Bool // nothing from outside is taken any more
	stopping atomic.Bool // nothing starts any more

	mu      sync.Mutex
	specs   map[shield.Name]*Spec
	delayed map[*delayed]struct{}
	stopped bool

	done chan struct{}
	wg   sync.WaitGroup
}

// New makes a Runtime that has no services yet. Stop it, also when nothing was
// started.
func New(cfg Config) (*Runtime, error) {
	if cfg.Node == "" {
		cfg.Node = shield.LocalNode
	}
	if err := shield.CheckName(string(cfg.Node)); err != nil {
		return nil, fmt.Errorf("node id: %w", err)
	}
	if cfg.Epoch == 0 {
		cfg.Epoch = 1
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{
		cfg:     cfg,
		limits:  cfg.Limits.or(DefaultLimits()),
		reg:     newRegistry(cfg.OnName),
		clock:   newClock(),
		specs:   make(map[shield.Name]*Spec),
		delayed: make(map[*delayed]struct{}),
		done:    make(chan struct{}),
	}
	r.traces.Store(rand.Uint64())
	if cfg.Seed != 0 {
		r.traces.Store(uint64(cfg.Seed))
	}
	if r.cfg.Lua.StuckAfter <= 0 {
		r.cfg.Lua.StuckAfter = 2 * time.Second
	}
	lc := r.cfg.Lua
	lc.Shield, lc.Pure, lc.MakeErr = cfg.API.Shield, cfg.API.Pure, r.limitMet
	lc.OnStuck = r.onStuck
	if lc.Log == nil {
		lc.Log = cfg.Log
	}
	if lc.MaxCallDepth == 0 {
		lc.MaxCallDepth = r.limits.MaxCallDepth
	}
	if lc.Print == nil {
		lc.Print = printed
	}
	world, err := luavm.NewWorld(lc)
	if err != nil {
		return nil, err
	}
	r.world = world
	r.wg.Go(func() { r.clock.run(r.done) })
	return r, nil
}

// limitMet makes the Error of a limit that a script met inside its VM.
func (r *Runtime) limitMet(err *shield.Error) lua.LValue {
	if err.Code == shield.CoroutineLimit {
		r.count.coroutineLimit.Add(1)
	}
	return r.cfg.API.Error(err)
}

// World is where the VMs live, for whoever loads code beside the services.
func (r *Runtime) World() *luavm.World { return r.world }

// Node and Epoch say which node this is.
func (r *Runtime) Node() shield.NodeID { return r.cfg.Node }

// Epoch is the node's.
func (r *Runtime) Epoch() shield.NodeEpoch { return r.cfg.Epoch }

// Config is the Runtime's own configuration, defaults filled in.
func (r *Runtime) Config() *Config { return &r.cfg }

// newTrace makes a trace id that nothing else has: a counter, scrambled so
// that ids of two nodes or runs don't look alike (splitmix64).
func (r *Runtime) newTrace() shield.TraceID {
	x := r.traces.Add(0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	if x ^= x >> 31; x == 0 {
		x = 1
	}
	return shield.TraceID(x)
}

// seed is the one of a service's math.random.
func (r *Runtime) seed(id shield.ServiceID) uint64 {
	if r.cfg.Seed == 0 {
		return 0
	}
	return uint64(r.cfg.Seed)*0x9e3779b97f4a7c15 + uint64(id)
}

// SetClockOffset moves the business clock: shield.now, os.time and os.date.
func (r *Runtime) SetClockOffset(d time.Duration) { r.offset.Store(int64(d)) }

// Now is the business clock.
func (r *Runtime) Now() time.Time { return time.Now().Add(time.Duration(r.offset.Load())) }

// Monotonic is how long the Runtime has existed; nothing shifts it.
func (r *Runtime) Monotonic() time.Duration { return time.Duration(r.clock.now()) }

// Start starts specs in the order their depends_on asks for and returns when
// every on_init has succeeded, or with the first failure. It may be called
// again with more specs.
func (r *Runtime) Start(ctx context.Context, specs []Spec) error {
	order, err := r.admit(specs)
	if err != nil {
		return err
	}
	for _, spec := range order {
		for i := range spec.Instances {
			name := spec.instance(i)
			if _, err := r.begin(ctx, spec, name, nil); err != nil {
				return fmt.Errorf("start %s: %w", name, err)
			}
		}
	}
	return nil
}

// begin starts one service of the block and waits until its on_init has
// returned. It takes the place of failed, which has failed for good, or nil.
func (r *Runtime) begin(ctx context.Context, spec *Spec, name shield.Name, failed *Service) (*Service, error) {
	if r.stopping.Load() || r.draining.Load() {
		return nil, shield.Errorf(shield.RuntimeStopping, "%s is stopping", r.cfg.Node)
	}
	begun := make(chan error, 1)
	st := startup{static: true, trace: r.newTrace(), begun: func(_ *Service, err *shield.Error) {
		if err != nil {
			begun <- err
		}
		close(begun)
	}}
	s, serr := r.create(spec, name, st, failed)
	if serr != nil {
		return nil, serr
	}
	s.again = false // whoever asked for it hears why it fails, so nobody tries again
	s.launch()
	timeout := time.NewTimer(s.lim.SpawnTimeout)
	defer timeout.Stop()
	select {
	case err := <-begun:
		if err != nil {
			select { // so that its row says failed, and it can be started again
			case <-s.done:
			case <-ctx.Done():
			case <-timeout.C:
			}
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		s.endWith(ending{failed: true, reason: "start cancelled", stop: true})
		return nil, ctx.Err()
	case <-timeout.C:
		s.endWith(ending{failed: true, reason: "spawn_timeout", stop: true})
		return nil, shield.Errorf(shield.SpawnTimeout, "on_init has not returned within %s (limits.spawn_timeout)%s", s.lim.SpawnTimeout, s.waitsText())
	}
}

// admit checks specs, remembers them, and gives them in the order to start.
func (r *Runtime) admit(specs []Spec) ([]*Spec, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	added := make(map[shield.Name]*Spec, len(specs))
	var problems []error
	for i := range specs {
		spec := specs[i]
		longest := string(spec.Name)
		if spec.Instances > 1 {
			longest = fmt.Sprintf("%s.%d", longest, spec.Instances)
		}
		if err := shield.CheckPublicName(longest); err != nil {
			problems = append(problems, err)
			continue
		}
		if added[spec.Name] != nil || r.specs[spec.Name] != nil {
			problems = append(problems, twice(spec.Name))
			continue
		}
		if (spec.Script == "") == (spec.Go == nil) {
			problems = append(problems, fmt.Errorf("service %s: exactly one of Script and Go must be set", spec.Name))
			continue
		}
		spec.DependsOn = slices.Clone(spec.DependsOn)
		added[spec.Name] = &spec
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	o := orderer{added: added, known: r.specs, state: make(map[shield.Name]int)}
	for i := range specs {
		if err := o.visit(specs[i].Name, nil); err != nil {
			return nil, err
		}
	}
	for name, spec := range added {
		r.specs[name] = spec
	}
	return o.order, nil
}

func twice(name shield.Name) *shield.Error {
	return shield.Errorf(shield.NameConflict, "two services are called %q", name)
}

// orderer puts specs into an order in which every service comes after those it
// depends on, keeping the order they were given in otherwise.
type orderer struct {
	added, known map[shield.Name]*Spec
	state        map[shield.Name]int // 1 = being visited, 2 = in order
	order        []*Spec
}

func (o *orderer) visit(name shield.Name, path []string) error {
	path = append(path, string(name))
	switch o.state[name] {
	case 2:
		return nil
	case 1:
		from := slices.Index(path, string(name))
		return fmt.Errorf("depends_on goes in a circle: %s", strings.Join(path[from:], " -> "))
	}
	spec := o.added[name]
	o.state[name] = 1
	for _, dep := range spec.DependsOn {
		if o.known[dep] != nil {
			continue
		}
		if o.added[dep] == nil {
			return fmt.Errorf("service %s depends on %q, which is not a service%s", name, dep, o.hint(dep))
		}
		if err := o.visit(dep, path); err != nil {
			return err
		}
	}
	o.state[name] = 2
	o.order = append(o.order, spec)
	return nil
}

func (o *orderer) hint(name shield.Name) string {
	var all []string
	for n := range o.added {
		all = append(all, string(n))
	}
	sort.Strings(all)
	if near := shield.Nearest(string(name), all); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return " (known: " + listed(all) + ")"
}

// Drain refuses new work from outside and from spawn, and runs every
// on_shutdown in reverse start order, as long as ctx lasts. Services may still
// call each other meanwhile.
func (r *Runtime) Drain(ctx context.Context) error {
	r.draining.Store(true)
	var problems []error
	var slow []shutdown
	for _, s := range r.reg.newestFirst() {
		d := s.beginShutDown(ctx, "stop")
		// One that does not finish may take half of what is left, so that those
		// after it get to their on_shutdown; it is waited for again at the end.
		half, cancel := shareOf(ctx)
		if !d.wait(half) {
			slow = append(slow, d)
		}
		cancel()
	}
	for _, d := range slow {
		if !d.wait(ctx) {
			problems = append(problems, d.late())
		}
	}
	return errors.Join(problems...)
}

// shareOf gives a context that ends in half the time that ctx has left.
func shareOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if d, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(d)/2)
	}
	return context.WithCancel(ctx)
}

// Stop ends every service (on_exit, then whatever waits gets service_dead) and
// returns when all goroutines of the Runtime are gone, or ctx is over. It may
// be called again.
func (r *Runtime) Stop(ctx context.Context) error {
	r.draining.Store(true)
	r.stopping.Store(true)
	r.reg.close()
	r.cancelDelayed()
	var problems []error
	for _, s := range r.reg.newestFirst() {
		if err := s.stop(ctx, ending{reason: "stop", stop: true}); err != nil {
			problems = append(problems, err)
		}
	}
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.done)
	}
	r.mu.Unlock()
	r.workers.close()
	ended := make(chan struct{})
	go func() {
		r.wg.Wait()
		r.workers.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return errors.Join(append(problems, shield.Errorf(shield.Timeout, "goroutines of %s are still running: a handler does not return", r.cfg.Node))...)
	}
	if err := r.world.Close(ctx); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// delayed is something to be done later, unless the Runtime stops first.
type delayed struct {
	timer  *time.Timer
	cancel func()
}

// afterwards does do after d, or else cancel when the Runtime stops.
func (r *Runtime) afterwards(d time.Duration, do, cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping.Load() {
		r.wg.Go(cancel)
		return
	}
	e := &delayed{cancel: cancel}
	r.delayed[e] = struct{}{}
	r.wg.Add(1)
	e.timer = time.AfterFunc(d, func() {
		defer r.wg.Done()
		r.mu.Lock()
		_, mine := r.delayed[e]
		delete(r.delayed, e)
		r.mu.Unlock()
		if mine {
			do()
		}
	})
}

func (r *Runtime) cancelDelayed() {
	r.mu.Lock()
	all := r.delayed
	r.delayed = make(map[*delayed]struct{})
	r.mu.Unlock()
	for e := range all {
		if e.timer.Stop() {
			r.wg.Done()
		}
		e.cancel()
	}
}
