// Package floor is the least that a call between two nodes can cost: a bare
// quic-go echo with the batching of runtime/transport and nothing else. The
// benchmarks run it beside the real thing, because ratios within one run say
// more than times. It is for tests only and knows nothing of the runtime.
package floor

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const protocol = "shield-floor"

// maxBody is the longest body that an echo carries.
const maxBody = 64 << 10

var settings = &quic.Config{MaxIdleTimeout: time.Minute}

// Server sends back every frame of one connection.
type Server struct {
	tr  *quic.Transport
	wg  sync.WaitGroup
	end context.CancelFunc
}

// Serve echoes on conn until Close.
func Serve(conn net.PacketConn) (*Server, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("bare echo: %w", err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("bare echo: %w", err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{protocol}}
	s := &Server{tr: &quic.Transport{Conn: conn}}
	ln, err := s.tr.Listen(conf, settings)
	if err != nil {
		return nil, fmt.Errorf("bare echo: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	s.wg.Go(func() {
		c, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		str, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		out := newWriter(&s.wg, str)
		defer close(out.wake)
		read(str, out.frame)
	})
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.tr.Conn.LocalAddr() }

// Close ends the echo and its socket.
func (s *Server) Close() error {
	s.end()
	_ = s.tr.Close()
	err := s.tr.Conn.Close()
	s.wg.Wait()
	return err
}

// Client makes calls to a Server, from up to the number of callers it was made
// for at once.
type Client struct {
	tr      *quic.Transport
	out     *writer
	waiters []chan struct{}
	wg      sync.WaitGroup
}

// Dial connects conn to the Server at addr.
func Dial(ctx context.Context, conn net.PacketConn, addr net.Addr, callers int) (*Client, error) {
	c := &Client{tr: &quic.Transport{Conn: conn}}
	conf := &tls.Config{NextProtos: []string{protocol}, InsecureSkipVerify: true}
	qc, err := c.tr.Dial(ctx, addr, conf, settings)
	if err != nil {
		return nil, fmt.Errorf("bare echo: %w", err)
	}
	str, err := qc.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("bare echo: %w", err)
	}
	for range callers {
		c.waiters = append(c.waiters, make(chan struct{}, 1))
	}
	c.out = newWriter(&c.wg, str)
	c.wg.Go(func() { read(str, func(id uint64, _ []byte) { c.waiters[id] <- struct{}{} }) })
	return c, nil
}

// Echo sends body for a caller and waits for its return.
func (c *Client) Echo(caller int, body []byte) {
	c.out.frame(uint64(caller), body)
	<-c.waiters[caller]
}

// Close ends the connection and its socket. No Echo may be under way.
func (c *Client) Close() error {
	close(c.out.wake)
	_ = c.tr.Close()
	err := c.tr.Conn.Close()
	c.wg.Wait()
	return err
}

// writer is the queue of runtime/transport without its limit and errors.
type writer struct {
	mu         sync.Mutex
	buf, spare []byte
	wake       chan struct{}
}

func newWriter(wg *sync.WaitGroup, w io.Writer) *writer {
	out := &writer{wake: make(chan struct{}, 1)}
	wg.Go(func() {
		for range out.wake {
			runtime.Gosched()
			runtime.Gosched()
			out.mu.Lock()
			frames := out.buf
			out.buf = out.spare[:0]
			out.mu.Unlock()
			if _, err := w.Write(frames); err != nil {
				return
			}
			out.spare = frames
		}
	})
	return out
}

func (w *writer) frame(id uint64, body []byte) {
	w.mu.Lock()
	empty := len(w.buf) == 0
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(body)))
	w.buf = binary.BigEndian.AppendUint64(w.buf, id)
	w.buf = append(w.buf, body...)
	w.mu.Unlock()
	if empty {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func read(r io.Reader, each func(id uint64, body []byte)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var head [12]byte
	buf := make([]byte, maxBody)
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxBody {
			return
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return
		}
		each(binary.BigEndian.Uint64(head[4:]), buf[:n])
	}
}
