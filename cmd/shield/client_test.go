package main

import (
	"bytes"
	stdio "io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// screenOf collects what a terminal got.
type screenOf struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *screenOf) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *screenOf) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// loginServer answers every frame with auth.login_ok and the same body, and a
// chat with a close.
func loginServer(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	format, err := wire.Client{}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				var got []byte
				buf := make([]byte, 4096)
				for {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					got = append(got, buf[:n]...)
					route, body, size, err := format.Parse(got)
					if err != nil || size == 0 {
						continue
					}
					answer := shield.RouteID(2001)
					if route == 1020 {
						answer, body = shield.RouteClose, []byte("too loud")
					}
					out, err := format.Append(nil, answer, body)
					if err != nil {
						return
					}
					conn.Write(out)
					got = got[size:]
				}
			})
		}
	})
	return ln.Addr().String()
}

// TestClientPrompt plays by hand, on a pseudo-terminal.
func TestClientPrompt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no pseudo-terminals")
	}
	dir := t.TempDir()
	if got := shieldIn(t, dir, "", "new", "game"); got.exit != 0 {
		t.Fatalf("new: %+v", got)
	}
	cmd := exec.Command("shield", "client", loginServer(t))
	cmd.Dir = filepath.Join(dir, "game")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var screen screenOf
	var wg sync.WaitGroup
	wg.Go(func() { stdio.Copy(&screen, tty) })
	wait := func(text string) {
		t.Helper()
		waitUntil(t, func() bool { return strings.Contains(screen.String(), text) })
	}
	typed := func(s string) {
		t.Helper()
		if _, err := stdio.WriteString(tty, s); err != nil {
			t.Fatal(err)
		}
	}
	wait("connected to tcp://")
	typed("auth.lo\t")
	wait("auth.login ") // the tab key finished it
	typed("{\"name\":\"ann\"}\r")
	wait("{\"name\":\"ann\"}\r\n")
	wait("auth.login_ok")
	typed("auth.logn\r")
	wait("did you mean \"auth.login\"?")
	typed("chat.say {}\r")
	wait("closed too loud")
	typed("reconnect\r")
	waitUntil(t, func() bool { return strings.Count(screen.String(), "connected to tcp://") == 2 })
	typed("quit\r")
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("exit: %v\n%s", err, screen.String())
		}
	case <-time.After(10 * time.Second):
		cmd.Process.Kill()
		t.Errorf("it did not leave:\n%s", screen.String())
	}
	tty.Close()
	wg.Wait()
}
