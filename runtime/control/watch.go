package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shield/runtime/shield"
)

const (
	// countedEvery is how often changes that are merely counted are sent.
	countedEvery = 500 * time.Millisecond
	// notableGap keeps a storm of notable changes from becoming a storm of scans.
	notableGap = 20 * time.Millisecond
	// linesGap lets a stream of calls and log lines come in bundles: the first goes
	// at once, and no screen draws more often than that.
	linesGap = 100 * time.Millisecond
	// scanShare bounds what a watcher costs: a scan that took d is not repeated
	// before 50 d (notable) or 200 d (counted) have passed.
	notableShare = 50
	countedShare = 200
	// aliveEvery is how long a watcher hears nothing before it is told that
	// there was nothing.
	aliveEvery = 2 * time.Second
	// lagAfter is how long one write may take before the reader counts as
	// lagging, goneAfter before it counts as gone.
	lagAfter  = time.Second
	goneAfter = 30 * time.Second
	// burst is how many lines of a ring go into one delta.
	burst = 500
)

// watcher is one reader of GET /ops/watch. It runs on the goroutine of its
// request. It keeps no queue: it holds what the reader was sent and compares
// that with what is so, therefore a slow reader gets fewer, larger deltas and
// the host never waits for it.
type watcher struct {
	host  Host
	out   *lineWriter
	seq   uint64
	table []tracker
	rings []tailer
	quiet map[Topic]string // topics that can't be had, and the reason told
	tail  int

	mu    sync.Mutex
	dirty map[Topic]bool
	wake  chan struct{} // one token: dirty is not empty

	cost time.Duration // of the last scan
}

type watchRequest struct {
	topics []Topic
	from   shield.NodeID
	rows   map[Topic]map[string]bool
	tail   int
}

// parseWatch reads the query of GET /ops/watch. rows is topic/key, so that one
// list serves several topics.
func parseWatch(r *http.Request) (watchRequest, error) {
	q := r.URL.Query()
	w := watchRequest{tail: 200}
	for _, name := range strings.FieldsFunc(q.Get("topics"), func(c rune) bool { return c == ',' }) {
		topic := Topic(name)
		if !slices.Contains(Topics(), topic) {
			return w, badRequest("topics", name, topicNames())
		}
		if !slices.Contains(w.topics, topic) {
			w.topics = append(w.topics, topic)
		}
	}
	if len(w.topics) == 0 {
		w.topics = []Topic{TopicNodes, TopicRoutes, TopicServices, TopicSessions, TopicLogs}
	}
	for _, list := range q["rows"] {
		for row := range strings.SplitSeq(list, ",") {
			topic, key, _ := strings.Cut(row, "/")
			if !slices.Contains(Topics(), Topic(topic)) {
				return w, badRequest("rows", row, topicNames())
			}
			if w.rows == nil {
				w.rows = make(map[Topic]map[string]bool)
			}
			if w.rows[Topic(topic)] == nil {
				w.rows[Topic(topic)] = make(map[string]bool)
			}
			w.rows[Topic(topic)][key] = true
		}
	}
	var err error
	w.tail, err = intParam(q.Get("tail"), "tail", w.tail)
	return w, err
}

func topicNames() []string {
	var names []string
	for _, t := range Topics() {
		names = append(names, string(t))
	}
	return names
}

// watch serves one reader until it leaves or ctx ends.
func watch(ctx context.Context, h Host, req watchRequest, out *lineWriter) error {
	w := &watcher{host: h, out: out, tail: req.tail, quiet: make(map[Topic]string),
		dirty: make(map[Topic]bool), wake: make(chan struct{}, 1)}
	for _, topic := range req.topics {
		switch topic {
		case TopicLogs:
			w.rings = append(w.rings, newTail(topic, h.Logs(),
				func(s *Snapshot) *[]shield.LogRow { return &s.Logs }, func(d *Delta) *[]shield.LogRow { return &d.Logs }))
		case TopicCalls:
			w.rings = append(w.rings, newTail(topic, h.Calls(),
				func(s *Snapshot) *[]shield.CallRow { return &s.Calls }, func(d *Delta) *[]shield.CallRow { return &d.Calls }))
		default:
			w.table = append(w.table, track(h, topic, req.from, req.rows[topic]))
		}
	}
	for _, r := range w.rings {
		defer r.follow()()
	}
	defer h.Notify(w.changed)()
	if err := w.snapshot(); err != nil {
		return err
	}
	return w.run(ctx)
}

