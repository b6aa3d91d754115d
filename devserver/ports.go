package devserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// PortError says that an address is taken, and by whom where that can be found
// out.
type PortError struct {
	Network, Address string
	Key              string // the configuration key that names the address
	PID              int    // 0 = unknown
	Program          string
	Err              error
}

func (e *PortError) Error() string {
	s := fmt.Sprintf("%s %s (%s) is in use", e.Network, e.Address, e.Key)
	if e.PID != 0 {
		s += fmt.Sprintf(" by process %d", e.PID)
		if e.Program != "" {
			s += fmt.Sprintf(" (%s)", e.Program)
		}
	}
	return s
}

func (e *PortError) Unwrap() error { return e.Err }

// BindError explains a failed bind; `shield doctor` tries ports too.
func BindError(network, address, key string, err error) error {
	return bindError(network, address, key, err)
}

// bindError explains a failed bind.
func bindError(network, address, key string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s %s (%s): %w", network, address, key, err)
	}
	e := &PortError{Network: network, Address: address, Key: key, Err: err}
	if _, port, splitErr := net.SplitHostPort(address); splitErr == nil {
		e.PID, e.Program = portOwner(network, port)
	}
	return e
}

// portOwner looks the holder of a port up in /proc; 0 where there is none or
// it belongs to another user.
func portOwner(network, port string) (pid int, program string) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, ""
	}
	inode := socketInode(network, uint16(n))
	if inode == "" {
		return 0, ""
	}
	want := "socket:[" + inode + "]"
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd") // the pattern is well-formed
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // another user's
		}
		for _, e := range entries {
			if link, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && link == want {
				proc := filepath.Dir(dir)
				pid, _ = strconv.Atoi(filepath.Base(proc))
				name, err := os.ReadFile(filepath.Join(proc, "comm"))
				if err != nil {
					return pid, ""
				}
				return pid, strings.TrimSpace(string(name))
			}
		}
	}
	return 0, ""
}

// socketInode finds the socket that is bound to a port.
func socketInode(network string, port uint16) string {
	suffix := fmt.Sprintf(":%04X", port)
	for _, file := range []string{network, network + "6"} {
		b, err := os.ReadFile("/proc/net/" + file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], suffix) && (network == "udp" || f[3] == "0A") {
				return f[9]
			}
		}
	}
	return ""
}
