//go:build unix

package transport

import (
	"runtime"
	"syscall"
)

// bufferCure is what to do about a small buffer.
var bufferCure = func() string {
	switch runtime.GOOS {
	case "linux":
		return "raise it with: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000"
	case "darwin":
		return "raise it with: sudo sysctl -w kern.ipc.maxsockbuf=8441037"
	}
	return "raise the system's limit for UDP buffers"
}()

func readBuffer(raw syscall.RawConn) (int, error) {
	var size int
	var serr error
	if err := raw.Control(func(fd uintptr) {
		size, serr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	}); err != nil {
		return 0, err
	}
	return size, serr
}
