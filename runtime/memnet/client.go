package memnet

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Listener takes the connections of clients.
type Listener struct {
	net   *Network
	addr  net.TCPAddr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Clients makes a listener for clients that calls itself address.
func (n *Network) Clients(address string) (*Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	l := &Listener{net: n, conns: make(chan net.Conn), done: make(chan struct{})}
	if _, err := fmt.Sscan(port, &l.addr.Port); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", address, err)
	}
	if l.addr.IP = net.ParseIP(host); l.addr.IP == nil {
		l.addr.IP = net.IPv4(127, 0, 0, 1)
	}
	return l, nil
}

// Dial connects a client. Each seems to come from an address of its own.
func (l *Listener) Dial() (net.Conn, error) {
	l.net.mu.Lock()
	l.net.conns++
	i := l.net.conns
	l.net.mu.Unlock()
	from := &net.TCPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i)), Port: 40000}
	up, down := newPipe(), newPipe()
	turn := func() { l.net.cfg.Turn(fmt.Sprintf("client %d", i)) }
	near := &conn{in: down, out: up, local: from, remote: &l.addr}
	far := &conn{in: up, out: down, local: &l.addr, remote: from, turn: turn}
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, fmt.Errorf("dial %v: connection refused: %w", &l.addr, net.ErrClosed)
	}
}

// Accept waits for a client.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, fmt.Errorf("accept on %v: %w", &l.addr, net.ErrClosed)
	}
}

// Close ends Accept and Dial.
func (l *Listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr is what clients were told.
func (l *Listener) Addr() net.Addr { return &l.addr }

// pipeSize is how many bytes one direction holds before its writer waits, as a
// socket's buffers do.
const pipeSize = 256 << 10

// pipe is one direction of a connection.
type pipe struct {
	mu      sync.Mutex
	buf     []byte
	eof     bool          // the writer is done
	broken  bool          // the reader is gone
	changed chan struct{} // closed when anything above is different
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

func (p *pipe) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

// conn is one end of a client's connection.
type conn struct {
	in, out       *pipe
	local, remote net.Addr
	turn          func() // asked before anything is read; nil = nobody

	mu           sync.Mutex
	closed       bool
	readBy       time.Time
	writeBy      time.Time
	deadlineMove chan struct{} // closed when a deadline or closed is different; nil = nobody waits
}

func (c *conn) state(write bool) (closed bool, by time.Time, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadlineMove == nil {
		c.deadlineMove = make(chan struct{})
	}
	if write {
		return c.closed, c.writeBy, c.deadlineMove
	}
	return c.closed, c.readBy, c.deadlineMove
}

func (c *conn) move(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	if c.deadlineMove != nil {
		close(c.deadlineMove)
		c.deadlineMove = nil
	}
}

// try does step until it is done, and waits in between.
func (c *conn) try(p *pipe, write bool, step func() (done bool, err error)) error {
	for {
		closed, by, moved := c.state(write)
		if closed {
			return net.ErrClosed
		}
		if !by.IsZero() && !time.Now().Before(by) {
			return os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		done, err := step()
		changed := p.changed
		p.mu.Unlock()
		if done || err != nil {
			return err
		}
		var due <-chan time.Time
		var timer *time.Timer
		if !by.IsZero() {
			timer = time.NewTimer(time.Until(by))
			due = timer.C
		}
		select {
		case <-changed:
		case <-moved:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// Read takes what has come.
func (c *conn) Read(b []byte) (n int, err error) {
	asked := c.turn == nil
	for {
		ready := false
		err = c.try(c.in, false, func() (bool, error) {
			if len(c.in.buf) == 0 && c.in.eof && asked {
				return true, io.EOF
			}
			if !asked {
				ready = len(c.in.buf) > 0 || c.in.eof
				return ready, nil
			}
			n = copy(b, c.in.buf)
			c.in.buf = c.in.buf[n:]
			return n > 0 || len(b) == 0, nil
		})
		if err != nil || asked {
			break
		}
		c.turn()
		asked = true
	}
	if n > 0 {
		c.in.change(func() {})
	}
	return n, err
}

// Write hands bytes over, and waits while the other end reads too slowly.
func (c *conn) Write(b []byte) (n int, err error) {
	for n < len(b) {
		took := 0
		err = c.try(c.out, true, func() (bool, error) {
			if c.out.broken || c.out.eof {
				return true, io.ErrClosedPipe
			}
			took = min(len(b)-n, pipeSize-len(c.out.buf))
			c.out.buf = append(c.out.buf, b[n:n+took]...)
			return took > 0, nil
		})
		if err != nil {
			return n, err
		}
		n += took
		c.out.change(func() {})
	}
	return n, nil
}

// Close ends both directions. What was written before is still read.
func (c *conn) Close() error {
	c.move(func() { c.closed = true })
	c.out.change(func() { c.out.eof = true })
	c.in.change(func() { c.in.broken = true })
	return nil
}

// CloseWrite tells the other end that nothing more will come.
func (c *conn) CloseWrite() error {
	c.out.change(func() { c.out.eof = true })
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.move(func() { c.readBy, c.writeBy = t, t })
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.move(func() { c.readBy = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.move(func() { c.writeBy = t })
	return nil
}
