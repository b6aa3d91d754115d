package tui

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/control/repl"
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

// replPane types Lua into one service. What lines mean is package repl's; here are
// the screen and the keys.
type replPane struct {
	target string // node:name, attached or being attached to; "" = detached
	talk   Talk   // nil until attached
	lines  []replLine
	line   input
	run    *stream  // the line under way, nil when none is
	watch  *stream  // of .watch, which goes on while lines are typed
	hints  []string // completions shown under the line
	up     int      // how many lines the reader scrolled up
}

func newREPL(past []string) *replPane {
	r := &replPane{line: newInput()}
	r.line.past = slices.Clone(past[max(len(past)-maxPast, 0):])
	return r
}

func (r *replPane) print(role theme.Role, lines ...string) {
	for _, l := range lines {
		r.lines = append(r.lines, replLine{role, l})
	}
	if over := len(r.lines) - maxTranscript; over > 0 {
		r.lines = append([]replLine(nil), r.lines[over:]...)
	}
	r.up = 0
}

// tell prints text that may be foreign and have lines of its own.
func (m *model) tell(role theme.Role, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[max(len(lines)-maxTranscript, 0):] // the others would leave at once
	for i, l := range lines {
		lines[i] = m.cleanLine(strings.ReplaceAll(l, "\t", "    "))
	}
	m.repl.print(role, lines...)
}

// cleanLine cleans a line and says how much of it is left out.
func (m *model) cleanLine(line string) string {
	clean := m.clean(line)
	if over := len(line) - grid.MaxText; over > 0 {
		clean += " ... " + total(int64(over)) + " bytes more"
	}
	return clean
}

// attach points the REPL at a service.
func (m *model) attach(target string) tea.Cmd {
	if target == "" {
		m.say(theme.Warn, "repl: say which service: repl node:name")
		return nil
	}
	why := m.whyNoVerb("eval")
	if why == "" && m.cfg.Attach == nil {
		why = "this server has no REPL"
	}
	if why != "" {
		m.say(theme.Warn, "repl: "+why)
		return nil
	}
	m.detach()
	m.repl.target = target
	m.show(keys.REPL)
	return m.beginTalk(target)
}

// detach leaves the service; what is under way is given up.
func (m *model) detach() {
	r := m.repl
	if r.talk != nil {
		m.tell(theme.Dim, "detached from "+r.target+"; the service keeps running")
	}
	for _, st := range []*stream{r.run, r.watch} {
		if st != nil {
			st.end()
		}
	}
	*r = replPane{lines: r.lines, line: r.line}
	m.mode = browsing
}

// pressREPL types a line of Lua.
func (m *model) pressREPL(msg tea.KeyPressMsg) tea.Cmd {
	r := m.repl
	k := msg.String()
	if k == "tab" {
		return m.completeLua()
	}
	r.hints = nil
	switch k {
	case "esc":
		m.mode = browsing
	case "enter":
		return m.enterLua()
	case "ctrl+c":
		m.interruptREPL()
	case "ctrl+d":
		if r.line.text() == "" {
			m.detach()
		}
	case "ctrl+l":
		r.lines = nil
	case "pgup":
		r.up += m.halfPage()
	case "pgdown":
		r.up = max(r.up-m.halfPage(), 0)
	default:
		r.up = 0 // whoever types wants to see it
		r.line.key(msg)
	}
	return nil
}

func (m *model) halfPage() int { return max((m.h-8)/2, 1) }

// interruptREPL ends one thing: the line that runs, the line that is typed, the
// watch, the typing.
func (m *model) interruptREPL() {
	r := m.repl
	switch {
	case r.run != nil:
		r.run.end()
	case r.line.text() != "" || r.open():
		if r.talk != nil {
			r.talk.Drop()
		}
	case r.watch != nil:
		r.watch.end()
	default:
		m.mode = browsing // whoever clears one line too many must not lose the console
		m.say(theme.Text, "left the line; i goes back to it, ctrl-d detaches, q quits")
	}
	r.line.reset()
}

// open reports whether a chunk of Lua is not complete yet.
func (r *replPane) open() bool { return r.talk != nil && r.talk.Open() != "" }

// moveREPL scrolls the transcript while nobody types.
func (m *model) moveREPL(a keys.Action) bool {
	r := m.repl
	switch a {
	case keys.Down:
		r.up--
	case keys.Up:
		r.up++
	case keys.HalfDown:
		r.up -= m.halfPage()
	case keys.HalfUp:
		r.up += m.halfPage()
	case keys.Top:
		r.up = maxScroll
	case keys.Bottom:
		r.up = 0
	default:
		return false
	}
	r.up = max(r.up, 0) // drawing ends it at the first line
	return true
}

// lineEnd stands for the end of a line in Lua that was pasted: it is typed as one
// line and runs as it was.
const lineEnd = "\u2424"

func oneLine(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	return strings.ReplaceAll(strings.Trim(s, "\n"), "\n", lineEnd)
}

// ownDots are the commands that are about the console and not about a service.
var ownDots = []string{".attach", ".clear", ".detach"}

