package devserver

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shield/runtime/config"
)

func TestScriptsTouchTheirFoldersOnly(t *testing.T) {
	dir := t.TempDir()
	outside := t.TempDir()
	write(t, outside, "secret", "s")
	p := &config.Config{Dir: dir}
	if scriptFolders(p) != nil {
		t.Error("without allow_io and allow_os nothing may be touched")
	}
	p.Lua.Sandbox.AllowIO = true
	fs := scriptFolders(p)

	f, err := fs.OpenFile("data/save.txt", "wb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "gold"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := fs.Rename("data/save.txt", "data/old.txt"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "data", "old.txt")); err != nil || string(b) != "gold" {
		t.Errorf("data/old.txt holds %q, %v", b, err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "data", "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"shield.yaml", "data/../shield.yaml", "../x", filepath.Join(outside, "secret"), "data/link", "database/x"} {
		if f, err := fs.OpenFile(path, "r"); err == nil {
			f.Close()
			t.Errorf("OpenFile(%q) was allowed", path)
		}
		if err := fs.Rename("data/old.txt", path); err == nil && path != "data/link" { // that replaces the link itself
			t.Errorf("Rename to %q was allowed", path)
		}
	}
	if _, err := fs.OpenFile("data/x", "q"); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Errorf("mode q: %v", err)
	}
	if err := fs.Remove("data/link"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Errorf("what a link led to is gone: %v", err)
	}

	p.Lua.Sandbox.Folders = []string{outside}
	fs = scriptFolders(p)
	if f, err := fs.OpenFile(filepath.Join(outside, "secret"), "r"); err != nil {
		t.Errorf("an absolute folder that is configured: %v", err)
	} else {
		f.Close()
	}
	if _, err := fs.OpenFile("data/old.txt", "r"); err == nil {
		t.Error("configured folders replace the default one")
	}
}
