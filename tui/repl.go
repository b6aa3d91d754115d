package tui

import (
	"errors"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// maxTranscript is how many lines of a REPL are kept.
const maxTranscript = 2000

type replLine struct {
	role theme.Role
	text string // clean
}

// repl types Lua into one service. Each line is one turn of it: nothing else
// runs in that service meanwhile.
type repl struct {
	target string // node:name; "" = detached
	lines  []replLine
	line   input
	open   []string // lines of Lua that is not complete yet
	busy   bool
	up     int // how many lines the reader scrolled up
	gen    int // the generation that answered last
}

func newREPL() *repl { return &repl{line: newInput()} }

func (r *repl) print(role theme.Role, lines ...string) {
	for _, l := range lines {
		r.lines = append(r.lines, replLine{role, l})
	}
	if over := len(r.lines) - maxTranscript; over > 0 {
		r.lines = append([]replLine(nil), r.lines[over:]...)
	}
	r.up = 0
}

// attach points the REPL at a service.
func (m *model) attach(target string) {
	if target == "" {
		m.say(theme.Warn, "repl: say which service: repl node:name")
		return
	}
	if why := m.whyNoVerb("eval"); why != "" {
		m.say(theme.Warn, "repl: "+why)
		return
	}
	r := m.repl
	r.target, r.gen = target, m.generation(target)
	r.open = nil
	r.print(theme.Dim, m.clean("attached to "+target+"; each line is one turn of the service; ctrl-d detaches"))
	m.show(keys.REPL)
	m.mode = inserting
}

// generation is that of the code behind a target, 0 when it is not known.
func (m *model) generation(target string) int {
	if row := m.st.routes.rows[target]; row != nil {
		if s := m.st.serviceAt(&row.val.RouteRow); s != nil {
			return s.Generation
		}
	}
	return 0
}

func (r *repl) prompt(m *model) string {
	if r.target == "" {
		return "> "
	}
	s := m.clean(r.target)
	if g := m.generation(r.target); g > 0 {
		s += " g" + strconv.Itoa(g)
	}
	if len(r.open) > 0 {
		return strings.Repeat(" ", max(grid.Width(s)-2, 0)) + ">>> "
	}
	return s + "> "
}

// pressREPL types a line of Lua.
func (m *model) pressREPL(msg tea.KeyPressMsg) tea.Cmd {
	r := m.repl
	switch msg.String() {
	case "esc":
		m.mode = browsing
	case "enter":
		return m.enterLua()
	case "ctrl+c":
		if r.line.text() == "" && len(r.open) == 0 {
			m.mode = browsing // whoever clears one line too many must not lose the console
			m.say(theme.Text, "left the line; i goes back to it, ctrl-d detaches, q quits")
		}
		r.line.reset()
		r.open = nil
	case "ctrl+d":
		if r.line.text() == "" {
			m.detach()
		}
	case "ctrl+l":
		r.lines = nil
	case "pgup":
		r.up += max((m.h-8)/2, 1)
	case "pgdown":
		r.up = max(r.up-max((m.h-8)/2, 1), 0)
	default:
		r.line.key(msg)
	}
	return nil
}

func (m *model) detach() {
	if m.repl.target != "" {
		m.repl.print(theme.Dim, m.clean("detached from "+m.repl.target+"; the service keeps running"))
	}
	m.repl.target, m.repl.open = "", nil
	m.mode = browsing
}

// enterLua sends the line; the next one waits for its answer.
func (m *model) enterLua() tea.Cmd {
	r := m.repl
	if r.busy {
		m.say(theme.Warn, "the line before has not been answered yet")
		return nil
	}
	prompt := r.prompt(m)
	src := r.line.done()
	switch {
	case src == "":
		return nil
	case len(r.open) > 0: // more of what was begun, whatever it looks like
	case src == ".help":
		r.print(theme.Dim, "a line of Lua, an expression or a statement, runs as one turn of the service",
			".help  .attach NODE:NAME  .detach  .reload  .clear", "esc leaves the line, ctrl-d detaches")
		return nil
	case src == ".clear":
		r.lines = nil
		return nil
	case src == ".detach":
		m.detach()
		return nil
	case strings.HasPrefix(src, ".attach "):
		m.attach(strings.TrimSpace(strings.TrimPrefix(src, ".attach ")))
		return nil
	case src == ".reload" && r.target != "":
		_, name, _ := strings.Cut(r.target, ":")
		return m.run("reload", []string{name}, false)
	case strings.HasPrefix(src, "."):
		r.print(theme.Warn, m.clean("unknown command "+src+"; .help lists them"))
		return nil
	case r.target == "":
		r.print(theme.Warn, "not attached: press a on a service, or type .attach NODE:NAME")
		return nil
	}
	r.print(theme.Accent, prompt+m.clean(src))
	if why := m.whyNoVerb("eval"); why != "" {
		r.print(theme.Warn, why)
		return nil
	}
	r.busy = true
	r.open = append(r.open, src)
	return m.run("eval", []string{r.target, strings.Join(r.open, "\n")}, true)
}

// answer prints what a line came to.
func (r *repl) answer(m *model, msg doneMsg) {
	r.busy = false
	if errors.Is(msg.err, ErrIncomplete) {
		return // the next line goes on
	}
	r.open = nil
	if g := m.generation(r.target); g > 0 && r.gen > 0 && g != r.gen {
		r.print(theme.Dim, m.clean("-- generation "+strconv.Itoa(r.gen)+" -> "+strconv.Itoa(g)+" --"))
		r.gen = g
	}
	role, text := theme.Text, strings.TrimRight(msg.text, "\n")
	if msg.err != nil {
		role, text = theme.Bad, msg.err.Error()
	}
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, "\n") {
		r.print(role, m.clean(strings.ReplaceAll(part, "\t", "  ")))
	}
	if msg.took > time.Second {
		r.print(theme.Dim, "took "+millis(msg.took.Microseconds())+"ms")
	}
}

// View prints the transcript and the line being typed, exactly h of w cells.
func (r *repl) View(m *model, p *pen, w, h int) []string {
	if w <= 0 || h <= 0 {
		return nil
	}
	var body []string
	if r.target == "" && len(r.lines) == 0 {
		body = append(body, p.text(w, theme.Dim, " press a on a service or a route, or i and .attach NODE:NAME"))
	}
	room := h - 1 + r.up
	first := len(r.lines)
	for n := 0; first > 0 && n < room; first-- {
		n += len(grid.Wrap(r.lines[first-1].text, w-2))
	}
	for _, l := range r.lines[first:] {
		for _, part := range grid.Wrap(l.text, w-2) {
			body = append(body, p.line(w).Gap(1).Put(p.on(l.role), part).String())
		}
	}
	r.up = min(r.up, max(len(body)-(h-1), 0))
	end := len(body) - r.up
	body = body[max(end-(h-1), 0):end]
	line := p.line(w).Gap(1)
	if r.up == 0 {
		line.Put(p.on(theme.Accent), r.prompt(m))
		if r.busy {
			line.Put(p.on(theme.Dim), "waiting for the answer ...")
		} else {
			r.line.draw(p, line, theme.Text, m.mode == inserting)
		}
	} else {
		line.Put(p.on(theme.Dim), "... "+plural(r.up, "line")+" below")
	}
	out := append(append(make([]string, 0, h), body...), line.String())
	for len(out) < h {
		out = append(out, grid.Blank(w))
	}
	return out
}
