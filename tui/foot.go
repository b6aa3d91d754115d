package tui

import (
	"sort"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// noteLine is the line above the footer: what is being typed, a question, or
// the last thing worth saying.
func (m *model) noteLine(p *pen) string {
	l := p.line(m.w).Gap(1)
	switch m.mode {
	case filtering:
		l.Put(p.on(theme.Key), "/")
		m.typed.draw(p, l, theme.Text, true)
		shown, total := m.counts()
		return l.PutRight(p.on(theme.Dim), strconv.Itoa(shown)+"/"+strconv.Itoa(total)+" ").String()
	case commanding:
		l.Put(p.on(theme.Key), ":")
		m.command.draw(p, l, theme.Text, true)
		return l.String()
	case confirming:
		return l.Put(p.on(theme.Bad), m.ask.question).Gap(1).Put(p.on(theme.Key), "y/N").String()
	}
	if m.link == stale || m.link == attaching && m.why != "" {
		return l.Put(p.on(theme.Bad), m.staleText(p)).String()
	}
	if m.note.text == "" {
		return l.String()
	}
	sign := map[theme.Role]string{theme.Good: "ok  ", theme.Warn: "!   ", theme.Bad: "!!  "}[m.note.role]
	return l.Put(p.on(m.note.role), sign+m.note.text).String()
}

func (m *model) staleText(p *pen) string {
	if m.link == attaching {
		return "not attached yet: " + m.why
	}
	return "STALE " + span(p.now.Sub(m.since)) + ", attaching again: " + m.why
}

func (m *model) counts() (shown, total int) {
	if m.focused() == keys.Logs {
		return m.st.logs.counts()
	}
	if t := m.current(); t != nil {
		return t.counts()
	}
	return 0, 0
}

// footer prints the keys that matter most here, from the table of keys.
func (m *model) footer(p *pen) string {
	switch m.mode {
	case filtering:
		return m.hintsOf(p, "enter keep", "esc clear", "!text inverts")
	case commanding:
		return hintLine(p, m.w, m.hints, m.hintAt)
	case confirming:
		return m.hintsOf(p, "y yes", "any other key: no")
	case inserting:
		if len(m.repl.hints) > 0 {
			return hintLine(p, m.w, m.repl.hints, -1)
		}
		return m.hintsOf(p, "enter run", "tab complete", "up history", ".help", "esc leave", "ctrl-d detach")
	}
	if m.overlay != noOverlay || m.opened {
		return m.hintsOf(p, "j/k scroll", "g/G ends", "esc close")
	}
	all := m.visible()
	sort.SliceStable(all, func(i, j int) bool { return all[i].Rank > all[j].Rank })
	used, keep := 1, map[*keys.Binding]bool{}
	for _, b := range all {
		if need := len(b.Label()) + len(b.Short) + 3; used+need <= m.w+2 {
			used += need
			keep[b] = true
		}
	}
	l := p.line(m.w).Gap(1)
	for _, b := range m.visible() {
		if !keep[b] {
			continue
		}
		role := theme.Text
		if m.whyNot(b) != "" {
			role = theme.Dim
		}
		keyRole := theme.Key
		if role == theme.Dim {
			keyRole = theme.Dim
		}
		l.Put(p.on(keyRole), b.Label()).Gap(1).Put(p.on(role), b.Short).Gap(2)
	}
	return l.String()
}

func (m *model) hintsOf(p *pen, hints ...string) string {
	l := p.line(m.w).Gap(1)
	for _, h := range hints {
		k, rest, _ := strings.Cut(h, " ")
		if l.Left() < len(h)+1 {
			break // half a hint says nothing
		}
		l.Put(p.on(theme.Key), k)
		if rest != "" {
			l.Gap(1).Put(p.on(theme.Text), rest)
		}
		l.Gap(3)
	}
	return l.String()
}

// visible lists the keys of the footer: help and quit at the ends, this view's
// own between.
func (m *model) visible() []*keys.Binding {
	var out []*keys.Binding
	add := func(own bool) {
		for _, b := range keys.InView(m.shownView(), own) {
			if b.Short != "" && !(b.Acts && m.cfg.ReadOnly) {
				out = append(out, b)
			}
		}
	}
	add(true)
	add(false)
	return out
}

// helpLines print the keys that work in this view, the others with the reason.
func (m *model) helpLines(p *pen, w int) []string {
	half := w
	if w >= 100 {
		half = (w - 2) / 2
	}
	own := m.helpColumn(p, half, strings.ToUpper(m.shownView().String()), true)
	all := m.helpColumn(p, half, "EVERYWHERE", false)
	if half == w {
		return append(append(own, grid.Blank(w)), all...)
	}
	for len(own) < len(all) {
		own = append(own, grid.Blank(half))
	}
	for i := range own {
		right := grid.Blank(w - half - 2)
		if i < len(all) {
			right = all[i] + grid.Blank(w-half-2-half)
		}
		own[i] += "  " + right
	}
	return own
}

func (m *model) helpColumn(p *pen, w int, title string, own bool) []string {
	out := []string{p.heading(w, title)}
	for _, b := range keys.InView(m.shownView(), own) {
		if b.Acts && m.cfg.ReadOnly {
			continue
		}
		l := p.line(w)
		if why := m.whyNot(b); why != "" {
			l.Field(p.on(theme.Dim), b.Label(), 10, false).Put(p.on(theme.Dim), b.Help+" ("+why+")")
		} else {
			help := b.Help
			if b.Action == keys.Quit && m.cfg.Ends {
				help = "quit, and stop everything"
			}
			l.Field(p.on(theme.Key), b.Label(), 10, false).Put("", help)
		}
		out = append(out, l.String())
	}
	return out
}

// hit is where something that can be clicked stands.
type hit struct {
	x, y, w, h int
	view       keys.View
	tab        bool
}

func (m *model) hitAt(x, y int) *hit {
	for i := range m.hits {
		h := &m.hits[i]
		if x >= h.x && x < h.x+h.w && y >= h.y && y < h.y+h.h {
			return h
		}
	}
	return nil
}

// focusOn gives the keys to a pane of the overview.
func (m *model) focusOn(v keys.View) {
	for i, pane := range overviewPanes {
		if m.shownView() == keys.Overview && pane == v {
			m.pane = i
		}
	}
}

func (m *model) click(at tea.Mouse) tea.Cmd {
	h := m.hitAt(at.X, at.Y)
	if h == nil || at.Button != tea.MouseLeft || m.mode != browsing {
		return nil
	}
	if h.tab {
		m.show(h.view)
		return nil
	}
	m.focusOn(h.view)
	if t := m.tableOf(h.view); t != nil {
		t.click(at.Y - h.y - 1)
	}
	return nil
}

// wheelStep is how many rows one step of the wheel moves.
const wheelStep = 3

func (m *model) wheel(at tea.Mouse) {
	n := wheelStep
	switch at.Button {
	case tea.MouseWheelUp:
		n = -wheelStep
	case tea.MouseWheelDown:
	default:
		return
	}
	if m.overlay != noOverlay || m.opened {
		m.scroll += n
		return
	}
	h := m.hitAt(at.X, at.Y)
	if h == nil || h.tab {
		return
	}
	m.focusOn(h.view)
	if h.view == keys.Logs {
		m.st.logs.move(n)
	} else if t := m.tableOf(h.view); t != nil {
		t.move(n)
	}
}
