package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/transport"
	"shield/runtime/wire"
)

// runChild is a node in a process of its own: spec is "id listen peer...". It
// prints every event as a line, and ends when its input does.
func runChild(spec string) {
	f := strings.Fields(spec)
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	conn, err := transport.Listen(f[1])
	fail(err)
	tr, err := transport.New(transport.Config{Conn: conn, Node: shield.NodeID(f[0]), Token: "secret"})
	fail(err)
	c, err := cluster.New(cluster.Config{
		Name: "processes", Node: shield.NodeID(f[0]), Peers: f[2:], Transport: tr, Local: echoLocal{},
		Heartbeat: 100 * time.Millisecond, Suspect: 400 * time.Millisecond, Offline: 800 * time.Millisecond,
		Auth:    cluster.Auth{Mode: wire.AuthToken, Token: "secret"},
		OnEvent: func(e cluster.Event) { fmt.Println("event", e.Node, e.To, e.Reason) },
	})
	fail(err)
	fmt.Println("listening", tr.Addr())
	fail(c.Start(context.Background()))
	_, _ = io.Copy(io.Discard, os.Stdin)
	fail(c.Close(context.Background()))
	fmt.Println("closed")
}

// process is a running child.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	addr  string
	lines chan string
	mu    sync.Mutex
	said  []string
}

func startProcess(t *testing.T, spec string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "SHIELD_TEST_NODE="+spec)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.cmd.Stderr = in, os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // only matters after a failure
	go func() {
		defer close(p.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			p.mu.Lock()
			p.said = append(p.said, sc.Text())
			p.mu.Unlock()
			p.lines <- sc.Text()
		}
	}()
	p.addr = strings.TrimPrefix(p.wait("listening ", 10*time.Second), "listening ")
	return p
}

// wait reads on until a line begins with prefix.
func (p *process) wait(prefix string, limit time.Duration) string {
	p.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if strings.HasPrefix(line, prefix) {
				return line
			}
			if !ok {
				p.t.Fatalf("the process ended without %q; it said %q", prefix, p.all())
			}
		case <-timer.C:
			p.t.Fatalf("no %q within %v; it said %q", prefix, limit, p.all())
		}
	}
}

func (p *process) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.said...)
}

func (p *process) stop() {
	p.t.Helper()
	_ = p.in.Close()
	p.wait("closed", 10*time.Second)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("exit: %v", err)
	}
}
