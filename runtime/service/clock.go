package service

import (
	"math"
	"sync"
	"time"
)

// clock wakes services at the deadlines of their waits and timers. A service
// is in its heap at most once, at the earliest moment it cares for, and stays
// there when that moment is called off: a call that is answered in time costs
// the clock nothing, and the service is looked at in vain once in a while.
//
// Times are nanoseconds since the runtime was made, on the monotonic clock;
// zero means none.
type clock struct {
	base time.Time

	mu   sync.Mutex
	heap []*Service    // by Service.armed; Service.slot is the index
	poke chan struct{} // capacity 1: the earliest moment has changed
}

func newClock() *clock { return &clock{base: time.Now(), poke: make(chan struct{}, 1)} }

// now is never zero, so that zero can mean none.
func (c *clock) now() int64 { return int64(time.Since(c.base)) + 1 }

// later is the moment d after at, or the last there is.
func later(at int64, d time.Duration) int64 {
	if int64(d) > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + int64(d)
}

// arm makes sure that s.tick runs at the moment at or soon after. The caller
// holds s.mu.
func (c *clock) arm(s *Service, at int64) {
	if s.armed != 0 && s.armed <= at {
		return
	}
	c.mu.Lock()
	in := s.armed != 0
	s.armed = at
	if !in {
		s.slot = len(c.heap)
		c.heap = append(c.heap, s)
	}
	c.up(s.slot)
	first := s.slot == 0
	c.mu.Unlock()
	if first {
		select {
		case c.poke <- struct{}{}:
		default:
		}
	}
}

// due takes one service whose moment has come out of the heap, or says how
// long it is until the next. The service's armed is stale until tick clears it.
func (c *clock) due() (s *Service, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heap) == 0 {
		return nil, -1
	}
	s = c.heap[0]
	if left := s.armed - c.now(); left > 0 {
		return nil, time.Duration(left)
	}
	n := len(c.heap) - 1
	c.swap(0, n)
	c.heap[n] = nil
	c.heap = c.heap[:n]
	c.down(0)
	s.slot = -1
	return s, 0
}

// run is the clock's goroutine; it ends when done is closed.
func (c *clock) run(done <-chan struct{}) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		s, wait := c.due()
		if s != nil {
			s.tick()
			continue
		}
		if wait < 0 {
			t.Stop()
		} else {
			t.Reset(wait)
		}
		select {
		case <-done:
			return
		case <-c.poke:
		case <-t.C:
		}
	}
}

func (c *clock) swap(i, j int) {
	c.heap[i], c.heap[j] = c.heap[j], c.heap[i]
	c.heap[i].slot, c.heap[j].slot = i, j
}

func (c *clock) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if c.heap[p].armed <= c.heap[i].armed {
			return
		}
		c.swap(i, p)
		i = p
	}
}

func (c *clock) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(c.heap) {
			return
		}
		if k+1 < len(c.heap) && c.heap[k+1].armed < c.heap[k].armed {
			k++
		}
		if c.heap[i].armed <= c.heap[k].armed {
			return
		}
		c.swap(i, k)
		i = k
	}
}
