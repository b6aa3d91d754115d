package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/control"
	"shield/runtime/control/repl"
)

// fakeTalk answers lines from a table.
type fakeTalk struct {
	prompt string
	open   []string
	said   []string
	says   map[string]repl.Answer
	words  []string
	fails  error
	hangs  bool // until it is given up
}

func (f *fakeTalk) Prompt() string {
	if len(f.open) > 0 {
		return strings.Repeat(" ", len(f.prompt)-4) + ">>> "
	}
	return f.prompt
}

func (f *fakeTalk) Open() string { return strings.Join(f.open, "\n") }
func (f *fakeTalk) Drop()        { f.open = nil }

func (f *fakeTalk) Line(ctx context.Context, line string, show func(repl.Answer)) error {
	if strings.HasSuffix(line, "(") {
		f.open = append(f.open, line)
		return nil
	}
	line = strings.Join(append(f.open, line), "\n")
	f.open = nil
	f.said = append(f.said, line)
	if line == ".quit" {
		return repl.ErrQuit
	}
	if f.hangs {
		<-ctx.Done()
		show(repl.Answer{Blocks: []repl.Block{{Kind: repl.Warning, Text: "given up"}}})
		return ctx.Err()
	}
	if repl.Watches(line) != "" {
		for i := 1; ; i++ {
			show(repl.Answer{Watched: true, Result: &control.CallResult{OK: true, Text: []string{fmt.Sprint(i)}}, Blocks: []repl.Block{{Text: fmt.Sprint("look ", i)}}})
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
	if a, ok := f.says[line]; ok {
		show(a)
	}
	return f.fails
}

func (f *fakeTalk) Complete(_ context.Context, line string) (int, []string, error) {
	from := strings.LastIndexAny(line, ". ") + 1
	return from, startingWith(f.words, line[from:]), nil
}

func says(text string) repl.Answer { return repl.Answer{Blocks: []repl.Block{{Text: text}}} }

// talking is a console with a fake behind its REPL.
func talking(talk *fakeTalk) Config {
	talk.prompt = "node-3:room.public:3> "
	return Config{Commander: &fakeCommander{}, Attach: func(_ context.Context, target string) (Talk, repl.Answer, error) {
		if target != "node-3:room.public" {
			return nil, repl.Answer{}, errors.New("service_not_found: nobody publishes " + target)
		}
		return talk, repl.Answer{Blocks: []repl.Block{{Kind: repl.Note, Text: "attached to " + target + "   code 3 77be01"}}}, nil
	}}
}

// enter types a line and carries it out.
func (c *console) enter(line string) *console {
	c.t.Helper()
	for _, r := range line {
		c.send(key(string(r)))
	}
	c.run("enter")
	return c
}

func TestREPL(t *testing.T) {
	talk := &fakeTalk{says: map[string]repl.Answer{
		"#rooms": says("7"),
		"f(\n1)": says("one"),
		"x": {Blocks: []repl.Block{{Kind: repl.Output, Text: "printed\n\x1b[2Jtwo\n"}, {Kind: repl.Failure, Text: "attempt to index a nil value"},
			{Kind: repl.Hint, Text: "M.x is nil"}, {Kind: repl.Trace, Text: "stack traceback:\n\troom.lua:3"}}},
		".state": {Blocks: []repl.Block{{Text: "M.gold = 3", Kept: "field"}}},
		".timers": {Blocks: []repl.Block{{Table: &repl.Table{Head: []string{"TIMER", "DUE", "FUNCTION"}, Right: []bool{true, true, false},
			Rows: [][]string{{"1", "in 12.5s", "room.lua:9"}, {"14", "now", "room.lua:12"}}}}}},
		".calls": {Blocks: []repl.Block{{Table: &repl.Table{Head: []string{"HANDLER"}, Right: []bool{false}, Empty: "no handler has run yet"}}}},
	}}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.wants("[7]REPL", "attached to node-3:room.public   code 3 77be01", "node-3:room.public:3> ")
		c.enter("#rooms").wants("node-3:room.public:3> #rooms", "7")
		c.run("esc 1")
		c.wants("[1]Nodes") // out of the line, keys are keys again
		c.run("7")
		c.enter("f(").wants(">>> ").enter("1)").wants(">>> 1)", "one")
		c.enter("x").wants("printed", "error: attempt to index a nil value", "  M.x is nil", "    room.lua:3")
		c.enter(".state").wants("M.gold = 3   -- field")
		c.enter(".timers").wants("TIMER       DUE  FUNCTION", "    1  in 12.5s  room.lua:9", "   14       now  room.lua:12")
		c.enter(".calls").wants("no handler has run yet")
		c.enter(".help").wants(".timers", ".watch EXPR", ".attach NAME")
		c.enter(".clear").lacks("no handler")
		c.run("ctrl+d")
		c.wants("detached from node-3:room.public; the service keeps running", "or i and .attach NODE:NAME")
		c.run("i")
		c.enter("1").wants("not attached: press a on a service")
		c.enter(".attach nowhere").wants("error: service_not_found: nobody publishes nowhere", "detached")
		c.enter(".attach node-3:room.public").enter(".quit").wants("detached from node-3:room.public")
	})
	want := []string{"#rooms", "f(\n1)", "x", ".state", ".timers", ".calls", ".quit"}
	if !slices.Equal(talk.said, want) {
		t.Errorf("the service heard %q, want %q", talk.said, want)
	}
}

