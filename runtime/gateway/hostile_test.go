package gateway

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"shield/runtime/shield"
)

// Hostile clients of every kind attack while good clients play. No good client
// notices, and the counters add up.
func TestHostileClients(t *testing.T) {
	for _, transport := range []string{TCP, TLS, WebSocket} {
		t.Run(transport, func(t *testing.T) {
			r := newRig(t, transport, func(c *Config) {
				c.Protocol.Provider = "json"
				c.Limits = Limits{HandshakeTimeout: 300 * time.Millisecond, Rate: 2000, Burst: 2000, MaxRefused: 50,
					CloseTimeout: 100 * time.Millisecond, MaxConnections: 64, MaxPerIP: 64}
			})
			r.router.onFrame = func(g *Gateway, in *shield.Ingress) {
				if in.Route == rMove {
					g.Push(&shield.Push{Client: in.Client, Route: rPos, Body: in.Body})
				}
			}
			var good []*bot
			for i := range 4 {
				b := r.dial()
				ref := r.login(b, fmt.Sprint("good-", i))
				r.Push(&shield.Push{Client: ref, Route: rLoginOK})
				b.want(rLoginOK, "")
				good = append(good, b)
			}

			stop := make(chan struct{})
			var bad sync.WaitGroup
			for i := range 6 {
				bad.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
							attack(r, uint64(i), n)
						}
					}
				})
			}
			var play sync.WaitGroup
			for i, b := range good {
				play.Go(func() {
					for n := range 150 {
						body := fmt.Sprintf(`{"n":%d,"of":%d}`, n, i)
						b.send(rMove, body)
						b.want(rPos, body)
						time.Sleep(2 * time.Millisecond) // a player's pace: the attackers need time to attack
					}
				})
			}
			play.Wait()
			close(stop)
			bad.Wait()
			n := r.books(len(good))
			if n[cFramesIn] < 600 || n[cRefusedConn]+n[cConnections] < 10 {
				t.Errorf("the attack was none: %d frames, %d connections", n[cFramesIn], n[cConnections])
			}
		})
	}
}

// attack is one hostile connection.
func attack(r *rig, who uint64, n int) {
	rng := rand.New(rand.NewPCG(who, uint64(n)))
	kind := rng.IntN(8)
	var conn net.Conn
	var err error
	if kind == 0 {
		conn, err = net.Dial("tcp", r.listeners[0].Net.Addr().String()) // no TLS, no upgrade
	} else {
		conn, err = r.dialConn()
	}
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // an attack may hang, not for ever
	frame := func(route shield.RouteID, body string) []byte {
		b, _ := r.format.Append(nil, route, []byte(body))
		return b
	}
	// What the gateway does with any of this is its business; that it ends is
	// what the attacker waits for.
	switch kind {
	case 0: // garbage
		junk := make([]byte, 1+rng.IntN(4096))
		for i := range junk {
			junk[i] = byte(rng.Uint32())
		}
		_, _ = conn.Write(junk)
	case 1: // half a frame, then silence
		_, _ = conn.Write(frame(rLogin, `{"a":1}`)[:9])
		_, _ = io.Copy(io.Discard, conn)
	case 2: // a length beyond the limit
		_, _ = conn.Write([]byte{0, 0, 0, 100, 0xff, 0xff, 0xff, 0xf0})
		_, _ = io.Copy(io.Discard, conn)
	case 3: // wrong direction and unknown routes
		for i := range 60 {
			if _, err := conn.Write(frame(rPos+shield.RouteID(i%2*50), "{}")); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	case 4: // frames that need a login
		for range 60 {
			if _, err := conn.Write(frame(rMove, "{}")); err != nil {
				return
			}
		}
	case 5: // bodies that do not decode
		for range 12 {
			if _, err := conn.Write(frame(rLogin, "{{{")); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	case 6: // a flood
		b := frame(rLogin, `"flood"`)
		for range 3000 {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	case 7: // early close
	}
}
