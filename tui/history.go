package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/shield"
	"shield/tui/keys"
)

// historyKey is a session at an epoch: its history changes when the epoch does.
type historyKey struct {
	session shield.SessionID
	epoch   shield.SessionEpoch
}

type historyMsg struct {
	key   historyKey
	steps []shield.EpochStep
	err   error
}

// fetchHistory asks for the epochs of the selected session, one request at a
// time. A row that brings its history is not asked about.
func (m *model) fetchHistory() tea.Cmd {
	if m.cfg.History == nil || m.fetching || m.link != live || m.focused() != keys.Sessions {
		return nil
	}
	s := m.st.sessions.selected()
	if s == nil {
		return nil
	}
	key := historyKey{s.Session, s.Epoch}
	if key == m.fetched || len(s.History) > 0 && s.History[len(s.History)-1].Epoch == s.Epoch {
		return nil
	}
	m.fetched, m.fetching = key, true
	ctx, ask := m.ctx, m.cfg.History
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Reply)
		defer cancel()
		steps, err := ask(ctx, key.session)
		return historyMsg{key: key, steps: steps, err: err}
	}
}

// history keeps what came, if the session still stands where it did. A failed
// question is asked again when the epoch or the selection changes: the row itself
// tells when the session is gone.
func (m *model) history(msg historyMsg) {
	m.fetching = false
	row := m.st.sessions.rows[string(msg.key.session)]
	if msg.err != nil || row == nil || len(msg.steps) == 0 {
		return
	}
	row.val.History = msg.steps
	m.dirty = true
}
