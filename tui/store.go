package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"shield/runtime/shield"
)

const (
	maxCalls   = 2000            // finished calls that are kept
	maxHistory = 64              // samples of a rate that are kept
	flashFor   = 3 * time.Second // how long a changed epoch shows 7->8
	rateFor    = 3 * time.Second // how long a rate is believed without news
)

// history is the recent past of one rate, oldest first.
type history struct{ samples []float64 }

func (h *history) add(v float64) {
	if len(h.samples) == maxHistory {
		copy(h.samples, h.samples[1:])
		h.samples = h.samples[:maxHistory-1]
	}
	h.samples = append(h.samples, v)
}

// The items are the rows of package shield with what the console adds: when
// they came, and what they were before.
type nodeItem struct {
	shield.NodeRow
	at   time.Time
	past *history
}

type routeItem struct{ shield.RouteRow }

type serviceItem struct {
	shield.ServiceRow
	rate  float64   // calls a second when they were last counted; see perSecond
	since time.Time // when that was
	base  int64     // how many calls there were then
	past  *history
	mixed bool // another node runs other code under this name
}

// perSecond is the rate of calls now: no news for a while means none.
func (s *serviceItem) perSecond(now time.Time) float64 {
	if now.Sub(s.since) >= rateFor {
		return 0
	}
	return s.rate
}

type sessionItem struct {
	shield.SessionRow
	at    time.Time
	was   shield.SessionEpoch // the epoch before, while flash lasts
	flash time.Time           // until when
}

// A call's row names its ends as its maker wrote them, and the node it was made
// on; from and to say of both ends where they are.
type callItem struct {
	shield.CallRow
	n        uint64
	from, to string
}

// store is everything the console knows. It belongs to the model.
type store struct {
	app, mode, version, endpoint string
	started                      time.Time // of the server, by our clock
	known                        bool      // a snapshot came

	nodes    *list[nodeItem]
	routes   *list[routeItem]
	services *list[serviceItem]
	sessions *list[sessionItem]
	calls    *list[callItem]
	logs     *logPane

	nextCall     uint64
	callsDropped int64
	flashes      time.Time // when the last flash ends
	ratesEnd     time.Time // when the last rate of a service is too old to be true
}

func newStore() *store {
	return &store{
		nodes: newNodes(), routes: newRoutes(), services: newServices(), sessions: newSessions(), calls: newCalls(),
		logs: newLogPane(),
	}
}

// snapshot replaces what is known.
func (s *store) snapshot(sn *Snapshot, now time.Time) {
	restarted := s.known && (s.app != sn.App || sn.UptimeMS > 0 && now.Add(-ms(sn.UptimeMS)).After(s.started.Add(2*time.Second)))
	s.app, s.mode, s.version, s.known = sn.App, sn.Mode, sn.Version, true
	if sn.Endpoint != "" {
		s.endpoint = sn.Endpoint
	}
	s.started = time.Time{}
	if sn.UptimeMS > 0 {
		s.started = now.Add(-ms(sn.UptimeMS))
	}
	s.nodes.replace(s.nodeItems(sn.Nodes, now))
	routes := make([]routeItem, len(sn.Routes))
	for i := range sn.Routes {
		routes[i].RouteRow = sn.Routes[i]
	}
	s.routes.replace(routes)
	s.services.replace(s.serviceItems(sn.Services, now))
	s.mixVersions()
	s.sessions.replace(s.sessionItems(sn.Sessions, now))
	if len(sn.Calls) > 0 {
		s.calls.replace(nil)
		s.addCalls(sn.Calls)
	}
	s.logs.snapshot(sn.Logs, restarted)
}

