package tui

import (
	"fmt"
	"strconv"
	"time"

	"shield/runtime/shield"
	"shield/tui/grid"
	"shield/tui/theme"
)

// pen is what panes draw with: the look, the moment, and what the terminal can
// be trusted with. It is made anew for each frame.
type pen struct {
	th  *theme.Theme
	gl  *theme.Glyphs
	set grid.Charset
	now time.Time
	loc *time.Location
	st  *store
}

// clean makes foreign text safe for this terminal.
func (p *pen) clean(s string) string { return grid.Clean(s, p.set) }

func (p *pen) on(r theme.Role) grid.Style { return p.th.On(r) }

// line starts a line of w cells.
func (p *pen) line(w int) *grid.Line { return grid.NewLine(w, p.gl.Ellipsis) }

// text is one line of w cells in one style.
func (p *pen) text(w int, r theme.Role, s string) string {
	return p.line(w).Put(p.on(r), p.clean(s)).String()
}

// box frames lines.
func (p *pen) box(w, h int, focus bool, title, note string, lines []string) []string {
	return p.gl.FrameIn(p.th, focus).Box(w, h, p.clean(title), p.clean(note), lines)
}

// cell is one field of a table: what it says and how it looks.
type cell struct {
	text string // clean
	role theme.Role
}

func plain(s string) cell            { return cell{text: s} }
func number[N int | int64](n N) cell { return cell{text: strconv.FormatInt(int64(n), 10)} }

// dash stands where there is nothing to say.
var dash = cell{text: "-", role: theme.Dim}

// state joins a glyph and a word; the colour only underlines them.
func (p *pen) state(glyph, word string, r theme.Role) cell {
	return cell{text: glyph + " " + p.clean(word), role: r}
}

// nodeState shows how a node is seen and, where that is well, what it means to
// do.
func (p *pen) nodeState(n *shield.NodeRow) cell {
	switch {
	case n.State == shield.Online && n.Intent == shield.Draining:
		return p.state(p.gl.Partial, "draining", theme.Warn)
	case n.State == shield.Online:
		return p.state(p.gl.Good, "online", theme.Good)
	case n.State == shield.Suspect:
		return p.state(p.gl.Alarm, "suspect", theme.Warn)
	case n.State == shield.Offline:
		return p.state(p.gl.Lost, "offline", theme.Bad)
	case n.State == shield.Connecting:
		return p.state(p.gl.Begin, "connecting", theme.Accent)
	case n.State == shield.Removed:
		return p.state(p.gl.None, "removed", theme.Dim)
	}
	return p.state(p.gl.Alarm, string(n.State), theme.Warn)
}

func (p *pen) serviceState(s shield.ServiceState) cell {
	switch s {
	case shield.Running:
		return p.state(p.gl.Good, "running", theme.Good)
	case shield.Starting:
		return p.state(p.gl.Begin, "starting", theme.Accent)
	case shield.Stopping:
		return p.state(p.gl.Partial, "stopping", theme.Warn)
	case shield.Restarting:
		return p.state(p.gl.Alarm, "restarting", theme.Warn)
	case shield.Failed:
		return p.state(p.gl.Lost, "failed", theme.Bad)
	}
	return p.state(p.gl.Alarm, string(s), theme.Warn)
}

func (p *pen) sessionState(s shield.SessionState) cell {
	switch s {
	case shield.SessionBound:
		return p.state(p.gl.Good, "bound", theme.Good)
	case shield.SessionNew:
		return p.state(p.gl.Begin, "new", theme.Accent)
	case shield.SessionDropped:
		return p.state(p.gl.Partial, "dropped", theme.Warn)
	}
	return p.state(p.gl.Alarm, string(s), theme.Warn)
}

func (p *pen) result(s string) cell {
	if s == "ok" {
		return p.state(p.gl.Good, "ok", theme.Good)
	}
	return p.state(p.gl.Lost, s, theme.Bad)
}

func levelRole(level string) theme.Role {
	switch level {
	case "error":
		return theme.Bad
	case "warn":
		return theme.Warn
	case "debug":
		return theme.Dim
	}
	return theme.Text
}

// clock is a time of day for log lines.
func (p *pen) clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(p.loc).Format("15:04:05.000")
}

// ago is how long ago something was, in at most five cells.
func (p *pen) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(p.now.Sub(t))
}

// span is a duration for people, in at most six cells: 0s 59s 12m41s 3h07m 5d.
func span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	switch s := int64(d / time.Second); {
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return strconv.FormatInt(s/86400, 10) + "d"
	}
}

// grown is a number of milliseconds that has grown since it was received.
func grown(ms int64, at, now time.Time) time.Duration {
	return time.Duration(ms)*time.Millisecond + now.Sub(at)
}

// count is a number for people in at most five cells.
func count(v float64) string {
	switch {
	case v <= 0:
		return "0"
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 99_950:
		return strconv.FormatFloat(v/1000, 'f', 1, 64) + "k"
	case v < 999_500:
		return strconv.FormatFloat(v/1000, 'f', 0, 64) + "k"
	default:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1<<10:
		return strconv.FormatInt(n, 10)
	case n < 1<<20:
		return strconv.FormatInt(n>>10, 10) + "K"
	case n < 10<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + "M"
	default:
		return strconv.FormatInt(n>>20, 10) + "M"
	}
}

// millis is a number of microseconds as milliseconds.
func millis(us int64) string {
	switch {
	case us < 100_000:
		return strconv.FormatFloat(float64(us)/1000, 'f', 1, 64)
	default:
		return strconv.FormatInt(us/1000, 10)
	}
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return whole(n) + " " + one + "s"
}

// whole prints a number of things; there is no tenth of a session.
func whole(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return count(float64(n))
}
