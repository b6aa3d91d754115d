package tui

import (
	"image/color"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// View gives the frame. It is drawn again only when something changed, and at
// most once a second while nobody looks.
func (m *model) View() (v tea.View) {
	defer func() {
		if r := recover(); r != nil {
			m.crash = crashed(r)
			m.quit()
			v = tea.View{Content: "", AltScreen: true}
		}
	}()
	if now := time.Now(); m.dirty && (!m.blurred || now.Sub(m.drawn) >= time.Second) {
		m.screen, m.drawn, m.dirty = m.draw(), now, false
	}
	v = tea.View{Content: m.screen, AltScreen: true, ReportFocus: true, WindowTitle: m.windowTitle()}
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	v.BackgroundColor, v.ForegroundColor = hex(m.th.Background), hex(m.th.Foreground)
	return v
}

func hex(s string) color.Color {
	if s == "" {
		return nil
	}
	return lipgloss.Color(s)
}

func (m *model) windowTitle() string {
	if m.st.app == "" {
		return "shield"
	}
	return "shield " + m.clean(m.st.app)
}

func (m *model) pen() *pen {
	p := &pen{th: m.th, gl: &theme.Unicode, set: m.set, now: time.Now(), loc: m.cfg.Location, st: m.st}
	if m.set == grid.ASCII {
		p.gl = &theme.Plain
	}
	if p.loc == nil {
		p.loc = time.Local
	}
	if m.link == stale {
		p.th = m.th.Greyed()
	}
	return p
}

// draw makes the whole screen: exactly h lines, none wider than w.
func (m *model) draw() string {
	p := m.pen()
	m.hits = m.hits[:0]
	var lines []string
	switch {
	case m.w <= 0 || m.h <= 0:
		return ""
	case m.w < minWidth || m.h < minHeight:
		lines = m.tooSmall(p)
	default:
		lines = append(lines, m.header(p), m.tabs(p))
		lines = append(lines, m.body(p, m.w, m.h-4)...)
		lines = append(lines, m.noteLine(p), m.footer(p))
	}
	return strings.Join(lines, "\n")
}

// tooSmall says what is wrong with the terminal, in whatever room there is.
func (m *model) tooSmall(p *pen) []string {
	say := []string{
		"shield console needs " + strconv.Itoa(minWidth) + "x" + strconv.Itoa(minHeight),
		"this terminal is " + strconv.Itoa(m.w) + "x" + strconv.Itoa(m.h),
		"q quits",
	}
	if m.w < len(say[0]) {
		say = []string{"needs " + strconv.Itoa(minWidth) + "x" + strconv.Itoa(minHeight), "this is " + strconv.Itoa(m.w) + "x" + strconv.Itoa(m.h), "q quits"}
	}
	lines := make([]string, 0, m.h)
	for range (m.h - len(say)) / 2 {
		lines = append(lines, grid.Blank(m.w))
	}
	for _, s := range say {
		if len(lines) < m.h {
			lines = append(lines, p.line(m.w).Gap((m.w-len(s))/2).Put(p.on(theme.Text), s).String())
		}
	}
	for len(lines) < m.h {
		lines = append(lines, grid.Blank(m.w))
	}
	return lines
}

// header says where we are and how alive it is.
func (m *model) header(p *pen) string {
	l := p.line(m.w)
	l.Gap(1).Put(p.on(theme.Title), "shield").Gap(2)
	name := p.clean(m.st.app)
	if m.st.mode != "" {
		name += " (" + p.clean(m.st.mode) + ")"
	}
	status, role := m.status(p)
	right := m.totals()
	room := m.w - 9 - grid.Width(status) - grid.Width(right) - 6
	l.Put(p.on(theme.Text), grid.Cut(name, max(room, 8), p.gl.Ellipsis))
	if m.w >= 110 && m.st.endpoint != "" {
		l.Gap(3).Put(p.on(theme.Dim), grid.CutMiddle(p.clean(m.st.endpoint), 40, p.gl.Ellipsis))
		if !m.st.started.IsZero() {
			l.Gap(3).Put(p.on(theme.Dim), "up "+span(p.now.Sub(m.st.started)))
		}
	}
	l.Gap(l.Left() - grid.Width(right) - grid.Width(status) - 4)
	return l.Put(p.on(theme.Text), right).Gap(2).Put(p.on(role), status).String()
}

func (m *model) totals() string {
	if !m.st.known {
		return ""
	}
	_, nodes := m.st.nodes.counts()
	_, services := m.st.services.counts()
	_, sessions := m.st.sessions.counts()
	out := plural(nodes, "node") + "  " + plural(services, "service") + "  " + plural(sessions, "session")
	if m.w < 76 {
		out = plural(nodes, "node") + "  " + whole(sessions) + " sess"
	} else if m.w >= 100 {
		out += "  " + count(m.st.callsPerSecond()) + " calls/s"
	}
	return out
}

// status is one word for how much of the truth is on the screen.
func (m *model) status(p *pen) (string, theme.Role) {
	readOnly := ""
	if m.cfg.ReadOnly {
		readOnly = "read-only  "
	}
	switch {
	case m.link == attaching:
		return readOnly + "ATTACHING", theme.Warn
	case m.link == stale:
		return readOnly + "STALE " + span(p.now.Sub(m.since)), theme.Bad
	case m.link == resyncing, p.now.Before(m.resync):
		return readOnly + "RESYNC", theme.Warn
	case m.paused:
		return readOnly + "PAUSED", theme.Warn
	case m.link == ended:
		return readOnly + "END", theme.Accent
	}
	return readOnly + "LIVE", theme.Good
}

// tabs lists the views; the open one stands in brackets, so that no colour is
// needed to see it.
func (m *model) tabs(p *pen) string {
	l := p.line(m.w).Gap(1)
	first := keys.Nodes
	if m.overviewFits() {
		first = keys.Overview
	}
	for v := first; v < keys.Views; v++ {
		text, role := strconv.Itoa(int(v))+" "+v.String(), theme.Dim
		if v == m.shownView() {
			text, role = "["+strconv.Itoa(int(v))+"]"+v.String(), theme.Tab
		}
		x := m.w - l.Left()
		l.Put(p.on(role), text)
		m.hits = append(m.hits, hit{x: x, y: 1, w: len(text), h: 1, view: v, tab: true})
		l.Gap(1)
	}
	return l.PutRight(p.on(theme.Dim), "theme "+m.themeName+" ").String()
}

// body is what the view shows, exactly h lines.
func (m *model) body(p *pen, w, h int) []string {
	switch {
	case m.overlay == helpOverlay:
		return m.textBox(p, w, h, "Keys", "esc closes", m.helpLines(p, w-4))
	case m.overlay == outputOverlay:
		return m.textBox(p, w, h, m.title, "y copies  esc closes", m.outputLines(p, w-4))
	}
	switch v := m.shownView(); v {
	case keys.Overview:
		return m.overview(p, w, h)
	case keys.Logs:
		if m.opened {
			return m.textBox(p, w, h, m.detailTitle(v), "y copies  esc closes", m.detail(p, v, w-4))
		}
		return m.logBox(p, 0, 2, w, h, true)
	case keys.REPL:
		return p.box(w, h, m.mode == inserting, strings.TrimSpace("REPL  "+m.repl.target), m.repl.note(), m.repl.View(m, p, w-2, h-2))
	default:
		if m.opened {
			return m.textBox(p, w, h, m.detailTitle(v), "esc closes", m.detail(p, v, w-4))
		}
		return m.tableBody(p, v, w, h)
	}
}

// tableBody sets a table with the detail of the selected row below or, where
// there is room, beside it.
func (m *model) tableBody(p *pen, v keys.View, w, h int) []string {
	t := m.tableOf(v)
	eventsH := 0
	if v == keys.Nodes && h >= 16 {
		eventsH = max(h/4, 5)
	}
	top := h - eventsH
	var out []string
	switch detail := m.detail(p, v, m.detailWidth(w)); {
	case t.isWide():
		out = m.tableBox(p, v, 0, 2, w, top, true)
	case w >= 100:
		dw := m.detailWidth(w) + 4
		out = grid.Beside(m.tableBox(p, v, 0, 2, w-dw, top, true), p.box(dw, top, false, m.detailTitle(v), m.more(0, dw), pad(detail)))
	case h < 15:
		out = m.tableBox(p, v, 0, 2, w, top, true)
	default:
		dh := m.detailHeight(v, len(detail), top)
		out = m.tableBox(p, v, 0, 2, w, top-dh, true)
		out = append(out, p.box(w, dh, false, m.detailTitle(v), m.more(len(detail), dh), pad(detail))...)
	}
	if eventsH > 0 {
		out = append(out, m.eventsBox(p, w, eventsH)...)
	}
	return out
}

func (m *model) detailWidth(w int) int {
	if w >= 100 {
		return w*2/5 - 4
	}
	return w - 4
}

// detailHeight shares the height between a table and the detail below it. The
// share depends on the rows there are only where there are few.
func (m *model) detailHeight(v keys.View, lines, h int) int {
	_, rows := m.tableOf(v).counts()
	want := min(max(lines+2, 5), h/2)
	if spare := h - (rows + 3); spare > want {
		want = min(spare, lines+2)
	}
	return max(want, 4)
}

func (m *model) more(lines, h int) string {
	if t := m.current(); t != nil && t.key() == "" {
		return ""
	}
	if lines > h-2 {
		return "enter: " + strconv.Itoa(lines-h+2) + " more"
	}
	return "enter opens"
}

// pad sets lines one blank from the frame.
func pad(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = " " + l + " "
	}
	return out
}

