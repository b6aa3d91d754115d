package theme

import "shield/tui/grid"

// Glyphs are the signs the console draws itself, all one cell wide.
type Glyphs struct {
	Frame    grid.Frame // without styles
	Ellipsis string
	Cursor   string // before the selected row
	Good     string // online, running, bound, ok
	Partial  string // draining, stopping, dropped
	Begin    string // connecting, starting, new
	Lost     string // offline, failed
	Alarm    string // suspect, restarting, trouble
	None     string // removed
	Arrow    string // from -> to
	Up, Down string // the direction of a sort
	Bars     []string
	Dot      string // between facts
}

// Unicode is for terminals of today.
var Unicode = Glyphs{
	Frame: grid.Frame{
		Horizontal: "─", Vertical: "│", TopLeft: "┌", TopRight: "┐", BottomLeft: "└", BottomRight: "┘", Tail: "…",
	},
	Ellipsis: "…", Cursor: ">", Good: "●", Partial: "◐", Begin: "○", Lost: "✕", Alarm: "!", None: "·",
	Arrow: "→", Up: "▲", Down: "▼",
	Bars: []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, Dot: "·",
}

// Plain is for locales that are not UTF-8.
var Plain = Glyphs{
	Frame: grid.Frame{
		Horizontal: "-", Vertical: "|", TopLeft: "+", TopRight: "+", BottomLeft: "+", BottomRight: "+", Tail: "~",
	},
	Ellipsis: "~", Cursor: ">", Good: "*", Partial: "~", Begin: "o", Lost: "x", Alarm: "!", None: ".",
	Arrow: "->", Up: "^", Down: "v",
	Bars: []string{".", ":", "-", "=", "+", "*", "%", "#"}, Dot: "-",
}

// FrameIn is the frame in the colours of t; focus marks the pane that has the
// keys.
func (g *Glyphs) FrameIn(t *Theme, focus bool) *grid.Frame {
	f := g.Frame
	f.Border, f.Title, f.Note = t.On(Border), t.On(Title), t.On(Dim)
	if focus {
		f.Border = t.On(Accent)
	}
	return &f
}
