package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/shield"
	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// localVerbs are the commands the console carries out itself.
var localVerbs = []string{"help", "filter", "sort", "wide", "level", "theme", "repl", "session", "service", "node", "route", "save", "clear", "quit", "q"}

// verbs lists what can be typed after the colon.
func (m *model) verbs() []string {
	var out []string
	for v := range keys.Views {
		out = append(out, v.Word())
	}
	out = append(out, localVerbs...)
	if m.cfg.Commander != nil && !m.cfg.ReadOnly {
		for _, v := range m.cfg.Commander.Verbs() {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

func (m *model) startCommand(text string) {
	m.overlay, m.methodsOf = noOverlay, "" // methods may be others than last time
	m.command.reset()
	m.command.set(text)
	m.mode = commanding
	m.suggest()
}

// pressCommand types a command.
func (m *model) pressCommand(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "esc":
		m.mode = browsing
	case "ctrl+c":
		if m.command.text() == "" {
			m.mode = browsing
		}
		m.command.reset()
		m.suggest()
	case "tab":
		m.complete(1)
	case "shift+tab":
		m.complete(-1)
	case "enter":
		m.mode = browsing
		return m.execute(m.command.done())
	case "backspace":
		if m.command.text() == "" {
			m.mode = browsing
		}
		fallthrough
	default:
		if m.command.key(msg) {
			m.suggest()
		}
	}
	return nil
}

// suggest finds what could stand where the cursor is.
func (m *model) suggest() {
	m.hintAt = -1
	m.hints = nil
	text, after := m.command.around()
	if after != "" {
		return
	}
	head, word := cutLast(text)
	seen := map[string]bool{}
	for _, c := range m.candidates(strings.Fields(head)) {
		if strings.HasPrefix(c, word) && c != word && !seen[c] {
			seen[c] = true
			m.hints = append(m.hints, c)
		}
		if len(m.hints) == 64 {
			return
		}
	}
}

func cutLast(s string) (head, word string) {
	i := strings.LastIndexByte(s, ' ') + 1
	return s[:i], s[i:]
}

// candidates lists what may follow the words before.
func (m *model) candidates(before []string) []string {
	if len(before) == 0 {
		return m.verbs()
	}
	if len(before) == 2 && before[0] == "call" && before[1] == m.methodsOf {
		return m.methods
	}
	if len(before) > 1 {
		return nil
	}
	switch before[0] {
	case "node", "drain", "kill", "restart", "stop", "freeze", "thaw":
		return m.st.nodes.keys()
	case "session", "kick":
		return m.st.sessions.keys()
	case "call", "eval", "repl", "route":
		return m.st.targets()
	case "service", "reload":
		var out []string
		for _, r := range m.st.services.order {
			out = append(out, string(r.val.Name))
		}
		return out
	case "theme":
		return theme.Names()
	case "level", "loglevel":
		return levels
	case "help":
		return append([]string{"keys"}, m.verbs()...)
	case "sort":
		return m.sortable()
	}
	return nil
}

func (m *model) sortable() []string {
	var out []string
	if l, ok := m.current().(interface{ titles() []string }); ok {
		for _, t := range l.titles() {
			out = append(out, strings.ToLower(t))
		}
	}
	return out
}

func (l *list[T]) titles() []string {
	var out []string
	for i := range l.cols {
		if l.cols[i].order != nil {
			out = append(out, l.cols[i].Title)
		}
	}
	return out
}

// complete puts the next suggestion in.
func (m *model) complete(step int) {
	if len(m.hints) == 0 {
		return
	}
	head, _ := cutLast(m.command.text())
	if m.hintAt < 0 && len(m.hints) == 1 {
		m.command.set(head + m.hints[0] + " ")
		m.suggest()
		return
	}
	m.hintAt = (m.hintAt + step + len(m.hints)) % len(m.hints)
	if m.hintAt < 0 {
		m.hintAt = 0
	}
	m.command.set(head + m.hints[m.hintAt])
}

// execute carries out a command: the console's own, or a verb of the server.
func (m *model) execute(text string) tea.Cmd {
	verb, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	if v, ok := keys.ViewOf(verb); ok {
		m.showAsked(v)
		if rest != "" {
			m.setFilter(rest)
		}
		return nil
	}
	if slices.Contains(localVerbs, verb) {
		return m.executeLocal(verb, rest)
	}
	if verb == "" {
		return nil
	}
	if m.cfg.Commander != nil && !m.cfg.ReadOnly && slices.Contains(m.cfg.Commander.Verbs(), verb) {
		return m.request(verb, splitArgs(verb, rest))
	}
	if near := shield.Nearest(verb, m.verbs()); near != "" && near != verb {
		m.say(theme.Warn, "unknown command "+verb+" (did you mean "+near+"?)")
		return nil
	}
	m.say(theme.Warn, "unknown command "+verb+"; tab after : lists them")
	return nil
}

// splitArgs cuts the arguments of a verb as a shell would, but leaves JSON
// whole: {"name": "ann b"} is one argument. The code of an eval stays as it is.
func splitArgs(verb, s string) []string {
	if verb == "eval" {
		target, code, _ := strings.Cut(s, " ")
		return []string{target, strings.TrimSpace(code)}
	}
	var out []string
	var word strings.Builder
	depth, quote, started := 0, byte(0), false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c == '\'':
			quote = 0
			continue
		case quote == '"' && c == '\\' && i+1 < len(s):
			word.WriteByte(c)
			i++
			c = s[i]
		case quote == '"' && c == '"':
			quote = 0
		case quote != 0:
		case c == '\'' && depth == 0:
			quote, started = '\'', true
			continue
		case c == '"':
			quote = '"'
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ' ' && depth <= 0:
			if started {
				out = append(out, word.String())
				word.Reset()
				started = false
			}
			continue
		}
		word.WriteByte(c)
		started = true
	}
	if started {
		out = append(out, word.String())
	}
	return out
}

