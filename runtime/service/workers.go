package service

import "sync"

// keepIdle is how many workers wait for work; more than that end instead.
const keepIdle = 256

// keepHands is how many of them keep their Lua stack: those that work next.
const keepHands = 8

// workers are pooled goroutines. The one that became idle last is woken first:
// its stack is warm. There is no upper bound but the services' max_coroutines:
// a parked handler keeps its goroutine.
type workers struct {
	mu     sync.Mutex
	idle   []*worker
	closed bool
	wg     sync.WaitGroup
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
	p.wg.Add(1)
	p.mu.Unlock()
	w := &worker{job: make(chan *Service, 1)}
	w.begin(s, m)
	go p.loop(w)
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

// rest puts w among the idle; false tells it to end.
func (p *workers) rest(w *worker) bool {
	p.mu.Lock()
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
