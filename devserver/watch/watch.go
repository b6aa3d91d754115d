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
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
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
	// OnChange hears of every change set. The next one waits until it returns. It
	// must not call Close or Look.
	OnChange func(ChangeSet)

	Quiet  time.Duration // without events before a scan is believed; 25 ms
	Settle time.Duration // for files that are empty, gone or not whole; 150 ms
	Poll   time.Duration // between scans that no event asked for; 2 s

	noEvents bool // a file system that sends none, for tests
}

const (
	// manyFiles is where a burst looks like a checkout or a copy, which pauses
	// longer between files than an editor does.
	manyFiles = 10
	manyQuiet = 100 * time.Millisecond
	// oneSave is how long the events of one save come; what goes on for longer is a
	// burst of saves, which pauses longer than an editor does.
	oneSave    = 15 * time.Millisecond
	burstQuiet = 80 * time.Millisecond
	// maxBurst is how long a burst that does not end may keep a change back, and
	// maxCopy where it touches many files: a slow disk copies for longer.
	maxBurst = 5 * time.Second
	maxCopy  = 30 * time.Second
	// again is how often a file that is not whole is read again.
	again = 10 * time.Millisecond
	// eventGrace is how late an event may be before a change that a poll found
	// proves that none come.
	eventGrace = 150 * time.Millisecond
)

// Watcher follows the files below one folder. Use New.
type Watcher struct {
	cfg    Config
	root   string // without symbolic links
	events *fsnotify.Watcher
	scan   scanner
	gitDir string

	now    atomic.Pointer[Snapshot]
	paused atomic.Bool
	asks   chan chan struct{}

	stop    context.CancelFunc
	ctx     context.Context
	wg      sync.WaitGroup
	started bool

	// Below is the goroutine's.
	followed map[string]bool // folders of the scan before
	touched  map[string]bool // paths that events named; nil = all, after an overflow
	first    time.Time       // of the first event since the last look
	last     time.Time       // of the newest event
	copying  bool            // this burst touches many files
	asked    bool            // this look is a person's: a pause does not hold it
	told     map[string]bool // what the log was told once
	polls    int
}

// New reads the files once; what they hold then is what changes are measured
// against.
func New(cfg Config) (*Watcher, error) {
	if cfg.Match == nil {
		cfg.Match = Project
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Quiet <= 0 {
		cfg.Quiet = 25 * time.Millisecond
	}
	if cfg.Settle <= 0 {
		cfg.Settle = 150 * time.Millisecond
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 2 * time.Second
	}
	root, err := filepath.EvalSymlinks(cfg.Root)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w; run it in a project's folder", cfg.Root, err)
	}
	w := &Watcher{cfg: cfg, root: root, asks: make(chan chan struct{}), touched: map[string]bool{}, told: map[string]bool{}}
	w.scan = scanner{root: root, match: cfg.Match, known: map[string]*entry{}}
	w.gitDir = findGit(root)
	snap, err := w.scan.run(nil)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", cfg.Root, err)
	}
	w.now.Store(snap)
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// Project matches the files that a running project is made of: Lua anywhere,
// and the YAML files beside shield.yaml.
func Project(path string) bool {
	switch filepath.Ext(path) {
	case ".lua":
		return true
	case ".yaml", ".yml":
		return !strings.Contains(path, "/")
	}
	return false
}

// Start begins to watch. It is called once.
func (w *Watcher) Start() {
	if w.started {
		return
	}
	w.started = true
	if !w.cfg.noEvents {
		events, err := fsnotify.NewBufferedWatcher(4096)
		if err != nil {
			w.once("file events are not to be had here (%v): looking every %v instead", err, w.cfg.Poll)
		} else {
			w.events = events
			w.follow()
		}
	}
	w.wg.Go(w.run)
}

// Close stops watching and waits for an OnChange that is under way. Closing
// twice is fine.
func (w *Watcher) Close() error {
	w.stop()
	w.wg.Wait()
	if w.events == nil {
		return nil
	}
	events := w.events
	w.events = nil
	return events.Close()
}

// Snapshot is what the files held when they were last believed.
func (w *Watcher) Snapshot() *Snapshot { return w.now.Load() }

// Pause keeps changes back until it is called with false, or somebody asks with
// Look; then they come as one.
func (w *Watcher) Pause(on bool) {
	w.paused.Store(on)
	if !on && w.started {
		// The goroutine looks by itself soon; asking makes it soon.
		ctx, cancel := context.WithTimeout(w.ctx, w.cfg.Poll)
		defer cancel()
		_ = w.Look(ctx) // a watcher that is busy or closed needs no asking
	}
}

// Look reads every file now and returns when a change that it found was handed
// to OnChange.
func (w *Watcher) Look(ctx context.Context) error {
	done := make(chan struct{})
	for _, step := range []func() bool{
		func() bool {
			select {
			case w.asks <- done:
				return true
			case <-ctx.Done():
			case <-w.ctx.Done():
			}
			return false
		},
		func() bool {
			select {
			case <-done:
				return true
			case <-ctx.Done():
			case <-w.ctx.Done():
			}
			return false
		},
	} {
		if !step() {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("look for changed files: %w", err)
			}
			return fmt.Errorf("look for changed files: the watcher is closed")
		}
	}
	return nil
}

func (w *Watcher) once(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !w.told[text] {
		w.told[text] = true
		w.cfg.Log.Warn(text)
	}
}

// findGit finds the folder that git locks while it changes files, "" without. In
// a worktree .git is a file that names it.
func findGit(root string) string {
	for dir := root; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if st, err := os.Stat(git); err == nil && st.IsDir() {
			return git
		}
		b, _ := os.ReadFile(git) // not there: look further up
		if at, ok := strings.CutPrefix(string(b), "gitdir: "); ok {
			if at = strings.TrimSpace(at); !filepath.IsAbs(at) {
				at = filepath.Join(dir, at)
			}
			return at
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// checkingOut reports whether git is at work on the files. A lock that is older
// than any checkout takes was left behind.
func (w *Watcher) checkingOut() bool {
	if w.gitDir == "" {
		return false
	}
	lock, err := os.Lstat(filepath.Join(w.gitDir, "index.lock"))
	return err == nil && time.Since(lock.ModTime()) < maxCopy
}
