package tui

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// methodsMsg is what a service answers to.
type methodsMsg struct {
	target string
	words  []string
}

// calledTarget is the target of a half-typed `:call`, once its method is what
// comes next; "" otherwise.
func calledTarget(line string) string {
	head, _ := cutLast(line)
	if words := strings.Fields(head); len(words) == 2 && words[0] == "call" {
		return words[1]
	}
	return ""
}

// fetchMethods asks what may be called, once for each target that is typed. The
// answer completes the line that is being typed by then.
func (m *model) fetchMethods() tea.Cmd {
	if m.cfg.Methods == nil || m.mode != commanding || m.link != live {
		return nil
	}
	target := calledTarget(m.command.text())
	if target == "" || target == m.methodsOf {
		return nil
	}
	m.methodsOf, m.methods = target, nil
	ctx, ask := m.ctx, m.cfg.Methods
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Reply)
		defer cancel()
		// A target that nobody publishes completes to nothing; the call will say why.
		words, _ := ask(ctx, target)
		return methodsMsg{target: target, words: words}
	}
}

// known keeps the methods of the target that was asked about last.
func (m *model) known(msg methodsMsg) {
	if msg.target != m.methodsOf {
		return
	}
	m.methods = msg.words
	if m.mode == commanding && m.hintAt < 0 {
		m.suggest()
		m.dirty = true
	}
}