// Lua of several lines is pasted into one and runs as it was.
func TestPasteOfLua(t *testing.T) {
	talk := &fakeTalk{}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.send(tea.PasteMsg{Content: "\r\n-- what\r\nlocal x = 1\rreturn x\n"}).wants("-- what␤local x = 1␤return x")
		c.run("enter")
		c.wants("> -- what", " local x = 1", " return x")
		c.send(tea.PasteMsg{Content: strings.Repeat("漢\n", maxInput)}).wants("the paste was cut at 4096 characters; .load FILE runs a file")
		if n := len([]rune(c.m.repl.line.text())); n < maxInput-1 || n > maxInput {
			t.Errorf("the line took %d characters", n)
		}
	})
	if want := []string{"-- what\nlocal x = 1\nreturn x"}; !slices.Equal(talk.said, want) {
		t.Errorf("the service heard %q, want %q", talk.said, want)
	}
}

// What was typed into a REPL on another day is there, and what is typed is kept.
func TestREPLRemembers(t *testing.T) {
	var kept []string
	cfg := talking(&fakeTalk{})
	cfg.Past = append(slices.Repeat([]string{"old"}, 2*maxPast), "M.gold", ".state")
	cfg.Remember = func(line string) error { kept = append(kept, line); return nil }
	in(t, 80, 24, cfg, func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.keys("up").wants("> .state").keys("up").wants("> M.gold")
		c.run("enter")
		c.keys("type:f").send(tea.PasteMsg{Content: "(1,\n2)"})
		c.run("enter")
	})
	if !slices.Equal(kept, []string{"M.gold"}) {
		t.Errorf("kept %q", kept)
	}
	cfg.Remember = func(string) error { return errors.New("the disk is full") }
	in(t, 80, 24, cfg, func(t *testing.T, c *console) {
		c.run("4 G k a 1 enter")
		c.wants("the history is not kept: the disk is full")
	})
}

func TestREPLCompletes(t *testing.T) {
	talk := &fakeTalk{words: []string{"shield", "sword", "members"}}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		for _, tt := range []struct{ typed, want string }{
			{".ti", "> .timers"}, {".det", "> .detach"}, {".attach node-3:r", "> .attach node-3:room.public"}, {".attach roo", "> .attach room.public"},
			{"M.m", "> M.members"}, {".watch M.m", "> .watch M.members"}, {"M.s", "> M.s"}, {"zz", "> zz"},
		} {
			c.keys("type:" + strings.ReplaceAll(tt.typed, " ", " space type:"))
			c.run("tab")
			c.wants(tt.want)
			c.run("ctrl+u")
		}
		c.keys("type:M.s")
		c.run("tab")
		c.wants("shield  sword")
		c.keys("w").lacks("shield  sword")
		c.keys("ctrl+u type:M.m) left")
		c.run("tab X")
		c.wants("M.membersX)")
		c.keys("ctrl+e ctrl+u type:.s")
		c.run("tab")
		c.wants(".save  .stack  .state")
	})
}

