package memnet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/wire"
)

// What one stream may hold before Write refuses, as package transport has it.
var queueLimit = [2]int{cluster.Control: 32 << 20, cluster.Data: 16 << 20}

const maxFrame = 16 << 20

// link is one end of a connection between two nodes.
type link struct {
	t, peer *Transport
	far     *link
	number  int
	streams [2]stream // what has been sent to this end
	trusted atomic.Bool
	done    chan struct{}
	once    sync.Once
	err     error // readable once done is closed
	sent    atomic.Uint64
	read    atomic.Uint64
}

// stream is frames on their way to one end, in order.
type stream struct {
	who   string // for Turn
	mu    sync.Mutex
	queue []flying
	bytes int
	last  time.Time // when the newest arrives: none overtakes another
	dice  *rand.Rand
	more  chan struct{} // capacity 1
}

type flying struct {
	frame []byte // whole, header included
	at    time.Time
}

// newPair makes both ends of the link that t has dialled.
func newPair(t, peer *Transport, number int) (near, far *link) {
	make1 := func(t, peer *Transport) *link {
		l := &link{t: t, peer: peer, number: number, done: make(chan struct{})}
		for s, name := range []string{cluster.Control: "control", cluster.Data: "data"} {
			l.streams[s].who = fmt.Sprintf("link %s %s %s %d", t.node, peer.node, name, number)
			l.streams[s].more = make(chan struct{}, 1)
			l.streams[s].dice = t.net.dice(l.streams[s].who)
		}
		return l
	}
	near, far = make1(t, peer), make1(peer, t)
	near.far, far.far = far, near
	return near, far
}

// Write sends whole frames to the other end.
func (l *link) Write(s cluster.Stream, frames []byte) error {
	select {
	case <-l.done:
		return l.err
	default:
	}
	if l.reborn() {
		return l.err
	}
	cut, err := split(frames)
	if err != nil {
		return err
	}
	st := &l.far.streams[s]
	st.mu.Lock()
	at := time.Now().Add(l.t.net.travel(st.dice, l.t.node, l.peer.node))
	if st.bytes > 0 && st.bytes+len(frames) > queueLimit[s] {
		n := st.bytes
		st.mu.Unlock()
		return fmt.Errorf("%w: %d bytes wait for the peer to read", cluster.ErrQueueFull, n)
	}
	if at.Before(st.last) {
		at = st.last
	}
	st.last = at
	for _, f := range cut {
		st.queue = append(st.queue, flying{f, at})
		st.bytes += len(f)
	}
	st.mu.Unlock()
	l.sent.Add(uint64(len(frames)))
	wake(st.more)
	return nil
}

// reborn ends a link to an earlier life of its peer: the new one answers such a
// packet with a reset.
func (l *link) reborn() bool {
	now, _ := l.t.net.find(l.peer.node)
	if now == nil || now == l.peer {
		return false
	}
	if ok, _ := l.t.net.open(l.t.node, l.peer.node); !ok {
		return false
	}
	l.finish(errors.New("the peer has restarted"))
	return true
}

// split copies frames and cuts them apart.
func split(frames []byte) ([][]byte, error) {
	frames = slices.Clone(frames)
	var all [][]byte
	for len(frames) > 0 {
		if len(frames) < wire.ClusterHeader {
			return nil, errors.New("memnet: half a frame was written")
		}
		n, err := wire.ClusterFrameLen([wire.ClusterHeader]byte(frames), maxFrame)
		if err != nil {
			return nil, err
		}
		if wire.ClusterHeader+n > len(frames) {
			return nil, errors.New("memnet: half a frame was written")
		}
		all = append(all, frames[:wire.ClusterHeader+n])
		frames = frames[wire.ClusterHeader+n:]
	}
	return all, nil
}