// delta changes what is known. With hold set the rows on the screen keep their
// places.
func (s *store) delta(d *Delta, now time.Time, hold bool) {
	s.nodes.apply(s.nodeItems(d.Nodes, now), d.GoneNodes, hold)
	if len(d.Routes)+len(d.GoneRoutes) > 0 {
		routes := make([]routeItem, len(d.Routes))
		for i := range d.Routes {
			routes[i].RouteRow = d.Routes[i]
		}
		s.routes.apply(routes, d.GoneRoutes, hold)
	}
	if len(d.Services)+len(d.GoneServices) > 0 {
		s.services.apply(s.serviceItems(d.Services, now), d.GoneServices, hold)
		s.mixVersions()
	}
	s.sessions.apply(s.sessionItems(d.Sessions, now), d.GoneSessions, hold)
	s.addCalls(d.Calls)
	s.callsDropped += d.CallsDropped
	s.logs.add(d.Logs, d.LogsDropped)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (s *store) nodeItems(rows []shield.NodeRow, now time.Time) []nodeItem {
	out := make([]nodeItem, len(rows))
	for i := range rows {
		out[i] = nodeItem{NodeRow: rows[i], at: now, past: &history{}}
		if old := s.nodes.rows[NodeKey(&rows[i])]; old != nil {
			out[i].past = old.val.past
		}
		out[i].past.add(rows[i].CallsPerSecond)
	}
	return out
}

// serviceItems turns totals of calls into rates.
func (s *store) serviceItems(rows []shield.ServiceRow, now time.Time) []serviceItem {
	out := make([]serviceItem, len(rows))
	for i := range rows {
		it := serviceItem{ServiceRow: rows[i], since: now, base: rows[i].Calls, past: &history{}}
		if old := s.services.rows[ServiceKey(&rows[i])]; old != nil {
			it.past, it.rate, it.since = old.val.past, old.val.rate, old.val.since
			it.base = old.val.base
			switch passed := now.Sub(old.val.since); {
			case rows[i].Calls < old.val.base: // it started afresh
				it.rate, it.since, it.base = 0, now, rows[i].Calls
			case passed >= 400*time.Millisecond:
				// A row is sent only when it changed: after a silence the calls
				// are those of the last moment, not of all the time since.
				it.rate = float64(rows[i].Calls-old.val.base) / min(passed, time.Second).Seconds()
				it.since, it.base = now, rows[i].Calls
				it.past.add(it.rate)
				s.ratesEnd = now.Add(rateFor)
			}
		}
		out[i] = it
	}
	return out
}

// mixVersions finds the services whose name runs different code elsewhere.
func (s *store) mixVersions() {
	codes := make(map[shield.Name]string, len(s.services.order))
	mixed := map[shield.Name]bool{}
	for _, r := range s.services.order {
		if r.val.Code == "" {
			continue
		}
		if c, ok := codes[r.val.Name]; ok && c != r.val.Code {
			mixed[r.val.Name] = true
		}
		codes[r.val.Name] = r.val.Code
	}
	for _, r := range s.services.order {
		r.val.mixed = mixed[r.val.Name]
	}
}

func (s *store) sessionItems(rows []shield.SessionRow, now time.Time) []sessionItem {
	if len(rows) == 0 {
		return nil
	}
	out := make([]sessionItem, len(rows))
	for i := range rows {
		it := sessionItem{SessionRow: rows[i], at: now}
		if old := s.sessions.rows[string(rows[i].Session)]; old != nil {
			it.was, it.flash = old.val.was, old.val.flash
			if old.val.Epoch != it.Epoch {
				it.was, it.flash = old.val.Epoch, now.Add(flashFor)
				s.flashes = it.flash
			}
			if it.History == nil {
				it.History = old.val.History
			}
		}
		out[i] = it
	}
	return out
}

func (s *store) addCalls(rows []shield.CallRow) {
	if len(rows) > maxCalls {
		s.callsDropped += int64(len(rows) - maxCalls)
		rows = rows[len(rows)-maxCalls:]
	}
	items := make([]callItem, len(rows))
	for i := range rows {
		s.nextCall++
		items[i] = callItem{CallRow: rows[i], n: s.nextCall, from: caller(&rows[i]), to: s.called(&rows[i])}
	}
	var gone []string
	if over := len(s.calls.rows) + len(rows) - maxCalls; over > 0 {
		first := s.nextCall - uint64(len(rows)) - uint64(len(s.calls.rows)) + 1
		for n := first; n < first+uint64(over); n++ {
			gone = append(gone, strconv.FormatUint(n, 10))
		}
	}
	s.calls.apply(items, gone, false)
}

// callsPerSecond is the sum over the nodes.
func (s *store) callsPerSecond() float64 {
	sum := 0.0
	for _, r := range s.nodes.order {
		sum += r.val.CallsPerSecond
	}
	return sum
}

// serviceAt finds the service a route leads to.
func (s *store) serviceAt(r *shield.RouteRow) *serviceItem {
	if row := s.services.rows[ServiceKey(&shield.ServiceRow{Node: r.Node, ID: r.Service})]; row != nil {
		return row.val
	}
	return nil
}

func (s *store) node(id shield.NodeID) *nodeItem {
	if row := s.nodes.rows[string(id)]; row != nil {
		return row.val
	}
	return nil
}

// targets lists what can be called: names, and node:name.
func (s *store) targets() []string {
	out := make([]string, 0, 2*len(s.services.order))
	for _, r := range s.services.order {
		for _, n := range r.val.Names {
			out = append(out, string(n), string(r.val.Node)+":"+string(n))
		}
	}
	slices.SortFunc(out, natural)
	return slices.Compact(out)
}

// caller is who made a call: a service with its node; control and a session as
// they are.
func caller(c *shield.CallRow) string {
	if c.From == "" || c.From == "control" || c.Node == "" || strings.ContainsAny(c.From, ":# ") {
		return c.From
	}
	return string(c.Node) + ":" + c.From
}

// called is what a call went to, with the node it ran on: a handle becomes the
// name it stands for, and a name without a node is one of the node the call was
// made on.
func (s *store) called(c *shield.CallRow) string {
	if row := s.services.rows[c.Target]; row != nil && row.val.Name != "" {
		return string(row.val.Node) + ":" + string(row.val.Name)
	}
	if c.Node == "" || strings.ContainsAny(c.Target, ":#") {
		return c.Target
	}
	return string(c.Node) + ":" + c.Target
}

// excerpt is what the log says about a failed reload: the same line, with the
// source around it. Without such a line the reason stands for itself.
func (s *store) excerpt(why string) string {
	first := firstLine(why)
	if first != why {
		return why // it brings its own
	}
	for i := len(s.logs.live) - 1; i >= 0; i-- {
		it := &s.logs.live[i]
		if it.Event == "reload" && strings.HasPrefix(it.Text, first) {
			return it.Text
		}
	}
	return why
}
