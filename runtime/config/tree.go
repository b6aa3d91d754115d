package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on what a file may be, so that no file can take the process's memory
// or its stack.
const (
	maxFileSize = 1 << 20
	maxDepth    = 64
	maxNodes    = 200_000 // after aliases are unfolded
)

type kind uint8

const (
	scalar kind = iota
	mapping
	list
)

// node is one value of a file or the environment, with its place. Everything
// above YAML works on nodes: overlays, ${NAME}, overrides, decoding.
type node struct {
	kind kind
	pos  Pos
	// val of a scalar: nil, bool, int64, uint64, float64 or string.
	val    any
	quoted bool   // the scalar was written in quotes, or as a block
	env    string // the variable that decided the value
	// loose text came from the environment: it becomes whatever type the key
	// wants, and a list when the key wants a list.
	loose bool
	// expanded scalars had their ${NAME} replaced. An alias shares its anchor's
	// node, and what came out of one pass must not go through another.
	expanded bool

	entries []entry // of a mapping, in file order
	items   []*node // of a list
}

type entry struct {
	key    string
	pos    Pos
	value  *node
	merged bool // by <<: it gives way to the mapping's own key
}

// get finds the value of key, nil when it is not there.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return nil
}

// what names the type of a node for a person.
func (n *node) what() string {
	switch n.kind {
	case mapping:
		return "a mapping"
	case list:
		return "a list"
	}
	switch v := n.val.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprintf("%v", v)
	case string:
		return fmt.Sprintf("the text %q", clip(v))
	default:
		return fmt.Sprintf("the number %v", v)
	}
}

func clip(s string) string {
	if utf8.RuneCountInString(s) <= 40 {
		return s
	}
	return string([]rune(s)[:40]) + "..."
}

// parseYAML turns the bytes of a file into nodes. It returns nil for an empty
// file and what is wrong otherwise; it never panics.
func parseYAML(file string, src []byte) (root *node, problems []Problem) {
	defer func() {
		if r := recover(); r != nil { // a fault of the YAML library
			root = nil
			problems = []Problem{{Pos: Pos{File: file}, Message: fmt.Sprintf("is no YAML that can be read: %v", r)}}
		}
	}()
	if p := checkBytes(file, src); p != nil {
		return nil, []Problem{*p}
	}
	text := strings.TrimPrefix(string(src), "\ufeff")
	tokens := lexer.Tokenize(text)
	if p := checkTokens(file, tokens); p != nil {
		return nil, []Problem{*p}
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []Problem{syntaxProblem(file, err)}
	}
	c := &converter{file: file, anchors: map[string]*node{}}
	for _, doc := range f.Docs {
		if doc == nil || doc.Body == nil {
			continue
		}
		if root != nil {
			c.problem(doc.Body, "a second document; keep one per file")
			break
		}
		root = c.convert(doc.Body, 0)
	}
	return root, c.problems
}

func checkBytes(file string, src []byte) *Problem {
	if len(src) > maxFileSize {
		return &Problem{Pos: Pos{File: file}, Message: fmt.Sprintf("is %d bytes long, the longest is %d", len(src), maxFileSize)}
	}
	if utf8.Valid(src) {
		return nil
	}
	line := 1
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return &Problem{Pos: Pos{File: file, Line: line}, Message: "is not UTF-8", Cure: "save the file as UTF-8"}
}

// checkTokens refuses nesting that would make the parser recurse too deep.
// Block nesting by indentation is bounded by the file's size; what can nest
// within one line is counted.
func checkTokens(file string, tokens token.Tokens) *Problem {
	flow, line, onLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType, token.MappingValueType:
			if flow == 0 {
				onLine++
			}
		}
		if flow > maxDepth || onLine > maxDepth || t.Position.IndentNum > 8*maxDepth {
			return &Problem{Pos: Pos{File: file, Line: t.Position.Line, Column: t.Position.Column},
				Message: fmt.Sprintf("nested deeper than %d levels", maxDepth)}
		}
	}
	return nil
}

func syntaxProblem(file string, err error) Problem {
	p := Problem{Pos: Pos{File: file}, Message: err.Error()}
	var se *yaml.SyntaxError
	if errors.As(err, &se) {
		p.Message = se.Message
		if se.Token != nil && se.Token.Position != nil {
			p.Line, p.Column = se.Token.Position.Line, se.Token.Position.Column
		}
	}
	p.Message = "YAML: " + strings.ReplaceAll(strings.TrimSpace(p.Message), "\n", " ")
	return p
}

// converter turns the library's tree into nodes, unfolding anchors and merge
// keys within a budget.
type converter struct {
	file     string
	anchors  map[string]*node
	count    int
	problems []Problem
}

func (c *converter) pos(n ast.Node) Pos {
	p := Pos{File: c.file}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	if n == nil {
		return p
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, t.Position.Column
	}
	return p
}

