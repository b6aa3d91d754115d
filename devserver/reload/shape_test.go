package reload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// corpus is every Lua file of the cases.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/reload/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(data).Files {
			if strings.HasSuffix(f.Name, ".lua") {
				all[filepath.Base(name)+"/"+f.Name] = string(f.Data)
			}
		}
	}
	return all
}

// compileOrNil compiles what can be; gopher-lua's compiler panics on what its
// instructions can't hold, which a world refuses.
func compileOrNil(chunk []ast.Stmt, path string) (proto *lua.FunctionProto) {
	defer func() {
		if recover() != nil {
			proto = nil
		}
	}()
	proto, err := lua.Compile(chunk, path)
	if err != nil {
		return nil
	}
	return proto
}

// checkShape shows that the analysis finds exactly the functions and captures
// that the compiler does, and that a version matched with itself, read again,
// keeps everything.
func checkShape(t *testing.T, path, src string) {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(src), path)
	if err != nil {
		return
	}
	proto := compileOrNil(chunk, path)
	if proto == nil {
		return
	}
	s, err := Analyse(path, src)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if _, ok := s.protos(proto); !ok {
		t.Fatalf("%s: the functions found are not those that the compiler made", path)
	}
	again, err := Analyse(path, src)
	if err != nil {
		t.Fatal(err)
	}
	p := PlanFor(s, again)
	for i, f := range p.fns {
		if f == nil || f.id != i {
			t.Errorf("%s:%d: function %s is not itself", path, s.fns[i].line, s.fns[i].name)
		}
	}
	for i, l := range p.locals {
		if l == nil || l.id != i {
			t.Errorf("%s:%d: local %s is not itself", path, s.locals[i].line, s.locals[i].name)
		}
	}
	for _, x := range p.slots {
		if x.act != keep {
			t.Errorf("%s: a slot does not keep its value: %+v", path, x)
		}
	}
}

func TestShapeAgreesWithTheCompiler(t *testing.T) {
	for path, src := range corpus(t) {
		checkShape(t, path, src)
	}
}

func FuzzShape(f *testing.F) {
	for _, src := range corpus(f) {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		// What nests deeper than a world takes never gets here.
		if strings.Count(src, "(")+strings.Count(src, "{")+strings.Count(src, "function") > 200 || len(src) > 10000 {
			return
		}
		checkShape(t, "fuzz.lua", src)
	})
}
