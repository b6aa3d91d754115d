package service

import (
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// Service is one incarnation of a service: from its start to its end under one
// id. A restart makes a new one.
type Service struct {
	rt     *Runtime
	spec   *Spec
	name   shield.Name // what it publishes; "" = nothing
	handle shield.Handle
	self   *shield.Handle // handle, apart: a message it is in must not keep all of this
	lim    Limits
	start  startup // how it came to be, for its next incarnation
	born   int64   // clock, when on_init began; written under mu
	again  bool    // an earlier incarnation came this far

	// Guarded by registry.mu.
	names []shield.Name

	next *Service // in the line for a worker; guarded by workers.mu

	mu        sync.Mutex
	box       ring
	urgent    []*visit // they come between two turns, before anything else
	ready     waitList // answered; they go before new messages
	waiting   waitList // not answered yet
	timers    timers
	held      bool // somebody has the baton
	phase     phase
	fate      shield.ServiceState // from phaseEnded on: restarting or failed
	ending    ending              // why, from phaseEnding on
	trimAt    int64               // when the mailbox's memory is given up; 0 = not asked for
	armed     int64               // when the clock looks here next; 0 = never
	slot      int                 // in the clock's heap
	drained   chan struct{}       // closed when on_shutdown is through
	abandoned bool                // its VM is left to a turn that does not return

	count  counts
	code   atomic.Pointer[Code]
	memory atomic.Int64  // bytes, an estimate; 0 = not measured
	done   chan struct{} // closed when it has ended

	// For the holder of the baton.
	body      body
	turn      atomic.Pointer[Turn] // that runs now, or ran last; the watcher reads it
	inflight  int                  // turns begun and not over
	answering int                  // of them, those somebody waits for
	stats     atomic.Pointer[map[string]*stat]
	forks     int // asked for and not over
	forking   int // of them, those that have begun
	pending   int // replies awaited
	spare     []*wait
	initBegun bool
	inited    bool // on_init has succeeded
	exited    bool // on_exit has had its chance
	shut      bool // on_shutdown has returned
	errors    int  // in a row
	fullSaid  int64
}

// Code is which version of its code a service runs.
type Code struct {
	Generation int    // 1 at the start; rises with every swap
	Hash       string // short, of all its files
}

// Handle is the service's own handle.
func (s *Service) Handle() shield.Handle { return s.handle }

// Name is the name that the service was started under; "" for none.
func (s *Service) Name() shield.Name { return s.name }

// Spec is what the service was made from. It is not to be changed.
func (s *Service) Spec() *Spec { return s.spec }

// Runtime is the service's node.
func (s *Service) Runtime() *Runtime { return s.rt }

// Code is the version of the code it runs. Any goroutine.
func (s *Service) Code() Code {
	if c := s.code.Load(); c != nil {
		return *c
	}
	return Code{Generation: 1}
}

// Limits are the service's limits.
func (s *Service) Limits() Limits { return s.lim }

// label is how texts for people call the service.
func (s *Service) label() string {
	if s.name != "" {
		return string(s.name)
	}
	return "(" + string(s.spec.Name) + ") " + s.handle.String()
}

func (s *Service) deadError() *shield.Error {
	return shield.Errorf(shield.ServiceDead, "%s has ended", s.label())
}

func (s *Service) now() int64 { return s.rt.clock.now() }

// left is how long it is until the moment at.
func (s *Service) left(at int64) time.Duration { return time.Duration(at - s.now()) }
