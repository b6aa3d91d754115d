package control_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"shield/runtime/control"
	"shield/runtime/control/client"
)

func TestSocketBelongsToTheUserAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, control.StateDir), 0o777); err != nil {
		t.Fatal(err)
	}
	sock, err := control.Listen(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{filepath.Join(dir, control.StateDir): 0o700, sock.Path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	if err := errors.Join(sock.Close(), sock.Close()); err != nil {
		t.Errorf("Close() twice = %v", err)
	}
	if left := control.Sockets(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStaleSocketIsRemovedAndSaid(t *testing.T) {
	dir := t.TempDir()
	state, err := control.MakeStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(state, "control.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(dir, control.DevName); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Listen() on a live socket = %v, want a refusal", err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // as a crash leaves it
	ln.Close()
	_, err = client.Open(t.Context(), client.Options{Dir: dir})
	var nothing *client.NothingError
	if !errors.As(err, &nothing) || !nothing.Stale {
		t.Errorf("Open() on a stale socket = %v, want nothing to talk to", err)
	}
	sock, err := control.Listen(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	if len(sock.Notes) != 1 || !strings.Contains(sock.Notes[0], "stale") {
		t.Errorf("Notes = %q, want one on the stale socket", sock.Notes)
	}
}

// What came with a project must not make us remove or overwrite anything.
func TestNothingButSocketsIsRemoved(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		link       bool   // file is a link to the precious one; else it has its path
		refused    string // "" = it starts
	}{
		{"a pointer to a file", "control.sock.path", false, ""},
		{"a file in the socket's place", "control.sock", false, "control.sock is in the way"},
		{"a link in the socket's place", "control.sock", true, "control.sock is in the way"},
		{"a link in the pointer's place", "control.sock.path", true, "control.sock.path is in the way"},
		{"a link in the lock's place", "control.lock", true, "control.lock is in the way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			precious := filepath.Join(t.TempDir(), "thesis.txt")
			state, err := control.MakeStateDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(precious, []byte("years"), 0o600); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(state, tt.file)
			if tt.link {
				err = os.Symlink(precious, file)
			} else {
				err = os.WriteFile(file, []byte(precious+"\n"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			lock, err := control.TakeLock(dir, control.DevName)
			if err == nil {
				defer lock.Close()
				var sock *control.Socket
				if sock, err = control.Listen(dir, control.DevName); err == nil {
					defer sock.Close()
				}
			}
			if err != nil {
				said = err.Error()
			}
			if (said == "") != (tt.refused == "") || !strings.Contains(said, tt.refused) {
				t.Errorf("it said %q, want %q", said, tt.refused)
			}
			if b, err := os.ReadFile(precious); string(b) != "years" {
				t.Errorf("the file outside holds %q, %v", b, err)
			}
		})
	}
}

func TestLongPathGetsAStandIn(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		sock, err := control.Listen(dir, control.DevName)
		if err != nil {
			t.Fatal(err)
		}
		if len(sock.Path) > 103 || len(sock.Notes) == 0 {
			t.Errorf("Path = %s, Notes = %q", sock.Path, sock.Notes)
		}
		c, err := client.Open(t.Context(), client.Options{Dir: dir})
		if err != nil || c.Endpoint().Address != sock.Path {
			t.Errorf("Open() = %v, %v, want %s", c, err, sock.Path)
		}
		long := "unix:" + filepath.Join(dir, control.StateDir, "control.sock")
		if c, err = client.Open(t.Context(), client.Options{Endpoint: long}); err != nil || c.Endpoint().Address != sock.Path {
			t.Errorf("Open(%s) = %v, %v, want %s", long, c, err, sock.Path)
		}
		if round == 0 { // crash: both files stay
			sock.Listener.(*net.UnixListener).SetUnlinkOnClose(false)
			sock.Listener.Close()
			continue
		}
		if err := sock.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if _, err := os.Lstat(sock.Path); err == nil {
			t.Errorf("%s was left behind", sock.Path)
		}
	}
}

func TestDiscoveryFromAnySubFolder(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "services", "arena")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	open := func() (*client.Client, error) { return client.Open(t.Context(), client.Options{Dir: deep}) }
	_, err := open()
	if !errors.As(err, new(*client.NothingError)) || !strings.Contains(err.Error(), "looked for shield.yaml, .shield/") {
		t.Errorf("Open() without a project = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shield.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "nobody serves "+dir+" (looked for .shield/control.sock, .shield/NODE.sock)") {
		t.Errorf("Open() of a project that does not run = %v", err)
	}
	listen := func(name string) *control.Socket {
		s, err := control.Listen(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one := listen("node-1")
	if c, err := open(); err != nil || c.Endpoint().Address != one.Path {
		t.Errorf("Open() with one node = %v, %v, want %s", c, err, one.Path)
	}
	listen("node-2")
	_, err = open()
	var several *client.AmbiguousError
	if !errors.As(err, &several) || !strings.Contains(err.Error(), "--endpoint unix:"+one.Path) {
		t.Errorf("Open() with two nodes = %v, want a list", err)
	}
	dev := listen(control.DevName)
	if c, err := open(); err != nil || c.Endpoint().Address != dev.Path {
		t.Errorf("Open() with dev = %v, %v, want %s", c, err, dev.Path)
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	dir := t.TempDir()
	l, err := control.TakeLock(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Say("/run/control.sock"); err != nil {
		t.Fatal(err)
	}
	_, err = control.TakeLock(dir, control.DevName)
	var locked *control.LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() || locked.Holder.Socket != "/run/control.sock" {
		t.Errorf("second TakeLock() = %v, want the holder's pid %d", err, os.Getpid())
	}
	if other, err := control.TakeLock(dir, "node-1"); err != nil {
		t.Errorf("TakeLock() of another name = %v", err)
	} else if err := other.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, control.StateDir, "control.lock")); err == nil {
		t.Error("the lock's file was left behind")
	}
}

// TestLockEndsWithItsProcess runs this test's own binary as the first server
// and kills it.
func TestLockEndsWithItsProcess(t *testing.T) {
	if dir := os.Getenv("CONTROL_TEST_HOLD"); dir != "" {
		if _, err := control.TakeLock(dir, control.DevName); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockEndsWithItsProcess$")
	cmd.Env = append(os.Environ(), "CONTROL_TEST_HOLD="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = control.TakeLock(dir, control.DevName)
	var locked *control.LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid {
		t.Errorf("TakeLock() = %v, want pid %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // killed: its error is the point
	l, err := control.TakeLock(dir, control.DevName)
	if err != nil {
		t.Fatalf("TakeLock() after its holder was killed = %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
