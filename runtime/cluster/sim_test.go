package cluster_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

// The simulator runs real nodes on real QUIC over a simulated network, in
// virtual time, through a random history that one seed fixes: crashes and
// restarts on the same port, stops, pauses, cuts (also one-way), loss, delay,
// reordering, duplicated packets, full queues, clocks that jump, while services
// call each other, register and unregister. Every promise is checked as it runs.
//
//	go test ./runtime/cluster -run Sim -seeds 10000
//	go test ./runtime/cluster -run Sim -seed 17 -count 50
//
// A seed fixes the schedule of faults, not the interleaving of goroutines: a
// failure may need several runs of its seed to come again.
var (
	simSeeds = flag.Int("seeds", 20, "how many seeds the simulator runs")
	simFirst = flag.Uint64("first", 1, "the first of them")
	simSeed  = flag.Uint64("seed", 0, "run only this seed")
)

func TestSim(t *testing.T) {
	if *simSeed != 0 {
		runSim(t, *simSeed)
		return
	}
	for seed := *simFirst; seed < *simFirst+uint64(*simSeeds) && !t.Failed(); seed++ {
		runSim(t, seed)
		if done := seed - *simFirst + 1; done%500 == 0 {
			t.Logf("%d seeds", done) // with -v, for whoever waits
		}
	}
}

func runSim(t *testing.T, seed uint64) {
	// Virtual time stands still in a loop that never blocks, so the watchdog is
	// outside the bubble.
	watchdog := time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprintf("seed %d hangs", seed)) })
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, seed)
		defer s.w.close()
		s.run()
		if s.broken() {
			t.Errorf("seed %d broke its promises; again: go test ./runtime/cluster -run Sim -seed %d -count 50\n%s", seed, seed, s.story())
		}
	})
}

// history is one run of the simulator.
type history struct {
	w       *world
	seed    uint64
	rng     *rand.Rand
	begin   time.Time
	slots   []*slot
	stop    chan struct{}
	work    sync.WaitGroup
	settled atomic.Bool
	double  float64 // rate of packets that come twice
	jitter  time.Duration

	mu     sync.Mutex
	trace  []string
	breach []string
	truth  map[shield.NodeID]map[shield.NodeEpoch]map[shield.ServiceID]shield.Name // every name that was ever published
	token  uint64
}

// slot is a place for one node id: at most one process at a time.
type slot struct {
	id    shield.NodeID
	host  int
	peers []int
	clock time.Duration // offset of its wall clock
	last  shield.NodeEpoch
	node  *simNode // nil while it is down
}

// Load and Save make a slot the store of its node's epoch.
func (sl *slot) Load() (shield.NodeEpoch, error) { return sl.last, nil }
func (sl *slot) Save(e shield.NodeEpoch) error   { sl.last = e; return nil }

func newSim(t *testing.T, seed uint64) *history {
	s := &history{
		w: newWorld(t, seed), seed: seed, rng: rand.New(rand.NewPCG(seed, 99)), begin: time.Now(), stop: make(chan struct{}),
		truth: map[shield.NodeID]map[shield.NodeEpoch]map[shield.ServiceID]shield.Name{},
	}
	n := 3 + s.rng.IntN(3)
	for i := range n {
		s.slots = append(s.slots, &slot{id: shield.NodeID(fmt.Sprintf("node-%d", i+1)), host: i + 1})
	}
	// Each pair is configured in one direction at least.
	for i := range n {
		for j := range i {
			switch s.rng.IntN(3) {
			case 0:
				s.slots[i].peers = append(s.slots[i].peers, j+1)
			case 1:
				s.slots[j].peers = append(s.slots[j].peers, i+1)
			default:
				s.slots[i].peers = append(s.slots[i].peers, j+1)
				s.slots[j].peers = append(s.slots[j].peers, i+1)
			}
		}
	}
	s.w.net.Latency(time.Duration(s.rng.IntN(20)) * time.Millisecond)
	s.jitter = time.Duration(1+s.rng.IntN(30)) * time.Millisecond
	loss := []float64{0, 0, 0.01, 0.05}[s.rng.IntN(4)]
	s.double = []float64{0, 0.02}[s.rng.IntN(2)]
	s.w.net.Faults(loss, s.double, s.jitter)
	return s
}

// run is the history: a start, a troubled time, a quiet time, and the end.
func (s *history) run() {
	defer s.end()
	for _, sl := range s.slots {
		s.start(sl)
		time.Sleep(time.Duration(s.rng.IntN(200)) * time.Millisecond)
	}
	s.work.Go(s.watch)
	for range 10 + s.rng.IntN(15) {
		s.fault()
		time.Sleep(time.Duration(s.rng.IntN(6000)) * time.Millisecond)
		if s.broken() {
			return
		}
	}
	s.note("quiet")
	s.w.net.HealAll()
	s.w.net.Faults(0, 0, s.jitter)
	for _, sl := range s.slots {
		if sl.node == nil {
			s.start(sl)
		}
		sl.node.narrow.until(time.Now())
	}
	// The longest pause, the redial delay, and the heartbeats that end a verdict
	// by time-out.
	time.Sleep(25 * time.Second)
	s.settled.Store(true) // nobody publishes any more
	time.Sleep(time.Second)
	s.wantAgreement()
	for _, sl := range s.slots {
		sl.node.halt()
	}
	time.Sleep(70 * time.Second) // the longest call, and what its id waits for a reply that was lost
	for _, sl := range s.slots {
		if left := sl.node.c.Leftovers(); left != "" {
			s.breaks("%s still holds after all work has ended: %s", sl.id, left)
		}
	}
}

