package testrun

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// Turns lets the goroutines of one bubble go on one at a time. Whoever is about
// to do something that others can see takes a turn first. The next one is given
// when every goroutine of the bubble waits: then the last has done all it can,
// and who comes next is decided by the seed among all who wait, in an order of
// their names, never of their arrival.
type Turns struct {
	mu      sync.Mutex
	waiting []*claim
	dice    *rand.Rand
	hash    hash.Hash64
	began   time.Time
	poke    chan struct{}
	halt    *atomic.Bool // when it is set only the test itself goes on; may be nil

	count atomic.Uint64 // given out
	still atomic.Uint64 // given out since time moved last
	at    time.Time     // of the last one
	names [8]string     // of the last ones
}

type claim struct {
	who string
	go_ chan struct{}
}

// NewTurns must be called inside the bubble. Run it in a goroutine.
func NewTurns(seed uint64) *Turns {
	return &Turns{dice: rand.New(rand.NewPCG(seed, 0x7475726e)), hash: fnv.New64a(), began: time.Now(), poke: make(chan struct{}, 1)}
}

// Take returns when it is who's turn.
func (t *Turns) Take(who string) {
	c := &claim{who, make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, c)
	t.mu.Unlock()
	select {
	case t.poke <- struct{}{}:
	default:
	}
	<-c.go_
}

// Run gives out turns until done is closed.
func (t *Turns) Run(done <-chan struct{}) {
	for {
		select {
		case <-t.poke:
		case <-done:
			return
		}
		for {
			synctest.Wait()
			c := t.next()
			if c == nil {
				break
			}
			close(c.go_)
		}
	}
}

func (t *Turns) next() *claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	if n == 0 {
		return nil
	}
	if t.halt != nil && t.halt.Load() {
		return t.own()
	}
	i := 0
	if n > 1 {
		slices.SortStableFunc(t.waiting, func(a, b *claim) int { return strings.Compare(a.who, b.who) })
		i = t.dice.IntN(n)
		for i > 0 && t.waiting[i-1].who == t.waiting[i].who {
			i-- // those of one name keep their order
		}
	}
	c := t.waiting[i]
	t.waiting = slices.Delete(t.waiting, i, i+1)
	now := time.Now()
	if now.After(t.at) {
		t.at = now
		t.still.Store(0)
	}
	t.names[t.count.Load()%uint64(len(t.names))] = c.who
	t.count.Add(1)
	t.still.Add(1)
	fmt.Fprintf(t.hash, "%d %s\n", now.Sub(t.began), c.who)
	return c
}

// own takes the claim of the test itself.
func (t *Turns) own() *claim {
	i := slices.IndexFunc(t.waiting, func(c *claim) bool { return c.who == theTest })
	if i < 0 {
		return nil
	}
	c := t.waiting[i]
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return c
}

// theTest is how the goroutine that runs the test file calls itself.
const theTest = "test"

// Count is how many turns were given out.
func (t *Turns) Count() uint64 { return t.count.Load() }

// Schedule is a hash over all turns: equal for equal runs.
func (t *Turns) Schedule() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%016x", t.hash.Sum64())
}

// busy is how many turns without time moving look like a run that never ends.
const busy = 10_000

// Stuck says what keeps time from moving, "" when nothing does. It may be called
// from outside the bubble.
func (t *Turns) Stuck() string {
	n := t.still.Load()
	if n < busy {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last := slices.Clone(t.names[:])
	slices.Sort(last)
	return fmt.Sprintf("time stands still: %d turns went to the same moment, the last of them to %s", n, strings.Join(slices.Compact(last), ", "))
}
