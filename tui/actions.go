package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/shield"
	"shield/tui/keys"
	"shield/tui/theme"
)

// pendingAction waits for a person to say yes.
type pendingAction struct {
	question string // clean: "kill node-2?"
	verb     string
	args     []string
}

// doneMsg is how a verb ended.
type doneMsg struct {
	verb, what string
	text       string
	err        error
	took       time.Duration
}

// destructive lists the verbs that ask first.
var destructive = []string{"drain", "kick", "kill", "restart", "stop", "freeze"}

// whyNot says why a key does nothing right now; "" = it works.
func (m *model) whyNot(b *keys.Binding) string {
	if b.Acts {
		if why := m.whyNoVerb(b.Verb); why != "" {
			return why
		}
	}
	switch b.Action {
	case keys.Open:
		if m.focused() == keys.Logs && m.st.logs.selected() == nil {
			return "there is no line"
		}
		if t := m.current(); m.shownView() != keys.Overview && t != nil && t.key() == "" {
			return "no row is selected"
		}
	case keys.LogOf, keys.Trace, keys.Reload, keys.Attach, keys.CallIt, keys.Drain, keys.Kill, keys.Restart, keys.Kick:
		if t := m.current(); m.shownView() != keys.Overview && (t == nil || t.key() == "") {
			return "no row is selected"
		}
	case keys.Copy, keys.CopyJSON, keys.CopyCommand:
		if t := m.current(); t != nil && t.key() == "" || m.focused() == keys.REPL {
			return "nothing is selected"
		}
	}
	if b.Action == keys.Filter && m.focused() == keys.REPL {
		return "there is nothing to filter here"
	}
	if b.Action == keys.Drain {
		if n := m.st.nodes.selected(); n != nil && n.Intent == shield.Draining {
			return "already draining"
		}
	}
	if b.Action == keys.Drain || b.Action == keys.Kill {
		if n := m.st.nodes.selected(); n != nil && away(n) {
			return "it is " + string(n.State) + "; R starts it again"
		}
	}
	if b.Action == keys.LogOf && m.focused() != keys.Nodes && m.focused() != keys.Routes && m.focused() != keys.Services {
		return "select a node, route or service first"
	}
	return ""
}

// whyNoVerb says why a verb can't be asked for.
func (m *model) whyNoVerb(verb string) string {
	switch {
	case m.cfg.ReadOnly:
		return "this console is read-only"
	case m.cfg.Commander == nil:
		return "this is a recording"
	case !slices.Contains(m.cfg.Commander.Verbs(), verb):
		return "this server does not offer " + verb
	case m.link == stale || m.link == attaching:
		return "not attached to a server"
	}
	return ""
}

// actRow does something about the selected row.
func (m *model) actRow(b *keys.Binding) tea.Cmd {
	switch b.Action {
	case keys.Follow:
		m.st.calls.follow(true)
	case keys.Errors:
		m.errOnly = !m.errOnly
		m.st.calls.keep = nil
		if m.errOnly {
			m.st.calls.keep = func(c *callItem) bool { return c.Result != "ok" }
		}
		m.st.calls.filter()
	case keys.LogOf:
		m.logOf()
	case keys.Trace:
		m.traceOf()
	case keys.Attach:
		return m.attach(m.targetOfRow())
	case keys.CallIt:
		m.startCommand(m.callLine())
	case keys.Reload:
		return m.reloadRow()
	case keys.Drain, keys.Kill:
		return m.request(b.Verb, []string{m.current().key()})
	case keys.Restart:
		return m.restartRow()
	case keys.Kick:
		return m.request("kick", []string{m.current().key()})
	}
	return nil
}

// targetOfRow is the selected row as a call's target: node:name.
func (m *model) targetOfRow() string {
	switch m.focused() {
	case keys.Routes:
		return m.st.routes.key()
	case keys.Services:
		if s := m.st.services.selected(); s != nil {
			return string(s.Node) + ":" + string(s.Name)
		}
	case keys.Calls:
		if c := m.st.calls.selected(); c != nil {
			return c.to
		}
	}
	return ""
}

func (m *model) callLine() string {
	if c := m.st.calls.selected(); m.focused() == keys.Calls && c != nil {
		return "call " + c.to + " " + c.Method
	}
	return "call " + m.targetOfRow() + " "
}

func (m *model) logOf() {
	switch m.focused() {
	case keys.Nodes:
		m.st.logs.only(m.st.nodes.key(), "")
	case keys.Routes:
		if r := m.st.routes.selected(); r != nil {
			m.st.logs.only(string(r.Node), string(r.Name))
		}
	case keys.Services:
		if s := m.st.services.selected(); s != nil {
			m.st.logs.only(string(s.Node), string(s.Name))
		}
	}
	m.show(keys.Logs)
}

