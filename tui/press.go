package tui

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"shield/tui/keys"
	"shield/tui/theme"
)

// table is what the model asks of a list, whatever its rows are.
type table interface {
	setSize(w, h int)
	view(p *pen, focus bool) []string
	move(n int)
	moveTo(i int)
	end()
	page() int
	counts() (shown, total int)
	setFilter(text string)
	sortNext()
	reverse()
	sorted() (title string, desc bool)
	sortOn(title string, desc bool) bool
	setWide(on bool)
	isWide() bool
	panBy(n int)
	follow(on bool)
	following() bool
	settle()
	isPending() bool
	key() string
	pick(key string) bool
	click(y int)
	keys() []string
	json() string
	plainRow(p *pen) string
}

// tables lists the tables in the order of their views.
func (m *model) tables() []table {
	return []table{m.st.nodes, m.st.routes, m.st.sessions, m.st.services, m.st.calls}
}

// tableOf is the table of a view, nil where it has none.
func (m *model) tableOf(v keys.View) table {
	if v < keys.Nodes || v > keys.Calls {
		return nil
	}
	return m.tables()[v-keys.Nodes]
}

// overviewPanes lists what the overview shows, in the order tab goes.
var overviewPanes = []keys.View{keys.Nodes, keys.Sessions, keys.Routes, keys.Calls, keys.Services, keys.Logs}

// focused is the view whose rows the keys work on.
func (m *model) focused() keys.View {
	if m.shownView() == keys.Overview {
		return overviewPanes[m.pane]
	}
	return m.shownView()
}

// current is the table the keys work on, nil in Logs and REPL.
func (m *model) current() table { return m.tableOf(m.focused()) }

// overviewFits reports whether there is room for the overview.
func (m *model) overviewFits() bool { return m.w >= 140 && m.h >= 36 }

// shownView is the view on the screen: an overview that does not fit any more
// gives way to the nodes until the terminal grows again.
func (m *model) shownView() keys.View {
	if m.view == keys.Overview && !m.overviewFits() {
		return keys.Nodes
	}
	return m.view
}

// press handles a key by the mode the keyboard is in.
func (m *model) press(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	if m.w < minWidth || m.h < minHeight {
		if k == "q" || k == "ctrl+c" {
			return tea.Quit
		}
		return nil
	}
	switch m.mode {
	case filtering:
		m.pressFilter(msg)
		return nil
	case commanding:
		return m.pressCommand(msg)
	case confirming:
		return m.pressConfirm(k)
	case inserting:
		return m.pressREPL(msg)
	}
	if m.overlay != noOverlay || m.opened {
		if cmd, taken := m.pressText(k); taken {
			return cmd
		}
	}
	b := keys.Find(m.shownView(), k)
	if b == nil {
		return nil
	}
	if why := m.whyNot(b); why != "" {
		m.say(theme.Warn, b.Label()+": "+why)
		return nil
	}
	return m.act(b, k)
}

// pressText moves in what covers the body.
func (m *model) pressText(k string) (cmd tea.Cmd, taken bool) {
	half := max((m.h-8)/2, 1)
	switch k {
	case "j", "down":
		m.scroll++
	case "k", "up":
		m.scroll--
	case "ctrl+d", "pgdown":
		m.scroll += half
	case "ctrl+u", "pgup":
		m.scroll -= half
	case "g", "home":
		m.scroll = 0
	case "G", "end":
		m.scroll = maxScroll
	case "esc", "?", "q":
		if k == "?" && m.overlay == noOverlay || k == "q" && m.overlay == noOverlay {
			return nil, false
		}
		m.closeText()
	case "enter":
		m.closeText()
	case "y":
		if m.overlay != outputOverlay {
			return nil, false
		}
		return m.copyText(strings.Join(m.output, "\n"), plural(len(m.output), "line")), true
	case ":", "/", "ctrl+c", "space", "m", "T", "ctrl+l", "ctrl+z", "0", "1", "2", "3", "4", "5", "6", "7":
		return nil, false
	default:
		return nil, m.overlay != noOverlay
	}
	return nil, true
}

// maxScroll is further down than any text; drawing brings it back.
const maxScroll = 1 << 30

