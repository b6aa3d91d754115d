package service

import (
	"sync"
	"sync/atomic"
)

// keepIdle is how many workers wait for work; more than that end instead.
const keepIdle = 256

// keepHands is how many of them keep their Lua stack: those that work next.
const keepHands = 8

// mostStarting is how many workers may be on their way at once: goroutines that
// have been started and have not run yet.
const mostStarting = 64

// workers are pooled goroutines. The one that became idle last is woken first:
// its stack is warm.
//
// A broadcast makes a hundred thousand services want a worker within a moment,
// and most of them need it for a microsecond. So while mostStarting are on their
// way, further services line up, and whoever is done with one takes the next. A
// worker that begins starts another for the line first: if its handler never
// comes back, because it waits without telling us, nobody behind it is held up.
// Nothing bounds how many handlers are parked or stuck but max_coroutines; they
// keep their goroutines.
type workers struct {
	mu       sync.Mutex
	idle     []*worker
	starting int
	first    *Service // the line, linked by Service.next
	last     *Service
	crowded  atomic.Bool // starting is at its most
	closed   bool
	wg       sync.WaitGroup
}

// run lets a worker go on with s, whose baton the caller gives away, and with m
// first, if there is one.
func (p *workers) run(s *Service, m *message) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w.begin(s, m)
		return
	}
	if m == nil && p.starting >= mostStarting {
		if p.last == nil {
			p.first = s
		} else {
			p.last.next = s
		}
		p.last = s
		p.mu.Unlock()
		return
	}
	p.startLocked(s, m)
}

// startLocked makes a new worker for s. It releases the lock.
func (p *workers) startLocked(s *Service, m *message) {
	p.wg.Add(1)
	p.starting++
	if p.starting == mostStarting {
		p.crowded.Store(true)
	}
	p.mu.Unlock()
	w := &worker{job: make(chan *Service, 1)}
	w.begin(s, m)
	go p.loop(w)
}

// nextLocked takes the first out of the line; nil when there is none.
func (p *workers) nextLocked() *Service {
	s := p.first
	if s == nil {
		return nil
	}
	p.first, s.next = s.next, nil
	if p.first == nil {
		p.last = nil
	}
	return s
}

// begun is the first thing that a new worker does.
func (p *workers) begun() {
	p.mu.Lock()
	p.starting--
	if p.starting < mostStarting {
		if s := p.nextLocked(); s != nil {
			p.startLocked(s, nil)
			return
		}
		p.crowded.Store(false)
	}
	p.mu.Unlock()
}

// begin gives an idle worker something to do.
func (w *worker) begin(s *Service, m *message) {
	if m != nil {
		w.msg, w.brought = *m, true
	}
	w.job <- s
}

func (p *workers) loop(w *worker) {
	defer p.wg.Done()
	p.begun()
	for s := range w.job {
		s.work(w)
		if w.lost {
			break // its message is being answered by whoever gave the turn up
		}
		w.msg = message{}
		if !p.rest(w) {
			break
		}
	}
	w.give()
}

// rest gives w the next service of the line, or puts it among the idle; false
// tells it to end.
func (p *workers) rest(w *worker) bool {
	p.mu.Lock()
	if s := p.nextLocked(); s != nil {
		p.mu.Unlock()
		w.job <- s
		return true
	}
	if len(p.idle) >= keepHands && w.hand != nil {
		p.mu.Unlock()
		w.give()
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= keepIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// close lets idle workers end, and busy ones when they are done.
func (p *workers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w.job)
	}
	p.idle = nil
}
