package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// Listen binds the UDP socket of a cluster.listen address: "host:port", where
// 0.0.0.0, * and an empty host mean all interfaces, and port 0 any free port.
func Listen(addr string) (net.PacketConn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cluster.listen %q: want host:port, such as 127.0.0.1:9000: %w", addr, err)
	}
	if host == "*" {
		host = ""
	}
	network := "udp"
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		network = "udp4"
	}
	conn, err := net.ListenPacket(network, net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cluster.listen %s: another program has this UDP port; stop it or choose another port: %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster.listen %s: %w", addr, err)
	}
	return conn, nil
}

// resolve turns host:port into an address that the socket at local can reach.
func resolve(ctx context.Context, addr string, local net.Addr) (*net.UDPAddr, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("want host:port: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("port %q: want 1 to 65535", portText)
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	v4only := false
	if u, ok := local.(*net.UDPAddr); ok && len(u.IP) > 0 {
		v4only = u.IP.To4() != nil
	}
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() || !v4only {
			return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))), nil
		}
	}
	return nil, fmt.Errorf("%s has no IPv4 address, and this node listens on %v only", host, local)
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	return ips, err
}

// wantBuffer is what quic-go asks of the system; below fairBuffer bursts between
// nodes begin to lose packets.
const (
	wantBuffer = 7 << 20
	fairBuffer = 1 << 20
)

// checkBuffers asks for large socket buffers and says so once when the system
// gives too little.
func checkBuffers(conn net.PacketConn, log *slog.Logger) {
	c, ok := conn.(interface {
		SetReadBuffer(int) error
		SyscallConn() (syscall.RawConn, error)
	})
	if !ok {
		return
	}
	_ = c.SetReadBuffer(wantBuffer) // what came of it is read below
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	got, err := readBuffer(raw)
	if err != nil || got >= fairBuffer {
		return
	}
	log.Warn(fmt.Sprintf("the UDP receive buffer is %d KiB: bursts between nodes will lose packets and slow down; %s", got>>10, bufferCure),
		"service", "cluster", "event", "udp_buffer")
}