// changed is called by the host, on any goroutine.
func (w *watcher) changed(topic Topic) {
	w.mu.Lock()
	w.dirty[topic] = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run waits for one of: something notable, new lines, time for the counters,
// too long a silence.
func (w *watcher) run(ctx context.Context) error {
	lines, stop := w.lines(ctx)
	defer stop()
	counted := time.NewTimer(countedEvery)
	defer counted.Stop()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		before := w.out.lines
		var err error
		pause := notableGap
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
			err = w.scan(w.takeDirty(), true)
			pause = max(pause, notableShare*w.cost)
		case <-lines:
			err = w.sendLines()
			pause = linesGap
		case <-counted.C:
			err = w.scan(nil, false)
			counted.Reset(max(countedEvery, countedShare*w.cost))
			pause = 0
		case <-alive.C:
			err = w.out.write(Event{Kind: EventAlive, Seq: w.seq})
			pause = 0
		}
		if err == nil {
			err = w.settle()
		}
		if err != nil {
			return err
		}
		if w.out.lines > before {
			alive.Reset(aliveEvery)
		}
		if !sleep(ctx, min(pause, countedEvery)) {
			return nil
		}
	}
}

// settle flushes, and resyncs a reader that kept the flush waiting.
func (w *watcher) settle() error {
	took, err := w.out.flush()
	if err != nil || took < lagAfter {
		return err
	}
	if err := w.out.write(Event{Kind: EventLagged, Seq: w.seq, Missed: uint64(took / countedEvery)}); err != nil {
		return err
	}
	return w.snapshot()
}

func (w *watcher) snapshot() error {
	s := &Snapshot{Project: w.host.Project()}
	var failed []Event
	for _, t := range w.table {
		if err := t.snapshot(s); err != nil {
			failed = append(failed, w.failure(t.name(), err)...)
		}
	}
	for _, r := range w.rings {
		r.snapshot(s, w.tail)
	}
	for _, ev := range append([]Event{{Kind: EventSnapshot, Seq: w.seq, Snapshot: s}}, failed...) {
		if err := w.out.write(ev); err != nil {
			return err
		}
	}
	_, err := w.out.flush()
	return err
}

