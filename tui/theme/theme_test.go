package theme

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// TestContrast computes what WCAG calls contrast for every pair of colours that
// a theme of ours puts on each other.
func TestContrast(t *testing.T) {
	for _, p := range Palettes() {
		for _, pair := range p.Pairs() {
			if got := contrast(luminance(t, pair[0]), luminance(t, pair[1])); got < 4.5 {
				t.Errorf("%s: %s on %s has contrast %.2f, want 4.5 or more", p.Name, pair[0], pair[1], got)
			}
		}
	}
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	part := func(i int) float64 {
		v, err := strconv.ParseUint(hex[i:i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(1) + 0.7152*part(3) + 0.0722*part(5)
}

// TestSixteenColours holds auto to the terminal's own palette: no number above
// 15, no background of ours.
func TestSixteenColours(t *testing.T) {
	for _, dark := range []bool{true, false} {
		th := Get("auto", dark)
		if th.Background != "" || th.Foreground != "" {
			t.Errorf("auto sets the terminal's colours: %q %q", th.Foreground, th.Background)
		}
		for r := range roles {
			for _, part := range []string{"38;", "48;"} {
				if on := string(th.On(r)); len(on) > 2 && strings.Contains(on, part) {
					t.Errorf("role %d of auto is %q, not one of the sixteen", r, on)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		if got := Get(name, true).Name; got != name {
			t.Errorf("Get(%q) is called %q", name, got)
		}
	}
	if got := Get("pink", true).Name; got != "auto" {
		t.Errorf("an unknown theme is %q, want auto", got)
	}
}

func TestGlyphsAreOneCell(t *testing.T) {
	for _, g := range []Glyphs{Unicode, Plain} {
		for _, s := range append([]string{g.Ellipsis, g.Cursor, g.Good, g.Partial, g.Begin, g.Lost, g.Alarm, g.None, g.Up, g.Down, g.Dot}, g.Bars...) {
			if ansi.StringWidth(s) != 1 || ansi.StringWidthWc(s) != 1 {
				t.Errorf("%q is not one cell wide", s)
			}
		}
	}
}

func TestGreyedHasOneColour(t *testing.T) {
	g := Get("dark", true).Greyed()
	if g.On(Good) != g.On(Bad) || g.On(Good) != g.On(Dim) {
		t.Errorf("greyed still tells good from bad: %q %q", g.On(Good), g.On(Bad))
	}
}
