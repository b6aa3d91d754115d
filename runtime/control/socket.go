package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// StateDir is the folder beside shield.yaml that holds sockets, locks and crash
// files. It belongs to the user alone.
const StateDir = ".shield"

// DevName is what the socket and the lock of `shield dev` are called; those of
// `shield run` are called as their node.
const DevName = "control"

const (
	socketExt  = ".sock"
	pointerExt = ".sock.path" // a file that says where a socket with a long path really is
	lockExt    = ".lock"
)

// maxSocketPath is the longest path that every system can bind: 104 bytes with
// the final zero on some, 108 on others.
const maxSocketPath = 103

// Socket is a listening Unix socket of a project. Its Close removes the file.
type Socket struct {
	net.Listener
	Path string // where it really is
	// Notes are what a person should know: a stale socket that was removed, a
	// path that was too long.
	Notes []string

	remove []string
	once   sync.Once
	err    error
}

// Close stops listening and removes what Listen made.
func (s *Socket) Close() error {
	s.once.Do(func() {
		s.err = s.Listener.Close()
		for _, f := range s.remove {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.err = errors.Join(s.err, err)
			}
		}
	})
	return s.err
}

// MakeStateDir makes the state folder of the project in dir, for the user
// alone.
func MakeStateDir(dir string) (string, error) {
	state := filepath.Join(dir, StateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", fmt.Errorf("make the folder for the control socket: %w", err)
	}
	if err := os.Chmod(state, 0o700); err != nil { // an older one, or a strange umask
		return "", fmt.Errorf("make %s private: %w", state, err)
	}
	return state, nil
}

// Listen makes the socket name of the project in dir (DevName, or a node id).
// The caller holds the lock of that name: a socket that is there and answers
// nobody is stale, and removed.
func Listen(dir, name string) (*Socket, error) {
	state, err := MakeStateDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Socket{Path: filepath.Join(state, name+socketExt)}
	pointer := filepath.Join(state, name+pointerExt)
	for _, old := range []string{s.Path, pointer} {
		if err := s.clear(old); err != nil {
			return nil, err
		}
	}
	if len(s.Path) > maxSocketPath {
		if err := s.standIn(pointer); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("unix", s.Path)
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket %s: %w", s.Path, err)
	}
	s.Listener = ln
	s.remove = append(s.remove, s.Path)
	// Windows has no such mode; there the folder's rights guard the socket.
	if err := os.Chmod(s.Path, 0o600); err != nil && runtime.GOOS != "windows" {
		s.Close()
		return nil, fmt.Errorf("make %s private: %w", s.Path, err)
	}
	if s.Path != filepath.Join(state, name+socketExt) {
		if err := os.WriteFile(pointer, []byte(s.Path+"\n"), 0o600); err != nil {
			s.Close()
			return nil, fmt.Errorf("say where the control socket is: %w", err)
		}
		s.remove = append(s.remove, pointer)
	}
	return s, nil
}

// clear removes a socket that nobody answers on, and notes it. It removes
// nothing else: the folder may have come with somebody else's project, and a
// pointer file in it may point at anything.
func (s *Socket) clear(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil // nothing is there; if something else is wrong, listening fails as well
	}
	if pointer := strings.HasSuffix(path, pointerExt); pointer && !info.Mode().IsRegular() || !pointer && !isSocket(info) {
		return fmt.Errorf("%s is in the way of the control socket; remove it, it is nothing that Shield made", path)
	}
	stale := []string{path}
	if target, ok := socketAt(path); ok {
		if conn, err := net.DialTimeout("unix", target, time.Second); err == nil {
			conn.Close()
			return fmt.Errorf("the control socket %s is in use by another process", target)
		}
		if info, err := os.Lstat(target); err == nil && isSocket(info) {
			stale = []string{target, path}
		}
	}
	for _, f := range stale {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale control socket: %w", err)
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("removed a stale socket, its server ended without cleaning up: %s", path))
	return nil
}

// isSocket also takes what Windows calls irregular, as it does sockets.
func isSocket(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0 }

// standIn moves the socket to a short path in a folder of the user's own.
func (s *Socket) standIn(pointer string) error {
	long := s.Path
	sum := sha256.Sum256([]byte(long))
	var errs []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if base == "" {
			continue
		}
		dir := filepath.Join(base, "shield-"+strconv.Itoa(os.Getuid()))
		short := filepath.Join(dir, hex.EncodeToString(sum[:6])+socketExt)
		if len(short) > maxSocketPath {
			errs = append(errs, fmt.Errorf("%s is too long as well", short))
			continue
		}
		if err := privateDir(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		s.Path = short
		if err := s.clear(short); err != nil {
			return err
		}
		s.Notes = append(s.Notes, fmt.Sprintf("the socket's path is longer than the system allows; it is at %s (see %s)", short, pointer))
		return nil
	}
	return fmt.Errorf("the control socket %s is longer than the %d bytes the system allows and there is no short place for it: %w",
		long, maxSocketPath, errors.Join(errs...))
}

// privateDir makes a folder in a place where others may write, and refuses one
// that somebody else made there first.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 || !ownedByUs(info) {
		return fmt.Errorf("%s is not a folder of this user alone", dir)
	}
	return nil
}

// socketAt follows a pointer file to its socket. ok is false where nothing is.
func socketAt(path string) (target string, ok bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", false
	}
	if !strings.HasSuffix(path, pointerExt) {
		return path, true
	}
	if !info.Mode().IsRegular() {
		return "", false
	}
	b, err := os.ReadFile(path)
	target = strings.TrimSpace(string(b))
	return target, err == nil && filepath.IsAbs(target)
}

// RealSocket is where to dial for a socket's path: its short stand-in, where it
// has one.
func RealSocket(path string) string {
	if base, ok := strings.CutSuffix(path, socketExt); ok {
		if target, ok := socketAt(base + pointerExt); ok {
			return target
		}
	}
	return path
}

// Found is one socket of a project.
type Found struct {
	Name string // DevName or a node id
	Path string // where to dial
	File string // what was found: the socket, or the file that points to it
}

// Sockets lists the sockets of the project in dir, that of `shield dev` first,
// whether anybody answers on them or not.
func Sockets(dir string) []Found {
	entries, err := os.ReadDir(filepath.Join(dir, StateDir))
	if err != nil {
		return nil
	}
	var found []Found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), pointerExt)
		if !ok {
			if name, ok = strings.CutSuffix(e.Name(), socketExt); !ok {
				continue
			}
		}
		file := filepath.Join(dir, StateDir, e.Name())
		if target, ok := socketAt(file); ok {
			f := Found{Name: name, Path: target, File: file}
			if name == DevName {
				found = append([]Found{f}, found...)
			} else {
				found = append(found, f)
			}
		}
	}
	return found
}

// FindProject gives the nearest folder from dir upward that holds shield.yaml
// or a state folder.
func FindProject(dir string) (string, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		for _, mark := range []string{"shield.yaml", StateDir} {
			if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
				return dir, true
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}
