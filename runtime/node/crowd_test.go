package node_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
)

// crowd is many clients that log in, count what they hear, and leave.
type crowd struct {
	dial  func(i int) (net.Conn, error)
	conns []net.Conn
	got   atomic.Int64 // frames, without the welcomes
	wg    sync.WaitGroup
}

const dialsAtOnce = 64

// join connects n clients and waits until each was welcomed.
func (c *crowd) join(n int) error {
	conns, errs := make([]net.Conn, n), make(chan error, n)
	var wg sync.WaitGroup
	next := atomic.Int64{}
	for range dialsAtOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				conn, err := c.one(i)
				if err != nil {
					errs <- err
					return
				}
				conns[i] = conn
			}
		})
	}
	wg.Wait()
	for _, conn := range conns {
		if conn != nil {
			c.conns = append(c.conns, conn)
		}
	}
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (c *crowd) one(i int) (net.Conn, error) {
	conn, err := c.dial(i)
	if err != nil {
		return nil, err
	}
	login, err := format.Append(nil, 1001, nil)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(login); err != nil {
		return nil, err
	}
	welcome := make([]byte, format.Header()+len("welcome"))
	if _, err := io.ReadFull(conn, welcome); err != nil {
		return nil, err
	}
	c.wg.Go(func() { c.listen(conn) })
	return conn, nil
}

// listen counts frames until the connection ends.
func (c *crowd) listen(conn net.Conn) {
	r := bufio.NewReaderSize(conn, 128)
	for {
		head, err := r.Peek(format.Header())
		if err != nil {
			return
		}
		_, n, err := format.ParseHeader(head)
		if err != nil {
			return
		}
		if _, err := r.Discard(len(head) + n); err != nil {
			return
		}
		c.got.Add(1)
	}
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.wg.Wait()
	c.conns = nil
	c.got.Store(0)
}

// serveCrowd is a crowd in a process of its own. It reads commands: join N
// ADDRESS, got, leave; and answers each with a line.
func serveCrowd() {
	c := &crowd{}
	round, pid := 0, os.Getpid()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n int
		var address string
		switch f := strings.Fields(in.Text()); f[0] {
		case "join":
			_, _ = fmt.Sscan(f[1], &n) // a wrong number is 0, and nobody joins
			address, round = f[2], round+1
			// An address has 28,000 ports to connect from, and a closed connection
			// keeps its own for a minute; Linux has 16 million addresses of its own.
			c.dial = func(i int) (net.Conn, error) {
				d := &net.Dialer{}
				if runtime.GOOS == "linux" {
					d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, byte(pid>>8), byte(pid), byte(1+(round*8+i%8)%250))}
				}
				return dialCrowd(address, d)
			}
			if err := c.join(n); err != nil {
				fmt.Println("error:", err)
				continue
			}
			fmt.Println("ok")
		case "got":
			fmt.Println(c.got.Load())
		case "leave":
			c.leave()
			fmt.Println("ok")
		}
	}
}

func dialCrowd(address string, d *net.Dialer) (net.Conn, error) {
	scheme, host, _ := strings.Cut(address, "://")
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate was made a moment ago
	switch scheme {
	case "tcp":
		return d.Dial("tcp", host)
	case "tls":
		return (&tls.Dialer{NetDialer: d, Config: trust}).DialContext(context.Background(), "tcp", host)
	}
	tr := &http.Transport{DialContext: d.DialContext, TLSClientConfig: trust, DisableKeepAlives: true}
	ws, _, err := websocket.Dial(context.Background(), address, &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context.Background(), ws, websocket.MessageBinary), nil
}

// farCrowd is the other process, as its benchmark sees it.
type farCrowd struct {
	b   *testing.B
	in  io.Writer
	out *bufio.Reader
}

func newFarCrowd(b *testing.B) *farCrowd {
	b.Helper()
	in, out, _ := startFar(b, "crowd")
	return &farCrowd{b: b, in: in, out: out}
}

func (f *farCrowd) ask(format string, args ...any) string {
	f.b.Helper()
	if _, err := fmt.Fprintf(f.in, format+"\n", args...); err != nil {
		f.b.Fatal(err)
	}
	line, err := f.out.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		f.b.Fatalf("%s: the crowd answered %q, %v", fmt.Sprintf(format, args...), line, err)
	}
	return strings.TrimSpace(line)
}
