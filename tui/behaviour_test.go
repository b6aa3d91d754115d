package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/runtime/shield"
	"shield/tui/keys"
)

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
	case doneMsg, copiedMsg, savedMsg, keptMsg, historyMsg, methodsMsg:
		_, next := c.m.Update(msg)
		c.follow(next)
	}
}

// Item 10.
func TestHelpListsTheKeysThatWork(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		c.keys("1 ?").wants("drain the node, asks first (this is a recording)", "quit the console; the cluster stays")
		c.keys("esc d").wants("d: this is a recording")
	})
	in(t, 140, 40, Config{Commander: &fakeCommander{}, ReadOnly: true}, func(t *testing.T, c *console) {
		c.keys("1 ?").lacks("drain the node", "reload its code")
	})
	in(t, 80, 24, Config{Commander: &fakeCommander{}}, func(t *testing.T, c *console) {
		c.keys("1 j j d").wants("d: already draining")
		c.keys(": type:help space type:keys enter").wants("help keys")
		for v := keys.Nodes; v < keys.Views; v++ {
			for _, b := range keys.InView(v, true) {
				if !strings.Contains(keys.Text(), b.Help) {
					t.Errorf("help keys lacks %q", b.Help)
				}
			}
		}
	})
}

// A digit leads out of whatever covers the body, and 0 says what it lacks.
func TestDigitsAlwaysAnswer(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("? 3").wants("[3]Sessions")
		c.lacks("EVERYWHERE")
		c.keys("0").wants("the overview needs 140x36; this screen is 80x24")
	})
}

func TestTabCompletesMethods(t *testing.T) {
	var asked []string
	cfg := Config{Commander: &fakeCommander{}, Methods: func(_ context.Context, target string) ([]string, error) {
		asked = append(asked, target)
		return []string{"ping", "say", "who"}, nil
	}}
	in(t, 80, 24, cfg, func(t *testing.T, c *console) {
		c.run(":")
		c.keys("type:call space type:node-2:room.public")
		c.run("space")
		c.wants("ping  say  who")
		c.run("p tab")
		c.wants(":call node-2:room.public ping")
		if strings.Join(asked, " ") != "node-2:room.public" {
			t.Errorf("asked for the methods of %q", asked)
		}
	})
}

func TestCtrlCInTheREPLLeavesTheLine(t *testing.T) {
	in(t, 80, 24, Config{Commander: &fakeCommander{}}, func(t *testing.T, c *console) {
		c.keys("7 i type:1+1 ctrl+c")
		if c.lacks("1+1"); c.m.mode != inserting {
			t.Error("the first ctrl-c does more than clear the line")
		}
		if _, cmd := c.m.Update(key("ctrl+c")); cmd != nil {
			c.follow(cmd)
		}
		if c.wants("left the line", "q quits"); c.m.mode != browsing {
			t.Error("ctrl-c on an empty line does not leave it")
		}
	})
}

func TestSmallHeaderCountsWholeSessions(t *testing.T) {
	in(t, 60, 16, Config{}, func(t *testing.T, c *console) {
		c.m.st.sessions = newSessions()
		c.events(delta(2, Delta{Sessions: arena().Sessions[:2]}))
		c.wants("  2 sess")
	})
}

// Item 11.
func TestFilter(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("3 / type:ann").wants("/ann", "4/38", "Sessions 4/38")
		c.lacks("chris")
		c.keys("enter 1 3").wants("/ann", "Sessions 4/38") // it survives leaving the view
		c.keys("/ ctrl+u type:!ann").wants("34/38")
		c.keys("esc").wants("Sessions 38")
		c.keys("/ type:zzz").wants("none of 38 match")
	})
}

// Item 12.
func TestCommands(t *testing.T) {
	fake := &fakeCommander{reply: "pong"}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		c.keys(": type:sesions enter").wants("unknown command sesions (did you mean sessions?)")
		c.keys(": type:session space type:s-1bc9 enter").wants("[3]Sessions", "s-1bc9 ann", "epoch  when")
		c.keys("esc : type:sess").wants("sessions  session")
		c.keys("tab tab enter").wants("no session") // tab goes through the suggestions
		c.keys(": type:kick space type:s-1bc tab").wants("kick s-1bc9")
		c.keys("esc : up").wants(":session") // history
		c.keys("esc")
		c.run(": c a l l space r o o m . p u b l i c space p i n g space { \" a \" : space 1 } enter")
		c.wants("pong")
	})
	if want := `call|room.public|ping|{"a": 1}`; len(fake.asked) != 1 || fake.asked[0] != want {
		t.Errorf("asked %q, want %q", fake.asked, want)
	}
}

