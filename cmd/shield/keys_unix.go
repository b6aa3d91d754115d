//go:build unix && !aix && !solaris

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// singleKeys makes a terminal give each key at once and unseen. Unlike raw mode
// it leaves Ctrl-C a signal and a newline a newline, so the log still prints.
func singleKeys(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	t := *old
	t.Lflag &^= unix.ICANON | unix.ECHO
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &t); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, old) }, nil // the terminal may be gone by then
}
