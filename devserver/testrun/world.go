package testrun

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"shield/runtime/config"
	"shield/runtime/luavm"
	"shield/runtime/memnet"
	"shield/runtime/node"
	"shield/runtime/shield"
)

// clusterToken is what the nodes of a test prove themselves with.
const clusterToken = "only nodes of one test meet here"

// world is the cluster of a test: real nodes on a network in memory.
type world struct {
	spec    *Spec
	turns   *Turns
	book    *logbook
	guard   *guard
	cover   luavm.Cover
	files   luavm.Files
	project *config.Config
	net     *memnet.Network
	members []*member
	starts  int // of clusters, so that no two have the same chances
}

// member is one node, or the place of one that does not run.
type member struct {
	w       *world
	id      shield.NodeID
	number  int
	project *config.Config
	epochs  epochs
	starts  int

	node  *node.Node // nil before the first start; the last one after it has ended
	alive bool
	mem   *memnet.Transport

	mu    sync.Mutex
	gates map[string]*memnet.Listener // by address
}

// epochs is an epoch store without a file.
type epochs struct{ last shield.NodeEpoch }

func (e *epochs) Load() (shield.NodeEpoch, error)  { return e.last, nil }
func (e *epochs) Save(last shield.NodeEpoch) error { e.last = last; return nil }

// limits of the world's own waits, in virtual time.
const (
	joinLimit  = 20 * time.Second
	drainLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	firstPort  = 7001
)

// start ends the cluster there is and starts one of count nodes; 0 means
// dev.nodes.
func (w *world) start(count int) error {
	if err := w.end(); err != nil {
		return err
	}
	project, err := config.Load(config.Options{Dir: w.spec.Dir, Environ: w.spec.Environ, Dev: true, Nodes: count})
	if err != nil {
		return err
	}
	if count == 0 {
		count = project.Dev.Nodes
	}
	w.project = project
	w.starts++
	for i := range project.Gateways { // clients of tests come by memory, whatever the game's come by
		nw := &project.Gateways[i].Network
		nw.TCP, nw.TLS, nw.WS, nw.WSS, nw.QUIC, nw.Cert, nw.Key = fmt.Sprintf("127.0.0.1:%d", firstPort+i), "", "", "", "", "", ""
	}
	w.net = memnet.New(memnet.Config{Seed: w.spec.Seed + uint64(w.starts)<<32, Turn: w.turns.Take})
	w.members = nil
	for i := range count {
		w.members = append(w.members, &member{w: w, number: i + 1, id: shield.NodeID(fmt.Sprintf("node-%d", i+1))})
	}
	for _, m := range w.members {
		var peers []string
		for _, p := range w.members {
			if p != m {
				peers = append(peers, memnet.Address(p.id))
			}
		}
		m.project = project.ForNode(config.Node{ID: m.id, Listen: memnet.Address(m.id), Peers: peers, Token: clusterToken})
	}
	return w.bringUp()
}

