package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Lock says that this process serves a name in a project. The system takes it
// away when the process ends, however it ends, so there are no stale locks.
type Lock struct {
	path string
	file *os.File
}

// Holder is what a lock says of the process that has it.
type Holder struct {
	PID     int       `json:"pid"`
	Socket  string    `json:"socket"` // "" while it starts
	Started time.Time `json:"started"`
}

// LockedError says that another process serves the name.
type LockedError struct {
	Path   string
	Holder Holder
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("another process runs here (it holds %s)", e.Path)
	}
	return fmt.Sprintf("process %d runs here already, since %s", e.Holder.PID, e.Holder.Started.Local().Format(time.DateTime))
}

// errLocked is what tryLock gives for a lock that another process holds.
var errLocked = errors.New("locked")

// TakeLock takes the lock name (DevName, or a node id) of the project in dir,
// or says who has it with a *LockedError.
func TakeLock(dir, name string) (*Lock, error) {
	state, err := MakeStateDir(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(state, name+lockExt)
	for {
		// What we write must go into a file of ours, not where a link leads.
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is in the way of the lock; remove it, it is nothing that Shield made", path)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the lock: %w", err)
		}
		if err := tryLock(f); err != nil {
			holder := readHolder(f)
			f.Close()
			if errors.Is(err, errLocked) {
				return nil, &LockedError{Path: path, Holder: holder}
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// The one before us may have removed the file after we opened it; then
		// our lock is on a file that nobody else will find.
		if sameFile(f, path) {
			l := &Lock{path: path, file: f}
			return l, l.Say("")
		}
		f.Close()
	}
}

// Say writes who holds the lock, for whoever comes second.
func (l *Lock) Say(socket string) error {
	b, err := json.Marshal(Holder{PID: os.Getpid(), Socket: socket, Started: time.Now().Round(time.Second)})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	if _, err := l.file.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

// Close gives the lock back and removes its file.
func (l *Lock) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

func readHolder(f *os.File) (h Holder) {
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0) // an unreadable or half-written one names nobody
	if json.Unmarshal(b[:n], &h) != nil {
		return Holder{}
	}
	return h
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
