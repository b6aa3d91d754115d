//go:build !unix

package transport

import (
	"errors"
	"syscall"
)

const bufferCure = "raise the system's limit for UDP buffers"

func readBuffer(syscall.RawConn) (int, error) { return 0, errors.ErrUnsupported }