func (w *world) bringUp() error {
	errs := make([]error, len(w.members))
	var wg sync.WaitGroup
	for i, m := range w.members {
		if errs[i] = m.open(); errs[i] != nil {
			break
		}
		wg.Go(func() { errs[i] = m.start() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if missing := w.joined(w.members, joinLimit); missing != "" {
		return fmt.Errorf("the nodes did not find each other within %v: %s", joinLimit, missing)
	}
	return nil
}

// joined waits until all the running nodes among all see each other online and
// know each other's names, and otherwise says what is missing.
func (w *world) joined(all []*member, limit time.Duration) (missing string) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		missing = ""
		for _, m := range all {
			if m.alive && missing == "" {
				missing = m.missing(all)
			}
		}
		if missing == "" || time.Now().After(end) {
			return missing
		}
	}
}

func (m *member) missing(all []*member) string {
	rows := m.node.Nodes()
	routes := m.node.Routes()
	for _, other := range all {
		if other == m || !other.alive || other.node.Intent() == shield.Draining {
			continue
		}
		i := slices.IndexFunc(rows, func(r shield.NodeRow) bool { return r.Node == other.id })
		if i < 0 || rows[i].State != shield.Online || rows[i].Epoch != other.node.Epoch() {
			return fmt.Sprintf("%s does not see %s", m.id, other.id)
		}
		names, _ := other.node.Runtime().Names()
		for _, n := range names {
			if !slices.ContainsFunc(routes, func(r shield.RouteRow) bool { return r.Node == other.id && r.Name == n.Name }) {
				return fmt.Sprintf("%s has not heard of %s:%s", m.id, other.id, n.Name)
			}
		}
	}
	return ""
}

// open makes the node.
func (m *member) open() error {
	w := m.w
	m.starts++
	m.gates = map[string]*memnet.Listener{}
	mem, err := w.net.Listen(m.id)
	if err != nil {
		return err
	}
	m.mem = mem
	seed := w.spec.Seed<<16 + uint64(w.starts)<<8 + uint64(m.number)<<4 + uint64(m.starts)
	dice := &dice{rng: rand.New(rand.NewPCG(seed, 0x6e6f6465))}
	n, err := node.New(node.Config{
		Project: m.project,
		Files:   w.files,
		Log:     w.book.log.Logger(m.id),
		Getenv:  w.getenv,
		Epochs:  &m.epochs,
		Dev:     true,
		Seed:    int64(seed),
		Listen:  m.listen,
		Sim: &node.Sim{
			Transport: mem,
			Unplug:    mem.Unplug,
			Turn:      func(id shield.ServiceID) { w.turns.Take(fmt.Sprintf("%s %d", m.id, id)) },
			Rand:      dice.next,
			Watch:     w.guard.watchNode,
			Cover:     w.cover,
		},
	})
	if err != nil {
		return err
	}
	m.node = n
	return nil
}

func (w *world) getenv(name string) (string, bool) {
	for i := len(w.spec.Environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(w.spec.Environ[i], "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// dice are the chances of one node, for any goroutine.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) next() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Uint64()
}

func (m *member) listen(_, address string) (net.Listener, error) {
	l, err := m.w.net.Clients(address)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates[address] = l
	return l, nil
}

func (m *member) start() error {
	if err := m.node.Start(context.Background()); err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.alive = true
	return nil
}

// stop ends the node in good order.
func (m *member) stop() error {
	if !m.alive {
		return nil
	}
	m.alive = false
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := m.node.Stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", m.id, err)
	}
	return nil
}

// kill ends the node as a crash would be seen from outside.
func (m *member) kill() error {
	if !m.alive {
		return nil
	}
	m.alive = false
	if err := m.node.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", m.id, err)
	}
	return nil
}

func (m *member) drain() error {
	if !m.alive {
		return fmt.Errorf("drain %s: it does not run", m.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if err := m.node.Drain(ctx); err != nil {
		return fmt.Errorf("drain %s: %w", m.id, err)
	}
	return nil
}

// restart stops the node where it runs and starts it again at its address. It
// returns when the nodes it can reach have taken it back, or joinLimit is over.
func (m *member) restart() error {
	if err := m.stop(); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	for _, other := range m.w.members {
		if other == m || !m.w.net.Reaches(m.id, other.id) {
			continue
		}
		if missing := m.w.joined([]*member{m, other}, joinLimit); missing != "" {
			return fmt.Errorf("restart %s: %s after %v", m.id, missing, joinLimit)
		}
	}
	return nil
}

// end stops every node.
func (w *world) end() error {
	var errs []error
	if w.net != nil {
		w.net.HealAll()
	}
	for _, m := range slices.Backward(w.members) {
		errs = append(errs, m.stop())
	}
	w.members = nil
	w.guard.forgetNodes()
	return errors.Join(errs...)
}

// find gives a node that runs; "" means the first that does.
func (w *world) find(id shield.NodeID) (*member, error) {
	var names []string
	for _, m := range w.members {
		if m.alive && (id == "" || m.id == id) {
			return m, nil
		}
		if m.id == id {
			return nil, fmt.Errorf("%s does not run: it was stopped or killed", id)
		}
		names = append(names, string(m.id))
	}
	if len(names) == 0 {
		return nil, errors.New("no cluster runs: call cluster.start(3) first")
	}
	if id == "" {
		return nil, errors.New("no node runs any more")
	}
	if near := shield.Nearest(string(id), names); near != "" {
		return nil, fmt.Errorf("no node %q (did you mean %q?)", id, near)
	}
	return nil, fmt.Errorf("no node %q: there are %v", id, names)
}

// member finds a node whether it runs or not.
func (w *world) member(id shield.NodeID) (*member, error) {
	for _, m := range w.members {
		if m.id == id {
			return m, nil
		}
	}
	_, err := w.find(id)
	return nil, err
}

// calm reports whether nothing can happen to the membership by itself: every
// node that there is runs, is online to all others, and no fault is set.
func (w *world) calm() bool {
	if len(w.members) == 0 || w.net.Faulty() {
		return false
	}
	for _, m := range w.members {
		if !m.alive || m.missing(w.members) != "" || m.node.Intent() == shield.Draining {
			return false
		}
	}
	return true
}

// longRest is from where it pays to let heartbeats rest.
const longRest = 30 * time.Second

// pass lets virtual time go by. A long time passes without heartbeats as soon as
// nothing can come of them, which is soon after the last change.
func (w *world) pass(d time.Duration) {
	const step, steps = 50 * time.Millisecond, 100
	for range steps {
		if d < longRest || len(w.members) == 0 || w.net.Faulty() || w.calm() {
			break
		}
		time.Sleep(step)
		d -= step
	}
	if d >= longRest && w.calm() {
		for _, m := range w.members {
			m.node.Rest(true)
		}
		defer func() {
			for _, m := range w.members {
				m.node.Rest(false)
			}
		}()
	}
	time.Sleep(d)
}
