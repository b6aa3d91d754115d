package devserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shield/runtime/config"
	"shield/runtime/luavm"
)

// folders is what scripts with allow_io or allow_os may touch: the configured
// folders and nothing else, links that lead out of them included.
type folders struct {
	dir   string // of the project, absolute
	allow []string
}

// scriptFolders gives nil when scripts may touch nothing.
func scriptFolders(p *config.Config) luavm.FS {
	sandbox := p.Lua.Sandbox
	if !sandbox.AllowIO && !sandbox.AllowOS {
		return nil
	}
	f := &folders{dir: p.Dir, allow: sandbox.Folders}
	if len(f.allow) == 0 {
		f.allow = []string{config.DefaultFolder}
	}
	return f
}

// within finds the folder that a script's path lies in, and the path inside it.
func (f *folders) within(path string) (folder, inside string, err error) {
	full := f.absolute(path)
	for _, allowed := range f.allow {
		folder := f.absolute(allowed)
		rel, err := filepath.Rel(folder, full)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return folder, rel, nil
		}
	}
	return "", "", fmt.Errorf("%s lies outside of the allowed folders (%s); see lua.sandbox.folders in shield.yaml", path, strings.Join(f.allow, ", "))
}

func (f *folders) absolute(path string) string {
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.dir, path)
	}
	return filepath.Clean(path)
}

// modes are those of Lua's io.open, without their b.
var modes = map[string]int{
	"r": os.O_RDONLY, "r+": os.O_RDWR,
	"w": os.O_WRONLY | os.O_CREATE | os.O_TRUNC, "w+": os.O_RDWR | os.O_CREATE | os.O_TRUNC,
	"a": os.O_WRONLY | os.O_CREATE | os.O_APPEND, "a+": os.O_RDWR | os.O_CREATE | os.O_APPEND,
}

// OpenFile opens one file; a folder that is not there yet is made for writing.
func (f *folders) OpenFile(path, mode string) (luavm.File, error) {
	flags, ok := modes[strings.ReplaceAll(mode, "b", "")]
	if !ok {
		return nil, fmt.Errorf("open %s: mode %q: want r, w, a, r+, w+ or a+", path, mode)
	}
	folder, inside, err := f.within(path)
	if err != nil {
		return nil, err
	}
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(inside, flags, 0o644)
	if err != nil {
		return nil, err // a nil *os.File in an interface would not be nil
	}
	return file, nil
}

// Remove deletes one file or empty folder.
func (f *folders) Remove(path string) error {
	folder, inside, err := f.within(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Remove(inside)
}

// Rename moves a file within one folder.
func (f *folders) Rename(from, to string) error {
	folder, inside, err := f.within(from)
	if err != nil {
		return err
	}
	target, moved, err := f.within(to)
	if err != nil {
		return err
	}
	if target != folder {
		return fmt.Errorf("rename %s to %s: both must lie in the same allowed folder", from, to)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Rename(inside, moved)
}
