package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
)

// arrow is an import that must not be. A pattern that ends in /... means a
// package and all below it.
type arrow struct {
	from, to string
	direct   bool // only what from itself imports counts
	why      string
}

const (
	ours = "shield/..."
	quic = "github.com/quic-go/quic-go/..."
	lua  = "github.com/yuin/gopher-lua/..."
	tea  = "charm.land/..."
)

var arrows = []arrow{
	{"shield/runtime/shield", ours, false, "the vocabulary knows nothing but the standard library"},
	{"shield/runtime/value", "shield/runtime/service", false, "payloads are values, not messages"},
	{"shield/runtime/value", "net/...", true, "copying does no I/O"},
	{"shield/runtime/wire", "net/...", true, "bytes to frames, no sockets"},
	{"shield/runtime/wire", quic, false, "the wire does not know what carries it"},
	{"shield/runtime/config", "shield/runtime/value", false, "configuration comes before everything else"},
	{"shield/runtime/config", "shield/runtime/service", false, "configuration comes before everything else"},
	{"shield/runtime/config", "shield/runtime/wire", false, "configuration comes before everything else"},
	{"shield/runtime/config", lua, false, "scripts are checked elsewhere"},
	{"shield/runtime/luavm", "net/...", true, "a VM reaches the world through what it is given"},
	{"shield/runtime/luavm", "os/...", true, "a VM reaches files through what it is given"},
	{"shield/runtime/luavm", "shield/runtime/cluster", false, "a VM knows no other node"},
	{"shield/runtime/luavm", "shield/runtime/service", false, "the service holds the baton, the VM does not know it"},
	{"shield/runtime/service", "shield/runtime/transport", false, "services see Remote, not links"},
	{"shield/runtime/service", "shield/runtime/gateway", false, "services see pushes and notices, not sockets"},
	{"shield/runtime/service", "shield/runtime/config", false, "a service gets plain values"},
	{"shield/runtime/luaapi", quic, false, "Lua never sees QUIC"},
	{"shield/runtime/luaapi", "shield/runtime/gateway", false, "the API declares what it calls"},
	{"shield/runtime/luaapi", "shield/runtime/cluster", false, "the API declares what it calls"},
	{"shield/runtime/session", "net/...", true, "pure rules"},
	{"shield/runtime/session", "os/...", true, "pure rules"},
	{"shield/runtime/cluster", quic, false, "cluster sees Link, not QUIC"},
	{"shield/runtime/cluster", "shield/runtime/luavm", false, "a cluster carries bytes"},
	{"shield/runtime/cluster", "shield/runtime/gateway", false, "frames of sessions are opaque to it"},
	{"shield/runtime/transport", "shield/runtime/luavm", false, "links carry bytes"},
	{"shield/runtime/transport", "shield/runtime/config", false, "a link gets plain values"},
	{"shield/runtime/discovery/...", "shield/runtime/luavm", false, "a backend only names candidates"},
	{"shield/runtime/discovery/...", "shield/runtime/gateway", false, "a backend only names candidates"},
	{"shield/runtime/gateway", "shield/runtime/luavm", false, "the edge runs no handlers"},
	{"shield/runtime/gateway", "shield/runtime/service", false, "the edge sees Router"},
	{"shield/runtime/play", "shield/runtime/luavm", false, "a game client knows only the wire"},
	{"shield/runtime/play", "shield/runtime/service", false, "a game client knows only the wire"},
	{"shield/runtime/play", "shield/runtime/node", false, "a game client knows only the wire"},
	{"shield/runtime/memnet", "shield/runtime/transport", false, "it takes the place of QUIC"},
	{"shield/runtime/memnet", "shield/runtime/luavm", false, "links carry bytes"},
	{"shield/runtime/memnet", "shield/runtime/gateway", false, "a connection carries bytes"},
	{"shield/devserver/testrun", "shield/runtime/control/...", false, "a test talks to nodes, not to their tools"},
	{"shield/internal/sim", "shield/runtime/...", false, "it is a network and knows nothing of who uses it"},
	{"shield/internal/floor", ours, false, "it is the least, without anything of ours"},
	{"shield/devserver/check", "shield/runtime/node", false, "checking runs nothing"},
	{"shield/runtime/node", "shield/runtime/control/...", false, "a node does not know who looks at it"},
	{"shield/runtime/node", "shield/devserver/...", false, "a node does not know who runs it"},
	{"shield/runtime/node", "shield/tui/...", false, "a node does not know who looks at it"},
	{"shield/runtime/control/...", "shield/runtime/luavm", false, "the control API sees Host"},
	{"shield/runtime/control/...", "shield/runtime/node", false, "the control API sees Host"},
	{"shield/runtime/control/...", "shield/tui/...", false, "the API does not know its readers"},
	{"shield/devserver/...", "shield/tui/...", false, "the server works without a screen"},
	{"shield/devserver/...", "shield/cmd/...", false, "arrows point down"},
	{"shield/runtime/...", "shield/devserver/...", false, "arrows point down"},
	{"shield/runtime/...", "shield/cmd/...", false, "arrows point down"},
	{"shield/runtime/...", "github.com/spf13/cobra", false, "the runtime has no command line"},
	{"shield/runtime/...", tea, false, "the runtime has no screen"},
	{"shield/templates", ours, false, "files, nothing else"},
	{"shield/tui/...", "shield/runtime/node", true, "the console must work from another process"},
	{"shield/tui/...", "shield/devserver/...", true, "the console must work from another process"},
	{"shield/tui/...", quic, true, "the console must work from another process"},
	{"shield/tui/...", "shield/runtime/luavm", true, "the console must work from another process"},
	{"shield/runtime/...", "shield/internal/sim", false, "it is for tests only"},
	{"shield/devserver/...", "shield/internal/sim", false, "it is for tests only"},
	{"shield/cmd/shield", "shield/runtime/luavm", true, "a verb makes a client call"},
	{"shield/cmd/shield", "shield/runtime/node", true, "a verb makes a client call"},
	{"shield/cmd/shield", quic, true, "a verb makes a client call"},
}

