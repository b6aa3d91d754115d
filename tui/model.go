package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/tui/grid"
	"shield/tui/keys"
	"shield/tui/theme"
)

// mode is what the keyboard is for right now.
type mode int

const (
	browsing   mode = iota
	filtering       // typing a filter
	commanding      // typing a command
	confirming      // y or not
	inserting       // typing into the REPL
)

// linkState is how alive the data is.
type linkState int

const (
	attaching linkState = iota
	live
	stale
	resyncing
	ended // a recording was played
)

// overlay is what covers the body.
type overlay int

const (
	noOverlay overlay = iota
	helpOverlay
	outputOverlay
)

const (
	holdFor = time.Second     // rows do not move for so long after a key
	noteFor = 6 * time.Second // a note stays so long
	resyncs = 2 * time.Second // RESYNC stays so long, to be seen
)

// The smallest screen the console can be used on.
const (
	minWidth  = 60
	minHeight = 16
)

// note is the line above the footer.
type note struct {
	role  theme.Role
	text  string // clean
	until time.Time
}

// model is the console's one tea.Model.
type model struct {
	cfg  Config
	ctx  context.Context // of the program; commands end with it
	st   *store
	repl *replPane

	w, h    int
	view    keys.View
	pane    int // the one with the keys, in Overview
	opened  bool
	scroll  int // of what is opened or covers the body
	overlay overlay
	title   string   // of the output
	output  []string // clean lines
	mode    mode
	typed   input // filter
	command input
	hints   []string // completions shown under the command
	hintAt  int      // the one tab is at, -1 before the first
	ask     *pendingAction
	filters [keys.Views]string
	errOnly bool // Calls: errors only

	note    note
	link    linkState
	since   time.Time // when link became what it is
	why     string    // clean
	resync  time.Time // until when RESYNC is shown
	paused  bool
	held    backlog
	lastKey time.Time
	busy    int // verbs under way

	blurred   bool
	dark      bool
	themeName string
	th        *theme.Theme
	set       grid.Charset
	mouse     bool
	hits      []hit

	dirty     bool
	drawn     time.Time
	screen    string
	scheduled time.Time  // when the next tick comes
	fetched   historyKey // the session history that was asked for last
	fetching  bool
	methodsOf string   // the target of a `:call` whose methods were asked for last
	methods   []string // what it answers to
	crash     *Crash
	quit      func() // ends the program from outside Update; must not block
}

// tickMsg is the clock; it comes only while something on the screen depends on
// it.
type tickMsg struct{ at time.Time }

func newModel(ctx context.Context, cfg Config) *model {
	m := &model{cfg: cfg, ctx: ctx, st: newStore(), repl: newREPL(cfg.Past), typed: newInput(), command: newInput(), dark: true, view: keys.Nodes, dirty: true, quit: func() {}}
	m.st.endpoint = cfg.Endpoint
	m.themeName = cfg.Theme
	if m.themeName == "" {
		m.themeName = cfg.Prefs.Theme
	}
	if !slices.Contains(theme.Names(), m.themeName) {
		m.themeName = "auto"
	}
	m.th = theme.Get(m.themeName, m.dark)
	if cfg.ASCII {
		m.set = grid.ASCII
	}
	m.recallPrefs()
	m.w, m.h = cfg.Width, cfg.Height
	m.since = time.Now()
	if m.overviewFits() {
		m.view = keys.Overview
	}
	return m
}

// Init asks the terminal what its background is, where it can answer.
func (m *model) Init() tea.Cmd {
	if m.cfg.Input == nil {
		return nil
	}
	return tea.RequestBackgroundColor
}

// Update handles one message. It never waits and does no I/O.
func (m *model) Update(msg tea.Msg) (next tea.Model, cmd tea.Cmd) {
	defer m.rescue(&next, &cmd)
	cmd = m.handle(msg)
	if m.crash != nil {
		return m, tea.Quit
	}
	return m, tea.Batch(safely(cmd), safely(m.fetchHistory()), safely(m.fetchMethods()), m.wake())
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	now := time.Now()
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		m.lastKey, m.dirty = now, true
		return m.press(msg)
	case tea.PasteMsg:
		m.lastKey, m.dirty = now, true
		return m.paste(msg.Content)
	case tea.MouseClickMsg:
		m.lastKey, m.dirty = now, true
		return m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		m.lastKey, m.dirty = now, true
		m.wheel(msg.Mouse())
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case batchMsg:
		m.receive(msg.events, now)
	case lostMsg, resyncMsg, endMsg:
		m.linkChanged(msg, now)
	case doneMsg:
		m.done(msg)
	case attachedMsg:
		m.attachedTo(msg)
	case answerMsg:
		return m.answered(msg)
	case overMsg:
		m.over(msg)
	case wordsMsg:
		m.offer(msg)
	case historyMsg:
		m.history(msg)
	case methodsMsg:
		m.known(msg)
	case copiedMsg:
		m.copied(msg)
	case savedMsg:
		m.saved(msg)
	case keptMsg:
		m.kept(msg)
	case rememberedMsg:
		if msg.err != nil {
			m.say(theme.Warn, "the history is not kept: "+msg.err.Error())
		}
	case tickMsg:
		m.tick(msg, now)
	case crashMsg:
		m.crash = msg.crash
	default:
		m.terminal(msg)
	}
	return nil
}

