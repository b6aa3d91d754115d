package grid

import "strings"

// Frame is what a box is drawn with.
type Frame struct {
	Horizontal, Vertical                       string
	TopLeft, TopRight, BottomLeft, BottomRight string
	Border, Title, Note                        Style
	Tail                                       string
}

// Box draws a frame of exactly w by h cells around lines that are w-2 wide,
// with a title at the left of its upper edge and a note at the right. Missing
// lines are blank; surplus ones are not drawn. A box too small for a frame is
// blank.
func (f *Frame) Box(w, h int, title, note string, lines []string) []string {
	if w <= 0 || h <= 0 {
		return nil
	}
	out := make([]string, 0, h)
	if w < 4 || h < 2 {
		for range h {
			out = append(out, Blank(w))
		}
		return out
	}
	out = append(out, f.top(w, title, note))
	side := string(f.Border) + f.Vertical
	if f.Border != "" {
		side += reset
	}
	for i := range h - 2 {
		body := spaces(w - 2)
		if i < len(lines) {
			body = lines[i]
		}
		out = append(out, side+body+side)
	}
	bottom := NewLine(w, f.Tail)
	bottom.Put(f.Border, f.BottomLeft+strings.Repeat(f.Horizontal, w-2)+f.BottomRight)
	return append(out, bottom.String())
}

func (f *Frame) top(w int, title, note string) string {
	l := NewLine(w, f.Tail)
	l.Put(f.Border, f.TopLeft+f.Horizontal)
	room := w - 4 // both corners and one rule at each side
	title = Cut(title, room-2, f.Tail)
	if title != "" {
		l.Put(f.Title, " "+title+" ")
		room -= Width(title) + 2
	}
	nw := 0
	if note != "" && room >= 6 {
		note = " " + Cut(note, room-3, f.Tail) + " "
		nw = Width(note)
	}
	l.Put(f.Border, strings.Repeat(f.Horizontal, max(l.Left()-2-nw, 0)))
	if nw > 0 {
		l.Put(f.Note, note)
	}
	l.Put(f.Border, f.Horizontal+f.TopRight)
	return l.String()
}

// Beside joins blocks of equal height line by line.
func Beside(blocks ...[]string) []string {
	var out []string
	for i, b := range blocks {
		if i == 0 {
			out = append(out, b...)
			continue
		}
		for j := range out {
			if j < len(b) {
				out[j] += b[j]
			}
		}
	}
	return out
}

// Spark draws values as bars, the newest last, in at most w cells. bars are the
// glyphs from lowest to highest; a steady value stands a little below the top.
func Spark(values []float64, w int, bars []string) string {
	if w <= 0 || len(bars) == 0 {
		return ""
	}
	if len(values) > w {
		values = values[len(values)-w:]
	}
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	top *= 1.2
	var b strings.Builder
	for _, v := range values {
		switch {
		case v <= 0 || top <= 0:
			b.WriteByte(' ')
		default:
			b.WriteString(bars[min(int(v/top*float64(len(bars))), len(bars)-1)])
		}
	}
	return b.String()
}
