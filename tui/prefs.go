package tui

import (
	"encoding/json"
	"slices"

	tea "charm.land/bubbletea/v2"

	"shield/tui/keys"
	"shield/tui/theme"
)

// Prefs is what the console remembers from one start to the next.
type Prefs struct {
	Theme string              `json:"theme,omitempty"`
	Views map[string]ViewPref `json:"views,omitempty"` // by the word of the view: nodes, sessions, ...
}

// ViewPref is what is remembered of one view.
type ViewPref struct {
	Sort    string `json:"sort,omitempty"` // a column's title
	Reverse bool   `json:"reverse,omitempty"`
	Wide    bool   `json:"wide,omitempty"`
	Level   string `json:"level,omitempty"` // logs: the lowest level shown
	Wrap    bool   `json:"wrap,omitempty"`  // logs
}

// recallPrefs puts the views back as they were left. What no longer makes sense
// is ignored.
func (m *model) recallPrefs() {
	for v := range keys.Views {
		pref, ok := m.cfg.Prefs.Views[v.Word()]
		if !ok {
			continue
		}
		if t := m.tableOf(v); t != nil {
			t.setWide(pref.Wide)
			t.sortOn(pref.Sort, pref.Reverse)
		}
		if v == keys.Logs {
			if slices.Contains(levels, pref.Level) {
				m.st.logs.level = levelOf(pref.Level)
			}
			m.st.logs.wrap = pref.Wrap
		}
	}
}

// prefs is how the console looks now.
func (m *model) prefs() Prefs {
	p := Prefs{Theme: m.themeName, Views: map[string]ViewPref{}}
	for v := keys.Nodes; v <= keys.Calls; v++ {
		t := m.tableOf(v)
		title, desc := t.sorted()
		p.Views[v.Word()] = ViewPref{Sort: title, Reverse: desc, Wide: t.isWide()}
	}
	p.Views[keys.Logs.Word()] = ViewPref{Level: levels[m.st.logs.level], Wrap: m.st.logs.wrap}
	return p
}

// keep keeps the preferences after a key that changes one.
func (m *model) keep(a keys.Action) tea.Cmd {
	switch a {
	case keys.Sort, keys.Reverse, keys.Wide, keys.Level, keys.Wrap:
		return m.keepPrefs()
	}
	return nil
}

func (m *model) keepPrefs() tea.Cmd {
	if m.cfg.Keep == nil {
		return nil
	}
	keep, p := m.cfg.Keep, m.prefs()
	return func() tea.Msg { return keptMsg{err: keep(p)} }
}

type keptMsg struct{ err error }

func (m *model) kept(msg keptMsg) {
	if msg.err != nil {
		m.say(theme.Warn, "the preferences were not kept: "+msg.err.Error())
	}
}

func jsonString(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}
