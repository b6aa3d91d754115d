package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shield/runtime/shield"
	"shield/tui/grid"
	"shield/tui/theme"
)

// Details say all that is known about one row, as lines of w cells. The pane
// beside the table shows the first of them, Enter all.

// facts sets pairs of a label and a value one after the other, as many to a line
// as fit.
func (p *pen) facts(w int, pairs ...cell) []string {
	var out []string
	line, used := p.line(w), 0
	for i := 0; i+1 < len(pairs); i += 2 {
		label, value := pairs[i], pairs[i+1]
		if value.text == "" {
			continue
		}
		need := grid.Width(label.text) + 1 + grid.Width(value.text)
		if used > 0 && used+3+need > w {
			out = append(out, line.String())
			line, used = p.line(w), 0
		}
		if need > w { // one fact that is longer than a line
			for i, part := range grid.Wrap(label.text+" "+value.text, w) {
				l := p.line(w)
				if rest, ok := strings.CutPrefix(part, label.text+" "); ok && i == 0 {
					l.Put(p.on(theme.Dim), label.text).Gap(1)
					part = rest
				}
				out = append(out, l.Put(p.on(value.role), part).String())
			}
			continue
		}
		if used > 0 {
			line.Gap(3)
			used += 3
		}
		line.Put(p.on(theme.Dim), label.text).Gap(1).Put(p.on(value.role), value.text)
		used += need
	}
	if used > 0 {
		out = append(out, line.String())
	}
	return out
}

func label(s string) cell { return cell{text: s} }

// told is a paragraph of foreign text, wrapped.
func (p *pen) told(w int, role theme.Role, text string) []string {
	var out []string
	for part := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		for _, l := range grid.Wrap(p.clean(strings.ReplaceAll(part, "\t", "  ")), w) {
			out = append(out, p.line(w).Put(p.on(role), l).String())
			if len(out) >= maxBlock {
				return out
			}
		}
	}
	return out
}

func (p *pen) heading(w int, s string) string {
	return p.line(w).Put(p.on(theme.Title), s).String()
}

// spark draws a rate's recent past.
func (p *pen) spark(h *history, w int) string {
	if h == nil {
		return ""
	}
	return grid.Spark(h.samples, w, p.gl.Bars)
}

func nodeDetail(p *pen, n *nodeItem, w int) []string {
	if n == nil {
		return nil
	}
	st := p.nodeState(&n.NodeRow)
	who, seen := "", ""
	if n.Intent == shield.Draining && n.State == shield.Online {
		seen = p.clean(string(n.State))
	}
	if n.Self {
		who = "answers this console"
	}
	out := p.facts(w, label("state"), st, label("seen"), plain(seen),
		label("epoch"), epochOf(n.Epoch), label("up"), nodeUp(p, n), label("note"), plain(who))
	if n.Reason != "" {
		out = append(out, p.told(w, reasonRole(n.State), n.Reason)...)
	}
	out = append(out, p.facts(w, label("address"), plain(p.clean(n.Address)),
		label("gateways"), plain(p.clean(strings.Join(n.Gateways, " "))))...)
	if !n.Self {
		out = append(out, p.facts(w, label("link"), nodeRTT(p, n), label("loss"), lossOf(n),
			label("heartbeat"), heartbeat(n, p), label("clock"), skew(n))...)
	}
	out = append(out, p.line(w).Put(p.on(theme.Dim), "calls/s ").Put("", count(n.CallsPerSecond)).Gap(1).
		Put(p.on(theme.Good), p.spark(n.past, min(maxHistory, max(w-16, 0)))).String())
	return append(out, servicesOf(p, n.Node, w)...)
}

func reasonRole(s shield.NodeState) theme.Role {
	if s == shield.Online || s == shield.Connecting {
		return theme.Dim
	}
	return theme.Warn
}

func epochOf(e shield.NodeEpoch) cell {
	if e == 0 {
		return dash
	}
	return plain(e.String())
}

func nodeUp(p *pen, n *nodeItem) cell {
	if n.Uptime == 0 || away(n) {
		return cell{}
	}
	return plain(span(grown(n.Uptime, n.at, p.now)))
}

func heartbeat(n *nodeItem, p *pen) cell {
	if n.HeartbeatAge == nil {
		return dash
	}
	return plain(span(grown(*n.HeartbeatAge, n.at, p.now)) + " ago")
}

func skew(n *nodeItem) cell {
	if n.ClockSkew == nil {
		return cell{}
	}
	return plain(fmt.Sprintf("%+dms", *n.ClockSkew))
}

