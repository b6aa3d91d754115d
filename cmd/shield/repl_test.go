package main

import (
	stdio "io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// hands types on a pseudo-terminal that runs shield.
type hands struct {
	t      *testing.T
	tty    *os.File
	screen screenOf
	cmd    *exec.Cmd
	wg     sync.WaitGroup
}

// byHand starts shield in dir on a terminal.
func byHand(t *testing.T, dir string, args ...string) *hands {
	t.Helper()
	h := &hands{t: t, cmd: exec.Command("shield", args...)}
	h.cmd.Dir = dir
	h.cmd.Env = append(os.Environ(), "TERM=xterm", "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "conf"), "NO_COLOR=1")
	tty, err := pty.StartWithSize(h.cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	h.tty = tty
	h.wg.Go(func() { stdio.Copy(&h.screen, tty) })
	return h
}

func (h *hands) types(s string) {
	h.t.Helper()
	if _, err := stdio.WriteString(h.tty, s); err != nil {
		h.t.Fatal(err)
	}
}

// wants waits until text has come to the screen after what was there before.
func (h *hands) wants(text string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(h.screen.String(), text); time.Sleep(5 * time.Millisecond) { // another process writes
		if time.Now().After(deadline) {
			h.t.Fatalf("%q did not come; the screen has:\n%s", text, h.screen.String())
		}
	}
	h.screen.mu.Lock()
	defer h.screen.mu.Unlock()
	_, rest, _ := strings.Cut(h.screen.all.String(), text)
	h.screen.all.Reset()
	h.screen.all.WriteString(rest)
}

// leaves waits for the end of the program, which is a good one.
func (h *hands) leaves() {
	h.t.Helper()
	h.leavesWith(exitOK)
}

// leavesWith waits for the end of the program.
func (h *hands) leavesWith(exit int) {
	h.t.Helper()
	done := make(chan error, 1)
	go func() { done <- h.cmd.Wait() }()
	select {
	case err := <-done:
		if got := h.cmd.ProcessState.ExitCode(); got != exit {
			h.t.Errorf("exit %d, want %d: %v\n%s", got, exit, err, h.screen.String())
		}
	case <-time.After(10 * time.Second):
		h.cmd.Process.Kill()
		h.t.Errorf("it did not leave:\n%s", h.screen.String())
	}
	h.tty.Close()
	h.wg.Wait()
}

const handLua = `
local M = { stock = { sword = 12, shield = 30 } }
function M.doze() shield.sleep(60000) end
return M
`

func TestReplByHand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no pseudo-terminals")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"shop.lua": handLua, "shield.yaml": "app: { name: game }\nservices:\n  - { name: shop, script: shop.lua }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dev := exec.Command("shield", "dev")
	dev.Dir = dir
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { dev.Process.Signal(os.Interrupt); dev.Wait() }()
	if got := shieldIn(t, dir, "", "wait"); got.exit != 0 {
		t.Fatalf("wait: %+v", got)
	}

	h := byHand(t, dir, "repl", "shop")
	h.wants("attached to node-1:shop")
	h.wants("node-1:shop:1> ")
	h.types("M.stock.sw\t + 1\r")
	h.wants("M.stock.sword + 1")
	h.wants("13\r\n")
	h.types("M.stock.s\t")
	h.wants("shield  sword\r\n") // several fit
	h.types("\x03")              // gives the line up
	h.wants("node-1:shop:1> ")
	h.types("for i = 1, 2 do\r")
	h.wants(">>> ")
	h.types("print('n' .. i)\rend\r")
	h.wants("n1\r\nn2\r\n")
	h.types("if true then\r")
	h.wants(">>> ")
	h.types("\x03")
	h.wants("node-1:shop:1> ")
	h.types("M.doze()\r")
	h.wants("M.doze()\r\n")
	// The terminal is an ordinary one again before the line is sent.
	waitUntil(t, func() bool { return strings.Contains(shieldIn(t, dir, "", "waits").out, "shield.sleep") })
	h.types("\x03")
	h.wants("given up")
	h.wants("node-1:shop:1> ")
	h.types("\x1b[A") // the line before
	h.wants("M.doze()")
	h.types("\x03")
	h.wants("node-1:shop:1> ")
	h.types(".stat\t\r")
	h.wants("M.stock = {")
	h.wants("node-1:shop:1> ")
	h.types("local kept = 5\r")
	h.wants("node-1:shop:1> ")
	if err := os.WriteFile(filepath.Join(dir, "shop.lua"), []byte(strings.Replace(handLua, "60000", "50000", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool { return strings.Contains(shieldIn(t, dir, "", "services").out, "  2 ") })
	h.types("kept\r")
	h.wants("generation 1 -> 2")
	h.wants("5\r\n")
	h.types("\x04")
	h.wants("detached")
	h.leaves()

	b, err := os.ReadFile(filepath.Join(dir, "conf", "shield", "repl_history"))
	if err != nil || !slices.Contains(strings.Split(string(b), "\n"), "local kept = 5") {
		t.Errorf("the history holds %q, %v", b, err)
	}

	h = byHand(t, dir, "repl")
	h.wants("game> ")
	h.types("call shop do\t\x03")
	h.wants("call shop doze")
	h.wants("game> ")
	h.types("logs --follow\r")
	h.wants("control")
	h.types("\x03")
	h.wants("game> ")
	h.types("nodes\r")
	h.wants("online")
	h.types("exit\r")
	h.leaves()
}

func TestSplitWords(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"", nil}, {"  nodes ", []string{"nodes"}}, {`call a b '{"x": 1}' "two words" th\ ree`, []string{"call", "a", "b", `{"x": 1}`, "two words", "th ree"}},
		{`a "" ''`, []string{"a", "", ""}}, {`a"b"'c'`, []string{"abc"}}, {"nodes # a remark", []string{"nodes"}}, {"a#b", []string{"a#b"}},
		{`"a\"b" 'a\b'`, []string{`a"b`, `a\b`}}, {"# all of it", nil},
	} {
		got, err := splitWords(tt.line)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("splitWords(%q) = %q, %v, want %q", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{`"a`, `a '`, `a\`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("splitWords(%q) = %q, want an error", line, got)
		}
	}
}
