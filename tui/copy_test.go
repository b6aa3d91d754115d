package tui

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

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
			"5": "shield call node-3:room.public ping",
			"6": "shield logs --level info",
		} {
			c.keys(view)
			if got := c.m.commandOf(); got != want {
				t.Errorf("view %s: %s, want %s", view, got, want)
			}
		}
	})
}