func (m *model) traceOf() {
	word := m.current().key()
	switch m.focused() {
	case keys.Services:
		word = string(m.st.services.selected().Name)
	case keys.Routes:
		word = string(m.st.routes.selected().Name)
	}
	m.show(keys.Calls)
	m.setFilter(word)
}

func (m *model) reloadRow() tea.Cmd {
	var names []string
	switch m.focused() {
	case keys.Services:
		names = []string{string(m.st.services.selected().Name)}
	case keys.Nodes:
		for _, r := range m.st.services.order {
			if string(r.val.Node) == m.st.nodes.key() {
				names = append(names, string(r.val.Name))
			}
		}
	}
	return m.request("reload", names)
}

// restartRow restarts a node, or the services of a name.
func (m *model) restartRow() tea.Cmd {
	if m.focused() == keys.Services {
		return m.request("reload", []string{"--restart", string(m.st.services.selected().Name)})
	}
	return m.request("restart", []string{m.current().key()})
}

// request runs a verb, after a yes where it destroys something.
func (m *model) request(verb string, args []string) tea.Cmd {
	if why := m.whyNoVerb(verb); why != "" {
		m.say(theme.Warn, verb+": "+why)
		return nil
	}
	if slices.Contains(destructive, verb) || verb == "reload" && slices.Contains(args, "--restart") {
		m.ask = &pendingAction{question: m.clean(m.question(verb, args)), verb: verb, args: args}
		m.mode = confirming
		return nil
	}
	return m.run(verb, args)
}

func (m *model) question(verb string, args []string) string {
	what := strings.Join(args, " ")
	switch verb {
	case "kick":
		if r := m.st.sessions.rows[what]; r != nil && r.val.Player != "" {
			what += " (" + r.val.Player + ")"
		}
	case "drain", "kill", "restart", "stop":
		if n := m.st.node(shield.NodeID(what)); n != nil && n.Sessions > 0 {
			what += ", " + plural(n.Sessions, "session")
		}
	case "reload":
		verb, what = "restart", strings.TrimPrefix(what, "--restart ")+", its state is lost"
	}
	return verb + " " + what + "?"
}

func (m *model) pressConfirm(k string) tea.Cmd {
	ask := m.ask
	m.ask, m.mode = nil, browsing
	if k == "y" || k == "Y" {
		return m.run(ask.verb, ask.args)
	}
	m.say(theme.Text, "nothing was done")
	return nil
}

// run asks the server, without waiting for it.
func (m *model) run(verb string, args []string) tea.Cmd {
	if why := m.whyNoVerb(verb); why != "" {
		m.say(theme.Warn, verb+": "+why)
		return nil
	}
	m.busy++
	what := strings.TrimSpace(verb + " " + strings.Join(args, " "))
	m.note = note{role: theme.Dim, text: m.clean(what + " ...")}
	ctx, commander := m.ctx, m.cfg.Commander
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Reply)
		defer cancel()
		began := time.Now()
		text, err := commander.Do(ctx, verb, args)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer after %s: %w", span(Reply), err)
		}
		return doneMsg{verb: verb, what: what, text: text, err: err, took: time.Since(began)}
	}
}

// done shows how a verb ended: one line above the footer, more in a pane.
func (m *model) done(msg doneMsg) {
	m.busy--
	m.dirty = true
	if msg.err != nil {
		m.result(theme.Bad, msg.what, msg.err.Error())
		return
	}
	text := strings.TrimRight(msg.text, "\n")
	if text == "" {
		text = "done in " + millis(msg.took.Microseconds()) + "ms"
	}
	m.result(theme.Good, msg.what, text)
}

// result shows an outcome where it fits.
func (m *model) result(role theme.Role, what, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) == 1 && len(what)+len(text) < m.w-8 {
		m.say(role, what+": "+text)
		return
	}
	m.note = note{}
	m.showOutput(what, lines)
}

// maxOutput is how many lines a reader can scroll through; each frame wraps all of
// them.
const maxOutput = 10_000

// showOutput covers the body with text.
func (m *model) showOutput(title string, lines []string) {
	over := len(lines) - maxOutput
	m.output = m.output[:0:0]
	for _, l := range lines[:min(len(lines), maxOutput)] {
		m.output = append(m.output, m.cleanLine(strings.ReplaceAll(l, "\t", "  ")))
	}
	if over > 0 {
		m.output = append(m.output, "... "+plural(over, "line")+" more")
	}
	m.title, m.overlay, m.scroll = m.clean(title), outputOverlay, 0
}