// servicesOf lists what runs on a node with the code that answers.
func servicesOf(p *pen, id shield.NodeID, w int) []string {
	var pairs []cell
	for _, r := range p.st.services.order {
		if s := r.val; s.Node == id {
			c := s.codeCell(p)
			if s.State != shield.Running {
				c = p.serviceState(s.State)
			}
			pairs = append(pairs, label(p.clean(string(s.Name))), cell{text: "g" + strconv.Itoa(s.Generation) + " " + c.text, role: c.role})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return append([]string{p.heading(w, "services")}, p.facts(w, pairs...)...)
}

func routeDetail(p *pen, r *routeItem, w int) []string {
	if r == nil {
		return nil
	}
	out := p.facts(w, label("target"), plain(p.clean(RouteKey(&r.RouteRow))), label("service"), plain("#"+strconv.FormatUint(uint64(r.Service), 10)),
		label("table"), plain("v"+strconv.FormatUint(uint64(r.Version), 10)))
	if n := p.st.node(r.Node); n != nil {
		out = append(out, p.facts(w, label("node"), p.nodeState(&n.NodeRow), label("link"), nodeRTT(p, n))...)
	}
	var others []string
	for _, o := range p.st.routes.order {
		if o.val.Name == r.Name && o.val.Node != r.Node {
			others = append(others, string(o.val.Node))
		}
	}
	if len(others) > 0 {
		out = append(out, p.facts(w, label("also on"), plain(p.clean(strings.Join(others, " "))))...)
	}
	if s := p.st.serviceAt(&r.RouteRow); s != nil {
		out = append(out, serviceDetail(p, s, w)...)
	}
	return out
}

func serviceDetail(p *pen, s *serviceItem, w int) []string {
	if s == nil {
		return nil
	}
	code := s.codeCell(p)
	out := p.facts(w, label("state"), p.serviceState(s.State), label("generation"), number(s.Generation), label("code"), code,
		label("module"), plain(p.clean(s.Module)), label("id"), number(int64(s.ID)))
	if s.mixed {
		out = append(out, p.line(w).Put(p.on(theme.Warn), "other nodes run different code under this name").String())
	}
	if s.Reason != "" {
		role := theme.Warn
		if s.State == shield.Failed {
			role = theme.Bad
		}
		out = append(out, p.told(w, role, s.Reason)...)
	}
	out = append(out, p.facts(w, label("names"), plain(p.clean(joinNames(s.Names))), label("mailbox"), number(s.Mailbox),
		label("sessions"), number(s.Sessions), label("errors"), number(s.Errors), label("restarts"), number(s.Restarts),
		label("memory"), plain(strings.Trim(size(s.Memory), "-")), label("calls"), number(s.Calls))...)
	out = append(out, p.line(w).Put(p.on(theme.Dim), "calls/s ").Put("", count(s.perSecond(p.now))).Gap(1).
		Put(p.on(theme.Good), p.spark(s.past, min(maxHistory, max(w-16, 0)))).String())
	return append(out, reloadDetail(p, s, w)...)
}

// reloadDetail shows how the last reload went, with the source excerpt that came
// with a failure.
func reloadDetail(p *pen, s *serviceItem, w int) []string {
	if s.Reload == "" {
		return nil
	}
	when := ""
	if s.ReloadTime != nil {
		when = p.clock(*s.ReloadTime) + " "
	}
	if s.Reload == "ok" {
		return p.facts(w, label("reload"), plain(when+"ok"))
	}
	out := p.facts(w, label("reload"), cell{text: when + "failed; generation " + strconv.Itoa(s.Generation) + " keeps serving", role: theme.Bad})
	why := strings.TrimPrefix(s.Reload, "failed: ")
	return append(out, p.told(w, theme.Text, p.st.excerpt(why))...)
}

func sessionDetail(p *pen, s *sessionItem, w int) []string {
	if s == nil {
		return nil
	}
	player := plain(p.clean(s.Player))
	if s.Player == "" {
		player = cell{text: "(none)", role: theme.Dim}
	}
	out := p.facts(w, label("player"), player, label("state"), p.sessionState(s.State), label("target"), plain(p.clean(orDash(s.Target))),
		label("code"), plain(p.clean(s.Code)))
	out = append(out, p.facts(w, label("gateway"), plain(p.clean(string(s.Gateway))), label("via"), plain(p.clean(strings.TrimSpace(s.Transport+" "+s.Address))),
		label("age"), plain(span(grown(s.OpenedMS, s.at, p.now))), label("idle"), plain(span(grown(s.IdleMS, s.at, p.now))))...)
	stale := number(s.Stale)
	if s.Stale > 0 {
		stale.role = theme.Warn
	}
	out = append(out, p.facts(w, label("in"), number(s.In), label("out"), number(s.Out), label("queue"), number(s.Queue),
		label("refused with an old epoch"), stale)...)
	return append(out, epochHistory(p, s, w)...)
}

// epochHistory lists every change of the binding with its cause, newest first.
func epochHistory(p *pen, s *sessionItem, w int) []string {
	if len(s.History) == 0 {
		return nil
	}
	causeW := 6
	for i := range s.History {
		causeW = max(causeW, min(grid.Width(p.clean(s.History[i].Cause)), 28))
	}
	set := func(role theme.Role, e, when, cause, player, target string) string {
		return p.line(w).Field(p.on(role), e, 6, true).Gap(2).Field(p.on(theme.Dim), when, 8, false).Gap(2).
			Field(p.on(role), cause, causeW, false).Gap(2).Field(p.on(role), player, 12, false).Gap(2).Put(p.on(role), target).String()
	}
	out := []string{set(theme.Dim, "epoch", "when", "cause", "player", "target")}
	for _, st := range slices.Backward(s.History) {
		out = append(out, set(theme.Text, epoch(st.Epoch), st.Time.In(p.loc).Format("15:04:05"), p.clean(st.Cause),
			p.clean(orDash(st.Player)), p.clean(orDash(st.Target))))
	}
	return out
}

func callDetail(p *pen, c *callItem, w int) []string {
	if c == nil {
		return nil
	}
	trace := dash
	if c.Trace != 0 {
		trace = plain(c.Trace.String())
	}
	out := p.facts(w, label("from"), plain(p.clean(c.from)), label("to"), plain(p.clean(c.to)), label("method"), plain(p.clean(c.Method)),
		label("result"), p.result(c.Result), label("took"), plain(millis(c.Micros)+"ms"), label("made on"), plain(p.clean(string(c.Node))),
		label("at"), plain(p.clock(c.Time)), label("trace"), trace)
	if info, ok := shield.Code(c.Result).Info(); ok {
		out = append(out, p.told(w, theme.Dim, c.Result+": "+info.Meaning)...)
	}
	return append(out, sameTrace(p, c, w)...)
}

// sameTrace lists the other calls of the same piece of work that are known.
func sameTrace(p *pen, c *callItem, w int) []string {
	if c.Trace == 0 {
		return nil
	}
	var out []string
	for _, r := range p.st.calls.order {
		o := r.val
		if o.Trace != c.Trace || o.n == c.n {
			continue
		}
		if out == nil {
			out = append(out, p.heading(w, "same trace"))
		}
		res := p.result(o.Result)
		out = append(out, p.line(w).Put(p.on(theme.Dim), p.clock(o.Time)).Gap(2).Field("", millis(o.Micros), 7, true).Gap(2).
			Put(p.on(res.role), res.text).Gap(2).Put("", p.clean(o.to+" "+o.Method)).Gap(2).Put(p.on(theme.Dim), "from "+p.clean(o.from)).String())
	}
	return out
}

// logDetail is one line of the log, nothing of it cut.
func logDetail(p *pen, it *logItem, w int) []string {
	if it == nil {
		return nil
	}
	out := p.facts(w, label("at"), plain(it.Time.In(p.loc).Format("2006-01-02 15:04:05.000")), label("level"), cell{text: p.clean(it.Level), role: levelRole(it.Level)},
		label("node"), plain(p.clean(orDash(string(it.Node)))), label("service"), plain(p.clean(orDash(it.Service))),
		label("event"), plain(p.clean(it.Event)), label("code"), plain(p.clean(codeTag(it))), label("trace"), plain(p.clean(it.Trace)))
	for _, name := range slices.Sorted(maps.Keys(it.Fields)) {
		out = append(out, p.facts(w, label(p.clean(name)), plain(p.clean(fieldText(it.Fields[name]))))...)
	}
	out = append(out, grid.Blank(w))
	for part := range strings.SplitSeq(strings.TrimRight(it.Text, "\n"), "\n") {
		for _, l := range grid.Wrap(p.clean(strings.ReplaceAll(part, "\t", "  ")), w) {
			out = append(out, p.line(w).Put(p.on(textRole(it)), l).String())
		}
	}
	return out
}

func fieldText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
