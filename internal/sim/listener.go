package sim

import (
	"fmt"
	"net"
	"sync"
)

// Listener takes stream connections in memory.
type Listener struct {
	addr  net.TCPAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewListener makes a listener that calls itself addr; Dial reaches it.
func NewListener(addr net.TCPAddr) *Listener {
	return &Listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener.
func (l *Listener) Dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- conn{far, &l.addr}:
		return near, nil
	case <-l.done:
		near.Close()
		return nil, fmt.Errorf("dial the simulated %s: %w", &l.addr, net.ErrClosed)
	}
}

// Accept waits for a Dial.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, fmt.Errorf("accept on the simulated %s: %w", &l.addr, net.ErrClosed)
	}
}

// Close ends Accept and Dial.
func (l *Listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr is what NewListener was told.
func (l *Listener) Addr() net.Addr { return &l.addr }

// conn is a pipe with an address that looks like a client's.
type conn struct {
	net.Conn
	local net.Addr
}

func (c conn) LocalAddr() net.Addr  { return c.local }
func (c conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 99), Port: 40000} }
