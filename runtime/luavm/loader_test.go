package luavm

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

func TestScriptErrorsNamePlaces(t *testing.T) {
	for _, tt := range []struct {
		name, src    string
		line, opened int
		message      string
	}{
		{"token", "local x = 1\nlocal = 2\n", 2, 0, "near '='"},
		{"missing end at the end", "local M = {}\nfunction M.a()\n  return 1\n", 3, 2, "'function' of line 2 has no 'end'"},
		{"missing end in the middle", "local M = {}\nfunction M.a()\n  if x then\n    y()\nend\n\nfunction M.b()\nend\n\nreturn M\n", 10, 3, "'if' of line 3 has no 'end'"},
		{"missing end of for", "for i = 1, 2 do\n  print(i)\n", 2, 1, "'for' of line 1"},
		{"missing end of while", "while true do\n", 1, 1, "'while' of line 1"},
		{"missing until", "repeat\n  x()\n", 2, 1, "'repeat' of line 1 has no 'until'"},
		{"missing brace", "local t = {\n  a = 1,\n", 2, 1, "'{' of line 1 is not closed"},
		{"missing paren", "print(1,\n", 1, 1, "'(' of line 1"},
		{"open string", "local s = [[\nx\n", 2, 1, "never ends"},
		{"CRLF", "local x = 1\r\nlocal = 2\r\n", 2, 0, "near '='"},
		{"BOM", "\ufefflocal = 2\n", 1, 0, "near '='"},
		{"words in strings", "local a = 'function if do'\n-- while\n--[[ repeat\n]]\nif a then\n", 5, 5, "'if' of line 5"},
		{"empty expression", "x =", 1, 0, "middle of a statement"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compile("services/room.lua", tt.src)
			var se *ScriptError
			if !errors.As(err, &se) {
				t.Fatalf("compile = %v, want a *ScriptError", err)
			}
			if se.Line != tt.line || se.OpenedLine != tt.opened || !strings.Contains(se.Message, tt.message) || se.File != "services/room.lua" {
				t.Errorf("got line %d opened %d %q, want line %d opened %d %q", se.Line, se.OpenedLine, se.Message, tt.line, tt.opened, tt.message)
			}
			if se.SourceLine != strings.TrimSuffix(strings.Split(tt.src, "\n")[se.Line-1], "\r") && tt.name != "BOM" {
				t.Errorf("source line %q", se.SourceLine)
			}
		})
	}
}

