package tui

import (
	"cmp"
	"strconv"
	"strings"

	"shield/runtime/shield"
	"shield/tui/grid"
	"shield/tui/theme"
)

// The tables. Priority says who stays when there is little room: the lowest
// leaves first, none leaves with 0.

func newNodes() *list[nodeItem] {
	return newList(func(n *nodeItem) string { return NodeKey(&n.NodeRow) }, nodeHay, []column[nodeItem]{
		{grid.Column{Title: "NODE", Min: 8, Max: 24, Middle: true}, func(p *pen, n *nodeItem) cell {
			if n.Node == "" {
				return cell{text: p.clean("(" + n.Address + ")"), role: theme.Dim}
			}
			return plain(p.clean(string(n.Node)))
		}, text(func(v *nodeItem) string { return NodeKey(&v.NodeRow) })},
		{grid.Column{Title: "STATE", Priority: 99}, func(p *pen, n *nodeItem) cell { return p.nodeState(&n.NodeRow) },
			value(func(a, b *nodeItem) int { return cmp.Compare(a.State, b.State) })},
		{grid.Column{Title: "ROUTES", Right: true, Priority: 60}, func(p *pen, n *nodeItem) cell {
			c := plain("v" + strconv.FormatUint(uint64(n.RoutesVersion), 10))
			if n.RoutesBehind {
				return cell{text: c.text + "<", role: theme.Warn}
			}
			return c
		}, value(func(a, b *nodeItem) int { return cmp.Compare(a.RoutesVersion, b.RoutesVersion) })},
		{grid.Column{Title: "SVC", Right: true, Priority: 50}, func(_ *pen, n *nodeItem) cell { return number(n.Services) },
			value(func(a, b *nodeItem) int { return cmp.Compare(a.Services, b.Services) })},
		{grid.Column{Title: "SESS", Right: true, Priority: 80}, func(_ *pen, n *nodeItem) cell { return number(n.Sessions) },
			value(func(a, b *nodeItem) int { return cmp.Compare(a.Sessions, b.Sessions) })},
		{grid.Column{Title: "CALL/S", Right: true, Priority: 70}, func(_ *pen, n *nodeItem) cell { return plain(count(n.CallsPerSecond)) },
			value(func(a, b *nodeItem) int { return cmp.Compare(a.CallsPerSecond, b.CallsPerSecond) })},
		{grid.Column{Title: "RTT", Right: true, Priority: 45}, nodeRTT,
			value(func(a, b *nodeItem) int { return cmp.Compare(a.RTTMicros, b.RTTMicros) })},
		{grid.Column{Title: "LOSS", Right: true, Priority: 15}, func(_ *pen, n *nodeItem) cell { return lossOf(n) },
			value(func(a, b *nodeItem) int { return cmp.Compare(a.LossPercent, b.LossPercent) })},
		{grid.Column{Title: "UP", Right: true, Priority: 30}, func(p *pen, n *nodeItem) cell {
			if n.Uptime == 0 || away(n) {
				return dash
			}
			return plain(span(grown(n.Uptime, n.at, p.now)))
		}, value(func(a, b *nodeItem) int { return cmp.Compare(a.Uptime, b.Uptime) })},
		{grid.Column{Title: "ADDR", Min: 15, Max: 28, Priority: 20}, func(p *pen, n *nodeItem) cell { return plain(p.clean(n.Address)) },
			text(func(v *nodeItem) string { return v.Address })},
		{grid.Column{Title: "GATEWAY", Min: 18, Max: 40, Priority: 10}, func(p *pen, n *nodeItem) cell {
			return plain(p.clean(strings.Join(n.Gateways, " ")))
		}, nil},
		{grid.Column{Title: "EPOCH", Wide: true, Priority: 5}, func(_ *pen, n *nodeItem) cell {
			if n.Epoch == 0 {
				return dash
			}
			return plain(n.Epoch.String())
		}, value(func(a, b *nodeItem) int { return cmp.Compare(a.Epoch, b.Epoch) })},
		{grid.Column{Title: "SKEW", Wide: true, Right: true, Priority: 4}, func(_ *pen, n *nodeItem) cell {
			if n.ClockSkew == nil {
				return dash
			}
			return plain(strconv.FormatInt(*n.ClockSkew, 10) + "ms")
		}, nil},
		{grid.Column{Title: "REASON", Wide: true, Max: 60, Priority: 3}, func(p *pen, n *nodeItem) cell { return plain(p.clean(n.Reason)) }, nil},
	})
}