// Read waits for the next frame of a stream to arrive.
func (l *link) Read(s cluster.Stream) (wire.Kind, []byte, error) {
	if s == cluster.Data && !l.trusted.Load() {
		return 0, nil, errors.New("the data stream is not read before the handshake is finished")
	}
	st := &l.streams[s]
	for {
		select {
		case <-l.done:
			return 0, nil, l.err
		default:
		}
		wait, changed := l.ready(st)
		if wait == 0 {
			l.t.net.cfg.Turn(st.who)
			if f, ok := l.pop(st); ok {
				return l.frame(f)
			}
			continue
		}
		var due <-chan time.Time
		var timer *time.Timer
		if wait > 0 {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case <-st.more:
		case <-due:
		case <-changed:
		case <-l.done:
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// ready says how long it is until the next frame has arrived: 0 = it has, below
// that = nobody knows.
func (l *link) ready(st *stream) (wait time.Duration, changed <-chan struct{}) {
	open, changed := l.t.net.open(l.peer.node, l.t.node)
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) == 0 || !open || l.t.silent() || l.peer.silent() {
		return -1, changed
	}
	return max(time.Until(st.queue[0].at), 0), changed
}

func (l *link) pop(st *stream) (flying, bool) {
	select {
	case <-l.done:
		return flying{}, false
	default:
	}
	if wait, _ := l.ready(st); wait != 0 {
		return flying{}, false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	f := st.queue[0]
	st.queue[0] = flying{}
	st.queue = st.queue[1:]
	st.bytes -= len(f.frame)
	l.read.Add(uint64(len(f.frame)))
	return f, true
}

func (l *link) frame(f flying) (wire.Kind, []byte, error) {
	if !l.trusted.Load() && len(f.frame) > wire.MaxHandshakeFrame+wire.ClusterHeader {
		return 0, nil, fmt.Errorf("a frame of %d bytes before the handshake is finished", len(f.frame))
	}
	return wire.Kind(f.frame[wire.ClusterHeader]), f.frame[wire.ClusterHeader+1:], nil
}

// Trust lifts the limits on a stranger.
func (l *link) Trust() { l.trusted.Store(true) }

// Exporter gives what only the two ends of this link know.
func (l *link) Exporter(label string) ([]byte, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", l.t.net.cfg.Seed, l.number, label))
	return sum[:], nil
}

// RemoteAddr is where the peer listens.
func (l *link) RemoteAddr() net.Addr { return addr(l.peer.node) }

// endError is why a link ended, in words.
type endError struct {
	text  string
	cause error
}

func (e *endError) Error() string { return e.text }
func (e *endError) Unwrap() error { return e.cause }

// Close ends the link; the peer hears of it as soon as a packet can travel.
func (l *link) Close(reason string) {
	select {
	case <-l.done:
		return
	default:
	}
	l.finish(&endError{"closed here: " + reason, net.ErrClosed})
	open, _ := l.t.net.open(l.t.node, l.peer.node)
	if !open || l.t.silent() {
		return // the packet that says so is lost
	}
	time.AfterFunc(l.Stats().RTT/2, func() {
		l.t.net.cfg.Turn("end of " + l.far.streams[cluster.Control].who)
		l.far.finish(errors.New("closed by the peer: " + reason))
	})
}

func (l *link) finish(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)
		l.t.forget(l)
	})
}

// Done is closed when the link has ended.
func (l *link) Done() <-chan struct{} { return l.done }

// Err says why Done is closed.
func (l *link) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Stats are figures for people.
func (l *link) Stats() cluster.LinkStats {
	n := l.t.net
	n.mu.Lock()
	rtt := n.latencyLocked(n.faultLocked(l.t.node, l.peer.node)) + n.latencyLocked(n.faultLocked(l.peer.node, l.t.node))
	n.mu.Unlock()
	queued := 0
	for i := range l.far.streams {
		st := &l.far.streams[i]
		st.mu.Lock()
		queued += st.bytes
		st.mu.Unlock()
	}
	return cluster.LinkStats{RTT: rtt, BytesSent: l.sent.Load(), BytesRead: l.read.Load(), Queued: queued}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
