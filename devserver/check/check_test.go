package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/config"
)

func TestProjectTellsEverythingAtOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shield.yaml":         "nope: 1\nservices:\n  - { name: a, script: a.lua }\n",
		"rpc.yaml":            "routes: [{ id: 1, name: x, dir: s2c }]\n",
		"a.lua":               "local M = {}\nfunction M.f()\n  return 1\n",
		"lib/b.lua":           "local x = = 1\n",
		"lib/good.lua":        "return {}\n",
		".shield/ignored.lua": "(((",
	} {
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
	var have []string
	for _, p := range r.Problems {
		have = append(have, p.Pos.String())
	}
	want := []string{"a.lua:3:11", "lib/b.lua:1:11", "rpc.yaml:1:16", "shield.yaml:1:1"}
	if diff := cmp.Diff(want, have); diff != "" || !r.Failed {
		t.Errorf("problems (-want +have), failed %v:\n%s\n%v", r.Failed, diff, r.Problems)
	}
}