// A line that takes long holds no key, and ctrl-c gives it up.
func TestREPLGivesUp(t *testing.T) {
	talk := &fakeTalk{hangs: true}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.keys("type:loop()")
		done := c.beside("enter")
		c.wants("running; ctrl-c gives it up")
		c.keys("type:next enter").wants("the line before has not been answered yet")
		c.keys("ctrl+c")
		done()
		c.wants("given up", "node-3:room.public:3> ")
		c.lacks("running")

		c.keys("type:loop()")
		done = c.beside("enter")
		c.keys("ctrl+d").wants("detached") // what is under way goes with it
		done()
	})
}

// beside presses a key whose command takes long; done waits for it.
func (c *console) beside(k string) (done func()) {
	_, cmd := c.m.Update(key(k))
	msgs := make(chan tea.Msg)
	stop := make(chan struct{})
	var begin func(tea.Cmd)
	open := 0
	over := make(chan struct{}, 8)
	begin = func(cmd tea.Cmd) {
		if cmd == nil {
			return
		}
		open++
		go func() {
			defer func() { over <- struct{}{} }()
			select {
			case msgs <- cmd():
			case <-stop:
			}
		}()
	}
	step := func(msg tea.Msg) {
		switch msg := msg.(type) {
		case tea.BatchMsg:
			for _, sub := range msg {
				begin(sub)
			}
		case answerMsg, overMsg:
			_, next := c.m.Update(msg)
			begin(next)
		}
	}
	begin(cmd)
	pump := func() {
		for {
			synctest.Wait()
			select {
			case msg := <-msgs:
				step(msg)
			default:
				return
			}
		}
	}
	pump()
	c.pump = pump
	return func() {
		pump()
		close(stop)
		for range open {
			<-over
		}
	}
}

// A watch goes on while lines are typed; its last value stands in the frame.
func TestREPLWatches(t *testing.T) {
	talk := &fakeTalk{says: map[string]repl.Answer{"#rooms": says("seven")}}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.keys("type:.watch space type:#M.gold")
		done := c.beside("enter")
		c.wants("00:00:00  look 1", "watch #M.gold = 1")
		c.enter("#rooms").wants("seven")
		time.Sleep(time.Second)
		c.pump()
		c.wants("00:00:01  look 2", "watch #M.gold = 2")
		c.keys("x ctrl+c").wants("watch #M.gold = 2") // that was for the typed line
		c.keys("ctrl+c")
		done()
		c.wants("the watch of #M.gold has ended", "ctrl-d detaches")
	})
}

func TestREPLTellsWhatWentWrong(t *testing.T) {
	talk := &fakeTalk{fails: errors.New("lost the server at unix:x")}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.enter("1").wants("error: lost the server at unix:x", "node-3:room.public:3> ")
	})
	in(t, 80, 24, Config{Commander: &fakeCommander{}}, func(t *testing.T, c *console) {
		c.run("4 a")
		c.wants("repl: this server has no REPL")
	})
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.run("4 a")
		c.wants("a: this is a recording")
	})
}

func TestTranscriptScrolls(t *testing.T) {
	talk := &fakeTalk{says: map[string]repl.Answer{"n": says(strings.Repeat("line\n", 60) + "last")}}
	in(t, 80, 24, talking(talk), func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.enter("n").wants("last")
		c.keys("pgup").wants("lines below")
		c.lacks("last")
		c.keys("pgdown").wants("last")
		c.keys("esc g").wants("attached to node-3:room.public", "lines below")
		c.keys("j k ctrl+d G").wants("last")
		c.keys("/").wants("there is nothing to filter here")
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