// end stops the work before the nodes.
func (s *history) end() {
	close(s.stop)
	for _, sl := range s.slots {
		if sl.node != nil {
			sl.node.halt()
		}
	}
	s.work.Wait()
}

// fault does one random thing to the world.
func (s *history) fault() {
	sl := s.slots[s.rng.IntN(len(s.slots))]
	other := s.slots[s.rng.IntN(len(s.slots))]
	d := time.Duration(s.rng.IntN(15000)) * time.Millisecond
	switch kind := s.rng.IntN(11); {
	case sl.node == nil:
		s.start(sl)
	case kind < 2:
		s.note("crash %s", sl.id)
		sl.node.halt()
		sl.node.crash()
		sl.node = nil
		if s.rng.IntN(2) == 0 {
			time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
			s.start(sl)
		}
	case kind == 2:
		s.note("stop %s", sl.id)
		sl.node.halt()
		sl.node.stop()
		sl.node = nil
	case kind == 3:
		s.pause(sl, d)
	case kind < 6 && other != sl:
		oneWay := s.rng.IntN(2) == 0
		s.note("cut %s %s one way: %v for %v", sl.id, other.id, oneWay, d)
		s.w.net.Cut(addrOf(sl.host), addrOf(other.host))
		if !oneWay {
			s.w.net.Cut(addrOf(other.host), addrOf(sl.host))
		}
	case kind < 8:
		s.note("heal")
		s.w.net.HealAll()
	case kind == 9:
		s.note("nobody reads what %s writes for %v", sl.id, d)
		sl.node.narrow.until(time.Now().Add(d))
	case kind == 8:
		loss := s.rng.Float64() * 0.3
		s.note("loss %.2f", loss)
		s.w.net.Faults(loss, s.double, s.jitter)
	default:
		sl.clock = time.Duration(s.rng.IntN(7200)-3600) * time.Second
		s.note("clock of %s jumps by %v", sl.id, sl.clock)
	}
}

// pause freezes a node as SIGSTOP does: its owner does not run, its packets
// neither come nor go.
func (s *history) pause(sl *slot, d time.Duration) {
	s.note("pause %s for %v", sl.id, d)
	n := sl.node
	n.paused.Store(true)
	s.w.net.Down(n.addr, true)
	n.c.Pause(d)
	time.Sleep(d)
	s.w.net.Down(n.addr, false)
	n.paused.Store(false)
	s.note("%s goes on", sl.id)
}

func (s *history) start(sl *slot) {
	n := s.newNode(sl)
	s.note("start %s epoch %v peers %v", sl.id, n.cfg.Epoch, sl.peers)
	sl.node = n
	n.prepare()
	s.work.Go(func() {
		if err := n.c.Start(n.ctx); err != nil && n.ctx.Err() == nil {
			s.breaks("%s did not start: %v", sl.id, err)
		}
	})
	s.work.Go(n.publishSome)
	s.work.Go(n.callOthers)
}

// watch checks, all the time, what must hold at every moment.
func (s *history) watch() {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.w.mu.Lock()
		nodes := append([]*testNode(nil), s.w.nodes...)
		s.w.mu.Unlock()
		for _, n := range nodes {
			if sn, ok := n.local.(*simNode); ok && sn.ctx.Err() == nil {
				sn.checkView()
			}
		}
	}
}

// wantAgreement checks that every view is the truth.
func (s *history) wantAgreement() {
	for _, sl := range s.slots {
		if err := sl.node.c.Err(); err != nil {
			s.breaks("%s ended: %v", sl.id, err)
			continue
		}
		rows := sl.node.c.Nodes()
		if len(rows) != len(s.slots) {
			s.breaks("%s sees %d nodes, want %d: %+v", sl.id, len(rows), len(s.slots), rows)
		}
		for _, row := range rows {
			for _, other := range s.slots {
				if row.Node == other.id && (row.State != shield.Online || row.Epoch != other.node.c.Epoch()) {
					s.breaks("after quiet time %s sees %s %s (%s) epoch %v, truth %v", sl.id, row.Node, row.State, row.Reason, row.Epoch, other.node.c.Epoch())
				}
			}
		}
		for _, other := range s.slots {
			if other == sl {
				continue
			}
			want, got := other.node.names(), map[shield.Name]shield.ServiceID{}
			for _, r := range sl.node.c.Routes() {
				if r.Node == other.id {
					got[r.Name] = r.Service
				}
			}
			if fmt.Sprint(want) != fmt.Sprint(got) {
				s.breaks("after quiet time %s has of %s %v, truth %v", sl.id, other.id, got, want)
			}
		}
	}
}

func (s *history) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, fmt.Sprintf("%9.3fs ", time.Since(s.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (s *history) breaks(format string, args ...any) {
	s.note("BREACH "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breach = append(s.breach, fmt.Sprintf(format, args...))
}

func (s *history) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.breach) > 0
}

// story is what happened, up to the first breach and a little after.
func (s *history) story() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.trace
	for i, l := range lines {
		if strings.Contains(l, "BREACH") {
			lines = lines[max(0, i-150):min(len(lines), i+10)]
			break
		}
	}
	return strings.Join(lines, "\n")
}
