//go:build unix

package node_test

import "syscall"

// mostFiles is how many files and sockets this process may have open.
func mostFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(uint64(r.Cur), 1<<20)) // Go has raised it to the most it may be
}
