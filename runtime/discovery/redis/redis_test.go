//go:build unix

package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/cluster"
	"shield/runtime/discovery/discoverytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real redis-server of this test.
type server struct {
	port int
	dir  string
	cmd  *exec.Cmd
}

// startServer starts a redis-server. It skips the test when there is none, but
// fails it where SHIELD_REQUIRE_SERVERS says that there must be one.
func startServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("SHIELD_REQUIRE_SERVERS") != "" {
			t.Fatal("SHIELD_REQUIRE_SERVERS is set, but redis-server is not installed")
		}
		t.Skip("redis-server is not installed")
	}
	// redis-server can't be asked for any free port; this one was free a moment
	// ago.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{port: l.Addr().(*net.TCPAddr).Port, dir: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.up(t)
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *server) up(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command("redis-server", "--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--requirepass", "secret", "--save", "")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) { // a real process needs real time
		if got, err := s.ask("PING"); err == nil && got == "+PONG" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("redis-server does not answer")
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// waitStopped returns when the system has stopped the server: it may be inside a
// write to the disk when the signal comes.
func (s *server) waitStopped(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) { // a real process needs real time
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			return // no /proc here
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(rest, "T") {
			return
		}
	}
	t.Fatal("redis-server does not stop")
}

// ask is a client of a few lines that shares nothing with the one under test. It
// returns the reply's lines, of an array its elements, joined by spaces.
func (s *server) ask(command string) (string, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	r := bufio.NewReader(conn)
	fmt.Fprintf(conn, "AUTH secret\r\n%s\r\n", command)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "+OK") {
		return "", fmt.Errorf("auth: %q %w", line, err)
	}
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "*") {
		return strings.TrimSpace(line), err
	}
	var n int
	fmt.Sscanf(line, "*%d", &n)
	var out []string
	for range n {
		if _, err := r.ReadString('\n'); err != nil {
			return "", err
		}
		value, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		out = append(out, strings.TrimSpace(value))
	}
	return strings.Join(out, " "), nil
}

func (s *server) open(t *testing.T, prefix string) *Backend {
	t.Helper()
	b, err := New(Config{Port: s.port, Password: "secret", Prefix: prefix, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	s := startServer(t)
	discoverytest.Run(t, discoverytest.Backend{
		Open:   func(t *testing.T, name string) cluster.Discovery { return s.open(t, name) },
		TTL:    time.Second,
		Down:   func(t *testing.T) { s.kill() },
		Up:     s.up,
		Freeze: func(t *testing.T) { s.signal(t, syscall.SIGSTOP); s.waitStopped(t) },
		Thaw:   func(t *testing.T) { s.signal(t, syscall.SIGCONT) },
	})
}

// The keys are the seed's, checked from outside.
func TestKeys(t *testing.T) {
	s := startServer(t)
	b := s.open(t, "shield:nodes")
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	self := cluster.Candidate{Node: "node-1", Addr: "192.168.1.100:9000", StartedAt: started}
	if err := b.Announce(ctx, self); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, want string }{
		{"KEYS *", "shield:nodes shield:nodes:node-1"},
		{"TYPE shield:nodes:node-1", "+hash"},
		{"TYPE shield:nodes", "+set"},
		{"SMEMBERS shield:nodes", "node-1"},
		{"HKEYS shield:nodes:node-1", "addr last_heartbeat started_at status"},
		{"HMGET shield:nodes:node-1 addr status started_at", "192.168.1.100:9000 online 2026-01-02T03:04:05Z"},
		{"TTL shield:nodes:node-1", ":1"},
		{"TTL shield:nodes", ":-1"},
	} {
		got, err := s.ask(tt.command)
		if err != nil {
			t.Fatalf("%s: %v", tt.command, err)
		}
		words := strings.Fields(got)
		if strings.Contains(tt.command, "KEYS") {
			slices.Sort(words)
		}
		if got = strings.Join(words, " "); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.command, got, tt.want)
		}
	}
	// A scan takes members out whose hash is gone.
	if _, err := s.ask("SADD shield:nodes ghost"); err != nil {
		t.Fatal(err)
	}
	if list, err := b.Scan(ctx); err != nil || len(list) != 1 || list[0] != self {
		t.Errorf("scan = %v, %v", list, err)
	}
	if got, _ := s.ask("SMEMBERS shield:nodes"); got != "node-1" {
		t.Errorf("members after a scan: %q", got)
	}
	if err := b.Withdraw(ctx, "node-1"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ask("KEYS *"); err != nil || got != "" {
		t.Errorf("keys after a clean stop: %q, %v", got, err)
	}
}

// A database of its own keeps a cluster apart from others on the server.
func TestDatabase(t *testing.T) {
	s := startServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for db, want := range map[int]string{0: "shield:nodes shield:nodes:node-1", 3: ""} {
		if _, err := s.ask("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		b, err := New(Config{Port: s.port, Password: "secret", DB: db})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Announce(ctx, cluster.Candidate{Node: "node-1", Addr: "10.0.0.1:9000"}); err != nil {
			t.Fatal(err)
		}
		got, err := s.ask("KEYS *") // of database 0
		words := strings.Fields(got)
		slices.Sort(words)
		if got = strings.Join(words, " "); err != nil || got != want {
			t.Errorf("registered in database %d, 0 holds %q, %v, want %q", db, got, err, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongPassword(t *testing.T) {
	s := startServer(t)
	b, err := New(Config{Port: s.port, Password: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = b.Scan(ctx)
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "wrong ") {
		t.Errorf("scan with a wrong password: %v", err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{TTL: time.Millisecond}); err == nil {
		t.Error("a time to live of a millisecond passed")
	}
}