func TestSplitArgs(t *testing.T) {
	tests := []struct {
		verb, in string
		want     []string
	}{
		{"call", "a b c", []string{"a", "b", "c"}},
		{"call", `t m {"name": "ann b"} [1, 2]`, []string{"t", "m", `{"name": "ann b"}`, "[1, 2]"}},
		{"call", `t m "a b" 'c d' ''`, []string{"t", "m", `"a b"`, "c d", ""}},
		{"call", `t m "a \" b"`, []string{"t", "m", `"a \" b"`}},
		{"eval", "room  return 1 + 2", []string{"room", "return 1 + 2"}},
		{"call", "  ", nil},
	}
	for _, tt := range tests {
		if got := splitArgs(tt.verb, tt.in); strings.Join(got, "|") != strings.Join(tt.want, "|") || len(got) != len(tt.want) {
			t.Errorf("splitArgs(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// Item 13.
func TestLogPausesAndFollows(t *testing.T) {
	line := func(n int, text string) shield.LogRow {
		return shield.LogRow{Seq: uint64(100 + n), Time: at(float64(n)), Level: "info", Node: "node-1", Service: "room", Text: text}
	}
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("6").wants("FOLLOW")
		seq := uint64(1)
		more := func(n int) {
			for range n {
				seq++
				c.events(delta(seq, Delta{Logs: []shield.LogRow{line(int(seq), "line "+total(int64(seq)))}}))
			}
		}
		more(40)
		c.wants("line 41")
		c.keys("k k").wants("PAUSED  +0 new")
		before := bodyOf(c.screen())
		more(132)
		c.wants("PAUSED  +132 new")
		if after := bodyOf(c.screen()); after != before {
			t.Errorf("paused text moved:\n%s\nto\n%s", before, after)
		}
		more(maxLogs + 2*slackLogs) // the ring turns over; the reader's part does not
		if after := bodyOf(c.screen()); after != before {
			t.Errorf("paused text moved when the ring turned over")
		}
		c.keys("G").wants("FOLLOW", "line "+total(int64(seq)))
		c.keys("k f").wants("FOLLOW")
		seq++
		c.events(delta(seq, Delta{LogsDropped: 7})).wants("7 dropped  FOLLOW")
	})
}

// bodyOf is the screen between header and footer without the frame's upper
// edge, where the counts are.
func bodyOf(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[3:len(lines)-3], "\n")
}

func TestLogPanStaysAndWrapWraps(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("6 right")
		c.lacks("node-10: online")
		c.events(delta(2, Delta{Logs: []shield.LogRow{{Seq: 50, Time: at(0), Level: "info", Node: "node-1", Service: "x", Text: "12345678tail"}}}))
		c.wants("tail")
		c.lacks("5678tail")
		c.keys("left w").wants("12345678tail", "value (field 'hp')")
		c.keys("L").wants("level>=warn")
		c.lacks("12345678tail")
		c.keys("n").wants("PAUSED")
	})
}

// Item 20.
func TestTooSmallRecovers(t *testing.T) {
	in(t, 20, 5, Config{}, func(t *testing.T, c *console) {
		c.wants("this is 20x5", "needs 60x16")
		c.send(tea.WindowSizeMsg{Width: 80, Height: 24}).wants("Nodes 4")
		c.send(tea.WindowSizeMsg{Width: 3, Height: 1})
		c.screen()
		c.send(tea.WindowSizeMsg{Width: 140, Height: 40}).wants("Nodes 4")
	})
}

// Item 21.
func TestNamesCannotBreakARow(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		rows := arena().Sessions[:0:0]
		for i, name := range []string{"\x1b[2J\x1b[H", "a\nb\tc\rd", "👨‍👩‍👧‍👦👨‍👩‍👧‍👦", "\u202egnp.exe", strings.Repeat("漢", 40), "ｱ\u0301\u0301\u0301\u0301", "हिन्दी", "\x9b31m\x85"} {
			rows = append(rows, shield.SessionRow{Session: shield.SessionID(string(rune('a' + i))), Player: name, Target: name, State: shield.SessionBound})
		}
		c.keys("3")
		c.events(delta(2, Delta{Sessions: rows}))
		c.screen() // checks every line's width
		raw := c.m.View().Content
		for _, bad := range []string{"\x1b[2J", "\u202e", "\x9b", "\r", "\t", "\u200d"} {
			if strings.Contains(raw, bad) {
				t.Errorf("%q reached the terminal", bad)
			}
		}
	})
}