// tableBox frames a table and remembers where it is for the mouse.
func (m *model) tableBox(p *pen, v keys.View, x, y, w, h int, focus bool) []string {
	t := m.tableOf(v)
	t.setSize(w-2, h-2)
	m.hits = append(m.hits, hit{x: x, y: y, w: w, h: h, view: v})
	shown, all := t.counts()
	title := v.String() + " " + strconv.Itoa(all)
	if shown != all {
		title = v.String() + " " + strconv.Itoa(shown) + "/" + strconv.Itoa(all)
	}
	if v == keys.Calls && m.errOnly {
		title += "  errors only"
	}
	by, desc := t.sorted()
	arrow := p.gl.Up
	if desc {
		arrow = p.gl.Down
	}
	note := "sort " + by + " " + arrow
	if v == keys.Calls && by == "TIME" {
		note = follows(t.following())
	}
	if v == keys.Calls && m.st.callsDropped > 0 {
		note = total(m.st.callsDropped) + " dropped  " + note
	}
	if f := m.filters[v]; f != "" {
		note = "/" + f + "  " + note
	}
	if t.isWide() {
		note = "wide, left/right pan  " + note
	}
	return p.box(w, h, focus, title, note, t.view(p, focus))
}

func follows(on bool) string {
	if on {
		return "FOLLOW"
	}
	return "f follows"
}

