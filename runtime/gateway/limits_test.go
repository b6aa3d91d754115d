package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"shield/runtime/shield"
)

func TestFrameBomb(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		b := r.dial()
		r.enter(b)
		if _, err := b.conn.Write([]byte{0, 0, 0, 100, 0xff, 0xff, 0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
		b.wantClose("frame_too_large")
		r.gone()
		r.wantCount(cInSize, 1)
		r.wantCount("closed_frame_too_large", 1)
	})
}

func TestLongBodies(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, func(c *Config) { c.Protocol.MaxFrameSize = 1 << 20 })
		b := r.dial()
		ref := r.login(b, "ada")
		for _, n := range []int{0, 1, readStep, readStep + 1, 3 * readStep, 1<<20 - 8} {
			body := strings.Repeat("x", n)
			go b.send(rMove, body) // a pipe holds nothing
			got := r.router.wait(t, "long frame", func(e event) bool { return e.route == rMove && len(e.body) == n })
			if got.body != body {
				t.Errorf("a body of %d bytes arrived changed", n)
			}
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte(body)})
			b.want(rPos, body)
		}
	})
}

func TestConnectionLimits(t *testing.T) {
	for _, tt := range []struct {
		code    string
		counter string
		change  func(*Limits)
	}{
		{"connection_limit", cTotalLimit, func(l *Limits) { l.MaxConnections = 2 }},
		{"ip_limit", cPerIP, func(l *Limits) { l.MaxPerIP = 2 }},
	} {
		eachTransport(t, func(t *testing.T, transport string) {
			r := newRig(t, transport, func(c *Config) { tt.change(&c.Limits) })
			a, b := r.dial(), r.dial()
			r.enter(a)
			r.enter(b)
			conn, err := r.dialConn()
			switch transport {
			case TLS:
				if err == nil {
					t.Fatal("a third client gets in")
				}
			case WebSocket:
				if err == nil || !strings.Contains(err.Error(), "503") {
					t.Fatalf("a third client gets %v, want 503", err)
				}
			default:
				if err != nil {
					t.Fatal(err)
				}
				c := &bot{t: t, conn: conn, br: newReader(conn), f: r.format}
				c.wantClose(tt.code)
			}
			r.wantCount(tt.counter, 1)
			a.conn.Close()
			b.conn.Close()
			r.gone()
			r.enter(r.dial()) // the slots are free again
		})
	}
}

func TestTooManyBadFramesEndTheSession(t *testing.T) {
	r := newRig(t, TCP, func(c *Config) {
		c.Protocol.Provider = "json"
		c.Limits.MaxDecodeErrors, c.Limits.MaxRefused = 3, 5
	})
	b := r.dial()
	for range 3 {
		b.send(rLogin, "{")
	}
	b.wantClose("decode_error")
	r.gone()
	r.wantCount("closed_decode_error", 1)
	r.wantCount(cInDecode, 3)
	c := r.dial()
	for range 6 {
		c.send(rMove, "{}")
	}
	c.wantClose("client_rpc.not_authenticated")
	r.gone()
	r.wantCount("closed_client_rpc.not_authenticated", 1)
	r.wantCount(cInAuth, 6)
}

// A flood above the rate is refused frame by frame, and ends the session when it
// goes on.
func TestAFloodEndsTheSession(t *testing.T) {
	r := newRig(t, TCP, func(c *Config) { c.Limits.Rate, c.Limits.Burst, c.Limits.MaxRefused = 0.001, 4, 10 })
	b := r.dial()
	for range 15 {
		b.send(rLogin, "x")
	}
	b.wantClose("rate_limited")
	r.gone()
	r.wantCount(cInRate, 11)
	r.wantCount("closed_rate_limited", 1)
}

// A connection that never finishes, or never begins, the handshake of its
// transport is closed in time, gives its slot back and is counted.
func TestHalfOpenHandshakes(t *testing.T) {
	for _, tt := range []struct{ name, transport, text, counter string }{
		{"no TLS hello", TLS, "", cTLSFailed},
		{"half a TLS hello", TLS, "\x16\x03\x01\x02\x00\x01", cTLSFailed},
		{"no request", WebSocket, "", cWebFailed},
		{"half a request", WebSocket, "GET / HTTP/1.1\r\nHost:", cWebFailed},
		{"a request for something else", WebSocket, "GET /favicon.ico HTTP/1.1\r\nHost: x\r\n\r\n", cWebFailed},
		{"no upgrade", WebSocket, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", cWebFailed},
		{"a body that never comes", WebSocket, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", cWebFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.transport, func(c *Config) { c.Limits.HandshakeTimeout = 50 * time.Millisecond })
			conn, err := net.Dial("tcp", r.listeners[0].Net.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tt.text); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it is still open after five seconds")
			}
			r.gone()
			r.close()
			r.wantCount(tt.counter, 1)
			r.wantCount(cConnections, 1)
		})
	}
}
