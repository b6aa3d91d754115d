package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// link is one connection as a session sees it: a stream of bytes in, whole
// frames out.
type link interface {
	io.Reader
	io.Writer
	// finish says goodbye after the last Write. It may wait for the other side
	// until abort is called.
	finish(reason string)
	// abort ends everything at once; Read, Write and finish return.
	abort()
	// ping asks for a sign of life where the transport can, and waits for it.
	ping(ctx context.Context)
}

// streamLink is TCP, or TLS on it.
type streamLink struct {
	net.Conn           // the TLS connection, or raw
	raw      *slotConn // what holds the slot
}

func (l *streamLink) finish(string) {
	if w, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite() // a peer that is gone already needs no goodbye
	}
}

// abort closes the socket below TLS: tls.Conn.Close may wait to send its alert.
func (l *streamLink) abort() { _ = l.raw.Close() }

func (l *streamLink) ping(context.Context) {}

// webLink is a WebSocket. Its binary messages are one stream of frames; each
// message that the gateway sends holds whole frames.
type webLink struct {
	conn *websocket.Conn
	raw  *slotConn
	in   io.Reader // the message being read, nil between two
}

// lean hands a connection over to the WebSocket library with small buffers: those
// of net/http would keep 8 KiB as long as the session lives.
type lean struct{ http.ResponseWriter }

const (
	webReadBuffer  = 2 << 10
	webWriteBuffer = 1 << 10 // longer messages go to the socket as they are
)

// Hijack implements http.Hijacker.
func (w lean) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What the client sent behind its request must be in the new buffer: the
	// library takes it from there and reads the rest from conn.
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), max(webReadBuffer, len(early)))
	if _, err := r.Peek(len(early)); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, bufio.NewReadWriter(r, bufio.NewWriterSize(conn, webWriteBuffer)), nil
}

var errText = errors.New("a WebSocket message that is not binary")

func (l *webLink) Read(p []byte) (int, error) {
	for {
		if l.in == nil {
			kind, r, err := l.conn.Reader(context.Background())
			switch {
			case websocket.CloseStatus(err) >= 0:
				return 0, io.EOF
			case errors.Is(err, io.EOF): // without a word
				return 0, io.ErrUnexpectedEOF
			case err != nil:
				return 0, err
			}
			l.in = r
			if kind != websocket.MessageBinary {
				return 0, errText // once; what it says can be read past
			}
		}
		n, err := l.in.Read(p)
		if errors.Is(err, io.EOF) {
			l.in, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (l *webLink) Write(p []byte) (int, error) {
	if err := l.conn.Write(context.Background(), websocket.MessageBinary, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// maxCloseReason is what a WebSocket close frame has room for.
const maxCloseReason = 123

func (l *webLink) finish(reason string) {
	_ = l.conn.Close(websocket.StatusNormalClosure, clip(reason, maxCloseReason)) // as in streamLink
}

// clip shortens a text for people to at most n bytes of whole characters.
func clip(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

func (l *webLink) abort() { _ = l.raw.Close() }

func (l *webLink) ping(ctx context.Context) { _ = l.conn.Ping(ctx) } // the pong counts, not the outcome
