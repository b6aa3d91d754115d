package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestFoldersComeAndGo(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.write("services/deep/er/new.lua", "new end")
	p.only(Change{"services/deep/er/new.lua", Added})
	p.write("services/deep/er/new.lua", "newer end")
	p.only(Change{"services/deep/er/new.lua", Changed})
	p.must(os.Rename(p.path("services/deep"), p.path("services/moved")))
	p.only(Change{"services/deep/er/new.lua", Removed}, Change{"services/moved/er/new.lua", Added})
	p.write("services/moved/er/new.lua", "newest end")
	p.only(Change{"services/moved/er/new.lua", Changed})
	p.must(os.RemoveAll(p.path("services/moved")))
	p.only(Change{"services/moved/er/new.lua", Removed})
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t, patient)
	const n = 5000
	for i := range n {
		p.write(fmt.Sprintf("services/gen/s%d.lua", i), fmt.Sprintf("v1 %d end", i))
	}
	s := p.next(2 * guard)
	if len(s.Changes) != n {
		t.Fatalf("%d changes in the first set, want %d in one", len(s.Changes), n)
	}
	p.silence()
	// A change of one in the crowd, with the same size.
	p.write("services/gen/s77.lua", "v2 77 end")
	if s := p.next(guard); !slices.Equal(s.Changes, []Change{{"services/gen/s77.lua", Changed}}) {
		t.Fatalf("changes = %v", s.Changes)
	}
}

// TestOverflow fills the queue of events while nobody reads it: what follows is
// a scan of everything.
func TestOverflow(t *testing.T) {
	t.Parallel()
	gate, held := make(chan struct{}), make(chan struct{}, 100)
	var sets [][]Change
	var mu sync.Mutex
	p := newProject(t, func(c *Config) {
		c.OnChange = func(s ChangeSet) {
			mu.Lock()
			sets = append(sets, s.Changes)
			mu.Unlock()
			held <- struct{}{}
			<-gate
		}
	})
	p.write("services/svc.lua", "first end")
	<-held
	limit := 16384 // fs.inotify.max_queued_events, where it is the default
	for i := range limit + 6000 {
		p.write(fmt.Sprintf("services/n%d.lua", i%50), fmt.Sprintf("%d end", i))
	}
	close(gate)
	<-held
	deadline := time.After(guard)
	want := fmt.Sprintf("%d end", limit+6000-1)
	last := fmt.Sprintf("services/n%d.lua", (limit+6000-1)%50)
	for p.content(last) != want {
		select {
		case <-held:
		case <-deadline:
			t.Fatalf("%s = %q, want %q", last, p.content(last), want)
		}
	}
}

func TestNoEvents(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.noEvents = true })
	if p.w.cfg.Poll > 2*time.Second {
		t.Errorf("polls every %v: a change must be found within three seconds", p.w.cfg.Poll)
	}
	for i := range 2 {
		p.write("services/svc.lua", fmt.Sprintf("poll %d end", i))
		if s := p.next(guard); len(s.Changes) != 1 {
			t.Fatalf("changes = %v", s.Changes)
		}
	}
	if n := strings.Count(p.log.String(), "no file events arrive"); n != 1 {
		t.Errorf("said it %d times: %s", n, p.log)
	}
}

func TestSymlinks(t *testing.T) {
	t.Parallel()
	real := t.TempDir()
	other := t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(real, "shield.yaml"): "app end",
		filepath.Join(other, "a.lua"):      "a end",
		filepath.Join(other, "alone.lua"):  "alone end",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "project")
	for from, to := range map[string]string{
		link:                              real,
		filepath.Join(real, "services"):   other,
		filepath.Join(real, "one.lua"):    filepath.Join(other, "alone.lua"),
		filepath.Join(other, "circle"):    real,
		filepath.Join(real, "broken.lua"): filepath.Join(real, "nowhere"),
		filepath.Join(real, "twice"):      other, // another link to the same folder
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	p := newProject(t, func(c *Config) { c.Root = link })
	p.must(os.WriteFile(filepath.Join(other, "a.lua"), []byte("a2 end"), 0o644))
	p.only(Change{"services/a.lua", Changed}, Change{"twice/a.lua", Changed})
	p.must(os.WriteFile(filepath.Join(other, "alone.lua"), []byte("alone2 end"), 0o644))
	p.only(Change{"one.lua", Changed}, Change{"services/alone.lua", Changed}, Change{"twice/alone.lua", Changed})
	// The link itself is turned to another folder, as deployments do.
	third := t.TempDir()
	p.must(os.WriteFile(filepath.Join(third, "a.lua"), []byte("a3 end"), 0o644))
	p.must(os.Symlink(third, filepath.Join(real, "services.new")))
	p.must(os.Rename(filepath.Join(real, "services.new"), filepath.Join(real, "services")))
	p.only(Change{"services/a.lua", Changed}, Change{"services/alone.lua", Removed})
}

