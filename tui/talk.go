package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/control/repl"
	"shield/tui/theme"
)

// Talk is a session with one service, as a *repl.Session is one. Line and Complete
// run beside the model, the others must not block.
type Talk interface {
	Prompt() string
	Open() string
	Drop()
	Line(ctx context.Context, line string, show func(repl.Answer)) error
	Complete(ctx context.Context, line string) (from int, words []string, err error)
}

// lineTime is how long a line may take, its own time-out and the way included.
const lineTime = repl.DefaultTimeout + 2*time.Second

// wordsTime is how long a person waits for the tab key.
const wordsTime = 500 * time.Millisecond

// stream is a line under way: its answers come one by one.
type stream struct {
	answers chan repl.Answer
	end     func() // gives it up
	expr    string // what it watches; "" for an ordinary line
	value   string // what that was last, clean
	err     error  // why it ended; to be read when answers is closed
}

type (
	// attachedMsg is how an attempt to attach ended.
	attachedMsg struct {
		target string
		talk   Talk
		hello  repl.Answer
		err    error
	}
	// answerMsg is an answer of a line under way.
	answerMsg struct {
		from   *stream
		answer repl.Answer
	}
	// overMsg says that a line is over.
	overMsg struct{ from *stream }
	// wordsMsg is what could stand behind the text before the cursor.
	wordsMsg struct {
		before string
		from   int
		words  []string
	}
)

// beginTalk attaches, beside the model.
func (m *model) beginTalk(target string) tea.Cmd {
	ctx, attach := m.ctx, m.cfg.Attach
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, Reply)
		defer cancel()
		talk, hello, err := attach(ctx, target)
		return attachedMsg{target: target, talk: talk, hello: hello, err: err}
	}
}

func (m *model) attachedTo(msg attachedMsg) {
	r := m.repl
	if r.target != msg.target || r.talk != nil {
		return // a person went elsewhere meanwhile
	}
	m.dirty = true
	if msg.err != nil {
		m.tell(theme.Bad, "error: "+msg.err.Error())
		r.target = ""
		return
	}
	r.talk = msg.talk
	m.answer(msg.hello)
}

// talkLine begins a line. One that watches goes on beside those that follow.
func (m *model) talkLine(src string) tea.Cmd {
	r := m.repl
	st := &stream{answers: make(chan repl.Answer, 16)}
	var ctx context.Context
	if st.expr = m.clean(repl.Watches(src)); st.expr != "" {
		if r.watch != nil {
			r.watch.end()
		}
		ctx, st.end = context.WithCancel(m.ctx)
		r.watch = st
	} else {
		ctx, st.end = context.WithTimeout(m.ctx, lineTime)
		r.run = st
	}
	return tea.Batch(safely(st.run(ctx, r.talk, src)), st.next())
}

// run carries the line out.
func (st *stream) run(ctx context.Context, talk Talk, src string) tea.Cmd {
	return func() tea.Msg {
		defer close(st.answers)
		defer st.end()
		st.err = talk.Line(ctx, src, func(a repl.Answer) {
			select { // the last words of a line that is given up count too
			case st.answers <- a:
				return
			default:
			}
			select {
			case st.answers <- a:
			case <-ctx.Done():
			}
		})
		return nil
	}
}

// next waits for the next answer.
func (st *stream) next() tea.Cmd {
	return func() tea.Msg {
		a, ok := <-st.answers
		if !ok {
			return overMsg{st}
		}
		return answerMsg{st, a}
	}
}

func (m *model) answered(msg answerMsg) tea.Cmd {
	if m.repl.run == msg.from || m.repl.watch == msg.from {
		m.dirty = true
		m.answer(msg.answer)
		if msg.answer.Result != nil && msg.from.expr != "" {
			msg.from.value = m.clean(strings.Join(msg.answer.Result.Text, "  "))
		}
	}
	return msg.from.next()
}

// over ends a line. What was begun before a detach ends unheard.
func (m *model) over(msg overMsg) {
	r, err := m.repl, msg.from.err
	switch msg.from {
	case r.run:
		r.run = nil
	case r.watch:
		r.watch = nil
		if err == nil {
			m.tell(theme.Dim, "the watch of "+msg.from.expr+" has ended")
		}
	default:
		return
	}
	m.dirty = true
	switch {
	case errors.Is(err, repl.ErrQuit):
		m.detach()
	case errors.Is(err, context.DeadlineExceeded):
		m.tell(theme.Bad, "error: no answer after "+span(lineTime))
	case err != nil && !errors.Is(err, context.Canceled):
		m.tell(theme.Bad, "error: "+err.Error())
	}
}

// completeLua asks what could stand where the cursor is.
func (m *model) completeLua() tea.Cmd {
	r := m.repl
	before, _ := r.line.around()
	word, arg, argument := strings.Cut(before, " ")
	switch {
	case strings.TrimSpace(before) == "":
		return nil
	case word == ".attach" && argument && !r.open():
		m.offer(wordsMsg{before: before, from: len(word) + 1, words: startingWith(m.st.targets(), arg)})
		return nil
	case strings.HasPrefix(word, ".") && !argument && !r.open():
		words := append(repl.Dots(word), startingWith(ownDots, word)...)
		slices.Sort(words)
		m.offer(wordsMsg{before: before, words: words})
		return nil
	case r.talk == nil:
		return nil
	}
	ctx, talk := m.ctx, r.talk
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, wordsTime)
		defer cancel()
		from, words, err := talk.Complete(ctx, before)
		if err != nil {
			return nil // a tab key reports no errors
		}
		return wordsMsg{before: before, from: from, words: words}
	}
}

func startingWith(words []string, prefix string) (fits []string) {
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			fits = append(fits, w)
		}
	}
	return fits
}

// offer finishes the word, as far as it is the same for all that fit, or shows
// them.
func (m *model) offer(msg wordsMsg) {
	r := m.repl
	before, after := r.line.around()
	if before != msg.before || len(msg.words) == 0 {
		return // it is another line by now
	}
	m.dirty = true
	best := msg.words[0]
	for _, w := range msg.words[1:] {
		for !strings.HasPrefix(w, best) {
			best = best[:len(best)-1]
		}
	}
	best = strings.ToValidUTF8(best, "")
	if len(msg.words) > 1 && best == before[msg.from:] {
		r.hints = msg.words
		return
	}
	r.line.put(before[:msg.from]+best, after)
}
