package service

import (
	"maps"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// stat counts what one method of a service took. The holder of the baton
// writes it; anybody may read.
type stat struct{ count, errors, total, longest atomic.Int64 }

// maxStats bounds how many methods of a service are counted apart; a module
// that makes methods as it runs has more than anybody wants to read.
const maxStats = 256

// timed counts a turn that is over. The caller holds the baton.
func (s *Service) timed(t *Turn, err *shield.Error) {
	if t.Kind == TurnEval || err != nil && (err.Code == shield.MethodNotFound || err.Code == shield.RPCHandlerMissing) {
		return
	}
	name := t.Method
	if name == "" {
		name = "(" + t.Kind.String() + ")"
	}
	st := s.stat(name)
	took := s.now() - t.begun
	st.count.Add(1)
	st.total.Add(took)
	if took > st.longest.Load() {
		st.longest.Store(took)
	}
	if err != nil {
		st.errors.Add(1)
	}
}

// stat finds the counters of a method. The map is replaced, never written to,
// so that whoever inspects a stuck service can read it.
func (s *Service) stat(name string) *stat {
	var all map[string]*stat
	if p := s.stats.Load(); p != nil {
		all = *p
	}
	if st := all[name]; st != nil {
		return st
	}
	if len(all) >= maxStats {
		if name == otherMethods {
			return all[name]
		}
		return s.stat(otherMethods)
	}
	next := make(map[string]*stat, len(all)+1)
	maps.Copy(next, all)
	st := new(stat)
	if len(next) == maxStats-1 {
		name = otherMethods
	}
	next[name] = st
	s.stats.Store(&next)
	return st
}

const otherMethods = "(others)"

// Handled is what the turns of one method took, from their begin to their end,
// what they waited for included.
type Handled struct {
	Method  string // (timer), (fork) and the like in parentheses
	Count   int64
	Errors  int64
	Mean    time.Duration
	Longest time.Duration
}

func (s *Service) handled() []Handled {
	p := s.stats.Load()
	if p == nil {
		return nil
	}
	var all []Handled
	for name, st := range *p {
		h := Handled{Method: name, Count: st.count.Load(), Errors: st.errors.Load(), Longest: time.Duration(st.longest.Load())}
		if h.Count > 0 {
			h.Mean = time.Duration(st.total.Load() / h.Count)
			all = append(all, h)
		}
	}
	return all
}