func nodeHay(n *nodeItem) string {
	return strings.Join([]string{string(n.Node), string(n.State), string(n.Intent), n.Address, n.Reason, strings.Join(n.Gateways, " ")}, " ")
}

// away reports a node that is not there: what was measured of it last is no news.
func away(n *nodeItem) bool { return n.State == shield.Offline || n.State == shield.Removed }

func nodeRTT(_ *pen, n *nodeItem) cell {
	if n.Self || n.RTTMicros == 0 || away(n) {
		return dash
	}
	return plain(millis(n.RTTMicros) + "ms")
}

func lossOf(n *nodeItem) cell {
	if n.Self || away(n) {
		return dash
	}
	c := plain(strconv.FormatFloat(n.LossPercent, 'f', 1, 64) + "%")
	if n.LossPercent >= 1 {
		c.role = theme.Warn
	}
	return c
}

func newRoutes() *list[routeItem] {
	return newList(func(r *routeItem) string { return RouteKey(&r.RouteRow) },
		func(r *routeItem) string { return RouteKey(&r.RouteRow) }, []column[routeItem]{
			{grid.Column{Title: "ROUTE", Min: 14, Max: 40, Middle: true}, func(p *pen, r *routeItem) cell { return plain(p.clean(string(r.Name))) },
				text(func(v *routeItem) string { return string(v.Name) })},
			{grid.Column{Title: "NODE", Min: 8, Max: 24, Middle: true, Priority: 99}, func(p *pen, r *routeItem) cell { return plain(p.clean(string(r.Node))) },
				text(func(v *routeItem) string { return string(v.Node) })},
			{grid.Column{Title: "VER", Right: true, Priority: 60}, func(_ *pen, r *routeItem) cell {
				return plain("v" + strconv.FormatUint(uint64(r.Version), 10))
			}, value(func(a, b *routeItem) int { return cmp.Compare(a.Version, b.Version) })},
			{grid.Column{Title: "STATE", Priority: 80}, routeState, nil},
			{grid.Column{Title: "CALL/S", Right: true, Priority: 70}, func(p *pen, r *routeItem) cell {
				if s := p.st.serviceAt(&r.RouteRow); s != nil {
					return plain(count(s.perSecond(p.now)))
				}
				return dash
			}, nil},
			{grid.Column{Title: "MBOX", Right: true, Priority: 40}, func(p *pen, r *routeItem) cell {
				if s := p.st.serviceAt(&r.RouteRow); s != nil {
					return number(s.Mailbox)
				}
				return dash
			}, nil},
			{grid.Column{Title: "GEN", Right: true, Priority: 50}, func(p *pen, r *routeItem) cell {
				if s := p.st.serviceAt(&r.RouteRow); s != nil {
					return number(s.Generation)
				}
				return dash
			}, nil},
			{grid.Column{Title: "CODE", Priority: 45}, func(p *pen, r *routeItem) cell {
				if s := p.st.serviceAt(&r.RouteRow); s != nil {
					return s.codeCell(p)
				}
				return dash
			}, nil},
			{grid.Column{Title: "SERVICE", Right: true, Priority: 30}, func(_ *pen, r *routeItem) cell {
				return plain("#" + strconv.FormatUint(uint64(r.Service), 10))
			}, value(func(a, b *routeItem) int { return cmp.Compare(a.Service, b.Service) })},
		})
}

// routeState is the state of the node where that is in the way, else that of
// the service behind the name.
func routeState(p *pen, r *routeItem) cell {
	if n := p.st.node(r.Node); n != nil && (n.State != shield.Online || n.Intent == shield.Draining) {
		return p.nodeState(&n.NodeRow)
	}
	if s := p.st.serviceAt(&r.RouteRow); s != nil {
		return p.serviceState(s.State)
	}
	return dash
}