func (m *model) executeLocal(verb, rest string) tea.Cmd {
	switch verb {
	case "quit", "q":
		return tea.Quit
	case "help":
		m.help(rest)
	case "filter":
		m.setFilter(rest)
	case "clear":
		m.setFilter("")
	case "wide":
		if t := m.current(); t != nil {
			t.setWide(!t.isWide())
		}
	case "sort":
		title, order, _ := strings.Cut(rest, " ")
		if t := m.current(); t == nil || !t.sortOn(title, order == "desc") {
			m.say(theme.Warn, "sort: no column "+title+" here ("+strings.Join(m.sortable(), " ")+")")
		}
	case "level":
		if !slices.Contains(levels, rest) {
			m.say(theme.Warn, "level: want "+strings.Join(levels, ", "))
			return nil
		}
		m.st.logs.setLevel(levelOf(rest))
		m.show(keys.Logs)
	case "theme":
		if !slices.Contains(theme.Names(), rest) {
			m.say(theme.Warn, "theme: want "+strings.Join(theme.Names(), ", "))
			return nil
		}
		return m.setTheme(rest)
	case "repl":
		if rest == "" {
			m.show(keys.REPL)
			return nil
		}
		return m.attach(rest)
	case "save":
		return m.save(rest)
	default:
		m.pickRow(verb, rest)
	}
	return nil
}

// pickRow shows one row: session s-8f3a.
func (m *model) pickRow(kind, key string) {
	v, _ := keys.ViewOf(kind + "s")
	t := m.tableOf(v)
	m.show(v)
	m.setFilter("")
	all := t.keys()
	if kind == "service" && !slices.Contains(all, key) {
		for _, r := range m.st.services.order {
			if string(r.val.Name) == key || string(r.val.Node)+":"+string(r.val.Name) == key {
				key = r.key
				break
			}
		}
	}
	if t.pick(key) {
		m.open()
		return
	}
	text := "no " + kind + " " + key
	if near := shield.Nearest(key, all); near != "" {
		text += " (did you mean " + near + "?)"
	}
	m.say(theme.Warn, text)
}

// help prints the keys, or what a command does.
func (m *model) help(word string) {
	switch {
	case word == "":
		m.overlay, m.scroll = helpOverlay, 0
	case word == "keys":
		m.showOutput("help keys", strings.Split(strings.TrimRight(keys.Text(), "\n"), "\n"))
	default:
		text, ok := verbHelp[word]
		if !ok {
			m.say(theme.Warn, "no help for "+word+"; shield help "+word+" may know more")
			return
		}
		m.say(theme.Text, word+": "+text)
	}
}

// verbHelp says what the commands want, a line each.
var verbHelp = map[string]string{
	"call":    "call TARGET METHOD [ARG...]; an argument is JSON, else a string",
	"eval":    "eval TARGET LUA; runs as one turn of the service",
	"reload":  "reload [NAME...]; --restart NAME starts it afresh",
	"kick":    "kick SESSION [REASON]",
	"drain":   "drain NODE; takes it out of routing, lets it finish, ends it",
	"kill":    "kill NODE; it ends as in a crash",
	"restart": "restart NODE; with a new epoch",
	"filter":  "filter TEXT; !TEXT inverts",
	"sort":    "sort COLUMN [desc]",
	"level":   "level debug|info|warn|error; of the log view",
	"theme":   "theme auto|dark|light|mono",
	"repl":    "repl NODE:NAME; attaches the REPL",
	"session": "session ID; shows one session", "node": "node ID; shows one node",
	"service": "service NAME; shows one service", "route": "route NODE:NAME; shows one route",
	"save": "save FILE; writes what the screen shows, as text",
}

// hintLine shows completions, the one tab is at marked.
func hintLine(p *pen, w int, hints []string, at int) string {
	line := p.line(w).Gap(1)
	if len(hints) == 0 {
		line.Put(p.on(theme.Dim), "enter runs it  esc leaves")
		return line.String()
	}
	for i := max(at-4, 0); i < len(hints) && line.Left() > 4; i++ {
		role := theme.Dim
		if i == at {
			role = theme.Tab
		}
		line.Put(p.on(role), grid.CutMiddle(p.clean(hints[i]), 32, p.gl.Ellipsis)).Gap(2)
	}
	line.PutRight(p.on(theme.Dim), "tab completes ")
	return line.String()
}
