package logs

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// hang is how far the second and further rows of a wrapped line are indented:
// as deep as the lines of a traceback below their first.
const hang = "    "

// narrowest is the least width that wrapping helps.
const narrowest = 30

// Wrap breaks one line at its blanks so that no row is wider than width, and
// indents all rows but the first. A word that fits into no row is left whole,
// for the terminal to break: it may be an id that somebody wants to copy.
func Wrap(line, indent string, width int) string {
	if width < narrowest || ansi.StringWidth(line) <= width {
		return line
	}
	var b strings.Builder
	at := 0 // columns of the present row
	for i, word := range splitBlanks(line) {
		w := ansi.StringWidth(word)
		bare := strings.TrimLeft(word, " ")
		switch {
		case i == 0 || at+w <= width:
			b.WriteString(word)
			at += w
		default:
			b.WriteString("\n" + indent + bare)
			at = len(indent) + w - (len(word) - len(bare))
		}
	}
	return b.String()
}

// splitBlanks cuts a line before each run of blanks. The blanks that it begins
// with stay with the first word.
func splitBlanks(line string) (words []string) {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	from := 0
	for i := begin + 1; i < len(line); i++ {
		if line[i] == ' ' && line[i-1] != ' ' {
			words = append(words, line[from:i])
			from = i
		}
	}
	return append(words, line[from:])
}