func newServices() *list[serviceItem] {
	return newList(func(s *serviceItem) string { return ServiceKey(&s.ServiceRow) }, serviceHay, []column[serviceItem]{
		{grid.Column{Title: "SERVICE", Min: 14, Max: 32, Middle: true}, func(p *pen, s *serviceItem) cell { return plain(p.clean(string(s.Name))) },
			text(func(s *serviceItem) string { return string(s.Name) })},
		{grid.Column{Title: "NODE", Min: 8, Max: 24, Middle: true, Priority: 99}, func(p *pen, s *serviceItem) cell { return plain(p.clean(string(s.Node))) },
			text(func(v *serviceItem) string { return string(v.Node) })},
		{grid.Column{Title: "STATE", Priority: 95}, func(p *pen, s *serviceItem) cell { return p.serviceState(s.State) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.State, b.State) })},
		{grid.Column{Title: "GEN", Right: true, Priority: 85}, func(_ *pen, s *serviceItem) cell { return number(s.Generation) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.Generation, b.Generation) })},
		{grid.Column{Title: "CODE", Priority: 75}, func(p *pen, s *serviceItem) cell { return s.codeCell(p) },
			value(func(a, b *serviceItem) int { return strings.Compare(a.Code, b.Code) })},
		{grid.Column{Title: "MBOX", Right: true, Priority: 70}, func(_ *pen, s *serviceItem) cell {
			c := number(s.Mailbox)
			if s.Mailbox >= 1000 {
				c.role = theme.Warn
			}
			return c
		}, value(func(a, b *serviceItem) int { return cmp.Compare(a.Mailbox, b.Mailbox) })},
		{grid.Column{Title: "CALL/S", Right: true, Priority: 80}, func(p *pen, s *serviceItem) cell { return plain(count(s.perSecond(p.now))) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.rate, b.rate) })},
		{grid.Column{Title: "ERR", Right: true, Priority: 50}, func(_ *pen, s *serviceItem) cell {
			c := number(s.Errors)
			if s.Errors > 0 {
				c.role = theme.Warn
			}
			return c
		}, value(func(a, b *serviceItem) int { return cmp.Compare(a.Errors, b.Errors) })},
		{grid.Column{Title: "SESS", Right: true, Priority: 35}, func(_ *pen, s *serviceItem) cell { return number(s.Sessions) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.Sessions, b.Sessions) })},
		{grid.Column{Title: "MEM", Right: true, Priority: 30}, func(_ *pen, s *serviceItem) cell { return plain(size(s.Memory)) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.Memory, b.Memory) })},
		{grid.Column{Title: "RELOAD", Max: 24, Priority: 55}, reloadCell, nil},
		{grid.Column{Title: "CALLS", Right: true, Priority: 20}, func(_ *pen, s *serviceItem) cell { return number(s.Calls) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.Calls, b.Calls) })},
		{grid.Column{Title: "RESTARTS", Right: true, Priority: 15}, func(_ *pen, s *serviceItem) cell { return number(s.Restarts) },
			value(func(a, b *serviceItem) int { return cmp.Compare(a.Restarts, b.Restarts) })},
		{grid.Column{Title: "ID", Right: true, Wide: true}, func(_ *pen, s *serviceItem) cell { return number(int64(s.ID)) }, nil},
		{grid.Column{Title: "MODULE", Wide: true, Max: 32}, func(p *pen, s *serviceItem) cell { return plain(p.clean(s.Module)) }, nil},
		{grid.Column{Title: "NAMES", Wide: true, Max: 60}, func(p *pen, s *serviceItem) cell { return plain(p.clean(joinNames(s.Names))) }, nil},
	})
}

func serviceHay(s *serviceItem) string {
	return strings.Join([]string{joinNames(s.Names), string(s.Name), string(s.Node), string(s.State), s.Module, s.Code, s.Reason, s.Reload}, " ")
}

func joinNames(names []shield.Name) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = string(n)
	}
	return strings.Join(parts, " ")
}

