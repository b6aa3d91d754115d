package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"shield/runtime/shield"
)

// fuzzKeys is every key the console knows and some it doesn't.
var fuzzKeys = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "tab", "shift+tab", "j", "k", "g", "G", "ctrl+d", "ctrl+u", "left", "right", "enter", "esc",
	"?", "/", ":", "s", "S", "w", "y", "Y", "J", "space", "m", "T", "ctrl+l", "l", "t", "r", "a", "c", "d", "K", "R", "o", "f", "n", "L", "up", "down", "backspace", "é", "漢", "ctrl+w", "!", "i", "x"}

// FuzzConsole sends any keys, sizes, events and strings in any order. Whatever
// comes, the screen is exactly h lines and none is wider than w.
func FuzzConsole(f *testing.F) {
	f.Add([]byte{1, 2, 3, 40, 41, 42}, "ann", uint16(80), uint16(24))
	f.Add([]byte("/abc:kick\x80\x90\xa0\xb0"), "\x1b[2J漢字👨‍👩‍👧", uint16(140), uint16(40))
	f.Add([]byte{0xc0, 0x90, 0xd0, 0xe0, 0xf0, 0xff}, "\xff\xfe\r\n\t", uint16(1), uint16(1))
	f.Add([]byte{7, 19, 47, 19, 48, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87}, "हिन्दी", uint16(60), uint16(16))
	f.Add([]byte{6, 11, 0x83, 0x83, 12, 30, 0x80, 30, 0xf1}, strings.Repeat("x\n", 60), uint16(300), uint16(100))
	f.Fuzz(func(t *testing.T, script []byte, text string, w, h uint16) {
		if len(script) > 200 || len(text) > 4000 {
			return
		}
		c := newConsole(t, int(w%301), int(h%101), Config{Commander: &fakeCommander{}, ASCII: len(text)%7 == 0})
		seq := uint64(1)
		c.events(snap(1))
		for i, b := range script {
			switch {
			case b < 0x80:
				c.send(key(fuzzKeys[int(b)%len(fuzzKeys)]))
			case b < 0xc0:
				seq++
				c.events(fuzzEvent(seq, b, text, i))
			case b < 0xd0:
				c.send(tea.WindowSizeMsg{Width: int(b) * 7 % 301, Height: int(b) * 3 % 101})
			case b < 0xe0:
				c.send(tea.MouseWheelMsg{X: int(b) % 80, Y: i % 24, Button: tea.MouseWheelUp}, tea.MouseClickMsg{X: i % 300, Y: int(b) % 30, Button: tea.MouseLeft})
			case b < 0xf0:
				c.send(tea.PasteMsg{Content: text})
			default:
				c.send([]tea.Msg{tea.BlurMsg{}, tea.FocusMsg{}, lostMsg{errors.New(text)}, resyncMsg{}, endMsg{}, tickMsg{}, doneMsg{verb: "call", text: text},
					doneMsg{verb: "eval", err: errors.New(text)}, copiedMsg{what: text},
					wordsMsg{before: c.m.repl.line.text(), words: []string{text, text + "x"}}, attachedMsg{err: errors.New(text)}}[int(b)%11])
			}
			if i%8 == 7 {
				c.check()
			}
		}
		c.check()
	})
}

// check measures the screen.
func (c *console) check() {
	c.t.Helper()
	c.m.dirty, c.m.blurred = true, false
	v := c.m.View()
	if c.m.crash != nil {
		c.t.Fatalf("%v\n%s", c.m.crash, c.m.crash.Stack)
	}
	if c.m.w == 0 || c.m.h == 0 {
		return
	}
	lines := strings.Split(v.Content, "\n")
	if len(lines) != c.m.h {
		c.t.Fatalf("%d lines at %dx%d", len(lines), c.m.w, c.m.h)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > c.m.w {
			c.t.Fatalf("line %d of %dx%d is %d wide: %q", i, c.m.w, c.m.h, w, l)
		}
	}
}

// fuzzEvent is some change with text wherever text can be.
func fuzzEvent(seq uint64, b byte, text string, i int) Event {
	var d Delta
	id := string(rune('a' + i%26))
	switch b % 8 {
	case 0:
		d.Nodes = []shield.NodeRow{{Node: shield.NodeID(text), State: shield.NodeState(text), Address: text, Gateways: []string{text, text}, Reason: text, Uptime: int64(b) << 40}}
	case 1:
		d.Sessions = []shield.SessionRow{{Session: shield.SessionID(id), Player: text, Target: text, State: shield.SessionState(text), Epoch: shield.SessionEpoch(b), IdleMS: -5,
			History: []shield.EpochStep{{Cause: text, Player: text, Target: text}}}}
	case 2:
		d.Services = []shield.ServiceRow{{Name: shield.Name(text), Names: []shield.Name{shield.Name(text)}, Node: shield.NodeID(id), ID: 1, Reload: text, Reason: text, Code: text, Calls: int64(i)}}
	case 3:
		d.Logs = []shield.LogRow{{Seq: seq, Text: text, Level: []string{"info", "error", text}[i%3], Service: text, Event: "crash", Time: time.Unix(int64(b), 0)}}
	case 4:
		d.Calls = []shield.CallRow{{From: text, Target: text, Method: text, Result: text, Micros: int64(b) << 50}}
	case 5:
		d.Routes = []shield.RouteRow{{Node: shield.NodeID(id), Name: shield.Name(text)}}
	case 6:
		d.GoneNodes, d.GoneSessions, d.GoneServices = []string{text, "node-1"}, []string{id}, []string{"node-1#1"}
	default:
		return Event{Seq: seq, Snapshot: &Snapshot{App: text, Mode: text, Endpoint: text, Nodes: arena().Nodes, Sessions: arena().Sessions}}
	}
	return Event{Seq: seq, Delta: &d}
}

// TestEverySize draws every view at every small size and many large ones.
func TestEverySize(t *testing.T) {
	c := newConsole(t, 80, 24, Config{Commander: &fakeCommander{}})
	c.events(snap(1))
	for _, view := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "1 ?"} {
		c.keys("esc " + view)
		for _, w := range []int{1, 2, 3, 9, 27, 28, 59, 60, 61, 75, 76, 99, 100, 110, 116, 139, 140, 141, 300} {
			for _, h := range []int{1, 2, 3, 4, 15, 16, 17, 18, 19, 20, 24, 31, 35, 36, 37, 100} {
				c.send(tea.WindowSizeMsg{Width: w, Height: h})
				c.screen()
			}
		}
		c.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	}
}