// enterLua sends the line; the next one waits for its answer.
func (m *model) enterLua() tea.Cmd {
	r := m.repl
	if r.run != nil || r.target != "" && r.talk == nil {
		m.say(theme.Warn, "the line before has not been answered yet; ctrl-c gives it up")
		return nil
	}
	src := strings.ReplaceAll(r.line.done(), lineEnd, "\n")
	word, rest, _ := strings.Cut(src, " ")
	switch {
	case src == "":
		return nil
	case r.open(): // more of what was begun, whatever it looks like
	case word == ".attach":
		return m.attach(strings.TrimSpace(rest))
	case word == ".clear":
		r.lines = nil
		return nil
	case word == ".detach":
		m.detach()
		return nil
	case word == ".help" && rest == "":
		m.answer(repl.Help())
		m.tell(theme.Text, "  .attach NAME   attach to another service\n  .clear         empty the screen\n  .detach        as .quit")
		return nil
	case r.talk == nil:
		m.tell(theme.Warn, "not attached: press a on a service, or type .attach NODE:NAME")
		return nil
	}
	m.tell(theme.Accent, r.talk.Prompt()+src)
	if why := m.whyNoVerb("eval"); why != "" {
		m.tell(theme.Warn, why)
		return nil
	}
	return tea.Batch(m.talkLine(src), m.remember(src))
}

type rememberedMsg struct{ err error }

// remember keeps a line for later; one of several lines has no place in a file of
// lines.
func (m *model) remember(src string) tea.Cmd {
	keep := m.cfg.Remember
	if keep == nil || strings.Contains(src, "\n") {
		return nil
	}
	return safely(func() tea.Msg { return rememberedMsg{keep(src)} })
}

// answer prints what a line came to.
func (m *model) answer(a repl.Answer) {
	for i, b := range a.Blocks {
		text := b.Text
		if a.Watched && i == 0 {
			text = m.pen().clock(time.Now())[:8] + "  " + text
		}
		switch b.Kind {
		case repl.Alarm:
			m.tell(theme.Bad, text)
		case repl.Note, repl.Aside, repl.Trace:
			m.tell(theme.Dim, text)
		case repl.Hint:
			m.tell(theme.Dim, "  "+text)
		case repl.Warning:
			m.tell(theme.Warn, text)
		case repl.Failure:
			m.tell(theme.Bad, "error: "+text)
		default:
			switch {
			case b.Table != nil:
				m.tellTable(b.Table)
			case b.Kept != "":
				m.tell(theme.Text, text+"   -- "+b.Kept)
			default:
				m.tell(theme.Text, text)
			}
		}
	}
}

// tellTable prints a table as wide as it is; the pane wraps what is too long.
func (m *model) tellTable(t *repl.Table) {
	if len(t.Rows) == 0 {
		m.tell(theme.Dim, t.Empty)
		return
	}
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], grid.Width(m.clean(cell)))
		}
	}
	set := func(row []string) string {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = grid.Pad(m.clean(cell), widths[i], t.Right[i], "")
		}
		return strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	m.repl.print(theme.Dim, set(t.Head))
	rows := t.Rows[max(len(t.Rows)-maxTranscript, 0):]
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = set(row)
	}
	m.repl.print(theme.Text, lines...)
}

// note is what stands in the frame of the pane.
func (r *replPane) note() string {
	switch {
	case r.watch != nil:
		return strings.TrimRight("watch "+r.watch.expr+" = "+r.watch.value, "= ")
	case r.target == "":
		return "detached"
	}
	return "ctrl-d detaches"
}

// View prints the transcript and the line being typed, exactly h of w cells.
func (r *replPane) View(m *model, p *pen, w, h int) []string {
	if w <= 0 || h <= 0 {
		return nil
	}
	var body []string
	room := h - 1 + min(r.up, maxTranscript*maxBlock)
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
	out := append(append(make([]string, 0, h), body...), r.lastLine(m, p, w))
	for len(out) < h {
		out = append(out, grid.Blank(w))
	}
	return out
}

// lastLine is the one being typed, or why there is none.
func (r *replPane) lastLine(m *model, p *pen, w int) string {
	line := p.line(w).Gap(1)
	prompt := "> "
	if r.talk != nil {
		prompt = m.clean(r.talk.Prompt())
	}
	switch {
	case r.up > 0:
		return line.Put(p.on(theme.Dim), "... "+plural(r.up, "line")+" below").String()
	case r.target == "" && m.mode != inserting:
		return line.Put(p.on(theme.Dim), "press a on a service or a route, or i and .attach NODE:NAME").String()
	case r.target != "" && r.talk == nil:
		return line.Put(p.on(theme.Dim), "attaching to "+m.clean(r.target)+" ...").String()
	case r.run != nil:
		return line.Put(p.on(theme.Dim), "running; ctrl-c gives it up").String()
	}
	line.Put(p.on(theme.Accent), prompt)
	r.line.draw(p, line, theme.Text, m.mode == inserting)
	return line.String()
}
