package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Endpoint is where a control API is served.
type Endpoint struct {
	Network string // unix or tcp
	Address string // a path, or host:port
	Token   string // tcp only
}

// String gives the form that --endpoint takes. The token is not in it.
func (e Endpoint) String() string {
	if e.Network == "unix" {
		return "unix:" + e.Address
	}
	return e.Network + "://" + e.Address
}

// ParseEndpoint reads unix:PATH or tcp://HOST:PORT.
func ParseEndpoint(s string) (Endpoint, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok && path != "" {
		return Endpoint{Network: "unix", Address: strings.TrimPrefix(path, "//")}, nil
	}
	if addr, ok := strings.CutPrefix(s, "tcp://"); ok {
		if _, port, err := net.SplitHostPort(addr); err == nil && port != "" {
			return Endpoint{Network: "tcp", Address: addr}, nil
		}
	}
	return Endpoint{}, fmt.Errorf("%w %q: want unix:PATH or tcp://HOST:PORT", ErrEndpoint, s)
}

// ErrEndpoint is what an endpoint that was written wrong Is.
var ErrEndpoint = errors.New("endpoint")

// NothingError says that nothing answers and what was looked for.
// Whoever prints it adds how to start something: Start.
type NothingError struct {
	Dir   string   // where the search began; empty when an endpoint was given by hand
	Tried []string // endpoints, or files looked for
	Stale bool     // there are sockets, whose servers ended without cleaning up
	Lost  bool     // it answered and then the connection broke
	Err   error
}

func (e *NothingError) Error() string {
	var b strings.Builder
	switch {
	case e.Lost:
		fmt.Fprintf(&b, "lost the server at %s: %v", strings.Join(e.Tried, ", "), e.Err)
	case e.Dir != "":
		fmt.Fprintf(&b, "nothing to talk to: nobody serves %s (looked for %s)", e.Dir, strings.Join(e.Tried, ", "))
		if e.Stale {
			b.WriteString("; its server ended without cleaning up")
		}
	default:
		fmt.Fprintf(&b, "nothing to talk to: %s does not answer", strings.Join(e.Tried, ", "))
		if e.Err != nil {
			fmt.Fprintf(&b, " (%v)", e.Err)
		}
	}
	return b.String()
}

// Start is the command that makes a NothingError go away.
func (e *NothingError) Start() string {
	if e.Lost {
		return "look whether it still runs, else start one: shield dev"
	}
	return "start one: shield dev"
}

func (e *NothingError) Unwrap() error { return e.Err }