// codeCell is the code lens: the hash of the code that answers now. One that
// differs between nodes stands out.
func (s *serviceItem) codeCell(p *pen) cell {
	switch {
	case s.Code == "":
		return dash
	case s.mixed:
		return cell{text: p.clean(s.Code) + "!", role: theme.Warn}
	}
	return cell{text: p.clean(s.Code), role: theme.Dim}
}

func reloadCell(p *pen, s *serviceItem) cell {
	when := ""
	if s.ReloadTime != nil {
		when = s.ReloadTime.In(p.loc).Format("15:04:05") + " "
	}
	switch {
	case s.Reload == "":
		return dash
	case s.Reload == "ok":
		return cell{text: when + "ok", role: theme.Dim}
	default:
		return cell{text: when + "FAILED", role: theme.Bad}
	}
}

func newSessions() *list[sessionItem] {
	idleSince := func(s *sessionItem) int64 { return s.at.UnixMilli() - s.IdleMS }
	l := newList(func(s *sessionItem) string { return string(s.Session) }, sessionHay, []column[sessionItem]{
		{grid.Column{Title: "SESSION", Min: 10, Max: 16, Middle: true}, func(p *pen, s *sessionItem) cell { return plain(p.clean(string(s.Session))) },
			letters(func(s *sessionItem) string { return string(s.Session) })}, // ids are no numbers
		{grid.Column{Title: "PLAYER", Min: 8, Max: 20, Priority: 99}, func(p *pen, s *sessionItem) cell {
			if s.Player == "" {
				return cell{text: "(none)", role: theme.Dim}
			}
			return plain(p.clean(s.Player))
		}, text(func(v *sessionItem) string { return v.Player })},
		{grid.Column{Title: "EPOCH", Right: true, Priority: 90}, epochCell,
			value(func(a, b *sessionItem) int { return cmp.Compare(a.Epoch, b.Epoch) })},
		{grid.Column{Title: "TARGET", Min: 16, Max: 32, Middle: true, Priority: 80}, func(p *pen, s *sessionItem) cell {
			if s.Target == "" {
				return dash
			}
			return plain(p.clean(s.Target))
		}, text(func(v *sessionItem) string { return v.Target })},
		{grid.Column{Title: "GATE", Min: 12, Max: 24, Middle: true, Priority: 50}, func(p *pen, s *sessionItem) cell { return plain(p.clean(string(s.Gateway))) },
			text(func(v *sessionItem) string { return string(v.Gateway) })},
		{grid.Column{Title: "STATE", Priority: 85}, func(p *pen, s *sessionItem) cell { return p.sessionState(s.State) },
			value(func(a, b *sessionItem) int { return cmp.Compare(a.State, b.State) })},
		{grid.Column{Title: "IDLE", Right: true, Priority: 45}, func(p *pen, s *sessionItem) cell { return plain(span(grown(s.IdleMS, s.at, p.now))) },
			value(func(a, b *sessionItem) int { return cmp.Compare(idleSince(b), idleSince(a)) })},
		{grid.Column{Title: "STALE", Right: true, Priority: 30}, func(_ *pen, s *sessionItem) cell {
			c := number(s.Stale)
			if s.Stale > 0 {
				c.role = theme.Warn
			}
			return c
		}, value(func(a, b *sessionItem) int { return cmp.Compare(a.Stale, b.Stale) })},
		{grid.Column{Title: "IN", Right: true, Priority: 25}, func(_ *pen, s *sessionItem) cell { return plain(total(s.In)) },
			value(func(a, b *sessionItem) int { return cmp.Compare(a.In, b.In) })},
		{grid.Column{Title: "OUT", Right: true, Priority: 24}, func(_ *pen, s *sessionItem) cell { return plain(total(s.Out)) },
			value(func(a, b *sessionItem) int { return cmp.Compare(a.Out, b.Out) })},
		{grid.Column{Title: "AGE", Right: true, Priority: 15}, func(p *pen, s *sessionItem) cell { return plain(span(grown(s.OpenedMS, s.at, p.now))) },
			value(func(a, b *sessionItem) int { return cmp.Compare(a.OpenedMS, b.OpenedMS) })},
		{grid.Column{Title: "VIA", Priority: 12}, func(p *pen, s *sessionItem) cell { return plain(p.clean(s.Transport)) }, nil},
		{grid.Column{Title: "CODE", Priority: 10}, func(p *pen, s *sessionItem) cell { return cell{text: p.clean(s.Code), role: theme.Dim} }, nil},
		{grid.Column{Title: "ADDR", Max: 28, Wide: true}, func(p *pen, s *sessionItem) cell { return plain(p.clean(s.Address)) }, nil},
		{grid.Column{Title: "QUEUE", Right: true, Wide: true}, func(_ *pen, s *sessionItem) cell { return number(s.Queue) },
			value(func(a, b *sessionItem) int { return cmp.Compare(a.Queue, b.Queue) })},
	})
	l.why = ": a client that connects to a gateway has one; shield client is such a client"
	return l
}

