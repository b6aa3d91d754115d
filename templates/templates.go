// Package templates holds what `shield new` writes, embedded in the binary: no
// network is needed. A template is the files of common and its own, with @NAME@
// and @TOKEN@ replaced; a path that begins with dot_ becomes a hidden one, so
// that the repository's own tools don't take the files for theirs.
//
// It does no I/O and imports nothing of ours.
package templates

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed common arena empty
var files embed.FS

// Template is one project that `shield new` can write.
type Template struct {
	Name  string
	Short string
}

// All lists the templates, the default first.
func All() []Template {
	return []Template{
		{"arena", "a small multiplayer game: login, rooms, movement, chat"},
		{"empty", "the least that runs: one service"},
	}
}

// Names lists the names of the templates, the default first.
func Names() []string {
	var names []string
	for _, t := range All() {
		names = append(names, t.Name)
	}
	return names
}

// Data is what differs between two projects of one template.
type Data struct {
	Name  string // of the project
	Token string // the cluster's secret, made fresh for it
}

// File is one file of a new project. Path is relative, with slashes.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
}

// Files makes the files of a template, sorted by path.
func Files(template string, data Data) ([]File, error) {
	if !slices.Contains(Names(), template) {
		return nil, fmt.Errorf("no template %q: there are %s", template, strings.Join(Names(), ", "))
	}
	replace := strings.NewReplacer("@NAME@", data.Name, "@TOKEN@", data.Token)
	var out []File
	for _, root := range []string{"common", template} {
		err := fs.WalkDir(files, root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := files.ReadFile(path)
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, root+"/")
			name = strings.ReplaceAll("/"+name, "/dot_", "/.")[1:]
			f := File{Path: name, Data: []byte(replace.Replace(string(text))), Mode: 0o644}
			if name == ".env" { // it holds the secret
				f.Mode = 0o600
			}
			out = append(out, f)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the template %s: %w", template, err)
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}
