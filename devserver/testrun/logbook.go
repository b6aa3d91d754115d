package testrun

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"shield/devserver/logs"
	"shield/runtime/shield"
)

// logbook keeps the log of one file. Goroutines of different nodes that log in
// the same turn would come in any order, so lines are read in the order of
// turns, then of nodes.
type logbook struct {
	log   *logs.Log
	turns *Turns
	began time.Time

	mu     sync.Mutex
	rows   []logged
	sorted int
	more   chan struct{} // closed when there is a new row
}

type logged struct {
	turn uint64
	row  shield.LogRow
}

// maxRows bounds the memory of a file that logs without end.
const maxRows = 200_000

func newLogbook(turns *Turns, level string) *logbook {
	b := &logbook{turns: turns, began: time.Now(), more: make(chan struct{})}
	b.log = logs.New(b.add)
	b.log.SetLevel(level, "", "")
	return b
}

func (b *logbook) add(row shield.LogRow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) >= maxRows {
		return
	}
	if len(b.rows) == maxRows-1 {
		row.Text = fmt.Sprintf("these are %d lines of log; what follows is not kept", maxRows)
	}
	b.rows = append(b.rows, logged{b.turns.Count(), row})
	close(b.more)
	b.more = make(chan struct{})
}

// since gives the rows from number from on, and what closes when there are more.
func (b *logbook) since(from int) ([]shield.LogRow, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tail := b.rows[b.sorted:]
	slices.SortStableFunc(tail, func(x, y logged) int {
		if c := cmp.Compare(x.turn, y.turn); c != 0 {
			return c
		}
		return cmp.Compare(x.row.Node, y.row.Node)
	})
	// Rows of the present turn may still get company.
	for b.sorted < len(b.rows) && b.rows[b.sorted].turn < b.turns.Count() {
		b.sorted++
	}
	out := make([]shield.LogRow, 0, len(b.rows)-from)
	for _, l := range b.rows[min(from, len(b.rows)):] {
		out = append(out, l.row)
	}
	return out, b.more
}

func (b *logbook) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.rows)
}

// text is a row as people read it: the time since the file began, who, what.
func (b *logbook) text(row *shield.LogRow) string {
	var s strings.Builder
	at := row.Time.Sub(b.began)
	fmt.Fprintf(&s, "%s %-5s %-7s %-12s %s", clockText(at), row.Level, or(string(row.Node), "-"), or(row.Service, "-"), row.Text)
	var keys []string
	if row.Event == "" { // the text of an event says it all
		for k := range row.Fields {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Fprintf(&s, " %s=%v", k, row.Fields[k])
	}
	return s.String()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// clockText writes a time since the beginning.
func clockText(d time.Duration) string {
	days := ""
	if n := d / (24 * time.Hour); n > 0 {
		days = fmt.Sprintf("%dd ", n)
		d -= n * 24 * time.Hour
	}
	return fmt.Sprintf("%s%02d:%02d:%02d.%03d", days, d/time.Hour, d/time.Minute%60, d/time.Second%60, d/time.Millisecond%1000)
}