func TestScriptsFromEverySystemLoad(t *testing.T) {
	for name, src := range map[string]string{"BOM": "\ufeffreturn 1", "CRLF": "local x = 1\r\nreturn x\r\n", "shebang": "#!/usr/bin/lua\nreturn 1", "empty": ""} {
		if _, err := compile("x.lua", src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, _ := compile("x.lua", "local x = 1\r\nreturn x\r\n")
	b, _ := compile("x.lua", "local x = 1\nreturn x\n")
	if a.Hash != b.Hash {
		t.Error("line ends alone make another version")
	}
}

// Long lines and deep nonsense are refused fast.
func TestBadScriptsAreRefusedFast(t *testing.T) {
	for name, src := range map[string]string{
		"open calls": strings.Repeat("f(", 50000), "open blocks": strings.Repeat("if x then ", 20000), "open strings": strings.Repeat("'x' ", 50000) + "'",
		"elseif": "if x then " + strings.Repeat("elseif y then ", 5000) + "end", "long comment": "--[[" + strings.Repeat("\n", 100000),
	} {
		start := time.Now()
		if _, err := compile("x.lua", src); err == nil {
			t.Errorf("%s: no error", name)
		}
		if took := time.Since(start); took > 15*time.Second { // generous: the race detector on a busy machine
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// load loads script of f into a VM.
func load(t *testing.T, w *World, f files, path string) (*VM, *Module, error) {
	t.Helper()
	vm := w.NewVM(VMConfig{Files: f})
	t.Cleanup(vm.Close)
	h := w.Take()
	defer h.Give()
	m, err := vm.Load(h, path, nil)
	return vm, m, err
}

func TestRequire(t *testing.T) {
	f := files{
		"services/room.lua": `local a = require("a") local again = require("a") local deep = require "deep.er" return {same = a == again, v = a.v, deep = deep, init = require("pack").v}`,
		"lib/a.lua":         `loads = (loads or 0) + 1 return {v = require("b").v + 1}`,
		"lib/b.lua":         `return {v = 1}`,
		"deep/er.lua":       ``,
		"lib/pack/init.lua": `return {v = "init"}`,
	}
	w := newWorld(t, Config{})
	vm, m, err := load(t, w, f, "services/room.lua")
	if err != nil {
		t.Fatal(err)
	}
	tb := m.Value.(*lua.LTable)
	for key, want := range map[string]string{"same": "true", "v": "2", "deep": "true", "init": "init"} {
		if got := tb.RawGetString(key).String(); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
	if n := vm.Globals().RawGetString("loads").String(); n != "1" {
		t.Errorf("lib/a.lua ran %s times", n)
	}
	var order []string
	for _, m := range vm.Modules() {
		names := []string{m.Name}
		for _, r := range m.Requires {
			names = append(names, r.Path)
		}
		order = append(order, strings.Join(names, " "))
	}
	want := "services/room.lua lib/a.lua deep/er.lua lib/pack/init.lua; b; a lib/b.lua; deep.er; pack"
	if got := strings.Join(order, "; "); got != want {
		t.Errorf("modules: %s\nwant:    %s", got, want)
	}
	if h := vm.CodeHash(); len(h) != 7 {
		t.Errorf("CodeHash() = %q", h)
	}
	before := vm.CodeHash()
	f["lib/b.lua"] = `return {v = 2}`
	other, _, err := load(t, w, f, "services/room.lua")
	if err != nil || other.CodeHash() == before {
		t.Errorf("the hash does not follow a module's content (%v)", err)
	}
	if a, b := vm.Modules()[0].Code, other.Modules()[0].Code; a != b {
		t.Error("two VMs compile one version twice")
	}
}

func TestRequireFails(t *testing.T) {
	f := files{
		"m.lua": `return require(NAME)`, "lib/a.lua": `return require("b")`, "lib/b.lua": `return require("c")`, "lib/c.lua": `return require("a")`,
		"lib/bad.lua": "local x =\nlocal = 1", "lib/throws.lua": "local M = {}\nerror('on purpose')", "lib/self.lua": `return require("self")`,
	}
	w := newWorld(t, Config{})
	for _, tt := range []struct{ name, want string }{
		{"a", "a -> b -> c -> a"}, {"self", "self -> self"}, {"gone", "lib/gone.lua, lib/gone/init.lua, gone.lua"},
		{"bad", "lib/bad.lua:2:"}, {"throws", "lib/throws.lua:2: on purpose"}, {"../etc/passwd", "can't leave"}, {"/etc/passwd", "no absolute path"},
		{"a.lua", "no extension"}, {"", "must not be empty"}, {"a\x00b", "no absolute path"}, {"..", "can't leave"}, {"a..b", "can't leave"},
	} {
		vm := w.NewVM(VMConfig{Files: f})
		vm.Globals().RawSetString("NAME", lua.LString(tt.name))
		h := w.Take()
		_, err := vm.Load(h, "m.lua", nil)
		h.Give()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("require(%q): %v, want %q", tt.name, err, tt.want)
		}
		var se *ScriptError
		if is := errors.As(err, &se); is != (tt.name == "bad") {
			t.Errorf("require(%q): %T", tt.name, err)
		}
		if len(vm.loading) != 0 {
			t.Errorf("require(%q) leaves modules half loaded", tt.name)
		}
	}
	_, _, err := load(t, w, f, "nowhere.lua")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing script: %v", err)
	}
}

// Any bytes are a script, or an error about one.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"return 1", "local t = {[1]=2, x=3;}", "function a.b:c(...) end", "if x then", "x = [==[", "goto a ::a::", "--[[", "\ufeff#!", "a = 'x\\", "for i=1,2,3 do break end"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		code, err := compile("fuzz.lua", string(src))
		var se *ScriptError
		switch {
		case err == nil:
			if _, err := code.Chunk(); err != nil {
				t.Errorf("Chunk: %v", err)
			}
		case !errors.As(err, &se):
			t.Errorf("%v is no *ScriptError", err)
		case se.Line < 0 || se.Message == "":
			t.Errorf("%+v says nothing", se)
		}
	})
}

// Any string is a module name, or an error that stays inside the project.
func FuzzRequire(f *testing.F) {
	for _, s := range []string{"a", "a.b", "..", "/etc/passwd", "a/../../b", "", "a\x00", "lib?", strings.Repeat("x.", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		asked := recording{}
		w, err := NewWorld(Config{Files: &asked})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(t.Context())
		vm := w.NewVM(VMConfig{})
		h := w.Take()
		_, rerr := vm.Run(h, Call{Fn: vm.Globals().Metatable.(*lua.LTable).RawGetString("__index").(*lua.LTable).RawGetString("require"), Args: []lua.LValue{lua.LString(name)}})
		if rerr == nil || rerr.Kind != KindError {
			t.Fatalf("require(%q) = %v", name, rerr)
		}
		for _, path := range asked {
			if strings.HasPrefix(path, "/") || strings.Contains(path, "..") || strings.ContainsAny(path, "\x00\\") {
				t.Errorf("require(%q) asked for %q", name, path)
			}
		}
	})
}

// recording is a project without files that remembers what was looked for.
type recording []string

func (r *recording) ReadFile(path string) ([]byte, error) {
	*r = append(*r, path)
	return nil, fs.ErrNotExist
}

// However a module's name is spelt, it is loaded once.
func TestSpellingsOfOneModule(t *testing.T) {
	w := newWorld(t, Config{Files: files{"lib/a/b.lua": "loads = (loads or 0) + 1 return {}"}})
	got := newBox(t, w, VMConfig{}).do(`return require("a.b") == require("a/b"), require("a.b") == require("a//b"), require("a.b") == require("a/./b"), loads`)
	if got != "true true true 1" {
		t.Errorf("got %q", got)
	}
}