func (c *converter) problem(n ast.Node, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pos: c.pos(n), Message: fmt.Sprintf(format, args...)})
}

func (c *converter) convert(a ast.Node, depth int) *node {
	n := &node{pos: c.pos(a)}
	if c.count++; c.count > maxNodes || depth > maxDepth {
		if len(c.problems) == 0 || c.count == maxNodes+1 {
			c.problem(a, "too many or too deeply nested values")
		}
		return n
	}
	switch a := a.(type) {
	case nil, *ast.NullNode:
	case *ast.BoolNode:
		n.val = a.Value
	case *ast.IntegerNode:
		n.val = a.Value
	case *ast.FloatNode:
		n.val = a.Value
	case *ast.InfinityNode:
		n.val = a.Value
	case *ast.NanNode:
		c.problem(a, "is not a number")
	case *ast.StringNode:
		n.val = a.Value
		n.quoted = a.Token != nil && (a.Token.Type == token.SingleQuoteType || a.Token.Type == token.DoubleQuoteType)
	case *ast.LiteralNode:
		n.quoted = true
		n.val = ""
		if a.Value != nil {
			n.val = a.Value.Value
		}
	case *ast.MappingNode:
		n.kind = mapping
		for _, v := range a.Values {
			c.addEntry(n, v, depth)
		}
	case *ast.MappingValueNode:
		n.kind = mapping
		c.addEntry(n, a, depth)
	case *ast.SequenceNode:
		n.kind = list
		for _, v := range a.Values {
			n.items = append(n.items, c.convert(v, depth+1))
		}
	case *ast.AnchorNode:
		v := c.convert(a.Value, depth+1)
		if a.Name != nil {
			c.anchors[a.Name.GetToken().Value] = v
		}
		return v
	case *ast.AliasNode:
		return c.alias(a, depth)
	case *ast.TagNode:
		c.problem(a, "tags such as %s are not used here", a.GetToken().Value)
	default:
		c.problem(a, "this kind of YAML is not used here")
	}
	return n
}

func (c *converter) addEntry(n *node, v *ast.MappingValueNode, depth int) {
	if v.Key == nil {
		return
	}
	if v.Key.IsMergeKey() {
		from := c.convert(v.Value, depth+1)
		sources := []*node{from}
		if from.kind == list {
			sources = from.items
		}
		for _, s := range sources {
			for _, e := range s.entries {
				if n.find(e.key) == nil {
					e.merged = true
					n.entries = append(n.entries, e)
				}
			}
		}
		return
	}
	key := v.Key.GetToken().Value
	if s, ok := v.Key.(*ast.StringNode); ok {
		key = s.Value
	}
	own := entry{key: key, pos: c.pos(v.Key), value: c.convert(v.Value, depth+1)}
	switch prev := n.find(key); {
	case prev == nil:
		n.entries = append(n.entries, own)
	case prev.merged:
		*prev = own
	default:
		c.problem(v.Key, "the key %q is here twice, first in line %d", clip(key), prev.pos.Line)
	}
}

func (n *node) find(key string) *entry {
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i]
		}
	}
	return nil
}

// alias unfolds a reference to an anchor; the copy counts against the budget,
// so that references of references stay bounded.
func (c *converter) alias(a *ast.AliasNode, depth int) *node {
	name := ""
	if a.Value != nil {
		name = a.Value.GetToken().Value
	}
	target, ok := c.anchors[name]
	if !ok {
		c.problem(a, "no anchor &%s above this line", name)
		return &node{pos: c.pos(a)}
	}
	c.count += target.size(maxNodes - c.count)
	if c.count > maxNodes {
		c.problem(a, "aliases unfold to more than %d values", maxNodes)
		return &node{pos: c.pos(a)}
	}
	return target
}

// size counts the values below n, giving up at limit.
func (n *node) size(limit int) int {
	total := 1
	for _, e := range n.entries {
		if total > limit {
			return total
		}
		total += e.value.size(limit - total)
	}
	for _, i := range n.items {
		if total > limit {
			return total
		}
		total += i.size(limit - total)
	}
	return total
}

// overlay lays top over base: mappings are merged key by key, everything else
// is replaced whole. Neither argument is changed.
func overlay(base, top *node) *node {
	switch {
	case top == nil:
		return base
	case base == nil || base.kind != mapping || top.kind != mapping:
		if top.kind == scalar && top.val == nil && base != nil && base.kind == mapping {
			return base // `cluster:` with nothing under it takes nothing away
		}
		return top
	}
	merged := &node{kind: mapping, pos: base.pos}
	merged.entries = append(merged.entries, base.entries...)
	for _, e := range top.entries {
		if old := merged.find(e.key); old != nil {
			*old = entry{key: e.key, pos: e.pos, value: overlay(old.value, e.value)}
		} else {
			merged.entries = append(merged.entries, e)
		}
	}
	return merged
}
