package tui

import (
	"strings"

	"shield/tui/grid"
	"shield/tui/theme"
)

// plainRow is the selected row as one would copy it: every column, two blanks
// between.
func (l *list[T]) plainRow(p *pen) string {
	if l.sel == nil {
		return ""
	}
	var parts []string
	for i := range l.cols {
		if s := l.cols[i].cell(p, l.sel.val).text; s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "  ")
}

// view prints the header and the rows in sight, exactly h lines of w cells.
func (l *list[T]) view(p *pen, focus bool) []string {
	if l.w <= 0 || l.h <= 0 {
		return nil
	}
	last := min(l.top+l.page(), len(l.shown))
	cells := make([][]cell, 0, max(last-l.top, 0))
	for _, r := range l.shown[min(l.top, last):last] {
		line := make([]cell, len(l.cols))
		for i := range l.cols {
			if l.cols[i].Wide && !l.wide {
				continue
			}
			line[i] = l.cols[i].cell(p, r.val)
			l.widths[i] = max(l.widths[i], grid.Width(line[i].text))
		}
		cells = append(cells, line)
	}
	placed := grid.Fit(l.frame, l.widths, l.w-marker-1, l.wide)
	out := make([]string, 0, l.h)
	out = append(out, l.header(p, placed))
	for i, line := range cells {
		out = append(out, l.rowLine(p, placed, line, focus && l.top+i == l.cur, l.top+i == l.cur))
	}
	if len(cells) == 0 && l.h > 1 {
		out = append(out, l.empty(p)...)
	}
	for len(out) < l.h {
		out = append(out, grid.Blank(l.w))
	}
	return out[:l.h]
}

// marker is the room for the cursor before the first column.
const marker = 2

// empty says why there are no rows, and what would bring some.
func (l *list[T]) empty(p *pen) []string {
	why := "none yet" + l.why
	if len(l.order) > 0 {
		why = "none of " + whole(len(l.order)) + " match; esc clears the filter"
	}
	var out []string
	for _, part := range grid.Wrap(why, max(l.w-2*marker, 1)) {
		out = append(out, p.line(l.w).Gap(marker).Put(p.on(theme.Dim), part).String())
	}
	return out
}

func (l *list[T]) header(p *pen, placed []grid.Placed) string {
	line := l.panned(p, placed, func(i int) cell {
		c := cell{text: l.cols[i].Title, role: theme.Dim}
		if i == l.sortBy && l.cols[i].order != nil {
			c.role = theme.Accent
		}
		return c
	})
	return line.String()
}

func (l *list[T]) rowLine(p *pen, placed []grid.Placed, cells []cell, focus, current bool) string {
	line := p.line(l.w)
	if focus {
		line.Base(p.on(theme.Selected))
	}
	mark, role := "  ", theme.Dim
	if current {
		mark = p.gl.Cursor + " "
	}
	if focus {
		role = theme.Accent
	}
	return l.fill(p, line.Put(p.on(role), mark), placed, func(i int) cell { return cells[i] }).String()
}

func (l *list[T]) panned(p *pen, placed []grid.Placed, at func(int) cell) *grid.Line {
	return l.fill(p, p.line(l.w).Gap(marker), placed, at)
}

// fill sets the columns; the first one stays when the others are panned.
func (l *list[T]) fill(p *pen, line *grid.Line, placed []grid.Placed, at func(int) cell) *grid.Line {
	skip := 0
	if l.wide {
		skip = min(l.pan, max(len(placed)-2, 0))
	}
	for n, pl := range placed {
		if n > 0 && n <= skip {
			continue
		}
		if n > 0 && l.wide && line.Left() < grid.Gap+pl.Width {
			break // half a column says nothing; panning shows it whole
		}
		if n > 0 {
			line.Gap(grid.Gap)
		}
		c, col := at(pl.Index), &l.cols[pl.Index]
		text := c.text
		if col.Middle {
			text = grid.CutMiddle(text, pl.Width, p.gl.Ellipsis)
		}
		line.Field(p.on(c.role), text, pl.Width, col.Right)
	}
	return line
}
