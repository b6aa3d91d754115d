//go:build unix

package transport

import (
	"runtime"
	"syscall"
)

var bufferCure = map[string]string{
	"linux":  "raise it with: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000",
	"darwin": "raise it with: sudo sysctl -w kern.ipc.maxsockbuf=8441037",
}[runtime.GOOS]

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
