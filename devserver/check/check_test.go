package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/config"
)

// checked checks a project of files. It gives its folder and the report.
func checked(t *testing.T, files map[string]string) (dir string, r Result) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Project(config.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return dir, r
}

func TestProjectTellsEverythingAtOnce(t *testing.T) {
	_, r := checked(t, map[string]string{
		"shield.yaml":         "nope: 1\nservices:\n  - { name: a, script: a.lua }\n",
		"rpc.yaml":            "routes: [{ id: 1, name: x, dir: s2c }]\n",
		"a.lua":               "local M = {}\nfunction M.f()\n  return 1\n",
		"lib/b.lua":           "local x = = 1\n",
		"lib/good.lua":        "return {}\n",
		".shield/ignored.lua": "(((",
	})
	var have []string
	for _, p := range r.Problems {
		have = append(have, p.Pos.String())
	}
	want := []string{"a.lua:3:11", "lib/b.lua:1:11", "rpc.yaml:1:16", "shield.yaml:1:1"}
	if diff := cmp.Diff(want, have); diff != "" || !r.Failed {
		t.Errorf("problems (-want +have), failed %v:\n%s\n%v", r.Failed, diff, r.Problems)
	}
}

// What loads only when it runs is tried out: a top level that throws, a module
// that is no table, a handler that rpc.yaml names in vain. Nothing is touched.
func TestProjectTriesScriptsOut(t *testing.T) {
	dir, r := checked(t, map[string]string{
		"shield.yaml": `
lua: { sandbox: { allow_os: true, allow_io: true } }
services:
  - { name: good, script: good.lua, config: { seats: 3 } }
  - { name: throws, script: throws.lua }
  - { name: user, script: user.lua }
  - { name: user2, script: user.lua }
  - { name: number, script: number.lua }
  - { name: busy, script: busy.lua }
gateways:
  - { name: main, auth: good, network: { tcp: "127.0.0.1:0" } }
`,
		"rpc.yaml":     "routes:\n  - { id: 100, name: a, dir: c2s, service: good, handler: login }\n  - { id: 101, name: b, dir: c2s, service: good, handler: lgoin }\n",
		"good.lua":     "local M = { seats = shield.config('seats') + 1 }\nshield.timer(1, function() end)\nshield.send('throws', 'x')\nfunction M.login() end\nreturn M\n",
		"throws.lua":   "local M = {}\nerror('boom at load')\nreturn M\n",
		"lib/deep.lua": "local x = 1\nerror('no luck')\n",
		"user.lua":     "require('deep')\nreturn {}\n",
		"number.lua":   "return 7\n",
		"busy.lua":     "os.remove('good.lua')\nlocal f = io.open('made.txt', 'w')\nprint('loud')\nreturn {}\n",
	})
	var have []string
	for _, p := range r.Problems {
		if !p.Warning {
			have = append(have, p.String())
		}
	}
	want := []string{
		"lib/deep.lua:2: throws when it is loaded: no luck",
		"number.lua: returned a number, not a table of methods: end it with `return M`",
		"rpc.yaml:3:5: routes[b].handler: good.lua has no method \"lgoin\" (did you mean \"login\"?)",
		"throws.lua:2: throws when it is loaded: boom at load",
	}
	if diff := cmp.Diff(want, have); diff != "" || !r.Failed {
		t.Errorf("problems (-want +have), failed %v:\n%s", r.Failed, diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "good.lua")); err != nil {
		t.Errorf("checking removed a file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "made.txt")); err == nil {
		t.Error("checking wrote a file")
	}
}
