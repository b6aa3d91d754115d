package tui

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// copiedMsg is how writing a copy to a file went.
type copiedMsg struct {
	what string
	err  error
}

// copyRow copies the selected row in one of three forms.
func (m *model) copyRow(a keys.Action) tea.Cmd {
	var text string
	switch a {
	case keys.CopyCommand:
		text = m.commandOf()
	case keys.CopyJSON:
		if m.focused() == keys.Logs {
			text = m.st.logs.json()
		} else if t := m.current(); t != nil {
			text = t.json()
		}
	default:
		if it := m.st.logs.selected(); m.focused() == keys.Logs && it != nil {
			p := m.pen()
			text = strings.Join([]string{p.clock(it.Time), it.Level, string(it.Node), it.Service, it.Text}, " ")
		} else if t := m.current(); t != nil {
			text = t.plainRow(m.pen())
		}
	}
	if text == "" {
		m.say(theme.Warn, "nothing to copy here")
		return nil
	}
	return m.copyText(text, firstLine(text))
}

// copyText sends text to the terminal's clipboard, and to the file of copies
// where there is one: many terminals take OSC 52 and say nothing when they don't.
func (m *model) copyText(text, what string) tea.Cmd {
	what = grid.Cut(m.clean(what), max(m.w-40, 16), "...")
	m.say(theme.Good, "copied: "+what)
	osc := tea.SetClipboard(text)
	if m.cfg.Clip == nil {
		return osc
	}
	clip := m.cfg.Clip
	return tea.Batch(osc, safely(func() tea.Msg { return copiedMsg{what: what, err: clip(text)} }))
}

func (m *model) copied(msg copiedMsg) {
	if msg.err != nil {
		m.say(theme.Warn, "copied, but not written to "+m.cfg.ClipName+": "+msg.err.Error())
		return
	}
	m.say(theme.Good, "copied: "+msg.what+"  (also in "+m.cfg.ClipName+")")
}

// commandOf is the shell command that prints what is selected.
func (m *model) commandOf() string {
	switch m.focused() {
	case keys.Nodes:
		return "shield nodes --json | jq " + shellQuote(`.[] | select(.node == `+jsonString(m.st.nodes.key())+`)`)
	case keys.Routes:
		if r := m.st.routes.selected(); r != nil {
			return "shield routes --json | jq " + shellQuote(`.[] | select(.node == `+jsonString(string(r.Node))+` and .name == `+jsonString(string(r.Name))+`)`)
		}
	case keys.Sessions:
		return "shield sessions show " + shellQuote(m.st.sessions.key()) + " --json"
	case keys.Services:
		if s := m.st.services.selected(); s != nil {
			return "shield services --node " + shellQuote(string(s.Node)) + " --json | jq " + shellQuote(`.[] | select(.id == `+strconv.FormatUint(uint64(s.ID), 10)+`)`)
		}
	case keys.Calls:
		if c := m.st.calls.selected(); c != nil {
			return "shield call " + shellQuote(c.to) + " " + shellQuote(c.Method)
		}
	case keys.Logs:
		return m.logCommand()
	}
	return ""
}

func (m *model) logCommand() string {
	l := m.st.logs
	out := "shield logs --level " + levels[l.level]
	if l.node != "" {
		out += " --node " + shellQuote(l.node)
	}
	if l.service != "" {
		out += " --service " + shellQuote(l.service)
	}
	return out
}

// shellQuote makes s one word of a shell.
func shellQuote(s string) string {
	plain := s != ""
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.:-/#@", c) >= 0
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// save writes the screen as text.
func (m *model) save(name string) tea.Cmd {
	if name == "" || m.cfg.Save == nil {
		m.say(theme.Warn, "save: say which file: save screen.txt")
		return nil
	}
	lines := strings.Split(ansi.Strip(m.draw()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	save, text := m.cfg.Save, strings.Join(lines, "\n")+"\n"
	return func() tea.Msg { return savedMsg{name: name, err: save(name, text)} }
}

type savedMsg struct {
	name string
	err  error
}

func (m *model) saved(msg savedMsg) {
	if msg.err != nil {
		m.say(theme.Bad, "save "+msg.name+": "+msg.err.Error())
		return
	}
	m.say(theme.Good, "saved "+msg.name)
}
