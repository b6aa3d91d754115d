package reload

import "fmt"

// The parser says nothing useful when a file ends inside a block, and uses Go's
// stack for nesting. A small scanner over the words and brackets helps with
// both; it is only asked about files, never about what runs.

// maxNesting bounds blocks, brackets and calls inside each other. The parser
// needs about 1 KB of stack for each.
const maxNesting = 2000

type opener struct {
	word string
	line int
}

// unclosed names the innermost block or bracket that is still open at the end.
func unclosed(src []byte) (word string, line int) {
	open, _ := nesting(src)
	if len(open) == 0 {
		return "", 0
	}
	o := open[len(open)-1]
	return o.word, o.line
}

func tooDeep(path string, src []byte) *Problem {
	if _, deep := nesting(src); deep > 0 {
		p := &Problem{Path: path, Line: deep, Text: fmt.Sprintf("more than %d blocks or brackets inside each other", maxNesting)}
		p.quote(splitLines(src))
		return p
	}
	return nil
}

// nesting scans src and returns what is open at its end, and the line where
// the nesting got too deep, or 0.
func nesting(src []byte) (open []opener, deep int) {
	sc := words{src: src, line: 1}
	pop := func() {
		if len(open) > 0 {
			open = open[:len(open)-1]
		}
	}
	loop := false // a while or for whose do has not come yet
	for {
		w, line, ok := sc.next()
		if !ok {
			if sc.unfinished != "" {
				open = append(open, opener{sc.unfinished, sc.started})
			}
			return open, 0
		}
		switch w {
		case "function", "if", "repeat", "(", "{", "[":
			open = append(open, opener{w, line})
		case "while", "for":
			open, loop = append(open, opener{w, line}), true
		case "do":
			if !loop {
				open = append(open, opener{w, line})
			}
			loop = false
		case "end", "until", ")", "}", "]":
			pop()
		}
		if len(open) > maxNesting {
			return open, line
		}
	}
}

// words reads identifiers and single punctuation, skipping strings, numbers
// and comments.
type words struct {
	src        []byte
	pos, line  int
	unfinished string // a long string or comment that never ends
	started    int
}

func (w *words) next() (word string, line int, ok bool) {
	for w.pos < len(w.src) {
		c := w.src[w.pos]
		switch {
		case c == '\n':
			w.line++
			w.pos++
		case c == '-' && w.at(1) == '-':
			w.pos += 2
			if !w.long("comment") {
				w.untilLineEnd()
			}
		case c == '"' || c == '\'':
			w.short(c)
		case c == '[' && (w.at(1) == '[' || w.at(1) == '='):
			if !w.long("string") {
				w.pos++
			}
		case wordByte(c):
			start := w.pos
			for w.pos < len(w.src) && wordByte(w.src[w.pos]) {
				w.pos++
			}
			return string(w.src[start:w.pos]), w.line, true
		case c == ' ' || c == '\t' || c == '\r':
			w.pos++
		default:
			w.pos++
			return string(c), w.line, true
		}
	}
	return "", w.line, false
}

func (w *words) at(n int) byte {
	if w.pos+n < len(w.src) {
		return w.src[w.pos+n]
	}
	return 0
}

func (w *words) untilLineEnd() {
	for w.pos < len(w.src) && w.src[w.pos] != '\n' {
		w.pos++
	}
}

func (w *words) short(quote byte) {
	for w.pos++; w.pos < len(w.src); w.pos++ {
		switch w.src[w.pos] {
		case '\\':
			w.pos++
			if w.pos < len(w.src) && w.src[w.pos] == '\n' {
				w.line++
			}
		case '\n':
			return // not closed; the parser tells
		case quote:
			w.pos++
			return
		}
	}
}

// long skips [[...]] and [=[...]=]; false when there is none here.
func (w *words) long(what string) bool {
	if w.at(0) != '[' {
		return false
	}
	level := 0
	for w.at(1+level) == '=' {
		level++
	}
	if w.at(1+level) != '[' {
		return false
	}
	start := w.line
	w.pos += level + 2
	for ; w.pos < len(w.src); w.pos++ {
		switch {
		case w.src[w.pos] == '\n':
			w.line++
		case w.src[w.pos] == ']' && w.closes(level):
			w.pos += level + 2
			return true
		}
	}
	w.unfinished, w.started = "long "+what, start
	return true
}

func (w *words) closes(level int) bool {
	for i := 1; i <= level; i++ {
		if w.at(i) != '=' {
			return false
		}
	}
	return w.at(level+1) == ']'
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
