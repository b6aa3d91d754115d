package watch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
			p := newProject(t, patient)
			tt.do(p)
			p.silence()
		})
	}
}

func TestBurstIsOneChangeSet(t *testing.T) {
	t.Parallel()
	p := newProject(t, patient)
	for i := range 20 {
		p.write("services/svc.lua", fmt.Sprintf("save %d end", i))
		time.Sleep(5 * time.Millisecond) // twenty saves in 100 ms, as CONSOLE.md counts
	}
	p.only(Change{"services/svc.lua", Changed})
	if got := p.content("services/svc.lua"); got != "save 19 end" {
		t.Errorf("content = %q", got)
	}
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
	p := newProject(t, func(c *Config) { c.Root, c.Quiet = dir, 200*time.Millisecond })
	git("checkout", "-q", "one")
	s := p.next(guard)
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
