package tui

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// key makes the message of a key as a terminal sends it.
func key(k string) tea.KeyPressMsg {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "space": {Code: tea.KeySpace, Text: " "},
		"backspace": {Code: tea.KeyBackspace}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight},
		"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "delete": {Code: tea.KeyDelete}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown},
		"shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
	}
	if m, ok := special[k]; ok {
		return m
	}
	if rest, ok := strings.CutPrefix(k, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	if rest, ok := strings.CutPrefix(k, "alt+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModAlt}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// console is a model under test: keys in, text out.
type console struct {
	t    testing.TB
	m    *model
	pump func() // hands over what a key pressed with beside has brought
}

func newConsole(t testing.TB, w, h int, cfg Config) *console {
	cfg.Width, cfg.Height, cfg.Location = w, h, time.UTC
	return &console{t: t, m: newModel(context.Background(), cfg)}
}

// send hands over messages and drops the commands.
func (c *console) send(msgs ...tea.Msg) *console {
	for _, msg := range msgs {
		c.m.Update(msg)
		if c.m.crash != nil {
			c.t.Fatalf("%T: %v\n%s", msg, c.m.crash, c.m.crash.Stack)
		}
	}
	return c
}

func (c *console) events(evs ...Event) *console { return c.send(batchMsg{events: evs}) }

// keys presses keys written with blanks between; "type:abc" types abc.
func (c *console) keys(s string) *console {
	for _, k := range strings.Fields(s) {
		if text, ok := strings.CutPrefix(k, "type:"); ok {
			for _, r := range text {
				c.send(key(string(r)))
			}
			continue
		}
		c.send(key(k))
	}
	return c
}

// screen is what a person would see.
func (c *console) screen() string {
	c.t.Helper()
	v := c.m.View()
	if c.m.crash != nil {
		c.t.Fatalf("View: %v\n%s", c.m.crash, c.m.crash.Stack)
	}
	lines := strings.Split(v.Content, "\n")
	if len(lines) != c.m.h {
		c.t.Fatalf("the screen has %d lines, want %d", len(lines), c.m.h)
	}
	for i := range lines {
		if w := ansi.StringWidth(lines[i]); w != c.m.w {
			c.t.Fatalf("line %d is %d cells wide, want %d: %q", i, w, c.m.w, lines[i])
		}
		lines[i] = strings.TrimRight(ansi.Strip(lines[i]), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (c *console) wants(parts ...string) *console {
	c.t.Helper()
	s := c.screen()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			c.t.Errorf("the screen lacks %q:\n%s", p, s)
		}
	}
	return c
}

func (c *console) lacks(parts ...string) {
	c.t.Helper()
	s := c.screen()
	for _, p := range parts {
		if strings.Contains(s, p) {
			c.t.Errorf("the screen has %q:\n%s", p, s)
		}
	}
}

func snap(seq uint64) Event { return Event{Seq: seq, Snapshot: arena()} }

func delta(seq uint64, d Delta) Event { return Event{Seq: seq, Delta: &d} }

// in runs a test of the model in fake time, with the arena on the screen.
func in(t *testing.T, w, h int, cfg Config, test func(t *testing.T, c *console)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newConsole(t, w, h, cfg).events(snap(1)))
	})
}

// run presses keys and carries out what they set in motion, as the program
// would; ticks and clipboard writes are left out.
func (c *console) run(s string) {
	c.t.Helper()
	for _, k := range strings.Fields(s) {
		_, cmd := c.m.Update(key(k))
		c.follow(cmd)
	}
}

func (c *console) follow(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, sub := range msg {
			c.follow(sub)
		}
	case doneMsg, copiedMsg, savedMsg, keptMsg, historyMsg, methodsMsg, attachedMsg, answerMsg, overMsg, wordsMsg, rememberedMsg:
		_, next := c.m.Update(msg)
		c.follow(next)
	}
}

// bodyOf is the screen between header and footer without the frame's upper
// edge, where the counts are.
func bodyOf(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[3:len(lines)-3], "\n")
}

// fakeCommander remembers what it was asked for.
type fakeCommander struct {
	asked []string
	reply string
	err   error
	block chan struct{}
}

func (f *fakeCommander) Verbs() []string {
	return []string{"call", "eval", "reload", "kick", "drain", "kill", "restart"}
}

func (f *fakeCommander) Do(ctx context.Context, verb string, args []string) (string, error) {
	f.asked = append(f.asked, strings.Join(append([]string{verb}, args...), "|"))
	if f.block != nil {
		select {
		case <-f.block:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return f.reply, f.err
}
