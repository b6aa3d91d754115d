package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

const (
	// silence is how long a server that has nothing to say may say nothing: it
	// promises a line every two seconds.
	silence = 5 * time.Second
	// The pauses between attempts to attach again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	// maxLine bounds one line of a watch; the snapshot is the longest.
	maxLine = 256 << 20
)

// errSilent is the cause of a stream that was cut because nothing came.
var errSilent = fmt.Errorf("nothing heard for %v", silence)

// follow attaches, hands on what comes, and attaches again, until ctx ends.
func (c *Client) follow(ctx context.Context, r WatchRequest, ch chan<- Update) {
	send := func(u Update) bool {
		select {
		case ch <- u:
			return true
		case <-ctx.Done():
			return false
		}
	}
	stale := false
	heard := time.Now()
	for retry := firstRetry; ctx.Err() == nil; {
		attached, err := c.stream(ctx, r, func(ev control.Event) bool {
			heard = time.Now()
			return send(Update{Event: &ev})
		}, func() bool {
			stale, heard = false, time.Now()
			return send(Update{Link: LinkUp})
		})
		if ctx.Err() != nil {
			return
		}
		if attached {
			retry = firstRetry
		}
		if !stale {
			stale = true
			if !send(Update{Link: LinkStale, Err: err, Since: heard}) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
		retry = min(2*retry, lastRetry)
	}
}

// stream reads one watch to its end. attached is whether the server answered.
func (c *Client) stream(ctx context.Context, r WatchRequest, each func(control.Event) bool, up func() bool) (attached bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	guard := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer guard.Stop()
	resp, err := c.open(ctx, "GET", "/ops/watch", r.query(), nil)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		return false, err
	}
	defer resp.Body.Close()
	if !up() {
		return true, ctx.Err()
	}
	err = readEvents(resp.Body, func(ev control.Event) bool {
		// A reader that takes its time must not make the server look silent:
		// the guard runs only while we wait for the server.
		guard.Stop()
		ok := each(ev)
		guard.Reset(silence)
		return ok
	})
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return true, cause
	}
	if err == nil {
		err = errors.New("the server ended the watch")
	}
	return true, err
}

// readEvents decodes a watch, one event a line, until each says stop or the
// stream ends. What is no event ends it with an error; a kind of event that
// this release does not know is passed over.
func readEvents(body io.Reader, each func(control.Event) bool) error {
	return readLines(body, func(line []byte) (bool, error) {
		var ev control.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return false, fmt.Errorf("the server sent what is no event: %w", err)
		}
		switch {
		case ev.Kind == control.EventSnapshot && ev.Snapshot == nil, ev.Kind == control.EventDelta && ev.Delta == nil,
			ev.Kind == control.EventFailed && ev.Error == nil:
			return false, fmt.Errorf("the server sent an empty %s", ev.Kind)
		}
		if !known(ev.Kind) {
			return true, nil
		}
		return each(ev), nil
	})
}

func known(k control.EventKind) bool {
	return slices.Contains([]control.EventKind{control.EventSnapshot, control.EventDelta, control.EventLagged,
		control.EventAlive, control.EventFailed}, k)
}

func readLines(body io.Reader, each func([]byte) (more bool, err error)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if more, err := each(lines.Bytes()); err != nil || !more {
			return err
		}
	}
	return lines.Err()
}

func (r WatchRequest) query() url.Values {
	v := query("from", string(r.From))
	var topics []string
	for _, t := range r.Topics {
		topics = append(topics, string(t))
	}
	if len(topics) > 0 {
		v.Set("topics", strings.Join(topics, ","))
	}
	var rows []string
	for t, keys := range r.Rows {
		rows = append(rows, string(t)+"/") // a topic with no keys wants no counted changes at all
		for _, k := range keys {
			rows = append(rows, string(t)+"/"+k)
		}
	}
	if len(rows) > 0 {
		slices.Sort(rows)
		v.Set("rows", strings.Join(rows, ","))
	}
	if r.Tail > 0 {
		v.Set("tail", strconv.Itoa(r.Tail))
	}
	return v
}

// LogRequest says which lines to get.
type LogRequest struct {
	Tail    int    // how many old ones; 0 = 100, -1 = none
	Level   string // the lowest; "" = debug
	Node    shield.NodeID
	Service string
	Follow  bool // go on with those that come
}

// Logs calls each for every line. It returns nil when all is said, and with
// Follow only when ctx ends, each fails, or the server goes.
func (c *Client) Logs(ctx context.Context, r LogRequest, each func(shield.LogRow) error) error {
	q := query("level", r.Level, "node", string(r.Node), "service", r.Service)
	if r.Tail != 0 {
		q.Set("tail", strconv.Itoa(max(r.Tail, 0)))
	}
	if r.Follow {
		q.Set("follow", "1")
	}
	ctx, stop := c.guard(ctx) // a log may rightly be silent for long
	defer stop()
	resp, err := c.open(ctx, "GET", "/ops/logs", q, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var failed error
	err = readLines(resp.Body, func(line []byte) (bool, error) {
		var row shield.LogRow
		if err := json.Unmarshal(line, &row); err != nil {
			return false, fmt.Errorf("the server sent what is no log line: %w", err)
		}
		failed = each(row)
		return failed == nil, nil
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil, err != nil:
		return c.lost(ctx, err)
	case r.Follow:
		return c.lost(ctx, errors.New("it ended the log"))
	}
	return nil
}
