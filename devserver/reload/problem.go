package reload

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	"github.com/yuin/gopher-lua/parse"
)

// Problem is why a file can't become the running code, told with its line.
type Problem struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`             // from 1; 0 = unknown
	Column int    `json:"column,omitempty"` // from 1; 0 = unknown
	Text   string `json:"text"`
	Source string `json:"source,omitempty"` // the line itself
	Opened int    `json:"opened,omitempty"` // the line that opened what was never closed
}

// Error is one line: services/svc.lua:3:15: what is wrong.
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
	return (&luavm.ScriptError{Line: p.Line, Column: p.Column, SourceLine: p.Source}).Excerpt()
}

// problem makes a Problem of what loading a file gave.
func problem(script string, files luavm.Files, err error) *Problem {
	var se *luavm.ScriptError
	if errors.As(err, &se) {
		return &Problem{Path: se.File, Line: se.Line, Column: se.Column, Text: se.Message, Source: se.SourceLine, Opened: se.OpenedLine}
	}
	p := &Problem{Path: script, Text: err.Error()}
	var re *luavm.RunError
	if !errors.As(err, &re) {
		return p
	}
	if re.File != "" {
		p.Path, p.Line = re.File, re.Line
		p.Text = strings.TrimPrefix(re.Message, fmt.Sprintf("%s:%d: ", re.File, re.Line))
	}
	if src, err := files.ReadFile(p.Path); err == nil && p.Line > 0 {
		lines := strings.Split(strings.ReplaceAll(string(src), "\r\n", "\n"), "\n")
		if p.Line <= len(lines) {
			p.Source = clip(lines[p.Line-1], 200)
		}
	}
	return p
}

// Whole reports whether a file looks as if its editor had finished writing it:
// Lua that parses. It is what a watcher asks before it believes a content.
func Whole(name string, content []byte) error {
	if path.Ext(name) != ".lua" {
		return nil
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(content, []byte("#")) {
		content = append([]byte("--"), content...)
	}
	if _, err := parse.Parse(bytes.NewReader(content), name); err != nil {
		return fmt.Errorf("%s does not parse: %w", name, err)
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