func (m *model) closeText() {
	if m.overlay != noOverlay {
		m.overlay = noOverlay
	} else {
		m.opened = false
	}
	m.scroll = 0
}

// act does what a key stands for.
func (m *model) act(b *keys.Binding, k string) tea.Cmd {
	switch b.Action {
	case keys.Show:
		m.showAsked(keys.View(k[0] - '0'))
	case keys.Help:
		m.overlay, m.scroll = helpOverlay, 0
	case keys.Filter:
		m.overlay, m.opened = noOverlay, false
		m.typed.set(m.filters[m.focused()])
		m.mode = filtering
	case keys.Command:
		m.startCommand("")
	case keys.Back:
		m.back()
	case keys.Open:
		m.open()
	case keys.NextPane, keys.PrevPane:
		m.nextPane(b.Action == keys.NextPane)
	case keys.Pause:
		m.pause()
	case keys.Mouse:
		m.mouse = !m.mouse
		m.say(theme.Text, "mouse "+onOff(m.mouse)+map[bool]string{true: "; m gives the terminal its selection back"}[m.mouse])
	case keys.Theme:
		return m.nextTheme()
	case keys.Redraw:
		return tea.ClearScreen
	case keys.Suspend:
		return tea.Suspend
	case keys.Quit:
		return tea.Quit
	case keys.Interrupt:
		if m.filters[m.focused()] != "" {
			m.setFilter("")
			return nil
		}
		return tea.Quit
	case keys.Insert:
		m.mode = inserting
	case keys.Copy, keys.CopyCommand, keys.CopyJSON:
		return m.copyRow(b.Action)
	default:
		if m.focused() == keys.REPL && m.moveREPL(b.Action) {
			return nil
		}
		if m.focused() == keys.Logs && m.actLogs(b.Action) {
			return m.keep(b.Action)
		}
		if t := m.current(); t != nil && (b.Action == keys.PanLeft || b.Action == keys.PanRight) && !t.isWide() {
			m.say(theme.Text, "w shows all columns; left and right pan them then")
			return nil
		}
		if t := m.current(); t != nil && moveTable(t, b.Action) {
			return m.keep(b.Action)
		}
		return m.actRow(b)
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// moveTable handles the keys every table knows.
func moveTable(t table, a keys.Action) bool {
	half := max(t.page()/2, 1)
	switch a {
	case keys.Down:
		t.move(1)
	case keys.Up:
		t.move(-1)
	case keys.HalfDown:
		t.move(half)
	case keys.HalfUp:
		t.move(-half)
	case keys.Top:
		t.moveTo(0)
	case keys.Bottom:
		t.end()
	case keys.PanLeft:
		t.panBy(-1)
	case keys.PanRight:
		t.panBy(1)
	case keys.Sort:
		t.sortNext()
	case keys.Reverse:
		t.reverse()
	case keys.Wide:
		t.setWide(!t.isWide())
	default:
		return false
	}
	return true
}

// actLogs handles the keys of the log.
func (m *model) actLogs(a keys.Action) bool {
	l := m.st.logs
	half := max(l.h/2, 1)
	switch a {
	case keys.Down:
		l.move(1)
	case keys.Up:
		l.move(-1)
	case keys.HalfDown:
		l.move(half)
	case keys.HalfUp:
		l.move(-half)
	case keys.Top:
		l.moveTo(0)
	case keys.Bottom, keys.Follow:
		l.follow()
	case keys.PanLeft, keys.PanRight:
		if l.wrap {
			m.say(theme.Text, "lines are wrapped and shown whole; w cuts them")
			return true
		}
		if a == keys.PanLeft {
			l.panBy(-panStep)
		} else {
			l.panBy(panStep)
		}
	case keys.Level:
		l.setLevel((l.level + 1) % len(levels))
	case keys.Wrap, keys.Wide:
		l.wrap = !l.wrap
	case keys.Clock:
		l.relTime = !l.relTime
	case keys.Next:
		if !l.nextTrouble() {
			m.say(theme.Text, "no warning and no error in sight")
		}
	default:
		return false
	}
	return true
}

// showAsked shows a view that a person named. An overview that does not fit
// comes when the terminal grows; until then it is the nodes.
func (m *model) showAsked(v keys.View) {
	m.show(v)
	if v == keys.Overview && !m.overviewFits() {
		m.say(theme.Warn, "the overview needs 140x36; this screen is "+strconv.Itoa(m.w)+"x"+strconv.Itoa(m.h))
	}
}

// show changes the view.
func (m *model) show(v keys.View) {
	m.view, m.opened, m.overlay, m.scroll = v, false, noOverlay, 0
	if v == keys.REPL && m.repl.target != "" {
		m.mode = inserting
	}
}

// back undoes the last step: the filter, then the way a view was narrowed.
func (m *model) back() {
	switch {
	case m.filters[m.focused()] != "":
		m.setFilter("")
	case m.focused() == keys.Logs && (m.st.logs.node != "" || m.st.logs.service != ""):
		m.st.logs.only("", "")
	case m.focused() == keys.Logs && !m.st.logs.following():
		m.st.logs.follow()
	case m.note.text != "":
		m.note = note{}
	case m.view != keys.Overview && m.overviewFits():
		m.show(keys.Overview)
	}
}

// open shows all of a row, or, in the overview, the pane as a view.
func (m *model) open() {
	if m.shownView() == keys.Overview {
		m.show(overviewPanes[m.pane])
		return
	}
	switch m.focused() { // what is opened must not give way to what comes in
	case keys.Logs:
		m.st.logs.hold()
	case keys.Calls:
		m.st.calls.follow(false)
	}
	m.opened, m.scroll = true, 0
}

func (m *model) nextPane(forward bool) {
	step := 1
	if !forward {
		step = -1
	}
	if m.shownView() == keys.Overview {
		m.pane = (m.pane + step + len(overviewPanes)) % len(overviewPanes)
		return
	}
	first := keys.Nodes
	if m.overviewFits() {
		first = keys.Overview
	}
	n := int(keys.Views - first)
	m.show(first + keys.View((int(m.shownView()-first)+step+n)%n))
}

// pause freezes the screen or lets it catch up.
func (m *model) pause() {
	m.paused = !m.paused
	if m.paused {
		return
	}
	now := time.Now()
	held := m.held
	m.held = backlog{}
	if held.events > 0 {
		m.lastKey = time.Time{} // one pressed space to see the rows in order
		m.apply(nil, &held.early, now)
		m.apply(held.snap, held.delta(), now)
	}
}

// pressFilter types a filter; it works with every letter.
func (m *model) pressFilter(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "esc":
		m.setFilter("")
		m.mode = browsing
	case "enter":
		m.typed.done()
		m.mode = browsing
	case "ctrl+c":
		if m.typed.text() == "" {
			m.mode = browsing
		}
		m.setFilter("")
		m.typed.set("")
	default:
		if m.typed.key(msg) {
			m.setFilter(m.typed.text())
		}
	}
}

func (m *model) setFilter(text string) {
	v := m.focused()
	m.filters[v] = text
	if v == keys.Logs {
		m.st.logs.setFilter(text)
	} else if t := m.tableOf(v); t != nil {
		t.setFilter(text)
	}
}

func (m *model) paste(s string) tea.Cmd {
	if utf8.RuneCountInString(s) > maxInput && m.mode != browsing {
		m.say(theme.Warn, "the paste was cut at "+strconv.Itoa(maxInput)+" characters"+map[bool]string{true: "; .load FILE runs a file"}[m.mode == inserting])
		s = string([]rune(s[:min(len(s), maxInput*utf8.UTFMax)])[:maxInput])
	}
	switch m.mode {
	case filtering:
		m.typed.insert(s)
		m.setFilter(m.typed.text())
	case commanding:
		m.command.insert(s)
		m.suggest()
	case inserting:
		m.repl.hints, m.repl.up = nil, 0
		m.repl.line.insert(oneLine(s))
	}
	return nil
}

func (m *model) nextTheme() tea.Cmd {
	names := theme.Names()
	for i, n := range names {
		if n == m.themeName {
			return m.setTheme(names[(i+1)%len(names)])
		}
	}
	return m.setTheme("auto")
}

func (m *model) setTheme(name string) tea.Cmd {
	m.themeName = name
	m.th = theme.Get(name, m.dark)
	m.say(theme.Text, "theme "+name)
	return m.keepPrefs()
}
