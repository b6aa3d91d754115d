package tui

import (
	"fmt"
	"html"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/vt"

	"shield/runtime/control"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
	"shield/tui/keys"
	"shield/tui/theme"
)

// TestPictures holds the pictures of the documentation to what the console shows.
// SHIELD_UPDATE=1 go test ./tui -run Pictures draws them anew.
func TestPictures(t *testing.T) {
	pictures := []struct {
		name, theme, keys string
		w, h              int
	}{
		{"console-repl", "dark", "4 G k", 100, 26},
		{"console-overview", "dark", "0", 140, 40},
		{"console-sessions", "light", "3 j", 100, 26},
		{"console-services", "dark", "4 G k", 100, 26},
	}
	for _, pic := range pictures {
		t.Run(pic.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := talking(shopkeeper)
				cfg.Theme = pic.theme
				c := newConsole(t, pic.w, pic.h, cfg)
				c.events(snap(1))
				for i := range 20 { // some life for the sparklines and rates
					time.Sleep(500 * time.Millisecond)
					d := Delta{Services: arena().Services}
					for j := range d.Services {
						d.Services[j].Calls += int64((i + 1) * (30 + 17*j%40))
					}
					c.events(delta(uint64(i+2), d))
				}
				s := arena().Sessions[1]
				s.Epoch++
				c.events(delta(99, Delta{Sessions: []shield.SessionRow{s}})).keys(pic.keys)
				if pic.name == "console-repl" {
					c.chat()
				}
				c.screen()
				got := svg(c.m.View().Content, pic.w, pic.h, theme.Get(pic.theme, true))
				path := filepath.Join("..", "docs", "pictures", pic.name+".svg")
				if os.Getenv("SHIELD_UPDATE") == "1" {
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if string(want) != got {
					t.Errorf("%s is not what the console shows; SHIELD_UPDATE=1 draws it anew", path)
				}
			})
		})
	}
}

// shopkeeper answers in the picture of the REPL, as a real service did.
var shopkeeper = &fakeTalk{words: []string{"join", "leave", "move"}, says: map[string]repl.Answer{
	"#members": says("2"),
	"members":  says("{\n  ann = { x = 3, y = 1 },\n  lin = { x = 0, y = 0 },\n}"),
	"M.jion()": {Blocks: []repl.Block{{Kind: repl.Failure, Text: "repl:1: attempt to call a nil value (field 'M.jion')"}, {Kind: repl.Hint, Text: "M.jion is nil (did you mean M.join?)"}}},
	".timers": {Blocks: []repl.Block{{Table: repl.Timers([]control.TimerRow{{ID: 1, InMS: 12_400, EveryMS: 30_000, Function: "services/room.lua:41"},
		{ID: 7, InMS: 800, Function: "services/room.lua:66"}})}}},
	".calls": {Blocks: []repl.Block{{Table: repl.Handlers([]control.HandlerRow{{Method: "join", Count: 412, MeanMS: 0.21, MaxMS: 1.94}, {Method: "say", Count: 9120, Errors: 2, MeanMS: 0.08, MaxMS: 12.5}})}}},
}}

// chat types a while.
func (c *console) chat() {
	c.run("a")
	for _, line := range []string{"#members", "members", "M.jion()", ".timers", ".calls"} {
		c.enter(line)
	}
	c.keys("type:M.")
	c.run("tab")
}

const (
	cellW = 8
	cellH = 16
)

// svg draws a screen. Every run of cells of one look is a text of its own, as
// wide as its cells, so that no viewer's font can shift what follows.
func svg(content string, w, h int, th *theme.Theme) string {
	em := vt.NewEmulator(w, h)
	_, _ = em.Write([]byte(strings.ReplaceAll(content, "\n", "\r\n"))) // an emulator takes everything
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="13.3">`+"\n",
		w*cellW+24, h*cellH+24)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", th.Background)
	for y := range h {
		for x := 0; x < w; {
			x += svgRun(&b, em, x, y, w, th)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// svgRun draws the cells from x that look the same, and says how many they are.
func svgRun(b *strings.Builder, em *vt.Emulator, x, y, w int, th *theme.Theme) int {
	first := em.CellAt(x, y)
	var text strings.Builder
	n := 0
	for x+n < w {
		c := em.CellAt(x+n, y)
		if n > 0 && (!c.Style.Equal(&first.Style) || c.Width > 1 || first.Width > 1) {
			break
		}
		text.WriteString(c.Content)
		n += max(c.Width, 1)
	}
	fg, bg := th.Foreground, ""
	if first.Style.Fg != nil {
		fg = hexOf(first.Style.Fg)
	}
	if first.Style.Bg != nil {
		bg = hexOf(first.Style.Bg)
	}
	left, top := 12+x*cellW, 12+y*cellH
	if bg != "" {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", left, top, n*cellW, cellH, bg)
	}
	if s := strings.TrimRight(text.String(), " "); s != "" {
		weight := ""
		if first.Style.Attrs&uv.AttrBold != 0 {
			weight = ` font-weight="bold"`
		}
		length := n * cellW
		if first.Width <= 1 {
			length = len([]rune(s)) * cellW
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s"%s textLength="%d" xml:space="preserve">%s</text>`+"\n", left, top+12, fg, weight, length, html.EscapeString(s))
	}
	return n
}

func hexOf(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// TestDocsListTheKeys holds the table of keys in docs/console.md to the one the
// console acts on.
func TestDocsListTheKeys(t *testing.T) {
	const begin, end = "<!-- keys -->\n", "<!-- end of keys -->"
	path := filepath.Join("..", "docs", "console.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", path, begin, end)
	}
	want := "```\n" + keys.Text() + "```\n"
	if os.Getenv("SHIELD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("the keys in %s are old; SHIELD_UPDATE=1 go test ./tui writes them", path)
	}
}
