// Package logs turns the runtime's log records into rows, keeps the last of
// them, hands them to whoever follows, and prints them for people or as JSON.
//
// A Log starts no goroutines. Writers never wait for a follower: one that
// lags loses rows and is told how many. It may import the vocabulary only.
package logs

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// Keep is how many rows a Log holds for those who ask later.
const Keep = 5000

// followQueue bounds what one follower may be behind.
const followQueue = 1024

// Printer writes one row to a terminal, a pipe or a file.
type Printer func(w io.Writer, row *shield.LogRow)

// Log collects the rows of one process. Use New.
type Log struct {
	level slog.LevelVar

	mu        sync.Mutex
	seq       uint64
	ring      []shield.LogRow
	next      int
	followers map[*Follower]struct{}

	outMu sync.Mutex
	out   io.Writer
	print Printer
}

// New makes a Log that prints each row to out with print; a nil out prints
// nothing.
func New(out io.Writer, print Printer) *Log {
	return &Log{out: out, print: print, followers: map[*Follower]struct{}{}}
}

// Logger makes the logger of one node; "" is for what belongs to no node.
func (l *Log) Logger(node shield.NodeID) *slog.Logger {
	return slog.New(&handler{log: l, base: shield.LogRow{Node: node}})
}

// SetLevel changes what is recorded from now on: debug, info, warn or error.
// It reports whether it knows the word.
func (l *Log) SetLevel(level string) bool {
	lv, ok := levels[level]
	if ok {
		l.level.Set(lv)
	}
	return ok
}

// Level is the lowest level recorded now.
func (l *Log) Level() string { return word(l.level.Level()) }

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func word(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}

// Rows returns the rows kept, oldest first.
func (l *Log) Rows() []shield.LogRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows()
}

func (l *Log) rows() []shield.LogRow {
	rows := make([]shield.LogRow, 0, len(l.ring))
	rows = append(rows, l.ring[l.next:]...)
	return append(rows, l.ring[:l.next]...)
}

// Add records one row and gives it its number.
func (l *Log) Add(row shield.LogRow) {
	l.mu.Lock()
	l.seq++
	row.Seq = l.seq
	if len(l.ring) < Keep {
		l.ring = append(l.ring, row)
	} else {
		l.ring[l.next] = row
		l.next = (l.next + 1) % Keep
	}
	for f := range l.followers {
		select {
		case f.rows <- row:
		default:
			f.dropped.Add(1)
		}
	}
	l.mu.Unlock()
	if l.out == nil {
		return
	}
	l.outMu.Lock()
	defer l.outMu.Unlock()
	l.print(l.out, &row)
}

// Follower receives the rows recorded after it began.
type Follower struct {
	log     *Log
	rows    chan shield.LogRow
	dropped atomic.Int64
}

// Follow begins a follower and gives it the rows kept so far, without a gap
// between the two.
func (l *Log) Follow() (kept []shield.LogRow, f *Follower) {
	f = &Follower{log: l, rows: make(chan shield.LogRow, followQueue)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers[f] = struct{}{}
	return l.rows(), f
}

// C delivers rows in order; rows that did not fit are counted by Dropped.
func (f *Follower) C() <-chan shield.LogRow { return f.rows }

// Dropped returns how many rows were lost since it was last asked.
func (f *Follower) Dropped() int64 { return f.dropped.Swap(0) }

// Close ends the follower; C delivers nothing more.
func (f *Follower) Close() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	delete(f.log.followers, f)
}

// handler is the slog side: attributes with a place in the row go there, the
// others become fields.
type handler struct {
	log    *Log
	base   shield.LogRow
	groups string
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.log.level.Level() }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	row := h.base
	row.Fields = cloneFields(row.Fields)
	row.Time, row.Level, row.Text = r.Time, word(r.Level), r.Message
	if row.Time.IsZero() {
		row.Time = time.Now()
	}
	r.Attrs(func(a slog.Attr) bool { set(&row, h.groups, a); return true })
	h.log.Add(row)
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.base.Fields = cloneFields(h.base.Fields)
	for _, a := range attrs {
		set(&n.base, h.groups, a)
	}
	return &n
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.groups += name + "."
	return &n
}

func set(row *shield.LogRow, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, g := range v.Group() {
			set(row, prefix, g)
		}
		return
	}
	if a.Key == "" {
		return
	}
	if prefix == "" {
		switch a.Key {
		case "node":
			row.Node = shield.NodeID(v.String())
			return
		case "service":
			row.Service = v.String()
			return
		case "event":
			row.Event = v.String()
			return
		case "code":
			row.Code = v.String()
			return
		case "trace":
			row.Trace = v.String()
			return
		case "gen":
			if v.Kind() == slog.KindInt64 {
				row.Generation = int(v.Int64())
				return
			}
		}
	}
	if row.Fields == nil {
		row.Fields = map[string]any{}
	}
	row.Fields[prefix+a.Key] = plain(v)
}

// plain keeps what JSON can print and turns the rest into text.
func plain(v slog.Value) any {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindString:
		return v.Any()
	case slog.KindAny:
		if f, ok := v.Any().(map[string]any); ok {
			return f
		}
		if err, ok := v.Any().(error); ok {
			return err.Error()
		}
	}
	return v.String()
}

func cloneFields(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	n := make(map[string]any, len(m))
	for k, v := range m {
		n[k] = v
	}
	return n
}
