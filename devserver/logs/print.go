package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"shield/runtime/shield"
)

// Printer writes one row to a terminal, a pipe or a file.
type Printer func(w io.Writer, row *shield.LogRow)

// JSON prints one object a line.
func JSON(w io.Writer, row *shield.LogRow) {
	b, err := json.Marshal(row)
	if err != nil { // a field that can't be printed must not cost the line
		r := *row
		r.Fields = map[string]any{"fields": fmt.Sprint(row.Fields)}
		b, _ = json.Marshal(&r)
	}
	w.Write(append(b, '\n')) //nolint:errcheck // there is nowhere to report a broken log stream
}

// Style says how Text marks what matters. The zero value marks nothing.
type Style struct {
	Color bool
	// Columns is false for a single node, whose id would only repeat itself.
	Columns bool
	UTC     bool
	// Width is asked for the columns of the terminal before each line: windows
	// change their size. Nil, or what gives 0, breaks no line.
	Width func() int
}

const (
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// Text returns a printer of lines for people: time, level, node, service,
// text. Further lines of a text are indented under the first, so that a
// traceback stays one block.
func Text(st Style) Printer {
	return func(w io.Writer, row *shield.LogRow) {
		w.Write(Line(st, row)) //nolint:errcheck // there is nowhere to report a broken log stream
	}
}

// Line is what Text prints, with its newline.
func Line(st Style, row *shield.LogRow) []byte {
	var out, b bytes.Buffer
	width := 0
	if st.Width != nil {
		width = st.Width()
	}
	t := row.Time.Local()
	if st.UTC {
		t = row.Time.UTC()
	}
	paint(&b, st, dim, t.Format("15:04:05.000"))
	b.WriteByte(' ')
	switch row.Level {
	case "error":
		paint(&b, st, red, "error")
	case "warn":
		paint(&b, st, yellow, "warn ")
	default:
		fmt.Fprintf(&b, "%-5s", row.Level)
	}
	if st.Columns {
		fmt.Fprintf(&b, " %-8s", orDash(clean(string(row.Node))))
	}
	fmt.Fprintf(&b, " %-12s ", orDash(clean(row.Service)))
	first, rest, _ := strings.Cut(strings.TrimRight(row.Text, "\n"), "\n")
	b.WriteString(clean(first))
	if row.Event == "" { // an event's sentence says it all; its fields are for programs
		writeFields(&b, st, row.Fields)
	}
	out.WriteString(Wrap(b.String(), hang, width) + "\n")
	writeBlock(&out, hang, rest, width)
	for _, k := range sortedKeys(row.Fields) {
		if v, ok := row.Fields[k].(string); ok && blocky(k, v) {
			if k == detailKey {
				writeBlock(&out, hang, v, width)
			} else if row.Event == "" {
				out.WriteString(hang + clean(k) + ":\n")
				writeBlock(&out, hang+"  ", v, width)
			}
		}
	}
	return out.Bytes()
}

// detailKey is the field of a traceback or a source line.
const detailKey = "detail"

// blocky reports whether a field is printed below the line: on it, nobody could
// read it.
func blocky(k, v string) bool { return k == detailKey || strings.Contains(v, "\n") }

// writeBlock writes lines, each indented.
func writeBlock(b *bytes.Buffer, indent, text string, width int) {
	text = strings.TrimRight(text, "\n")
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = clean(line)
		if width > 0 { // a tab has a width that only the terminal knows
			line = strings.ReplaceAll(line, "\t", "    ")
		}
		deeper := len(line) - len(strings.TrimLeft(line, " "))
		b.WriteString(Wrap(indent+line, indent+strings.Repeat(" ", min(deeper, 8)+2), width) + "\n")
	}
}

func sortedKeys(fields map[string]any) []string {
	keys := make([]string, 0, len(fields))
	for k := range fields {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func writeFields(b *bytes.Buffer, st Style, fields map[string]any) {
	for _, k := range sortedKeys(fields) {
		var v string
		if s, ok := fields[k].(string); ok && blocky(k, s) {
			continue
		}
		if m, ok := fields[k].(map[string]any); ok {
			j, err := json.Marshal(m)
			v = string(j)
			if err != nil {
				v = fmt.Sprint(m)
			}
		} else {
			v = fmt.Sprint(fields[k])
		}
		if strings.ContainsAny(v, " \t\n\"=") {
			v = fmt.Sprintf("%q", v)
		}
		b.WriteByte(' ')
		paint(b, st, dim, clean(k)+"="+clean(v))
	}
}

func paint(b *bytes.Buffer, st Style, color, s string) {
	if !st.Color {
		b.WriteString(s)
		return
	}
	b.WriteString(color + s + reset)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Orders reports the characters that a terminal obeys instead of showing them:
// controls, line ends of Unicode's own, and marks that reorder the text around
// them. A player's name has no business with any.
func Orders(r rune) bool {
	return unicode.IsControl(r) || r == '\u061c' || r >= '\u200e' && r <= '\u200f' || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// clean makes foreign text safe for a terminal.
func clean(s string) string {
	acts := func(r rune) bool { return r != '\t' && Orders(r) }
	if strings.IndexFunc(s, acts) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r > 0xff:
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			fmt.Fprintf(&b, "\\x%02x", r)
		}
	}
	return b.String()
}
