package transport

import (
	"fmt"
	"io"
	"runtime"
	"sync"

	"shield/runtime/cluster"
)

// keepBuffer is the largest buffer that a quiet queue holds on to.
const keepBuffer = 1 << 20

// fullPacket is about what fits into a QUIC packet.
const fullPacket = 1200

// queue takes frames from any goroutine and has one goroutine write them. Two
// buffers swap: one fills while the other is written.
type queue struct {
	limit int
	wake  chan struct{}

	mu     sync.Mutex
	buf    []byte
	spare  []byte
	flying int // bytes being written now
	err    error
}

func newQueue(limit int) *queue { return &queue{limit: limit, wake: make(chan struct{}, 1)} }

// put appends frames. One batch longer than the limit passes when nothing else
// waits: it is the frame's own limit that says no to it.
func (q *queue) put(frames []byte) error {
	q.mu.Lock()
	if q.err != nil {
		err := q.err
		q.mu.Unlock()
		return err
	}
	waiting := len(q.buf)
	if waiting > 0 && waiting+q.flying+len(frames) > q.limit {
		n := waiting + q.flying
		q.mu.Unlock()
		return fmt.Errorf("%w: %d bytes wait for the peer to read", cluster.ErrQueueFull, n)
	}
	q.buf = append(q.buf, frames...)
	q.mu.Unlock()
	if waiting == 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// run writes until the queue is closed or w fails.
func (q *queue) run(w io.Writer) error {
	for range q.wake {
		// Whoever is ready to run may have more to say. Letting them costs little
		// when nobody is, and turns 3 frames a packet into 50 when many are
		// (FACTS.md 5); a timer would cost a millisecond. A packet that is full
		// goes at once: the peer may as well begin with it while we go on.
		for range 2 {
			if q.size() >= fullPacket {
				break
			}
			runtime.Gosched()
		}
		q.mu.Lock()
		out := q.buf
		q.buf, q.spare = q.spare[:0], nil
		q.flying = len(out)
		closed := q.err != nil
		q.mu.Unlock()
		if closed {
			return nil
		}
		if len(out) == 0 {
			continue
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
		q.mu.Lock()
		q.flying = 0
		if cap(out) <= keepBuffer {
			q.spare = out
		}
		q.mu.Unlock()
	}
	return nil
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.buf) + q.flying
}

// close makes put fail with err and ends run; a Write in progress ends with the
// connection.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	q.err = err
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