// Item 22.
func TestRowsWaitForTheKeys(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		order := func() (out string) {
			for _, r := range c.m.st.nodes.shown {
				out += string(r.val.Node) + " "
			}
			return out
		}
		c.keys("1 : type:sort space type:sess enter j")
		was, sel := order(), c.m.st.nodes.key()
		n := arena().Nodes[0]
		n.Sessions = 0
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}}))
		if got := order(); got != was {
			t.Errorf("rows moved under the fingers: %s, was %s", got, was)
		}
		time.Sleep(1100 * time.Millisecond)
		c.send(tickMsg{at: time.Now()})
		if got := order(); got == was {
			t.Error("rows were never sorted again")
		}
		if got := c.m.st.nodes.key(); got != sel {
			t.Errorf("the cursor went from %s to %s", sel, got)
		}
	})
}

// Items 23 and 24.
func TestCopy(t *testing.T) {
	var clip string
	cfg := Config{ClipName: ".shield/clip", Clip: func(s string) error { clip = s; return nil }}
	in(t, 140, 40, cfg, func(t *testing.T, c *console) {
		c.run("3 j y")
		c.wants("copied: s-1bc9  ann", "(also in .shield/clip)")
		if !strings.HasPrefix(clip, "s-1bc9  ann  7") {
			t.Errorf("copied %q", clip)
		}
		c.run("Y")
		if want := "shield sessions show s-1bc9 --json"; clip != want {
			t.Errorf("Y copied %q, want %q", clip, want)
		}
		c.run("J")
		if !strings.HasPrefix(clip, `{"session":"s-1bc9","player":"ann"`) {
			t.Errorf("J copied %q", clip)
		}
		if c.m.View().MouseMode != tea.MouseModeNone {
			t.Error("the mouse is on without m")
		}
		c.keys("m")
		if c.m.View().MouseMode != tea.MouseModeCellMotion {
			t.Error("m does not switch the mouse on")
		}
	})
	cfg.Clip = func(string) error { return errors.New("read-only file system") }
	in(t, 140, 40, cfg, func(t *testing.T, c *console) {
		c.run("1 y")
		c.wants("copied, but not written to .shield/clip: read-only file system")
	})
}

func TestCommandOfEveryView(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		for view, want := range map[string]string{
			"1": `shield nodes --json | jq '.[] | select(.node == "node-1")'`,
			"2": `shield routes --json | jq '.[] | select(.node == "node-1" and .name == "auth")'`,
			"4": `shield services --node node-1 --json | jq '.[] | select(.id == 1)'`,
			"5": "shield call node-2:room.public ping",
			"6": "shield logs --level info",
		} {
			c.keys(view)
			if got := c.m.commandOf(); got != want {
				t.Errorf("view %s: %s, want %s", view, got, want)
			}
		}
	})
}

// Item 25: no state is told by colour alone, so the text of a monochrome screen
// is that of a coloured one.
func TestNoStateByColourAlone(t *testing.T) {
	screen := func(theme string) (s string) {
		in(t, 140, 40, Config{Theme: theme}, func(t *testing.T, c *console) { s = c.screen() })
		return strings.ReplaceAll(s, theme, "")
	}
	mono, dark := strings.Fields(screen("mono")), strings.Fields(screen("dark"))
	if strings.Join(mono, " ") != strings.Join(dark, " ") {
		t.Error("the theme changes the text of the screen")
	}
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.wants("[1]Nodes", "● online", "◐ draining", "✕ offline")
	})
}

func TestASCII(t *testing.T) {
	in(t, 140, 40, Config{ASCII: true}, func(t *testing.T, c *console) {
		c.keys("3")
		for _, r := range ansi.Strip(c.screen()) {
			if r > '~' {
				t.Fatalf("%q on a terminal that knows ASCII only", r)
			}
		}
		c.wants("* bound", "+- Sessions 38 -")
	})
}

