package devserver

import (
	"os"
	"path/filepath"
)

// dirFiles reads a project's scripts below its folder and nowhere else, links
// that lead out of it included.
type dirFiles struct{ root *os.Root }

func openFiles(dir string) (*dirFiles, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &dirFiles{root}, nil
}

// ReadFile reads one file by its slash-separated path.
func (f *dirFiles) ReadFile(path string) ([]byte, error) {
	return f.root.ReadFile(filepath.FromSlash(path))
}

func (f *dirFiles) Close() error { return f.root.Close() }
