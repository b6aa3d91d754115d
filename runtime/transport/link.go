package transport

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"shield/runtime/cluster"
	"shield/runtime/wire"
)

// codeClosed is the only application error code: the reason is the text.
const codeClosed quic.ApplicationErrorCode = 0

const exporterSize = 32

// link is one QUIC connection with its two streams.
type link struct {
	t       *Transport
	conn    *quic.Conn
	trusted atomic.Bool
	streams [2]stream

	done   chan struct{}
	reason sync.Once
	err    error // readable once done is closed
}

// stream is one direction pair of frames.
type stream struct {
	out   *queue
	ready chan struct{} // closed when in is set
	in    *reader
}

func newLink(t *Transport, conn *quic.Conn) *link {
	l := &link{t: t, conn: conn, done: make(chan struct{})}
	for i, limit := range []int{cluster.Control: t.cfg.ControlQueue, cluster.Data: t.cfg.DataQueue} {
		l.streams[i] = stream{out: newQueue(limit), ready: make(chan struct{})}
	}
	watched := t.spawn(func() {
		<-conn.Context().Done()
		l.finish(t.explain(context.Cause(conn.Context())))
	})
	if !watched {
		l.Close("stopping")
	}
	return l
}

// attach starts to use str as stream s.
func (l *link) attach(s cluster.Stream, str *quic.Stream) {
	st := &l.streams[s]
	size := 4 << 10
	if s == cluster.Data {
		size = 64 << 10
	}
	st.in = &reader{r: bufio.NewReaderSize(str, size)}
	close(st.ready)
	l.t.spawn(func() {
		if err := st.out.run(str); err != nil {
			// The connection is gone, or the peer refuses to read a stream of
			// ours: then it is no peer.
			l.Close("a stream can't be written")
		}
	})
}

// acceptData waits for the data stream of a peer that dialled us. It appears
// with the peer's first frame on it.
func (l *link) acceptData() {
	str, err := l.conn.AcceptStream(l.conn.Context())
	if err == nil {
		l.attach(cluster.Data, str)
	}
}

func (l *link) Write(s cluster.Stream, frames []byte) error { return l.streams[s].out.put(frames) }

func (l *link) Read(s cluster.Stream) (wire.Kind, []byte, error) {
	st := &l.streams[s]
	select {
	case <-st.ready:
	case <-l.done:
		return 0, nil, l.err
	}
	limit := wire.MaxHandshakeFrame
	if l.trusted.Load() {
		limit = l.t.cfg.MaxFrame
	} else if s == cluster.Data {
		return 0, nil, errors.New("the data stream is not read before the handshake is finished")
	}
	kind, body, err := st.in.next(limit)
	if err != nil {
		select {
		case <-l.done:
			err = l.err
		default:
		}
	}
	return kind, body, err
}

// Trust lifts the limits on a stranger.
func (l *link) Trust() {
	l.trusted.Store(true)
	if s, ok := l.conn.Context().Value(strangerKey{}).(*stranger); ok {
		s.leave()
	}
}

func (l *link) Exporter(label string) ([]byte, error) {
	cs := l.conn.ConnectionState().TLS
	return cs.ExportKeyingMaterial(label, nil, exporterSize)
}

func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

func (l *link) Close(reason string) {
	l.finish(&endError{"closed here: " + reason, net.ErrClosed})
	_ = l.conn.CloseWithError(codeClosed, reason)
}

func (l *link) finish(err error) {
	l.reason.Do(func() {
		l.err = err
		close(l.done)
		for i := range l.streams {
			l.streams[i].out.close(err)
		}
	})
}

func (l *link) Done() <-chan struct{} { return l.done }

func (l *link) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

func (l *link) Stats() cluster.LinkStats {
	s := l.conn.ConnectionStats()
	return cluster.LinkStats{
		RTT: s.SmoothedRTT, PacketsSent: s.PacketsSent, PacketsLost: s.PacketsLost,
		BytesSent: s.BytesSent, BytesRead: s.BytesReceived,
		Queued: l.streams[cluster.Control].out.size() + l.streams[cluster.Data].out.size(),
	}
}

// explain says why a connection failed or ended in words that a person who runs
// a cluster can use.
func (t *Transport) explain(err error) error {
	var (
		app  *quic.ApplicationError
		idle *quic.IdleTimeoutError
		rst  *quic.StatelessResetError
		hs   *quic.HandshakeTimeoutError
		tr   *quic.TransportError
		cert x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &app) && app.Remote:
		return &endError{"closed by the peer: " + app.ErrorMessage, err}
	case errors.As(err, &rst):
		return &endError{"the peer has restarted", err}
	case errors.As(err, &hs), errors.Is(err, context.DeadlineExceeded):
		return &endError{fmt.Sprintf("no answer within %v", t.cfg.DialTimeout), err}
	case errors.As(err, &idle):
		return &endError{"nothing came from the peer for too long", err}
	case errors.As(err, &cert), errors.As(err, &tr) && tr.ErrorCode.IsCryptoError():
		return &endError{"no shield node answers there (TLS failed)", err}
	case t.ctx.Err() != nil:
		return &endError{"this node is stopping", net.ErrClosed}
	}
	return err
}

// endError is a cause in our words.
type endError struct {
	text  string
	cause error
}

func (e *endError) Error() string { return e.text }
func (e *endError) Unwrap() error { return e.cause }
