//go:build unix

package cluster_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// Real processes on real sockets: kill -9 and restart on the same port, then
// SIGSTOP.
func TestProcesses(t *testing.T) {
	a := startProcess(t, "a 127.0.0.1:0")
	b := startProcess(t, "b 127.0.0.1:0 "+a.addr)
	a.wait("event b online", 5*time.Second)
	b.wait("event a online", 5*time.Second)

	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = b.cmd.Wait()
	begin := time.Now()
	b = startProcess(t, "b "+b.addr+" "+a.addr)
	listening := time.Now()
	a.wait("event b online", 5*time.Second)
	t.Logf("online %v after the restart began, %v after it listened", time.Since(begin), time.Since(listening))
	if d := time.Since(listening); d > time.Second {
		t.Errorf("online %v after it listened, want a second", d)
	}
	b.wait("event a online", 5*time.Second)

	// A paused process is suspected, is back as soon as it runs, and has accused
	// nobody.
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.wait("event b suspect", 5*time.Second)
	a.wait("event b offline", 5*time.Second)
	time.Sleep(2 * time.Second) // a real process that really does not run
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.wait("event b online", 5*time.Second)
	time.Sleep(time.Second) // time to accuse, if it would
	for _, line := range b.all() {
		if strings.Contains(line, "suspect") || strings.Contains(line, "offline") {
			t.Errorf("the paused process accused: %q", line)
		}
	}
	b.stop()
	a.wait("event b offline it left: stopping", 5*time.Second)
	a.stop()
}
