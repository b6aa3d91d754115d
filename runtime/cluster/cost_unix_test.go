//go:build unix

package cluster_test

import (
	"syscall"
	"time"
)

// realTime is the CPU time that this process has used: inside a bubble it is the
// only clock that is not virtual.
func realTime() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
