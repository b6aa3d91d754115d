// Package watch tells when the files of a project have other contents than
// before. What counts is content: an event of the file system only wakes a
// scan and is never interpreted, so a touch changes nothing, a burst of saves is
// one change set, and a project whose file system sends no events at all is
// still read every two seconds.
//
// A Watcher starts one goroutine (and fsnotify's own), which calls OnChange;
// calls never overlap. Close waits for both. It knows nothing of Lua: whether a
// file is whole is for Config.Check to say.
package watch

import (
	"log/slog"
	"time"
)

// Config is what a Watcher is made of. Zero fields mean default.
type Config struct {
	Root string // the project's folder; may be a symbolic link
	// Match says which files count, by slash-separated path below Root.
	Match func(path string) bool // Project by default
	// Check says whether a file looks whole. One that does not is read again for
	// Settle before its content is believed.
	Check func(path string, content []byte) error
	Log   *slog.Logger // discarded by default
	// OnChange hears of every change set. The next one waits until it returns.
	OnChange func(ChangeSet)

	Quiet  time.Duration // without events before a scan is believed; 25 ms
	Settle time.Duration // for files that are empty, gone or not whole; 150 ms
	Poll   time.Duration // between scans that no event asked for; 2 s

	noEvents bool // a file system that sends none, for tests
}

// Hash tells contents apart.
type Hash [16]byte

// File is one file's content at the moment of a scan. It is not to be changed.
type File struct {
	Path    string // slash-separated, below Root
	Content []byte
	Hash    Hash
}

// Snapshot is what the files held at one moment. It is immutable.
type Snapshot struct {
	files map[string]*File
}

// File finds a file by its path below Root; nil when it is not there.
func (s *Snapshot) File(path string) *File {
	if s == nil {
		return nil
	}
	return s.files[path]
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
