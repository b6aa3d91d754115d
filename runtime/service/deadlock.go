package service

import (
	"fmt"
	"log/slog"
	"strings"

	"shield/runtime/shield"
)

// A service that is in on_init does not read its mailbox, so a call to it waits
// until on_init has returned. When the on_init handlers of several services
// wait for each other like that, in a ring, none can ever end. lookForRing is
// called by the handler that has just parked; of the handlers of a ring at
// least the last one sees all the others.
func (r *Runtime) lookForRing(s *Service) {
	type link struct {
		from  *Service
		what  string
		stack string
	}
	var ring []link
	seen := map[*Service]bool{}
	for at := s; ; {
		if seen[at] {
			if at != s {
				return // a ring, but another one: whoever closed it has told
			}
			break
		}
		seen[at] = true
		at.mu.Lock()
		w := at.waiting.head
		for ; w != nil && w.callee == nil; w = w.next {
		}
		if at.phase != phaseInit || w == nil {
			at.mu.Unlock()
			return
		}
		ring = append(ring, link{at, fmt.Sprintf("%s(%q, %q)", w.kind, w.to, w.method), w.stack})
		next := w.callee
		at.mu.Unlock()
		at = next
	}
	var b strings.Builder
	b.WriteString("these on_init wait for each other and can never end: ")
	for _, l := range ring {
		b.WriteString(l.from.label() + " -> ")
	}
	b.WriteString(s.label())
	for _, l := range ring {
		fmt.Fprintf(&b, "\n%s waits in %s\n%s", l.from.label(), l.what, l.stack)
	}
	b.WriteString("\nmove the call out of on_init (shield.fork runs it after the start), or use shield.send")
	s.log(slog.LevelError, b.String(), slog.String("event", "deadlock"))
}

// fullPeriod is how often a service at max_coroutines is reported.
const fullPeriod = int64(10e9)

// reportFull shows, in dev, what all handlers of a service at max_coroutines
// wait for. The caller holds the baton.
func (s *Service) reportFull(err *shield.Error) {
	now := s.now()
	if s.fullSaid != 0 && now-s.fullSaid < fullPeriod {
		return
	}
	s.fullSaid = now
	msg := err.Message
	if s.rt.cfg.Dev {
		msg += waitsText(s.parkedRows())
	}
	s.log(slog.LevelError, msg, slog.String("event", "deadlock"))
}

// waitsText says what a service waits for, for the error of a start that takes
// too long.
func (s *Service) waitsText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting.head
	if w == nil {
		return ""
	}
	text := "; it waits in " + string(w.kind)
	if w.kind == waitCall || w.kind == waitSpawn {
		text += fmt.Sprintf("(%q, %q)", w.to, w.method)
	}
	if w.stack != "" {
		text += "\n" + w.stack
	}
	return text
}

// waitsText writes parked handlers, those with one stack together.
func waitsText(rows []Parked) string {
	type group struct {
		row Parked
		n   int
	}
	var order []string
	groups := map[string]*group{}
	for _, p := range rows {
		key := p.Stack + "\x00" + p.What + "\x00" + p.Target
		if g := groups[key]; g != nil {
			g.n++
			continue
		}
		groups[key] = &group{p, 1}
		order = append(order, key)
	}
	var b strings.Builder
	for i, key := range order {
		if i == 10 {
			fmt.Fprintf(&b, "\n... and %d other places", len(order)-i)
			break
		}
		g := groups[key]
		fmt.Fprintf(&b, "\n%d in %s, waiting in %s", g.n, g.row.Method, g.row.What)
		if g.row.Target != "" {
			fmt.Fprintf(&b, "(%q, %q)", g.row.Target, g.row.Calls)
		}
		if g.row.Stack != "" {
			b.WriteString("\n" + g.row.Stack)
		}
	}
	return b.String()
}
