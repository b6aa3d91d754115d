package cluster

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// civilPause is how long a line is not repeated.
const civilPause = time.Minute

// maxCivil bounds the lines that are remembered; strangers choose their
// addresses.
const maxCivil = 512

// civil writes lines that could repeat for ever at a rate a person can bear.
type civil struct {
	mu   sync.Mutex
	last map[string]said
}

type said struct {
	at    time.Time
	times int // since then
}

func (cv *civil) warn(log *slog.Logger, key, text string, attrs ...any) {
	cv.line(log.Warn, key, text, attrs)
}

func (cv *civil) error(log *slog.Logger, key, text string, attrs ...any) {
	cv.line(log.Error, key, text, attrs)
}

func (cv *civil) line(write func(string, ...any), key, text string, attrs []any) {
	cv.mu.Lock()
	s, ok := cv.last[key]
	now := time.Now()
	if ok && now.Sub(s.at) < civilPause {
		s.times++
		cv.last[key] = s
		cv.mu.Unlock()
		return
	}
	if cv.last == nil || len(cv.last) >= maxCivil {
		cv.last = map[string]said{}
	}
	cv.last[key] = said{at: now}
	cv.mu.Unlock()
	if s.times > 0 {
		attrs = append(attrs, "repeated", s.times)
	}
	write(text, attrs...)
}

// settle forgets key, so that the next line is written at once. It reports
// whether there had been one.
func (cv *civil) settle(key string) bool {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	_, ok := cv.last[key]
	delete(cv.last, key)
	return ok
}

// hostOf is a link's address without the port, which a stranger changes with
// every attempt.
func hostOf(l Link) string {
	host, _, err := net.SplitHostPort(l.RemoteAddr().String())
	if err != nil {
		return l.RemoteAddr().String()
	}
	return host
}

// isLoopback reports whether only this machine can dial addr.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// advertised is the address that peers are told when none is configured: where
// the socket listens, or, when that is every interface, the first address of
// this machine that others can reach.
func advertised(listen net.Addr) string {
	u, ok := listen.(*net.UDPAddr)
	if !ok || !u.IP.IsUnspecified() {
		return listen.String()
	}
	addrs, _ := net.InterfaceAddrs() // none leaves loopback
	best := net.IPv4(127, 0, 0, 1)
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.IsGlobalUnicast() && (best.IsLoopback() || best.To4() == nil && n.IP.To4() != nil) {
			best = n.IP
		}
	}
	return (&net.UDPAddr{IP: best, Port: u.Port}).String()
}