// noGoroutines lists the packages that promise to start none.
var noGoroutines = []string{
	"shield/runtime/shield", "shield/runtime/value", "shield/runtime/wire", "shield/runtime/config", "shield/runtime/session",
	"shield/devserver/check", "shield/templates",
}

// maxLines is where a file has outgrown its story: 500, and a tenth for the last
// paragraph.
const maxLines = 550

// outgrown are files that are known to be too long, with what they may have
// until somebody cuts them. A file that has shrunk must leave the list; today it
// is empty.
var outgrown = map[string]int{}

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath     string
	Dir            string
	GoFiles        []string
	IgnoredGoFiles []string
	Imports        []string
	Deps           []string
}

var list = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,Imports,Deps", "shield/...")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &errs)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages, want the whole module", len(pkgs))
	}
	return pkgs
}

func matches(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return pattern == path
}

func TestArrows(t *testing.T) {
	pkgs := packages(t)
	for _, a := range arrows {
		found := false
		for _, p := range pkgs {
			if !matches(a.from, p.ImportPath) {
				continue
			}
			found = true
			deps := p.Deps
			if a.direct {
				deps = p.Imports
			}
			for _, d := range deps {
				// A package below the pattern may import its own kind.
				if matches(a.to, d) && d != p.ImportPath && !(matches(a.from, d) && strings.HasSuffix(a.from, "/...")) {
					t.Errorf("%s imports %s%s: %s", p.ImportPath, d, chain(pkgs, p.ImportPath, d), a.why)
				}
			}
		}
		if !found && !strings.HasPrefix(a.from, "shield/runtime/discovery") {
			t.Errorf("the arrow from %s points from nowhere; take it out or mend it", a.from)
		}
	}
}

// chain names the way from one package to what it must not reach.
func chain(pkgs []pkg, from, to string) string {
	byPath := map[string][]string{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p.Imports
	}
	via := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range byPath[queue[0]] {
			if _, seen := via[next]; seen {
				continue
			}
			via[next] = queue[0]
			if next == to {
				var way []string
				for at := via[to]; at != from && at != ""; at = via[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				if len(way) == 0 {
					return ""
				}
				return " through " + strings.Join(way, ", ")
			}
			queue = append(queue, next)
		}
	}
	return ""
}

// source is one parsed file that is no test.
type source struct {
	pkg  string
	path string
	file *ast.File
	fset *token.FileSet
}

var parsed = sync.OnceValues(func() ([]source, error) {
	pkgs, err := list()
	if err != nil {
		return nil, err
	}
	var out []source
	for _, p := range pkgs {
		for _, name := range append(slices.Clone(p.GoFiles), p.IgnoredGoFiles...) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			path := filepath.Join(p.Dir, name)
			f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			out = append(out, source{p.ImportPath, path, f, fset})
		}
	}
	return out, nil
})

