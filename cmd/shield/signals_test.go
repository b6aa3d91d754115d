//go:build unix && !aix && !solaris

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// talkative is a project with a service and a gateway.
var talkative = map[string]string{
	"shield.yaml": "app: { name: game }\nservices:\n  - { name: shop, script: shop.lua }\n" +
		"gateways:\n  - { name: main, auth: shop, network: { tcp: 127.0.0.1:0 } }\n",
	"shop.lua": "return { ping = function() return 'pong' end }\n",
}

// A single signal, or a single Ctrl-C, ends a verb that waits for its input, and
// the terminal is as it was.
func TestSignalsEndAVerbThatReads(t *testing.T) {
	p := startDev(t, talkative)
	const ctrlC = "\x03"
	for _, tt := range []struct {
		name string
		args []string
		sees string
		do   string    // typed
		sig  os.Signal // else sent
		exit int
	}{
		{"SIGTERM at the prompt of a service", []string{"repl", "shop"}, "shop:1> ", "", syscall.SIGTERM, 0},
		{"SIGHUP at the prompt of a service", []string{"repl", "shop"}, "shop:1> ", "", syscall.SIGHUP, 0},
		{"SIGTERM at the prompt of verbs", []string{"repl"}, "game> ", "", syscall.SIGTERM, 0},
		{"SIGTERM at the prompt of a client", []string{"client"}, "connected", "", syscall.SIGTERM, exitInterrupted},
		{"Ctrl-C at a question", []string{"stop", "node-1"}, "y/N", ctrlC, nil, exitInterrupted},
		{"Ctrl-C at Lua to come", []string{"eval", "shop", "-"}, "", ctrlC, nil, exitInterrupted},
		{"Ctrl-C at lines to come", []string{"repl", "shop", "--json"}, "", ctrlC, nil, exitInterrupted},
		{"Ctrl-C at verbs to come", []string{"repl", "--json"}, "", ctrlC, nil, exitInterrupted},
		{"Ctrl-C at frames to come", []string{"client", "--json"}, `"open"`, ctrlC, nil, exitInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, p.dir, tt.args...)
			if tt.sees != "" {
				h.wants(tt.sees)
			} else {
				awaitReader(t, h.cmd.Process.Pid) // nothing on the screen says that it reads
			}
			modes, err := unix.IoctlGetTermios(int(h.tty.Fd()), getTermios)
			if err != nil {
				t.Fatal(err)
			}
			if tt.sig != nil {
				if err := h.cmd.Process.Signal(tt.sig); err != nil {
					t.Fatal(err)
				}
				if modes.Lflag&unix.ECHO != 0 {
					t.Error("the terminal was not raw at the prompt")
				}
			} else {
				h.types(tt.do)
			}
			h.leavesWith(tt.exit)
		})
	}
}

// What is typed after a client has left is for the prompt that it was called from.
func TestAClientGivesTheKeyboardBack(t *testing.T) {
	p := startDev(t, talkative)
	h := byHand(t, p.dir, "repl")
	h.wants("game> ")
	h.types("client\r")
	h.wants("connected")
	h.types("quit\r")
	h.wants("game> ")
	h.types("call shop ping\r")
	h.wants(`"pong"`)
	h.types("exit\r")
	h.leaves()
}

// awaitReader waits until a process waits for its terminal: that takes an epoll
// beside the one of the Go runtime.
func awaitReader(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // another process starts
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(files) == 0 {
			time.Sleep(time.Second) // nothing tells here: it has to do
			return
		}
		polls := 0
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && strings.HasSuffix(to, "[eventpoll]") {
				polls++
			}
		}
		if polls >= 2 {
			return
		}
	}
	t.Fatalf("process %d never read its terminal", pid)
}

// A signal ends the demo with its console, and its folder goes.
func TestASignalEndsTheDemo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	h := byHand(t, dir, "demo", "--nodes", "1", "--players", "3")
	h.wants("demo")
	h.wants("LIVE")
	h.wants("bind bot-3 to player.bot-3") // in the console's log: somebody plays
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.wants("\x1b[?1049l")
	h.leaves()
	if left, err := filepath.Glob(filepath.Join(dir, "shield-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