// scan compares topics (nil = all) with what was sent and sends the difference.
func (w *watcher) scan(topics map[Topic]bool, onlyNotable bool) error {
	start := time.Now()
	defer func() { w.cost = time.Since(start) }()
	for _, t := range w.table {
		if topics != nil && !topics[t.name()] {
			continue
		}
		d, err := t.delta(onlyNotable)
		events := w.failure(t.name(), err)
		if d != nil {
			w.seq++
			events = append(events, Event{Kind: EventDelta, Seq: w.seq, Delta: d})
		}
		for _, ev := range events {
			if err := w.out.write(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// failure notes whether topic can be had, and gives the event that tells so
// when the answer is news.
func (w *watcher) failure(topic Topic, err error) []Event {
	if err == nil {
		delete(w.quiet, topic)
		return nil
	}
	if w.quiet[topic] == err.Error() {
		return nil
	}
	w.quiet[topic] = err.Error()
	return []Event{{Kind: EventFailed, Seq: w.seq, Topic: topic, Error: MakeError(err, shield.HandlerError)}}
}

func (w *watcher) takeDirty() map[Topic]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirty
	w.dirty = make(map[Topic]bool)
	return d
}

// lines makes a channel that has a token while a ring may have rows.
func (w *watcher) lines(ctx context.Context) (<-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan struct{})
	var wg sync.WaitGroup
	for _, r := range w.rings {
		wg.Go(func() {
			for r.wait(ctx) == nil {
				select {
				case ready <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return ready, func() { cancel(); wg.Wait() }
}

func (w *watcher) sendLines() error {
	for _, r := range w.rings {
		if d := r.delta(burst); d != nil {
			w.seq++
			if err := w.out.write(Event{Kind: EventDelta, Seq: w.seq, Delta: d}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tailer is a reader's position in a ring, whatever its rows are.
type tailer interface {
	follow() (done func())
	wait(context.Context) error
	snapshot(s *Snapshot, n int)
	delta(n int) *Delta
}

type ringTail[T any] struct {
	topic   Topic
	ring    *Ring[T]
	inSnap  func(*Snapshot) *[]T
	inDelta func(*Delta) *[]T
	mu      sync.Mutex // pos is read by wait, on another goroutine
	pos     uint64
}

func newTail[T any](topic Topic, r *Ring[T], inSnap func(*Snapshot) *[]T, inDelta func(*Delta) *[]T) *ringTail[T] {
	return &ringTail[T]{topic: topic, ring: r, inSnap: inSnap, inDelta: inDelta}
}

func (t *ringTail[T]) follow() (done func()) { return t.ring.Follow() }

func (t *ringTail[T]) wait(ctx context.Context) error {
	t.mu.Lock()
	pos := t.pos
	t.mu.Unlock()
	return t.ring.Wait(ctx, pos)
}

func (t *ringTail[T]) snapshot(s *Snapshot, n int) {
	rows, pos := t.ring.Last(n)
	*t.inSnap(s) = rows
	t.mu.Lock()
	t.pos = pos
	t.mu.Unlock()
}

func (t *ringTail[T]) delta(n int) *Delta {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, next, dropped := t.ring.Since(t.pos, n)
	t.pos = next
	if len(rows) == 0 {
		return nil
	}
	d := &Delta{Topic: t.topic, Notable: true, Dropped: dropped}
	*t.inDelta(d) = rows
	return d
}

// lineWriter writes one JSON value a line to an HTTP answer.
type lineWriter struct {
	buf   *bufio.Writer
	enc   *json.Encoder
	ctl   *http.ResponseController
	lines int
	spent time.Duration // in writes since the last flush
}

// timed adds up how long the connection kept its writer waiting.
type timed struct {
	w http.ResponseWriter
	l *lineWriter
}

func (t timed) Write(b []byte) (int, error) {
	start := time.Now()
	defer func() { t.l.spent += time.Since(start) }()
	return t.w.Write(b)
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	l := &lineWriter{ctl: http.NewResponseController(w)}
	l.buf = bufio.NewWriterSize(timed{w, l}, 32<<10)
	l.enc = json.NewEncoder(l.buf)
	l.enc.SetEscapeHTML(false)
	return l
}

func (l *lineWriter) write(v any) error {
	l.lines++
	if l.buf.Buffered() == 0 {
		// A connection that can't have a deadline is one of a test.
		_ = l.ctl.SetWriteDeadline(time.Now().Add(goneAfter))
	}
	err := l.enc.Encode(v)
	var value *json.UnsupportedValueError
	var kind *json.UnsupportedTypeError
	if errors.As(err, &value) || errors.As(err, &kind) {
		return l.enc.Encode(tamed(v)) // nothing was written yet
	}
	return err
}

// tamed makes log lines whose fields are no JSON (a NaN, a channel) printable:
// such a field must not cost the line, let alone the stream.
func tamed(v any) any {
	tame := func(rows []shield.LogRow) {
		for i := range rows {
			if _, err := json.Marshal(rows[i].Fields); err != nil {
				rows[i].Fields = map[string]any{"fields": fmt.Sprint(rows[i].Fields)}
			}
		}
	}
	switch v := v.(type) {
	case shield.LogRow:
		rows := []shield.LogRow{v}
		tame(rows)
		return rows[0]
	case Event: // its rows are copies that the ring made for us
		if v.Snapshot != nil {
			tame(v.Snapshot.Logs)
		}
		if v.Delta != nil {
			tame(v.Delta.Logs)
		}
	}
	return v
}

// flush sends what was written and says how long the reader kept it waiting.
func (l *lineWriter) flush() (took time.Duration, err error) {
	if l.buf.Buffered() == 0 && l.spent == 0 {
		return 0, nil
	}
	if err := l.buf.Flush(); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := l.ctl.Flush(); err != nil {
		return 0, err
	}
	took = l.spent + time.Since(start)
	l.spent = 0
	return took, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func intParam(s, name string, def int) (int, error) {
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, shield.Errorf(shield.DecodeError, "%s=%s: want a whole number", name, s)
	}
	return n, nil
}

func badRequest(param, value string, known []string) error {
	msg := param + ": unknown " + strconv.Quote(value)
	if near := shield.Nearest(value, known); near != "" {
		msg += " (did you mean " + strconv.Quote(near) + "?)"
	}
	return &shield.Error{Code: shield.DecodeError, Message: msg + "; known: " + strings.Join(known, " ")}
}