func sources(t *testing.T) []source {
	t.Helper()
	s, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnePackageComment(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if _, ok := comments[s.pkg]; !ok {
			comments[s.pkg] = nil
		}
		if s.file.Doc != nil && strings.TrimSpace(s.file.Doc.Text()) != "" {
			comments[s.pkg] = append(comments[s.pkg], filepath.Base(s.path))
		}
	}
	for pkg, files := range comments {
		sort.Strings(files)
		if len(files) != 1 {
			t.Errorf("%s has %d package comments %v, want one", pkg, len(files), files)
		}
	}
}

func TestFilesAreReadable(t *testing.T) {
	root := moduleDir(t)
	for _, s := range sources(t) {
		name := strings.TrimPrefix(filepath.ToSlash(s.path), filepath.ToSlash(root)+"/")
		limit, known := outgrown[name]
		if !known {
			limit = maxLines
		}
		n := s.fset.Position(s.file.End()).Line
		if n > limit {
			t.Errorf("%s has %d lines, want at most %d: it tells more than one story", name, n, limit)
		}
		if known && n <= maxLines {
			t.Errorf("%s has %d lines; take it off the list of files that are too long", name, n)
		}
	}
}

func TestQuietPackagesStartNoGoroutines(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(noGoroutines, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a goroutine; the package promises to start none", s.fset.Position(g.Pos()))
			}
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				t.Errorf("%s: a goroutine; the package promises to start none", s.fset.Position(sel.Pos()))
			}
			return true
		})
	}
}

// TestOnlyTheEdgePrints holds that nothing below cmd and devserver writes to the
// process's streams or ends it, so that two runtimes fit into one program.
func TestOnlyTheEdgePrints(t *testing.T) {
	refused := map[string]bool{
		"os.Stdout": true, "os.Stderr": true, "os.Exit": true, "fmt.Print": true, "fmt.Println": true, "fmt.Printf": true,
		"log.Print": true, "log.Println": true, "log.Printf": true, "log.Fatal": true, "log.Fatalf": true, "log.Fatalln": true,
	}
	for _, s := range sources(t) {
		if !matches("shield/runtime/...", s.pkg) && !matches("shield/tui/...", s.pkg) && s.pkg != "shield/templates" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && refused[x.Name+"."+sel.Sel.Name] {
				t.Errorf("%s: %s.%s belongs to cmd", s.fset.Position(sel.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// TestMapIsComplete holds docs/architecture.md to the packages that exist.
func TestMapIsComplete(t *testing.T) {
	pkgs := packages(t)
	root := moduleDir(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, "shield/")
		top := name
		if parts := strings.Split(name, "/"); len(parts) > 2 {
			top = strings.Join(parts[:2], "/")
		}
		if !strings.Contains(string(text), name) && !strings.Contains(string(text), top) && !strings.Contains(string(text), filepath.Dir(name)+", ") {
			t.Errorf("docs/architecture.md does not name %s", name)
		}
	}
}

func moduleDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "shield").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// unusedCodes are codes of the table whose part of the runtime is not built yet.
// A code that is used must leave the list.
var unusedCodes = []string{
	"ResumeExpired", // network.resume_window_ms
}

// TestEveryCodeIsUsed holds the table of error codes to the code: one that
// nothing can produce is a promise to users that nobody keeps.
func TestEveryCodeIsUsed(t *testing.T) {
	codes := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg != "shield/runtime/shield" {
			continue
		}
		for _, d := range s.file.Decls {
			consts, ok := d.(*ast.GenDecl)
			if !ok || consts.Tok != token.CONST {
				continue
			}
			for _, spec := range consts.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Code" {
					codes[v.Names[0].Name] = false
				}
			}
		}
	}
	if len(codes) < 40 {
		t.Fatalf("found %d codes in runtime/shield, want them all", len(codes))
	}
	for _, s := range sources(t) {
		if s.pkg == "shield/runtime/shield" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "shield" {
					if _, isCode := codes[sel.Sel.Name]; isCode {
						codes[sel.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
	for name, used := range codes {
		if listed := slices.Contains(unusedCodes, name); used == listed {
			t.Errorf("the code %s: used %v, on the list of unused ones %v", name, used, listed)
		}
	}
}
