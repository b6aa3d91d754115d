package watch

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// These tests use a real file system, whose events come in real time, so they
// can't run in a synctest bubble. Waits end as soon as the change arrives; the
// fixed sleeps are the pauses of an editor, or prove that nothing more comes.

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

// guard is how long a test waits for what must come, so as not to hang. That it
// comes within a second is a promise that a machine with much else to do can't
// keep; reload.TestRealSave logs how long it takes.
const guard = 30 * time.Second

// patient keeps the pauses that a busy machine makes from looking like the end of
// a burst.
func patient(c *Config) { c.Quiet = 200 * time.Millisecond }

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
	s := p.next(guard)
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
	case <-time.After(400 * time.Millisecond):
	}
}

func (p *project) content(rel string) string {
	f := p.w.Snapshot().File(rel)
	if f == nil {
		return "<none>"
	}
	return string(f.Content)
}