// terminal handles what the terminal tells of itself.
func (m *model) terminal(msg tea.Msg) {
	switch msg := msg.(type) {
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
		m.th = theme.Get(m.themeName, m.dark)
	case tea.FocusMsg:
		m.blurred = false
	case tea.BlurMsg:
		m.blurred = true
		return
	case tea.ModeReportMsg:
		known := msg.Value == ansi.ModeReset || msg.Value == ansi.ModeSet || msg.Value == ansi.ModePermanentlySet
		if msg.Mode != ansi.ModeUnicodeCore || !known || m.set == grid.ASCII {
			return
		}
		m.set = grid.Full
	case tea.ResumeMsg:
	default:
		return
	}
	m.dirty = true
}

func (m *model) resize(w, h int) {
	first := m.w == 0 && m.h == 0
	m.w, m.h, m.dirty = w, h, true
	if first && m.overviewFits() {
		m.view = keys.Overview
	}
}

// receive takes a batch of events; while the screen is frozen they wait.
func (m *model) receive(events []Event, now time.Time) {
	for i := range events {
		switch ev := &events[i]; {
		case ev.Snapshot != nil && m.link != live:
			m.attached(now)
		case ev.Lagged:
			m.linkChanged(resyncMsg{why: ErrLagged}, now)
			continue
		case ev.Trouble != "":
			m.say(theme.Warn, ev.Trouble)
			continue
		}
		if m.paused {
			m.held.add(events[i])
			continue
		}
		m.apply(events[i].Snapshot, events[i].Delta, now)
	}
	m.dirty = m.dirty || !m.paused || m.link != live
}

func (m *model) attached(now time.Time) {
	if m.link == stale {
		m.say(theme.Good, "attached again after "+span(now.Sub(m.since)))
	}
	m.link, m.since, m.why = live, now, ""
	m.dirty = true
}

func (m *model) apply(sn *Snapshot, d *Delta, now time.Time) {
	if sn != nil {
		m.st.snapshot(sn, now)
	}
	if d != nil {
		m.st.delta(d, now, now.Sub(m.lastKey) < holdFor)
		m.alarm(d)
	}
}

// alarm points out what went wrong, on the line above the footer.
func (m *model) alarm(d *Delta) {
	for i := range d.Logs {
		r := &d.Logs[i]
		if r.Event == "" || levelOf(r.Level) < levelOf("warn") {
			continue
		}
		role := theme.Warn
		if r.Level == "error" {
			role = theme.Bad
		}
		const next = "  (6 shows the log)"
		text := m.clean(strings.TrimSpace(string(r.Node)+" "+r.Service) + ": " + firstLine(r.Text))
		m.say(role, grid.Cut(text, max(m.w-len(next)-6, 16), "...")+next)
	}
}

func (m *model) linkChanged(msg tea.Msg, now time.Time) {
	m.dirty = true
	switch msg := msg.(type) {
	case lostMsg:
		if m.link == live || m.link == resyncing {
			m.since = now
		}
		if m.st.known {
			m.link = stale
		}
		m.why = m.clean(firstLine(msg.err.Error()))
	case resyncMsg:
		m.link, m.resync = resyncing, now.Add(resyncs)
	case endMsg:
		m.link, m.since = ended, now
		m.say(theme.Accent, "end of the recording; q quits")
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (m *model) clean(s string) string { return grid.Clean(s, m.set) }

// say puts text on the line above the footer for a while.
func (m *model) say(role theme.Role, text string) {
	m.note = note{role: role, text: m.clean(text), until: time.Now().Add(noteFor)}
	m.dirty = true
}

func (m *model) tick(msg tickMsg, now time.Time) {
	if msg.at.Equal(m.scheduled) {
		m.scheduled = time.Time{}
	}
	if !m.note.until.IsZero() && !now.Before(m.note.until) {
		m.note = note{}
	}
	if now.Sub(m.lastKey) >= holdFor {
		for _, t := range m.tables() {
			t.settle()
		}
	}
	m.dirty = true
}

// wake asks for the next tick, if the screen will change by itself.
func (m *model) wake() tea.Cmd {
	now := time.Now()
	at := m.nextChange(now)
	if at.IsZero() || !m.scheduled.IsZero() && !m.scheduled.After(at) {
		return nil
	}
	m.scheduled = at
	return tea.Tick(max(at.Sub(now), 0), func(time.Time) tea.Msg { return tickMsg{at: at} })
}

// nextChange is when the screen changes although nothing happens; zero: never.
func (m *model) nextChange(now time.Time) time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	soonest(m.note.until)
	soonest(m.resync)
	if m.link == stale {
		soonest(m.since.Add(now.Sub(m.since).Truncate(time.Second) + time.Second))
	}
	if m.link == live && !m.paused && m.ages() {
		every := time.Second
		if m.blurred {
			every = 5 * time.Second
		}
		soonest(now.Truncate(time.Second).Add(every))
	}
	if m.paused {
		return at
	}
	soonest(m.st.flashes)
	soonest(m.st.ratesEnd)
	if slices.ContainsFunc(m.tables(), table.isPending) {
		soonest(m.lastKey.Add(holdFor))
	}
	if m.blurred && m.dirty {
		soonest(m.drawn.Add(time.Second))
	}
	return at
}

// ages reports whether the view shows something that grows older.
func (m *model) ages() bool {
	switch m.view {
	case keys.Overview, keys.Nodes, keys.Sessions:
		return true
	case keys.Logs:
		return m.st.logs.relTime && m.st.logs.following()
	}
	return false
}

// rescue turns a panic into an orderly end: the program restores the terminal
// and Run returns the crash.
func (m *model) rescue(next *tea.Model, cmd *tea.Cmd) {
	if r := recover(); r != nil {
		m.crash = crashed(r)
		*next, *cmd = m, tea.Quit
	}
}
