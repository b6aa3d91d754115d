//go:build unix

package main

import (
	"bytes"
	"context"
	stdio "io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"shield/tui"
)

// ptyConsole is the real console on a pseudo-terminal with an emulator behind it.
type ptyConsole struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	wait func() int // the exit code

	mu  sync.Mutex
	em  *vt.Emulator
	raw bytes.Buffer
}

// demoTape is the recording that the tests of the console play.
func demoTape(t *testing.T) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "tui", "testdata", "arena.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startConsole runs shield console on a terminal of w by h.
func startConsole(t *testing.T, w, h int, env []string, args ...string) *ptyConsole {
	t.Helper()
	p := &ptyConsole{t: t, em: vt.NewEmulator(w, h), cmd: exec.Command("shield", append([]string{"console"}, args...)...)}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "LC_ALL=C.UTF-8", "NO_COLOR=", "XDG_CONFIG_HOME=" + p.cmd.Dir}, env...)...)
	tty, err := pty.StartWithSize(p.cmd, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)})
	if err != nil {
		t.Fatal(err)
	}
	p.tty = tty
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = stdio.Copy(p, tty) }) // ends when the program does
	// The emulator answers what the console asks of its terminal. It is never
	// closed: Close of x/vt v0.1.0 races with Read, and the process ends soon.
	go func() { _, _ = stdio.Copy(tty, p.em) }()
	exited := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(exited) }()
	p.wait = func() int {
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-exited
			t.Errorf("the console did not leave:\n%s", p.screen())
		}
		wg.Wait()
		return p.cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-exited; _ = tty.Close() })
	return p
}

func (p *ptyConsole) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raw.Write(b)
	return p.em.Write(b)
}

func (p *ptyConsole) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.em.String()
}

// sees waits for text on the screen.
func (p *ptyConsole) sees(parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		deadline := time.Now().Add(10 * time.Second)
		for !strings.Contains(p.screen(), part) {
			if time.Now().After(deadline) {
				p.t.Fatalf("the screen never showed %q:\n%s", part, p.screen())
			}
			time.Sleep(5 * time.Millisecond) // another process draws
		}
	}
}

func (p *ptyConsole) types(s string) {
	p.t.Helper()
	if _, err := stdio.WriteString(p.tty, s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *ptyConsole) resize(w, h int) {
	p.t.Helper()
	p.mu.Lock()
	p.em.Resize(w, h)
	p.mu.Unlock()
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}); err != nil {
		p.t.Fatal(err)
	}
}

// restored checks that the terminal was given back: no alternate screen, the
// cursor shown, paste and key modes off.
func (p *ptyConsole) restored() {
	p.t.Helper()
	p.mu.Lock()
	raw := p.raw.String()
	p.mu.Unlock()
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l", "\x1b[?1004h": "\x1b[?1004l", "\x1b[?1002h": "\x1b[?1002l"} {
		if at := strings.LastIndex(raw, on); at >= 0 && strings.LastIndex(raw, off) < at {
			p.t.Errorf("%q was not followed by %q", on, off)
		}
	}
}

// TestConsoleOnATerminal drives the real binary: keys, sizes, a filter, and out.
func TestConsoleOnATerminal(t *testing.T) {
	p := startConsole(t, 80, 24, nil, "--replay", demoTape(t))
	p.sees("arena (dev)", "[1]Nodes", "node-10", "LIVE")
	p.types("3")
	p.sees("[3]Sessions", "s-1bc9")
	p.types("/ann\r")
	p.sees("Sessions 4/38")
	p.types("y")
	p.sees("copied: s-1bc9")
	p.types("m")
	p.sees("mouse on")
	p.resize(140, 40)
	p.types("0")
	p.sees("[0]Overview", "Services 10")
	p.resize(20, 5)
	p.sees("this is 20x5")
	p.resize(80, 24)
	p.sees("[1]Nodes")
	p.types("q")
	if exit := p.wait(); exit != exitOK {
		t.Errorf("exit %d, want 0", exit)
	}
	p.restored()
}

// TestConsoleSignals: whatever ends the console, the terminal is as before.
func TestConsoleSignals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal syscall.Signal
		exit   int
	}{
		{"INT", syscall.SIGINT, exitInterrupted},
		{"TERM", syscall.SIGTERM, exitOK},
		{"HUP", syscall.SIGHUP, exitOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startConsole(t, 80, 24, nil, "--replay", demoTape(t))
			p.sees("LIVE")
			if err := p.cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if exit := p.wait(); exit != tt.exit {
				t.Errorf("exit %d, want %d", exit, tt.exit)
			}
			p.restored()
		})
	}
}

