// Package logs turns the runtime's log records into rows, lets the level be
// changed while it runs, and prints rows for people or as JSON.
//
// It starts no goroutines, keeps nothing and may import the vocabulary only;
// where rows go is its caller's to say.
package logs

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"shield/runtime/shield"
)

// Log makes the loggers of one process. Use New.
type Log struct {
	sink   func(shield.LogRow)
	levels atomic.Pointer[levels]
	set    sync.Mutex // of SetLevel
}

// levels is the level in force: for everything, and where a node or service
// was given one of its own. The most particular one wins.
type levels struct {
	all    slog.Level
	lowest slog.Level
	own    map[scope]slog.Level
}

type scope struct {
	node    shield.NodeID
	service string
}

// New makes a Log that hands every row to sink, from any goroutine. sink must
// not block.
func New(sink func(shield.LogRow)) *Log {
	l := &Log{sink: sink}
	l.levels.Store(&levels{all: slog.LevelInfo, lowest: slog.LevelInfo})
	return l
}

// Logger makes the logger of one node; "" is for what belongs to no node.
func (l *Log) Logger(node shield.NodeID) *slog.Logger {
	return slog.New(&handler{log: l, base: shield.LogRow{Node: node}})
}

// SetLevel changes what is recorded from now on: debug, info, warn or error. An
// empty node or service means all of them. It reports whether it knows the word.
func (l *Log) SetLevel(level string, node shield.NodeID, service string) bool {
	lv, ok := words[level]
	if !ok {
		return false
	}
	l.set.Lock()
	defer l.set.Unlock()
	n := *l.levels.Load()
	if node == "" && service == "" {
		n.all, n.own = lv, nil
	} else {
		n.own = maps.Clone(n.own)
		if n.own == nil {
			n.own = map[scope]slog.Level{}
		}
		n.own[scope{node, service}] = lv
	}
	n.lowest = n.all
	for _, o := range n.own {
		n.lowest = min(n.lowest, o)
	}
	l.levels.Store(&n)
	return true
}

// Level is the level of what has none of its own.
func (l *Log) Level() string { return word(l.levels.Load().all) }

func (ls *levels) of(node shield.NodeID, service string) slog.Level {
	if len(ls.own) == 0 {
		return ls.all
	}
	for _, s := range []scope{{node, service}, {"", service}, {node, ""}} {
		if lv, ok := ls.own[s]; ok {
			return lv
		}
	}
	return ls.all
}

var words = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

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

// To makes a sink that prints rows to w, one at a time.
func To(w io.Writer, print Printer) func(shield.LogRow) {
	var mu sync.Mutex
	return func(row shield.LogRow) {
		mu.Lock()
		defer mu.Unlock()
		print(w, &row)
	}
}

// handler is the slog side: attributes with a place in the row go there, the
// others become fields.
type handler struct {
	log    *Log
	base   shield.LogRow
	groups string
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool {
	return l >= h.log.levels.Load().lowest
}

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	row := h.base
	row.Fields = maps.Clone(row.Fields)
	row.Time, row.Level, row.Text = r.Time, word(r.Level), r.Message
	if row.Time.IsZero() {
		row.Time = time.Now()
	}
	r.Attrs(func(a slog.Attr) bool { set(&row, h.groups, a); return true })
	if r.Level >= h.log.levels.Load().of(row.Node, row.Service) {
		h.log.sink(row)
	}
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.base.Fields = maps.Clone(h.base.Fields)
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
