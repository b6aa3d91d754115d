package gateway

import (
	"net"
	"sync"
	"time"

	"shield/runtime/shield"
)

// slots are the places for connections. Each accepted connection holds one until
// it is closed, whether it has become a session yet or not.
type slots struct {
	total, perIP int // no limit when negative

	mu    sync.Mutex
	ips   map[string]int
	conns map[*slotConn]struct{}
}

// take gives conn a slot from now on, or says which limit is reached.
func (s *slots) take(conn net.Conn, now time.Duration) (*slotConn, shield.Code) {
	c := &slotConn{Conn: conn, slots: s, ip: ipOf(conn.RemoteAddr()), began: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.total >= 0 && len(s.conns) >= s.total:
		return nil, shield.ConnectionLimit
	case s.perIP >= 0 && s.ips[c.ip] >= s.perIP:
		return nil, shield.IPLimit
	}
	s.ips[c.ip]++
	s.conns[c] = struct{}{}
	return c, ""
}

// cut closes every connection at once.
func (s *slots) cut() {
	s.mu.Lock()
	all := make([]*slotConn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // cutting is all there is left to do
	}
}

// ipOf is whom a connection counts for. One customer of an IPv6 provider has a
// whole /64 to connect from.
func ipOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		if tcp.IP.To4() == nil && len(tcp.IP) == net.IPv6len {
			return tcp.IP.Mask(net.CIDRMask(64, 128)).String() + "/64"
		}
		return tcp.IP.String()
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	slots *slots
	ip    string
	began time.Duration // when it was accepted
	once  sync.Once
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		s := c.slots
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		if s.ips[c.ip]--; s.ips[c.ip] == 0 {
			delete(s.ips, c.ip)
		}
	})
	return err
}

// CloseWrite tells the other side that nothing more will come. A connection that
// can't be half closed (a pipe) is closed whole: it keeps nothing in flight.
func (c *slotConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}
