package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// These tests use a real file system, whose events come in real time, so they
// can't run in a synctest bubble. Waits end as soon as the change arrives; the
// only fixed sleeps prove that nothing more comes.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// project is a watched folder and what was heard of it.
type project struct {
	t    *testing.T
	dir  string
	w    *Watcher
	sets chan ChangeSet
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// checkEnd stands for the parser: a whole file ends with "end".
func checkEnd(_ string, content []byte) error {
	if !bytes.HasSuffix(bytes.TrimSpace(content), []byte("end")) {
		return errors.New("half")
	}
	return nil
}

func newProject(t *testing.T, change func(*Config)) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir(), sets: make(chan ChangeSet, 1000), log: &lockedBuffer{}}
	p.write("shield.yaml", "app end")
	p.write("services/svc.lua", "one end")
	p.write("lib/util.lua", "util end")
	cfg := Config{Root: p.dir, Check: checkEnd, Log: slog.New(slog.NewTextHandler(p.log, nil)),
		OnChange: func(s ChangeSet) { p.sets <- s }}
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.w = w
	w.Start()
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *project) path(rel string) string { return filepath.Join(p.dir, filepath.FromSlash(rel)) }

func (p *project) write(rel, content string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(rel)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.path(rel), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// next waits for one change set.
func (p *project) next(limit time.Duration) ChangeSet {
	p.t.Helper()
	select {
	case s := <-p.sets:
		return s
	case <-time.After(limit):
		p.t.Fatalf("no change after %v; log: %s", limit, p.log)
		return ChangeSet{}
	}
}

// only waits for one change set with exactly these changes, and that no other
// follows.
func (p *project) only(want ...Change) {
	p.t.Helper()
	s := p.next(3 * time.Second) // a second is the promise; a busy machine gets three
	if diff := cmp.Diff(want, s.Changes); diff != "" {
		p.t.Fatalf("changes (-want +got):\n%s", diff)
	}
	p.silence()
}

// silence proves that nothing comes: longer than Quiet, Settle and a scan.
func (p *project) silence() {
	p.t.Helper()
	select {
	case s := <-p.sets:
		p.t.Fatalf("a further change set: %v", s.Changes)
	case <-time.After(300 * time.Millisecond):
	}
}

func (p *project) content(rel string) string {
	f := p.w.Snapshot().File(rel)
	if f == nil {
		return "<none>"
	}
	return string(f.Content)
}

// TestWritePatterns saves svc.lua as editors and tools do. Each must give one
// change set with the final content.
func TestWritePatterns(t *testing.T) {
	const rel = "services/svc.lua"
	for _, tt := range []struct {
		name string
		save func(p *project, content string)
	}{
		{"in place", func(p *project, c string) { p.write(rel, c) }},
		{"vim: backup by renaming, write a new file, delete the backup", func(p *project, c string) {
			p.write("services/4913", "") // vim's test for a writable folder
			p.must(os.Remove(p.path("services/4913")))
			p.must(os.Rename(p.path(rel), p.path(rel+"~")))
			p.write(rel, c)
			p.must(os.Chmod(p.path(rel), 0o644))
			p.must(os.Remove(p.path(rel + "~")))
		}},
		{"vim: backupcopy=yes", func(p *project, c string) {
			old, err := os.ReadFile(p.path(rel))
			p.must(err)
			p.write(rel+"~", string(old))
			p.write(rel, c)
			p.must(os.Remove(p.path(rel + "~")))
		}},
		{"VS Code: truncate, then write", func(p *project, c string) {
			f, err := os.OpenFile(p.path(rel), os.O_WRONLY|os.O_TRUNC, 0)
			p.must(err)
			time.Sleep(60 * time.Millisecond) // longer than Quiet: seen empty
			_, err = f.WriteString(c)
			p.must(err)
			p.must(f.Sync())
			p.must(f.Close())
		}},
		{"JetBrains: temporary file, rename the old away, rename the new in", func(p *project, c string) {
			p.write(rel+"___jb_tmp___", c)
			p.must(os.Rename(p.path(rel), p.path(rel+"___jb_old___")))
			p.must(os.Rename(p.path(rel+"___jb_tmp___"), p.path(rel)))
			p.must(os.Remove(p.path(rel + "___jb_old___")))
		}},
		{"Emacs: lock link, backup, write", func(p *project, c string) {
			lock := p.path("services/.#svc.lua")
			p.must(os.Symlink("me@host.1:2", lock))
			p.must(os.Rename(p.path(rel), p.path(rel+"~")))
			p.write(rel, c)
			p.must(os.Remove(lock))
		}},
		{"nano: truncate and write in one go", func(p *project, c string) {
			f, err := os.Create(p.path(rel))
			p.must(err)
			_, err = f.WriteString(c)
			p.must(err)
			p.must(f.Close())
		}},
		{"sed -i, rsync: hidden temporary file renamed over", func(p *project, c string) {
			p.write("services/.svc.lua.Ab3dEf", c)
			p.must(os.Rename(p.path("services/.svc.lua.Ab3dEf"), p.path(rel)))
		}},
		{"in pieces", func(p *project, c string) {
			f, err := os.Create(p.path(rel))
			p.must(err)
			for _, b := range []byte(c) {
				_, err = f.Write([]byte{b})
				p.must(err)
				time.Sleep(10 * time.Millisecond) // shorter than Quiet
			}
			p.must(f.Close())
		}},
		{"deleted, then written", func(p *project, c string) {
			p.must(os.Remove(p.path(rel)))
			time.Sleep(60 * time.Millisecond) // longer than Quiet: seen gone
			p.write(rel, c)
		}},
		{"CRLF", func(p *project, c string) { p.write(rel, strings.ReplaceAll(c, "\n", "\r\n")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// A busy machine stretches the pauses below, so files get more time than
			// by default; TestBrokenFileIsBelievedAfterSettle holds the default.
			p := newProject(t, func(c *Config) { c.Settle = 2 * time.Second })
			tt.save(p, "two\nend\n")
			p.only(Change{rel, Changed})
			if got := strings.ReplaceAll(p.content(rel), "\r", ""); got != "two\nend\n" {
				t.Errorf("content = %q", got)
			}
		})
	}
}

func TestWhatIsNoChange(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(p *project)
	}{
		{"touch", func(p *project) {
			p.must(os.Chtimes(p.path("services/svc.lua"), time.Now(), time.Now()))
		}},
		{"the same content again", func(p *project) { p.write("services/svc.lua", "one end") }},
		{"there and back within a burst", func(p *project) {
			p.write("services/svc.lua", "two end")
			p.write("services/svc.lua", "one end")
		}},
		{"other files", func(p *project) {
			p.write("README.md", "x")
			p.write("services/.svc.lua.swp", "x")
			p.write("services/svc.lua~", "x")
			p.write(".shield/x.lua", "x end")
			p.write("sub/other.yaml", "x end")
		}},
		{"chmod", func(p *project) { p.must(os.Chmod(p.path("services/svc.lua"), 0o600)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, nil)
			tt.do(p)
			p.silence()
		})
	}
}

func TestBurstIsOneChangeSet(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	for i := range 20 {
		p.write("services/svc.lua", fmt.Sprintf("save %d end", i))
		time.Sleep(5 * time.Millisecond) // twenty saves in 100 ms, as CONSOLE.md counts
	}
	p.only(Change{"services/svc.lua", Changed})
	if got := p.content("services/svc.lua"); got != "save 19 end" {
		t.Errorf("content = %q", got)
	}
}

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

func TestBrokenFileIsBelievedAfterSettle(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	began := time.Now()
	p.write("services/svc.lua", "broken")
	p.only(Change{"services/svc.lua", Changed})
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("called broken after %v", took)
	}
	p.write("services/svc.lua", "fixed end")
	p.only(Change{"services/svc.lua", Changed})
}

func TestHalfWrittenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.Settle = 2 * time.Second }) // as in TestWritePatterns
	p.write("services/svc.lua", "half of")
	time.Sleep(80 * time.Millisecond) // longer than Quiet
	p.write("services/svc.lua", "half of it end")
	p.only(Change{"services/svc.lua", Changed})
	if got := p.content("services/svc.lua"); got != "half of it end" {
		t.Errorf("content = %q", got)
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	const n = 5000
	for i := range n {
		p.write(fmt.Sprintf("services/gen/s%d.lua", i), fmt.Sprintf("v1 %d end", i))
	}
	s := p.next(40 * time.Second)
	if len(s.Changes) != n {
		t.Fatalf("%d changes in the first set, want %d in one", len(s.Changes), n)
	}
	p.silence()
	// A change of one in the crowd, with the same size.
	p.write("services/gen/s77.lua", "v2 77 end")
	if s := p.next(10 * time.Second); !slices.Equal(s.Changes, []Change{{"services/gen/s77.lua", Changed}}) {
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
	deadline := time.After(5 * time.Second)
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
	for i := range 2 {
		began := time.Now()
		p.write("services/svc.lua", fmt.Sprintf("poll %d end", i))
		s := p.next(3 * time.Second)
		if len(s.Changes) != 1 || time.Since(began) > 3*time.Second {
			t.Fatalf("changes = %v after %v", s.Changes, time.Since(began))
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

func TestGitCheckout(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(version string) {
		for i := range 200 {
			path := filepath.Join(dir, "services", fmt.Sprintf("s%d.lua", i))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d end", version, i), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	git("init", "-q", "-b", "one")
	write("v1")
	git("add", "-A")
	git("commit", "-q", "-m", "one")
	git("checkout", "-q", "-b", "two")
	write("v2")
	git("commit", "-q", "-a", "-m", "two")
	p := newProject(t, func(c *Config) { c.Root = dir })
	git("checkout", "-q", "one")
	s := p.next(5 * time.Second)
	if len(s.Changes) != 200 {
		t.Fatalf("%d changes in the first set, want 200 in one", len(s.Changes))
	}
	p.silence()
}

func TestRsync(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Skip("rsync is not installed; its pattern is in TestWritePatterns")
	}
	p := newProject(t, nil)
	from := t.TempDir()
	p.must(os.WriteFile(filepath.Join(from, "svc.lua"), []byte("rsync end"), 0o644))
	if out, err := exec.Command("rsync", "-a", from+"/", p.path("services")+"/").CombinedOutput(); err != nil {
		t.Fatalf("rsync: %v\n%s", err, out)
	}
	p.only(Change{"services/svc.lua", Changed})
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

// A lock that git left behind must not delay every save.
func TestALeftOverGitLockIsNoCheckout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		git  func(p *project) (lock string)
	}{
		{"a repository", func(p *project) string { return ".git/index.lock" }},
		{"a worktree", func(p *project) string {
			p.write(".git", "gitdir: main/.git/worktrees/one\n")
			return "main/.git/worktrees/one/index.lock"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var lock string
			p := newProject(t, func(c *Config) {
				at := &project{t: t, dir: c.Root}
				lock = at.path(tt.git(at))
				at.must(os.MkdirAll(filepath.Dir(lock), 0o755))
				at.must(os.WriteFile(lock, nil, 0o644))
				old := time.Now().Add(-time.Hour)
				at.must(os.Chtimes(lock, old, old))
			})
			p.write("services/svc.lua", "two end")
			p.only(Change{"services/svc.lua", Changed})
			now := time.Now()
			p.must(os.Chtimes(lock, now, now)) // git is at work
			p.write("services/svc.lua", "three end")
			p.silence()
			p.must(os.Remove(lock))
			p.only(Change{"services/svc.lua", Changed})
		})
	}
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

// TestSameSizeAndTime changes a file behind the back of size and time, without
// an event: only reading tells.
func TestSameSizeAndTime(t *testing.T) {
	t.Parallel()
	p := newProject(t, func(c *Config) { c.noEvents, c.Poll = true, 50*time.Millisecond })
	path := p.path("services/svc.lua")
	old := time.Now().Add(-time.Hour)
	p.must(os.Chtimes(path, old, old))
	p.silence()
	p.must(os.WriteFile(path, []byte("two end"), 0o644))
	p.must(os.Chtimes(path, old, old))
	p.only(Change{"services/svc.lua", Changed})
}
