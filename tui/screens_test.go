package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var sizes = [][2]int{{80, 24}, {140, 40}, {60, 16}, {20, 5}}

// TestScreens pins every view as the characters on the screen.
func TestScreens(t *testing.T) {
	screens := []struct{ name, keys string }{
		{"overview", "0"}, {"nodes", "1 j j"}, {"routes", "2"}, {"sessions", "3 j"}, {"services", "4 G"}, {"calls", "5"}, {"logs", "6"}, {"repl", "7"},
		{"help", "1 ?"}, {"session-open", "3 j enter"}, {"filter", "3 / type:ann"}, {"command", "1 : type:ses"}, {"confirm", "1 j d"}, {"wide", "3 w"},
	}
	for _, sz := range sizes {
		for _, sc := range screens {
			if sz[0] < minWidth && sc.name != "nodes" {
				continue
			}
			t.Run(fmt.Sprintf("%s-%dx%d", sc.name, sz[0], sz[1]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newConsole(t, sz[0], sz[1], Config{Commander: &fakeCommander{}})
					c.events(snap(1)).keys(sc.keys)
					c.golden(fmt.Sprintf("%s-%dx%d", sc.name, sz[0], sz[1]))
				})
			})
		}
	}
}

// golden compares the screen with testdata/screens/NAME.txt; SHIELD_UPDATE=1
// writes it.
func (c *console) golden(name string) {
	c.t.Helper()
	path := filepath.Join("testdata", "screens", name+".txt")
	got := c.screen()
	if os.Getenv("SHIELD_UPDATE") == "1" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatalf("%v; SHIELD_UPDATE=1 go test ./tui writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		c.t.Errorf("%s (-want +got; SHIELD_UPDATE=1 rewrites):\n%s", path, diff)
	}
}
