package floor_test

import (
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"shield/internal/floor"
)

// The floor must not be lower than it is: every call makes its round trip.
func TestEcho(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, err := floor.Serve(loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := floor.Dial(t.Context(), loopback(t), s.Addr(), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for range 50 {
				c.Echo(caller, []byte("hello"))
			}
		})
	}
	wg.Wait()
}

func loopback(t *testing.T) net.PacketConn {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