func TestLookAndPause(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.noEvents, c.Poll = true, time.Hour })
	ctx := context.Background()
	p.write("services/svc.lua", "looked end")
	p.must(p.w.Look(ctx))
	if got := p.content("services/svc.lua"); got != "looked end" {
		t.Errorf("after Look: %q", got)
	}
	<-p.sets
	p.w.Pause(true)
	p.write("services/svc.lua", "paused end")
	p.w.Pause(false)
	if got := p.content("services/svc.lua"); got != "paused end" {
		t.Errorf("after the pause: %q", got)
	}
	p.must(p.w.Close())
	if err := p.w.Look(ctx); err == nil {
		t.Error("Look on a closed watcher reports success")
	}
}

// A person who asks gets what is there, paused or not; and what is kept back
// proves nothing about the events.
func TestPausedKeepsBackWhatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.Poll = 50 * time.Millisecond })
	p.w.Pause(true)
	p.write("services/svc.lua", "paused end")
	p.silence()
	time.Sleep(300 * time.Millisecond) // several polls, and their grace for events
	if strings.Contains(p.log.String(), "no file events") {
		t.Errorf("it said that no events come: %s", p.log)
	}
	p.must(p.w.Look(context.Background()))
	p.only(Change{"services/svc.lua", Changed})
}

// What is saved while the nodes start is live as soon as they have.
func TestASaveBeforeTheStartIsFound(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.Poll = time.Hour })
	p.must(p.w.Close())
	w, err := New(p.w.cfg)
	p.must(err)
	p.w = w
	p.write("services/svc.lua", "early end")
	w.Start()
	defer w.Close()
	p.only(Change{"services/svc.lua", Changed})
	if strings.Contains(p.log.String(), "no file events") {
		t.Errorf("it said that no events come: %s", p.log)
	}
}

// A save that comes while a look finds nothing must not wait for the next event.
func TestASaveDuringALookThatFindsNothing(t *testing.T) {
	t.Parallel()
	var late sync.Once
	var armed atomic.Bool
	var svc string
	p := newProject(t, func(c *Config) {
		c.Poll = time.Hour
		svc = filepath.Join(c.Root, "services", "svc.lua")
		c.Match = func(path string) bool {
			if path == "shield.yaml" && armed.Load() { // read last
				late.Do(func() {
					if err := os.WriteFile(svc, []byte("late end"), 0o644); err != nil {
						t.Error(err)
					}
					time.Sleep(50 * time.Millisecond) // the event is there before the look ends
				})
			}
			return Project(path)
		}
	})
	p.silence() // the first look is over
	armed.Store(true)
	p.write("lib/util.lua", "util end") // a touch
	p.only(Change{"services/svc.lua", Changed})
}

// A file that is written into a new folder after the folder was read and before
// it is watched gives no event.
func TestAFileInAFolderThatIsNotWatchedYet(t *testing.T) {
	t.Parallel()
	var late sync.Once
	var dir atomic.Pointer[string]
	p := newProject(t, func(c *Config) {
		c.Poll = time.Hour
		dir.Store(&c.Root)
		c.Match = func(path string) bool {
			if path == "services/new/readme" {
				late.Do(func() {
					if err := os.WriteFile(filepath.Join(*dir.Load(), "services", "new", "b.lua"), []byte("b end"), 0o644); err != nil {
						t.Error(err)
					}
				})
			}
			return Project(path)
		}
	})
	p.write("services/new/readme", "")
	p.only(Change{"services/new/b.lua", Added})
}

func TestNewFails(t *testing.T) {
	if _, err := New(Config{Root: filepath.Join(t.TempDir(), "nowhere")}); err == nil {
		t.Fatal("New succeeded on a folder that is not there")
	}
}

// BenchmarkScan is the cost of one look at a project of 200 files.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.lua", i)), bytes.Repeat([]byte("x = 1\n"), 200), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s := scanner{root: dir, match: Project, known: map[string]*entry{}}
	for b.Loop() {
		if _, err := s.run(nil); err != nil {
			b.Fatal(err)
		}
	}
}
