package luavm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Code is one version of one file, compiled. All VMs that run that version
// share it; nothing in it changes.
type Code struct {
	Path   string
	Source string   // without a byte order mark, with \n at line ends
	Hash   [32]byte // SHA-256 of Source
	Proto  *lua.FunctionProto
}

// Chunk parses Source again. The tree is several times the size of the source,
// so it is not kept for the few who ask (hot reload).
func (c *Code) Chunk() ([]ast.Stmt, error) { return parseSource(c.Path, c.Source) }

// maxSource is the longest script. What is longer is data, or an attack.
const maxSource = 4 << 20

// maxDepth bounds how deep a script's syntax may nest. The compiler recurses on
// it, and a Go stack that overflows ends the process.
const maxDepth = 1000

// codeCache holds the latest version of each path. An older one lives as long
// as a VM that runs it.
type codeCache struct {
	mu     sync.Mutex
	latest map[string]cached
}

type cached struct {
	raw  string // as it was read
	code *Code
}

// Compile compiles source without running it, through the world's cache. The
// error is a *ScriptError.
func (w *World) Compile(path string, source []byte) (*Code, error) {
	c := &w.code
	c.mu.Lock()
	hit, ok := c.latest[path]
	c.mu.Unlock()
	if ok && hit.raw == string(source) {
		return hit.code, nil
	}
	raw := string(source)
	code, err := compile(path, raw)
	if err == nil && w.cfg.Cover != nil {
		err = cover(code, w.cfg.Cover)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.latest[path]; ok && now.code.Hash == code.Hash {
		code = now.code // another VM was faster, or only the line ends changed
	}
	if c.latest == nil {
		c.latest = map[string]cached{}
	}
	c.latest[path] = cached{raw, code}
	return code, nil
}

// read finds a file through f and compiles it. fs.ErrNotExist comes back as it
// is, inside a *ScriptError.
func (w *World) read(f Files, path string) (*Code, error) {
	if f == nil {
		return nil, &ScriptError{File: path, Message: "no files are reachable from here", Err: fs.ErrNotExist}
	}
	source, err := f.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &ScriptError{File: path, Message: "there is no such file", Err: err}
	case err != nil:
		return nil, &ScriptError{File: path, Message: "can't be read: " + err.Error(), Err: err}
	}
	return w.Compile(path, source)
}

// tidySource takes away what editors and shells put into files.
func tidySource(raw string) string {
	src := strings.TrimPrefix(raw, "\ufeff")
	src = strings.ReplaceAll(src, "\r\n", "\n")
	if strings.HasPrefix(src, "#") { // a Unix interpreter line
		src = "--" + src
	}
	return src
}

func compile(path, raw string) (*Code, error) {
	src := tidySource(raw)
	chunk, err := parseSource(path, src)
	if err != nil {
		return nil, err
	}
	proto, err := compileChunk(path, src, chunk)
	if err != nil {
		return nil, err
	}
	return &Code{Path: path, Source: src, Hash: sha256.Sum256([]byte(src)), Proto: proto}, nil
}

func parseSource(path, src string) (chunk []ast.Stmt, err error) {
	if len(src) > maxSource {
		return nil, &ScriptError{File: path, Message: fmt.Sprintf("the script is %d bytes long, the longest is %d; keep data in another form", len(src), maxSource)}
	}
	chunk, err = parse.Parse(strings.NewReader(src), path)
	if err != nil {
		return nil, syntaxError(path, src, err)
	}
	if line := tooDeep(chunk); line > 0 {
		return nil, &ScriptError{File: path, Line: line, SourceLine: sourceLine(src, line),
			Message: fmt.Sprintf("blocks or expressions nest deeper than %d levels; split them", maxDepth)}
	}
	return chunk, nil
}

// compileChunk turns a panic of the compiler, which knows no limit of its
// instruction format, into an error about the script.
func compileChunk(path, src string, chunk []ast.Stmt) (proto *lua.FunctionProto, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &ScriptError{File: path, Message: fmt.Sprintf("the compiler can't take this script (%v); make its largest function or table smaller", p)}
		}
	}()
	proto, err = lua.Compile(chunk, path)
	var ce *lua.CompileError
	if errors.As(err, &ce) {
		return nil, &ScriptError{File: path, Line: ce.Line, Message: ce.Message, SourceLine: sourceLine(src, ce.Line)}
	}
	if err != nil {
		return nil, &ScriptError{File: path, Message: err.Error(), Err: err}
	}
	mendLocals(proto, chunk)
	fit(proto)
	return proto, nil
}

// fit gives code the room it needs: the compiler leaves 17 KB in each function,
// however short.
func fit(p *lua.FunctionProto) {
	p.Code, p.Constants = slices.Clone(p.Code), slices.Clone(p.Constants)
	p.DbgSourcePositions, p.DbgCalls = slices.Clone(p.DbgSourcePositions), slices.Clone(p.DbgCalls)
	p.DbgLocals, p.DbgUpvalues = slices.Clone(p.DbgLocals), slices.Clone(p.DbgUpvalues)
	for _, inner := range p.FunctionPrototypes {
		fit(inner)
	}
}

