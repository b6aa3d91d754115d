package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"shield/devserver/logs"
)

// Column is one column of a table for people.
type Column[T any] struct {
	Head  string
	Right bool // numbers
	Cell  func(row T) string
	Paint func(row T) Paint // nil = plain
	// Spare columns leave a terminal that is too narrow for all, the highest
	// number first; 0 stays, and is cut if it must be.
	Spare int
	// Prose of the last column goes on in further lines where it is too long for
	// its line, instead of being cut.
	Prose bool
}

// Print writes rows: one JSON array with --json, else a table. Both come from
// the same structs. empty is the line that people read when there are none; it
// goes to Err, so that a pipe gets nothing.
func Print[T any](io *IO, rows []T, columns []Column[T], empty string) error {
	if io.JSON {
		if rows == nil {
			rows = []T{}
		}
		return io.PrintJSON(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(io.Err, empty)
		return nil
	}
	width := io.LineWidth()
	text, left := table(io, rows, columns, width)
	_, err := fmt.Fprint(io.Out, text)
	if len(left) > 0 {
		fmt.Fprintln(io.Err, io.PaintErr(Faint, fit("a wider window shows "+strings.Join(left, " ")+"; --json all", width)))
	}
	return err
}

// PrintJSON writes v as one line of JSON, never coloured. Names of players and
// answers of services are in it as they are, so what a terminal could take for an
// order is escaped as JSON has it: programs read the same.
func (io *IO) PrintJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	_, err = fmt.Fprintf(io.Out, "%s\n", inert(b))
	return err
}

func inert(b []byte) []byte {
	if bytes.IndexFunc(b, logs.Orders) < 0 {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if logs.Orders(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.Write(b[:n])
		}
		b = b[n:]
	}
	return out.Bytes()
}

// table lays rows out. No line is wider than width: spare columns leave, then the
// widest give way. Where width is 0 nothing is cut.
func table[T any](io *IO, rows []T, columns []Column[T], width int) (text string, left []string) {
	all := columns
	columns = slices.Clone(columns)
	cells := make([][]string, len(rows))
	widths := make([]int, len(columns))
	for c, col := range columns {
		widths[c] = ansi.StringWidth(col.Head)
	}
	for r, row := range rows {
		cells[r] = make([]string, len(columns))
		for c, col := range columns {
			s := clean(col.Cell(row))
			if s == "" {
				s = "-"
			}
			cells[r][c] = s
			widths[c] = max(widths[c], ansi.StringWidth(s))
		}
	}
	if width > 0 {
		for {
			c := leaves(columns, widths, width)
			if c < 0 {
				break
			}
			columns, widths = slices.Delete(columns, c, c+1), slices.Delete(widths, c, c+1)
			for r := range cells {
				cells[r] = slices.Delete(cells[r], c, c+1)
			}
		}
		shrink(widths, width-gap*(len(columns)-1))
		for _, col := range all {
			if !slices.ContainsFunc(columns, func(stays Column[T]) bool { return stays.Head == col.Head }) {
				left = append(left, col.Head)
			}
		}
	}
	var b strings.Builder
	for c, col := range columns {
		pad(&b, col.Head, io.PaintOut(Bold, fit(col.Head, widths[c])), widths[c], col.Right, c == len(columns)-1)
	}
	b.WriteByte('\n')
	for r := range rows {
		writeRow(io, &b, rows[r], cells[r], columns, widths)
	}
	return b.String(), left
}

// writeRow writes one line of a table, and more where prose goes on.
func writeRow[T any](io *IO, b *strings.Builder, row T, cells []string, columns []Column[T], widths []int) {
	indent := 0
	for c, col := range columns {
		last := c == len(columns)-1
		lines := []string{cells[c]}
		if col.Prose && last {
			lines = strings.Split(logs.Wrap(cells[c], "", widths[c]), "\n")
		}
		for i, s := range lines {
			if i > 0 {
				b.WriteString("\n" + strings.Repeat(" ", indent))
			}
			s = fit(s, widths[c])
			painted := s
			if col.Paint != nil {
				painted = io.PaintOut(col.Paint(row), s)
			}
			pad(b, s, painted, widths[c], col.Right, last)
		}
		indent += widths[c] + gap
	}
	b.WriteByte('\n')
}

// leaves picks the column to go next, or -1 when all that is left fits or stays.
func leaves[T any](columns []Column[T], widths []int, width int) int {
	sum, next := gap*(len(columns)-1), -1
	for c, w := range widths {
		sum += w
		if columns[c].Spare > 0 && (next < 0 || columns[c].Spare > columns[next].Spare) {
			next = c
		}
	}
	if sum <= width {
		return -1
	}
	return next
}

const gap = 2

// pad writes one cell, then the gap to the next. The last cell of a line that
// is set to the left gets no trailing blanks.
func pad(b *strings.Builder, plain, painted string, width int, right, last bool) {
	blanks := strings.Repeat(" ", max(0, width-ansi.StringWidth(fit(plain, width))))
	switch {
	case right:
		b.WriteString(blanks + painted)
	case last:
		b.WriteString(painted)
	default:
		b.WriteString(painted + blanks)
	}
	if !last {
		b.WriteString(strings.Repeat(" ", gap))
	}
}

// shrink takes columns off the widest until the sum fits or nothing more can
// give: a column keeps at least four.
func shrink(widths []int, room int) {
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for sum > room {
		widest := 0
		for c := range widths {
			if widths[c] > widths[widest] {
				widest = c
			}
		}
		if len(widths) == 0 || widths[widest] <= 4 {
			return
		}
		widths[widest]--
		sum--
	}
}

func fit(s string, width int) string { return ansi.Truncate(s, width, "…") }

// clean makes foreign text safe for one line of a terminal: escape sequences
// go, and what else would move the cursor or change the direction of writing
// becomes a visible stand-in.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case logs.Orders(r):
			return '\ufffd'
		}
		return r
	}, ansi.Strip(s))
}

// cleanLines is clean for text that may have lines of its own.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return strings.Join(lines, "\n")
}