// logBox frames the log.
func (m *model) logBox(p *pen, x, y, w, h int, focus bool) []string {
	l := m.st.logs
	l.setSize(w-2, h-2)
	m.hits = append(m.hits, hit{x: x, y: y, w: w, h: h, view: keys.Logs})
	title := "Logs  level>=" + levels[l.level]
	if l.node != "" {
		title += "  node:" + l.node
	}
	if l.service != "" {
		title += "  service:" + l.service
	}
	if f := m.filters[keys.Logs]; f != "" {
		shown, total := l.counts()
		title += "  /" + f + "  " + strconv.Itoa(shown) + "/" + strconv.Itoa(total)
	}
	lines := l.View(p, focus) // first: it ends panning
	return p.box(w, h, focus, title, l.note(), lines)
}

// eventsBox shows the lines a person waits for, the newest last.
func (m *model) eventsBox(p *pen, w, h int) []string {
	var picked []*logItem
	live := m.st.logs.live
	for i := len(live) - 1; i >= 0 && len(picked) < h-2; i-- {
		if it := &live[i]; it.Event != "" && it.Fields["op"] != "eval" { // a REPL is no event
			picked = append(picked, &live[i])
		}
	}
	lines := make([]string, 0, h)
	for i := len(picked) - 1; i >= 0; i-- {
		it := picked[i]
		lines = append(lines, p.line(w-2).Gap(1).Put(p.on(theme.Dim), it.Time.In(p.loc).Format("15:04:05")).Gap(2).
			Field("", p.clean(orDash(string(it.Node))), 10, false).Gap(1).Field(p.on(theme.Accent), p.clean(it.Event), 7, false).Gap(1).
			Put(p.on(levelRole(it.Level)), p.clean(firstLine(it.Text))).String())
	}
	if len(lines) == 0 {
		lines = append(lines, p.text(w-2, theme.Dim, " nothing happened yet"))
	}
	return p.box(w, h, false, "Events", "6 shows the log", lines)
}

// detail says all about the selected row of a view.
func (m *model) detail(p *pen, v keys.View, w int) []string {
	switch v {
	case keys.Nodes:
		return nodeDetail(p, m.st.nodes.selected(), w)
	case keys.Routes:
		return routeDetail(p, m.st.routes.selected(), w)
	case keys.Sessions:
		return sessionDetail(p, m.st.sessions.selected(), w)
	case keys.Services:
		return serviceDetail(p, m.st.services.selected(), w)
	case keys.Calls:
		return callDetail(p, m.st.calls.selected(), w)
	case keys.Logs:
		return logDetail(p, m.st.logs.selected(), w)
	}
	return nil
}

func (m *model) detailTitle(v keys.View) string {
	switch v {
	case keys.Services:
		if s := m.st.services.selected(); s != nil {
			return string(s.Name) + " on " + string(s.Node)
		}
	case keys.Calls:
		if c := m.st.calls.selected(); c != nil {
			return c.to + " " + c.Method
		}
	case keys.Logs:
		if it := m.st.logs.selected(); it != nil {
			return it.Level + " of " + strings.TrimSpace(string(it.Node)+" "+it.Service)
		}
	case keys.Sessions:
		if s := m.st.sessions.selected(); s != nil {
			return strings.TrimSpace(string(s.Session) + " " + s.Player)
		}
	}
	if t := m.tableOf(v); t != nil && t.key() != "" {
		return t.key()
	}
	return "nothing selected"
}

// textBox shows lines that may be longer than the pane is high.
func (m *model) textBox(p *pen, w, h int, title, note string, lines []string) []string {
	m.scroll = max(min(m.scroll, len(lines)-(h-2)), 0)
	if over := len(lines) - (h - 2); over > 0 {
		note = strconv.Itoa(m.scroll+h-2) + "/" + strconv.Itoa(len(lines)) + "  " + note
		lines = lines[m.scroll:min(m.scroll+h-2, len(lines))]
	}
	return p.box(w, h, true, title, note, pad(lines))
}

func (m *model) outputLines(p *pen, w int) []string {
	var out []string
	for _, s := range m.output {
		for _, part := range grid.Wrap(s, w) {
			out = append(out, p.line(w).Put("", part).String())
		}
	}
	return out
}
