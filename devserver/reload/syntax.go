package reload

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Problem is why a file can't become the running code, told with its line.
type Problem struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`             // from 1; 0 = unknown
	Column int    `json:"column,omitempty"` // from 1; 0 = unknown
	Text   string `json:"text"`
	Source string `json:"source,omitempty"` // the line itself, tabs as in the file
	Opened int    `json:"opened,omitempty"` // the line that opened what was never closed
}

// Error is one line: svc.lua:3:15: what is wrong.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Path)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	b.WriteString(": " + p.Text)
	return b.String()
}

// Unwrap gives the code that tools match on.
func (p *Problem) Unwrap() error { return shield.ScriptLoadFailed }

// Excerpt is the source line with a caret below the column, or "".
func (p *Problem) Excerpt() string {
	if p.Source == "" {
		return ""
	}
	head := fmt.Sprintf("%5d | ", p.Line)
	s := head + p.Source
	if p.Column > 0 {
		// Tabs are kept in the padding, so that the caret stands below its column
		// however wide a terminal draws them.
		pad := []byte(p.Source[:min(p.Column-1, len(p.Source))])
		for i, c := range pad {
			if c != '\t' {
				pad[i] = ' '
			}
		}
		s += "\n" + strings.Repeat(" ", len(head)-2) + "| " + string(pad) + "^"
	}
	return s
}

var utf8BOM = []byte("\xef\xbb\xbf")

// Clean is content as the compiler gets it: without a byte order mark, and with
// a first line that begins with # (for a Unix shell) left empty.
func Clean(content []byte) []byte {
	content = bytes.TrimPrefix(content, utf8BOM)
	if len(content) > 0 && content[0] == '#' {
		if i := bytes.IndexByte(content, '\n'); i >= 0 {
			return content[i:]
		}
		return nil
	}
	return content
}

// Check reports whether content parses; the error is a *Problem.
func Check(path string, content []byte) error {
	_, err := parseChunk(path, content)
	return err
}

func parseChunk(path string, content []byte) (chunk []ast.Stmt, err error) {
	clean := Clean(content)
	defer func() {
		// The parser panics with other things than errors on input it has not
		// thought of; for a reload that is a file that does not parse.
		if v := recover(); v != nil {
			chunk, err = nil, &Problem{Path: path, Text: fmt.Sprintf("syntax error: %v", v)}
		}
	}()
	if p := tooDeep(path, clean); p != nil {
		return nil, p
	}
	chunk, perr := parse.Parse(bytes.NewReader(clean), path)
	if perr != nil {
		return nil, syntaxProblem(path, clean, perr)
	}
	// The compiler finds what the parser can't: a break outside a loop, a goto
	// without its label, more than 200 locals.
	if _, cerr := lua.Compile(chunk, path); cerr != nil {
		return nil, compileProblem(path, clean, cerr)
	}
	// Compiling folds constants into the tree, so the analysis gets a fresh one.
	return parse.Parse(bytes.NewReader(clean), path)
}

func syntaxProblem(path string, src []byte, err error) *Problem {
	p := &Problem{Path: path, Text: "syntax error"}
	var pe *parse.Error
	if !errors.As(err, &pe) {
		p.Text = strings.TrimSpace(err.Error())
		return p
	}
	msg := strings.TrimSpace(pe.Message)
	lines := splitLines(src)
	if pe.Pos.Line == parse.EOF || pe.Pos.Line < 1 {
		p.Line = lastFullLine(lines)
		p.Text = "the file ends too early"
		if strings.Contains(msg, "unterminated") {
			p.Text = msg
		}
		if word, line := unclosed(src); line > 0 {
			p.Opened = line
			p.Text = fmt.Sprintf("the file ends, but the %s of line %d is not closed", word, line)
		}
	} else {
		p.Line, p.Column = pe.Pos.Line, max(pe.Pos.Column, 1)
		p.Text = msg
		// The scanner has read a name or number to its end when the parser stumbles.
		if n := len(pe.Token); n > 1 && p.Line <= len(lines) {
			if at := p.Column - n; at >= 0 && at+n <= len(lines[p.Line-1]) && lines[p.Line-1][at:at+n] == pe.Token {
				p.Column = at + 1
			}
		}
		if pe.Token != "" {
			p.Text = fmt.Sprintf("%s near '%s'", msg, clip(pe.Token, 40))
		}
	}
	p.quote(lines)
	return p
}

func compileProblem(path string, src []byte, err error) *Problem {
	p := &Problem{Path: path, Text: err.Error()}
	var ce *lua.CompileError
	if errors.As(err, &ce) {
		p.Line, p.Text = ce.Line, ce.Message
	}
	p.quote(splitLines(src))
	return p
}

// runProblem makes a Problem of what a top level threw: "svc.lua:4: text".
func runProblem(path string, src []byte, text string) *Problem {
	p := &Problem{Path: path, Text: text}
	if i := strings.IndexByte(text, ':'); i > 0 {
		rest := text[i+1:]
		if j := strings.IndexByte(rest, ':'); j > 0 {
			if n := atoi(rest[:j]); n > 0 {
				p.Path, p.Line, p.Text = text[:i], n, strings.TrimSpace(rest[j+1:])
			}
		}
	}
	p.quote(splitLines(Clean(src)))
	return p
}

func atoi(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 1<<24 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func (p *Problem) quote(lines []string) {
	if p.Line >= 1 && p.Line <= len(lines) {
		p.Source = clip(lines[p.Line-1], 200)
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

func splitLines(src []byte) []string {
	s := strings.ReplaceAll(string(src), "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(s, "\r", "\n"), "\n")
}

func lastFullLine(lines []string) int {
	for i := len(lines); i > 0; i-- {
		if strings.TrimSpace(lines[i-1]) != "" {
			return i
		}
	}
	return 1
}