func sessionHay(s *sessionItem) string {
	return strings.Join([]string{string(s.Session), s.Player, s.Target, string(s.Gateway), string(s.State), s.Address, s.Transport}, " ")
}

// epochCell shows a change for three seconds: 7->8.
func epochCell(p *pen, s *sessionItem) cell {
	if p.now.Before(s.flash) {
		return cell{text: epoch(s.was) + "->" + epoch(s.Epoch), role: theme.Flash}
	}
	return plain(epoch(s.Epoch))
}

func epoch(e shield.SessionEpoch) string { return strconv.FormatUint(uint64(e), 10) }

// total is a counter: exact while it is small.
func total(n int64) string {
	if n < 100_000 {
		return strconv.FormatInt(n, 10)
	}
	return count(float64(n))
}

func newCalls() *list[callItem] {
	var l *list[callItem]
	l = newList(func(c *callItem) string { return strconv.FormatUint(c.n, 10) }, callHay, []column[callItem]{
		{grid.Column{Title: "TIME"}, func(p *pen, c *callItem) cell {
			when := p.clock(c.Time)
			if short := len("15:04:05"); l.w < 100 && len(when) > short {
				when = when[:short] // the room is the ends' of the call; the detail has all of it
			}
			return cell{text: when, role: theme.Dim}
		},
			value(func(a, b *callItem) int { return cmp.Compare(a.n, b.n) })},
		{grid.Column{Title: "TRACE", Priority: 40}, func(_ *pen, c *callItem) cell {
			if c.Trace == 0 {
				return dash
			}
			return cell{text: c.Trace.String(), role: theme.Dim}
		}, nil},
		{grid.Column{Title: "FROM", Min: 10, Max: 26, Middle: true, Priority: 60}, func(p *pen, c *callItem) cell { return plain(p.clean(c.from)) },
			text(func(c *callItem) string { return c.from })},
		{grid.Column{Title: "TO", Min: 14, Max: 32, Middle: true, Priority: 96}, func(p *pen, c *callItem) cell { return plain(p.clean(c.to)) },
			text(func(c *callItem) string { return c.to })},
		{grid.Column{Title: "METHOD", Min: 6, Max: 24, Middle: true, Priority: 95}, func(p *pen, c *callItem) cell { return plain(p.clean(c.Method)) },
			text(func(c *callItem) string { return c.Method })},
		{grid.Column{Title: "MS", Right: true, Priority: 90}, func(_ *pen, c *callItem) cell {
			cl := plain(millis(c.Micros))
			if c.Micros >= slowCall {
				cl.role = theme.Warn
			}
			return cl
		}, value(func(a, b *callItem) int { return cmp.Compare(a.Micros, b.Micros) })},
		{grid.Column{Title: "RESULT", Min: 14, Max: 28, Priority: 98}, func(p *pen, c *callItem) cell { return p.result(c.Result) },
			value(func(a, b *callItem) int { return strings.Compare(a.Result, b.Result) })},
	})
	l.tailed = true
	l.why = ": calls are kept while a console looks; c on a service makes one"
	return l
}

// slowCall is from how many microseconds a call is pointed out.
const slowCall = 100_000

func callHay(c *callItem) string {
	return strings.Join([]string{c.Trace.String(), c.from, c.to, c.Method, string(c.Node), c.Target, c.Result}, " ")
}
