package watch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Hash tells contents apart.
type Hash [sha256.Size]byte

// File is one file's content at the moment of a scan. It is not to be changed.
type File struct {
	Path    string // slash-separated, below Root
	Content []byte
	Hash    Hash
}

// Snapshot is what the files held at one moment. It is immutable.
type Snapshot struct {
	files map[string]*File
	paths []string
}

// SnapshotOf makes a Snapshot of contents by path, for callers that have no
// folder to watch.
func SnapshotOf(contents map[string][]byte) *Snapshot {
	s := &Snapshot{files: make(map[string]*File, len(contents))}
	for p, c := range contents {
		s.files[p] = &File{Path: p, Content: c, Hash: sha256.Sum256(c)}
		s.paths = append(s.paths, p)
	}
	sort.Strings(s.paths)
	return s
}

// File finds a file by its path below Root; nil when it is not there. A nil
// Snapshot holds nothing.
func (s *Snapshot) File(path string) *File {
	if s == nil {
		return nil
	}
	return s.files[path]
}

// Paths lists the files, sorted. The slice is not to be changed.
func (s *Snapshot) Paths() []string {
	if s == nil {
		return nil
	}
	return s.paths
}

// Kind says what happened to a file.
type Kind string

const (
	Added   Kind = "added"
	Changed Kind = "changed"
	Removed Kind = "removed"
)

// Change is one file whose content is another than before.
type Change struct {
	Path string
	Kind Kind
}

// ChangeSet is what one burst of saves changed.
type ChangeSet struct {
	Changes  []Change  // by path
	Snapshot *Snapshot // after all of them
	Time     time.Time // of the first event, or of the scan that no event asked for
}

// Diff lists what has become of the files of s in next.
func (s *Snapshot) Diff(next *Snapshot) []Change {
	var all []Change
	for _, p := range next.paths {
		switch old := s.File(p); {
		case old == nil:
			all = append(all, Change{p, Added})
		case old.Hash != next.files[p].Hash:
			all = append(all, Change{p, Changed})
		}
	}
	for _, p := range s.Paths() {
		if next.files[p] == nil {
			all = append(all, Change{p, Removed})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Path < all[j].Path })
	return all
}

// smallProject is up to how many files a scan reads all of them; beyond that
// it trusts size and time where they are old enough to be trusted.
const smallProject = 200

// racy is how old a modification has to be before an equal size and time prove
// an equal content: file systems count in up to two seconds.
const racy = 2 * time.Second

// maxFile bounds what is read of one file. A script of this size is a mistake.
const maxFile = 16 << 20

// scanner reads the tree. It remembers what it has read.
type scanner struct {
	root  string
	match func(path string) bool
	known map[string]*entry
	dirs  []string // every folder of the last scan, symbolic links resolved
	quick bool     // the next scan trusts size and time also in a small project
}

type entry struct {
	file *File
	size int64
	mod  time.Time
	read time.Time
}

// run reads the tree. Files that touched holds are read whatever their size
// and time say; nil reads all.
func (s *scanner) run(touched map[string]bool) (*Snapshot, error) {
	t := tree{scanner: s, touched: touched, all: touched == nil || len(s.known) <= smallProject && !s.quick,
		found: map[string]*entry{}, around: map[string]bool{}}
	if err := t.dir(s.root, "", 0); err != nil {
		return nil, err
	}
	s.known, s.dirs = t.found, t.dirs
	snap := &Snapshot{files: make(map[string]*File, len(t.found))}
	for p, e := range t.found {
		snap.files[p] = e.file
		snap.paths = append(snap.paths, p)
	}
	sort.Strings(snap.paths)
	return snap, nil
}

// tree is one scan.
type tree struct {
	*scanner
	touched map[string]bool
	all     bool
	found   map[string]*entry
	dirs    []string
	around  map[string]bool // the folders around this one, resolved: links may form circles
}

// maxLinks is how many links to folders one path may go through: folders that
// all link to each other have more paths than anybody can read.
const maxLinks = 4

// dir reads one folder, which links lead to. Only the root must be readable:
// another may vanish while we look.
func (t *tree) dir(dir, rel string, links int) error {
	if t.around[dir] || links > maxLinks {
		return nil
	}
	t.around[dir] = true
	defer delete(t.around, dir)
	list, err := os.ReadDir(dir)
	if err != nil {
		if rel == "" {
			return err
		}
		t.keepBelow(rel, err)
		return nil
	}
	t.dirs = append(t.dirs, dir)
	for _, d := range list {
		name := d.Name()
		if strings.HasPrefix(name, ".") || name == "node_modules" {
			continue
		}
		full, p := filepath.Join(dir, name), path.Join(rel, name)
		isDir, through := d.IsDir(), links
		if d.Type()&fs.ModeSymlink != 0 {
			st, err := os.Stat(full)
			if err != nil {
				continue // a link to nowhere
			}
			if isDir = st.IsDir(); isDir {
				if full, err = filepath.EvalSymlinks(full); err != nil {
					continue
				}
				through++
			}
		}
		switch {
		case isDir:
			if err := t.dir(full, p, through); err != nil {
				return err
			}
		case t.match(p):
			t.file(full, p, d.Type()&fs.ModeSymlink != 0)
		}
	}
	return nil
}

// keepBelow keeps what was known of a folder that can't be read for another
// reason than that it is gone.
func (t *tree) keepBelow(rel string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for p, e := range t.known {
		if strings.HasPrefix(p, rel+"/") {
			t.found[p] = e
		}
	}
}

func (t *tree) file(full, p string, link bool) {
	old := t.known[p]
	st, err := os.Stat(full)
	if err != nil || !st.Mode().IsRegular() {
		if err != nil && old != nil && !errors.Is(err, fs.ErrNotExist) {
			t.found[p] = old
		}
		return
	}
	if link {
		// Events come for the folder of the file itself, not for the link's.
		if real, err := filepath.EvalSymlinks(full); err == nil {
			t.dirs = append(t.dirs, filepath.Dir(real))
		}
	}
	if old != nil && !t.all && !link && !t.touched[full] && old.size == st.Size() && old.mod.Equal(st.ModTime()) &&
		old.read.Sub(old.mod) > racy {
		t.found[p] = old
		return
	}
	if st.Size() > maxFile {
		return
	}
	now := time.Now()
	content, err := os.ReadFile(full)
	if err != nil {
		if old != nil && !errors.Is(err, fs.ErrNotExist) {
			t.found[p] = old
		}
		return
	}
	e := &entry{file: &File{Path: p, Content: content}, size: st.Size(), mod: st.ModTime(), read: now}
	if old != nil && bytes.Equal(old.file.Content, content) {
		e.file = old.file
	} else {
		e.file.Hash = sha256.Sum256(content)
	}
	t.found[p] = e
}