// syntaxError says where and what, and for a block that is never closed where
// it began.
func syntaxError(path, src string, err error) *ScriptError {
	e := &ScriptError{File: path, Message: strings.TrimSpace(err.Error())}
	var pe *parse.Error
	if !errors.As(err, &pe) {
		return e
	}
	e.Message = strings.TrimSpace(pe.Message)
	e.Line, e.Column = pe.Pos.Line, pe.Pos.Column
	if pe.Pos.Line != parse.EOF {
		if tok := strings.TrimSpace(pe.Token); tok != "" {
			e.Message += " near '" + clip(tok, 40) + "'"
		}
		e.SourceLine = sourceLine(src, e.Line)
		// The scanner stands on the last character of the word by then.
		if at := e.Column - len(pe.Token); at >= 0 && e.Column <= len(e.SourceLine) && e.SourceLine[at:e.Column] == pe.Token {
			e.Column = at + 1
		}
		return e
	}
	lines := strings.Split(strings.TrimRight(src, "\n"), "\n")
	e.Line, e.Column = len(lines), len(lines[len(lines)-1])+1
	e.SourceLine = lines[len(lines)-1]
	opener, line := unclosedBlock(src)
	e.OpenedLine = line
	switch {
	case line == 0:
		e.Message = "the file ends in the middle of a statement"
	case opener == "repeat":
		e.Message = fmt.Sprintf("the file ends, but 'repeat' of line %d has no 'until'", line)
	case opener == "string or comment":
		e.Message = fmt.Sprintf("the string or comment that begins in line %d never ends", line)
	case strings.ContainsAny(opener, "({["):
		e.Message = fmt.Sprintf("the file ends, but '%s' of line %d is not closed", opener, line)
	default:
		e.Message = fmt.Sprintf("the file ends, but '%s' of line %d has no 'end'", opener, line)
	}
	return e
}

func sourceLine(src string, n int) string {
	for line := range strings.SplitSeq(src, "\n") {
		if n--; n == 0 {
			return clip(line, 200)
		}
	}
	return ""
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}

// tooDeep gives the line where the syntax nests deeper than maxDepth, or 0. It
// walks with a list of its own, because recursion is what it guards against.
func tooDeep(chunk []ast.Stmt) int {
	type node struct {
		stmt  ast.Stmt
		expr  ast.Expr
		depth int
	}
	var todo []node
	depth := 0
	exprs := func(es ...ast.Expr) {
		for _, e := range es {
			if e != nil {
				todo = append(todo, node{expr: e, depth: depth + 1})
			}
		}
	}
	block := func(b []ast.Stmt) {
		for _, s := range b {
			todo = append(todo, node{stmt: s, depth: depth + 1})
		}
	}
	block(chunk)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		depth = n.depth
		if depth > maxDepth {
			return max(1, lineOf(n.stmt, n.expr))
		}
		stmtChildren(n.stmt, exprs, block)
		exprChildren(n.expr, exprs, block)
	}
	return 0
}

func lineOf(s ast.Stmt, e ast.Expr) int {
	if s != nil {
		return s.Line()
	}
	return e.Line()
}

func stmtChildren(s ast.Stmt, exprs func(...ast.Expr), block func([]ast.Stmt)) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		exprs(s.Lhs...)
		exprs(s.Rhs...)
	case *ast.LocalAssignStmt:
		exprs(s.Exprs...)
	case *ast.FuncCallStmt:
		exprs(s.Expr)
	case *ast.DoBlockStmt:
		block(s.Stmts)
	case *ast.WhileStmt:
		exprs(s.Condition)
		block(s.Stmts)
	case *ast.RepeatStmt:
		exprs(s.Condition)
		block(s.Stmts)
	case *ast.IfStmt:
		exprs(s.Condition)
		block(s.Then)
		block(s.Else)
	case *ast.NumberForStmt:
		exprs(s.Init, s.Limit, s.Step)
		block(s.Stmts)
	case *ast.GenericForStmt:
		exprs(s.Exprs...)
		block(s.Stmts)
	case *ast.FuncDefStmt:
		exprs(s.Name.Func, s.Name.Receiver)
		if s.Func != nil {
			exprs(s.Func)
		}
	case *ast.ReturnStmt:
		exprs(s.Exprs...)
	}
}

func exprChildren(e ast.Expr, exprs func(...ast.Expr), block func([]ast.Stmt)) {
	switch e := e.(type) {
	case *ast.AttrGetExpr:
		exprs(e.Object, e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			exprs(f.Key, f.Value)
		}
	case *ast.FuncCallExpr:
		exprs(e.Func, e.Receiver)
		exprs(e.Args...)
	case *ast.LogicalOpExpr:
		exprs(e.Lhs, e.Rhs)
	case *ast.RelationalOpExpr:
		exprs(e.Lhs, e.Rhs)
	case *ast.StringConcatOpExpr:
		exprs(e.Lhs, e.Rhs)
	case *ast.ArithmeticOpExpr:
		exprs(e.Lhs, e.Rhs)
	case *ast.UnaryMinusOpExpr:
		exprs(e.Expr)
	case *ast.UnaryNotOpExpr:
		exprs(e.Expr)
	case *ast.UnaryLenOpExpr:
		exprs(e.Expr)
	case *ast.FunctionExpr:
		block(e.Stmts)
	}
}
