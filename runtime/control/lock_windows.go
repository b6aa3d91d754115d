package control

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset is far behind what the file holds: on Windows a locked range can't
// be read by others, and others must read who holds the lock.
const lockOffset = 1 << 20

func tryLock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

// ownedByUs trusts the user's own temporary folder, which is what Windows gives.
func ownedByUs(fs.FileInfo) bool { return true }