// Item 30.
func TestDestructiveAsks(t *testing.T) {
	fake := &fakeCommander{reply: "kicked ann"}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		c.run("3 j K")
		c.wants("kick s-1bc9 (ann)? y/N")
		c.run("n")
		c.wants("nothing was done")
		if len(fake.asked) > 0 {
			t.Fatalf("asked %q after a no", fake.asked)
		}
		c.run("K y")
		c.wants("kick s-1bc9: kicked ann")
		c.run("1 j K")
		c.wants("kill node-2, 18 sessions? y/N")
		c.run("enter") // anything but y is no
		c.run(": d r a i n space n o d e - 2 enter")
		c.wants("drain node-2, 18 sessions? y/N")
		c.run("y")
		c.run("4 R")
		c.wants("restart auth, its state is lost? y/N")
		c.run("y")
	})
	want := "kick|s-1bc9, drain|node-2, reload|--restart|auth"
	if got := strings.Join(fake.asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// Item 31.
func TestEpochFlashesForThreeSeconds(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		s := arena().Sessions[1]
		s.Epoch = 8
		c.keys("3 j")
		c.events(delta(2, Delta{Sessions: []shield.SessionRow{s}}))
		c.wants("7->8", "bind    ann")
		time.Sleep(2900 * time.Millisecond)
		c.send(tickMsg{}).wants("7->8")
		time.Sleep(200 * time.Millisecond)
		c.send(tickMsg{})
		c.lacks("7->8")
	})
}

func TestHistoryIsFetchedOncePerEpoch(t *testing.T) {
	asked := 0
	cfg := Config{History: func(_ context.Context, id shield.SessionID) ([]shield.EpochStep, error) {
		asked++
		return []shield.EpochStep{{Epoch: 1, Time: at(-5), Cause: "bind", Player: "lin", Target: "node-1:player"}}, nil
	}}
	in(t, 80, 24, cfg, func(t *testing.T, c *console) {
		c.run("3")
		c.wants("bind    lin")
		c.run("g g g")
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// Item 32: the console names what failed and why, and never ends because of it.
func TestFailuresAreShown(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("4 G").wants("✕ failed", "attempt to index a nil value", "restarts 5")
		c.keys("k enter").wants("generation 3 keeps serving", "12 | local room x", "|            ^", "different code under this name")
		c.events(delta(2, Delta{Logs: []shield.LogRow{{Seq: 99, Time: at(0), Level: "error", Node: "node-2", Service: "room", Event: "crash", Text: "room.lua:3: boom\ntraceback"}}}))
		c.wants("node-2 room: room.lua:3: boom")
	})
}

func TestStaleResyncAndBack(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.wants("LIVE")
		c.send(lostMsg{errors.New("shield dev stopped\nmore")})
		time.Sleep(4 * time.Second)
		c.send(tickMsg{}).wants("STALE 4s", "shield dev stopped; attaching again", "node-1") // the last screen stays
		c.events(snap(1)).wants("LIVE", "attached again after 4s")
		c.send(resyncMsg{errGap}).wants("RESYNC")
		c.events(snap(9)).wants("RESYNC")
		time.Sleep(3 * time.Second)
		c.send(tickMsg{}).wants("LIVE")
	})
}

func TestPauseFreezesTheScreen(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		n := arena().Nodes[1]
		n.State = shield.Suspect
		gone := "node-10"
		c.keys("1 space")
		c.wants("PAUSED")
		before := bodyOf(c.screen())
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}, GoneNodes: []string{gone}}))
		if bodyOf(c.screen()) != before {
			t.Error("the frozen screen changed")
		}
		n.State = shield.Offline
		c.events(delta(3, Delta{Nodes: []shield.NodeRow{n}}))
		c.keys("space").wants("✕ offline", "LIVE")
		c.lacks(gone)
	})
}

func TestREPL(t *testing.T) {
	fake := &fakeCommander{reply: "7"}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.wants("[7]REPL", "attached to node-3:room.public", "node-3:room.public g3> ")
		c.run("# r o o m s enter")
		c.wants("node-3:room.public g3> #rooms", "7")
		c.run("esc 1")
		c.wants("[1]Nodes") // out of the line, keys are keys again
		c.run("7 ctrl+d")
		c.wants("detached from node-3:room.public; the service keeps running")
		fake.err = errors.New("handler_error: <repl>:1: attempt to index a nil value\nstack traceback:\n\t<repl>:1")
		c.run("4 a x enter")
		c.wants("attempt to index a nil value", "<repl>:1")
		fake.err = fmt.Errorf("%w: at EOF", ErrIncomplete)
		c.run("f ( enter")
		c.wants(">>> ")
		fake.err = nil
		c.run("1 ) enter")
		c.wants(">>> 1)", "7")
	})
	if last := fake.asked[len(fake.asked)-1]; last != "eval|node-3:room.public|f(\n1)" {
		t.Errorf("the lines of a chunk were asked as %q", last)
	}
	if want := "eval|node-3:room.public|#rooms"; fake.asked[0] != want {
		t.Errorf("asked %q, want %q", fake.asked, want)
	}
}

