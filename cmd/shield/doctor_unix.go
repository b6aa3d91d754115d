//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// openFiles looks at the limit of file descriptors: every client is one.
func openFiles() finding {
	f := finding{Check: "open files", State: "ok"}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		f.Text = "this system does not tell: " + err.Error()
		return f
	}
	f.Text = fmt.Sprintf("at most %d", lim.Cur)
	if lim.Cur < 4096 {
		f.State = "warn"
		f.Text += ": a gateway needs one for each client"
		f.Fix = "ulimit -n 65536"
	}
	return f
}
