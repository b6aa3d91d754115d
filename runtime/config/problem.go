package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Line and Column count from 1; zero means unknown.
type Pos struct {
	File   string `json:"file,omitempty"` // relative to the project where it lies inside it
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String gives file:line:column, or as much of it as is known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// Problem is one thing that is wrong with a project.
type Problem struct {
	Pos
	Path    string `json:"path,omitempty"` // services[2].script
	Message string `json:"message"`
	Cure    string `json:"cure,omitempty"` // did you mean "x"?
	Warning bool   `json:"warning,omitempty"`
}

// String gives file:line:column: path: message (cure).
func (p Problem) String() string {
	var b strings.Builder
	if at := p.Pos.String(); at != "" {
		b.WriteString(at + ": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Cure != "" {
		b.WriteString(" (" + p.Cure + ")")
	}
	return b.String()
}

// Problems is the error that Load returns: everything that is wrong, sorted by
// place. It never holds warnings only.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// MarshalJSON writes an array, never null.
func (ps Problems) MarshalJSON() ([]byte, error) {
	if ps == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]Problem(ps))
}

// SortProblems puts problems into the order a reader meets them: by file, line,
// column, then text. Twins are removed.
func SortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(ps)
}

// split parts what stops a start from what does not.
func split(ps []Problem) (errors Problems, warnings []Problem) {
	for _, p := range SortProblems(ps) {
		if p.Warning {
			warnings = append(warnings, p)
		} else {
			errors = append(errors, p)
		}
	}
	return errors, warnings
}
