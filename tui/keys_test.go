package tui

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"shield/runtime/shield"
	"shield/tui/keys"
)

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

// A key that can do nothing says so, and what would help.
func TestKeysSayWhatTheyLack(t *testing.T) {
	in(t, 80, 24, Config{Commander: &fakeCommander{}}, func(t *testing.T, c *console) {
		c.keys("1 right").wants("w shows all columns")
		c.keys("G d").wants("d: it is offline; R starts it again")
		c.keys("K").wants("K: it is offline; R starts it again")
		c.keys("7 /").wants("/: there is nothing to filter here")
	})
	in(t, 80, 24, Config{}, func(t *testing.T, c *console) {
		c.m.st.sessions, c.m.st.calls = newSessions(), newCalls()
		c.keys("3").wants("none yet: a client that connects to a gateway has one", "nothing selected")
		c.lacks("enter opens")
		c.keys("5").wants("c on a service makes one")
	})
}

// The hint behind an alarm stays, however long the alarm is.
func TestAlarmsKeepTheirHint(t *testing.T) {
	in(t, 60, 16, Config{}, func(t *testing.T, c *console) {
		c.events(delta(2, Delta{Logs: []shield.LogRow{{Seq: 99, Time: at(0), Level: "error", Node: "node-2", Service: "room", Event: "crash", Text: strings.Repeat("long ", 40)}}}))
		c.wants("...  (6 shows the log)")
	})
}