// The row of a failed reload may carry the reason alone; the log has the source
// around it.
func TestReloadShowsTheExcerptOfTheLog(t *testing.T) {
	in(t, 100, 30, Config{}, func(t *testing.T, c *console) {
		s := arena().Services[0]
		s.Reload, s.ReloadTime = "failed: services/auth.lua:3:1: syntax error near 'x'", ptr(at(0))
		c.events(delta(2, Delta{Services: []shield.ServiceRow{s}, Logs: []shield.LogRow{{Seq: 60, Time: at(0), Level: "error", Service: "reload", Event: "reload",
			Text: "services/auth.lua:3:1: syntax error near 'x'\n    3 | local = x\n      |       ^"}}}))
		c.keys("4 g").wants("keeps serving", "3 | local = x")
	})
}

// A node that doesn't answer can't hold a key.
func TestSlowAnswersHoldNothing(t *testing.T) {
	fake := &fakeCommander{}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		fake.block = make(chan struct{}) // of this bubble
		c.keys("4")
		_, cmd := c.m.Update(key("r"))
		done := make(chan tea.Msg)
		go func() {
			msg := cmd()
			batch, _ := msg.(tea.BatchMsg)
			for _, sub := range batch {
				if m, ok := sub().(doneMsg); ok {
					msg = m
				}
			}
			done <- msg
		}()
		c.keys("1 j").wants("> node-2") // the keys go on
		c.send(<-done)
		c.wants("no answer after 10s")
	})
}

func TestPasteOfAMegabyte(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("3 /").send(tea.PasteMsg{Content: strings.Repeat("漢\x1b[31m\n", 1<<17)})
		c.screen()
		if n := utf8.RuneCountInString(c.m.typed.text()); n == 0 || n > maxInput {
			t.Errorf("the line took %d characters", n)
		}
		c.keys("backspace left right ctrl+w esc").wants("Sessions 38")
	})
}

func TestPrefsAreKept(t *testing.T) {
	var kept Prefs
	in(t, 140, 40, Config{Keep: func(p Prefs) error { kept = p; return nil }}, func(t *testing.T, c *console) {
		c.run("3 w s s T 6 L")
	})
	in(t, 140, 40, Config{Prefs: kept}, func(t *testing.T, c *console) {
		c.keys("3").wants("wide", "theme dark")
		if title, desc := c.m.st.sessions.sorted(); title != "EPOCH" || !desc {
			t.Errorf("sessions are sorted by %s, %v", title, desc)
		}
		c.keys("6").wants("level>=warn")
	})
}

func TestMouse(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.keys("1 m").screen()
		c.send(tea.MouseClickMsg{X: 5, Y: 6, Button: tea.MouseLeft}).wants("> node-3")
		c.send(tea.MouseClickMsg{X: 20, Y: 1, Button: tea.MouseLeft}).wants("[3]Sessions")
		c.send(tea.MouseWheelMsg{X: 5, Y: 6, Button: tea.MouseWheelDown}).wants("> s-1c3b")
		for range 500 {
			c.send(tea.MouseWheelMsg{X: 5, Y: 6, Button: tea.MouseWheelDown})
		}
		c.screen()
	})
}

func TestOverviewPanes(t *testing.T) {
	in(t, 140, 40, Config{}, func(t *testing.T, c *console) {
		c.wants("[0]Overview", "Nodes 4", "Sessions 38", "Routes 9", "Services 10", "Calls 4", "Logs")
		c.keys("tab j enter").wants("[3]Sessions", "> s-1bc9")
		c.keys("0 tab tab tab tab enter").wants("[6]Logs")
		c.send(tea.WindowSizeMsg{Width: 100, Height: 30}).keys("0").wants("[1]Nodes")
		c.send(tea.WindowSizeMsg{Width: 150, Height: 50}).wants("[0]Overview")
	})
}

func TestUnfocusedScreenIsDrawnOnceASecond(t *testing.T) {
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.screen()
		c.send(tea.BlurMsg{})
		before := c.m.drawn
		n := arena().Nodes[0]
		n.Sessions = 777
		c.events(delta(2, Delta{Nodes: []shield.NodeRow{n}}))
		c.m.View()
		if c.m.drawn != before {
			t.Error("drawn again at once")
		}
		time.Sleep(time.Second)
		c.send(tickMsg{}).wants("777")
	})
}