// TestConsoleWithoutColour: NO_COLOR with any value that is not empty means no
// colour, also where colorprofile thinks otherwise.
func TestConsoleWithoutColour(t *testing.T) {
	colours := func(env []string, args ...string) bool {
		p := startConsole(t, 80, 24, env, append(args, "--replay", demoTape(t))...)
		p.sees("LIVE")
		p.types("q")
		p.wait()
		return strings.Contains(p.raw.String(), "\x1b[32m") || strings.Contains(p.raw.String(), ";32m")
	}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want bool
	}{
		{"a colour terminal", nil, nil, true},
		{"NO_COLOR=yes", []string{"NO_COLOR=yes"}, nil, false},
		{"NO_COLOR=0", []string{"NO_COLOR=0"}, nil, false},
		{"--color=never", nil, []string{"--color=never"}, false},
		{"--color=always wins", []string{"NO_COLOR=1"}, []string{"--color=always"}, true},
	} {
		if got := colours(tt.env, tt.args...); got != tt.want {
			t.Errorf("%s: colours %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestConsoleRecordsAndPlays records a recording and plays the record.
func TestConsoleRecordsAndPlays(t *testing.T) {
	tape := filepath.Join(t.TempDir(), "again.jsonl")
	p := startConsole(t, 80, 24, nil, "--replay", demoTape(t), "--speed", "20", "--record", tape)
	p.sees("END")
	p.types("q")
	p.wait()
	p = startConsole(t, 80, 24, nil, "--replay", tape, "--read-only")
	p.sees("read-only  LIVE", "node-10")
	p.types("jd")
	p.sees("d: this console is read-only")
	p.types("\x03")
	if exit := p.wait(); exit != exitOK {
		t.Errorf("exit %d after ctrl-c in the console, want 0", exit)
	}
}

// broken is a source with a fault in it.
type broken struct{}

func (broken) Watch(context.Context, func(tui.Event)) error { panic("boom") }

// TestConsoleCrash: a fault of ours gives the terminal back, writes what is known
// into the project and ends with 70.
func TestConsoleCrash(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shield.yaml"), []byte("services: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	io := &IO{Out: &out, Err: &errs, Dir: dir, Color: "never", Environ: []string{"TERM=xterm-256color", "LC_ALL=C.UTF-8"}, Exit: func(int) {}}
	err := showConsole(t.Context(), io, tui.Config{Source: broken{}, Width: 80, Height: 24})
	if exit := exitOf(t.Context(), err); exit != exitInternal {
		t.Errorf("exit %d (%v), want 70", exit, err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, ".shield", "crash-*.txt")) // the pattern is ours
	if len(files) != 1 || !strings.Contains(errs.String(), files[0]) {
		t.Fatalf("crash files %v, said %q", files, errs.String())
	}
	if b, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(b), "boom") || !strings.Contains(string(b), "broken.Watch") {
		t.Errorf("the crash file holds %q, %v", b, err)
	}
	if s := out.String(); strings.Contains(s, "\x1b[?1049h") && strings.LastIndex(s, "\x1b[?1049l") < strings.LastIndex(s, "\x1b[?1049h") {
		t.Error("the alternate screen is still on")
	}
}

// TestConsoleOnADumbTerminal: what cannot move its cursor gets words instead.
func TestConsoleOnADumbTerminal(t *testing.T) {
	p := startConsole(t, 140, 24, []string{"TERM=dumb"}, "--replay", demoTape(t))
	p.sees("TERM is dumb", "shield nodes --json")
	if exit := p.wait(); exit != exitUsage {
		t.Errorf("exit %d, want 2", exit)
	}
	if strings.Contains(p.raw.String(), "\x1b[?1049h") {
		t.Error("it drew a screen all the same")
	}
}
