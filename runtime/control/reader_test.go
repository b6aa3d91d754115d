package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
)

// reader is the far end of a watch in virtual time.
type reader struct {
	mu     sync.Mutex
	events []control.Event
	times  []time.Time
	stuck  time.Duration // how long the next flush takes
	header http.Header
}

func (r *reader) Header() http.Header { return r.header }

func (r *reader) WriteHeader(int) {}

func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ev control.Event
	dec := json.NewDecoder(newLines(b))
	for dec.More() {
		ev = control.Event{}
		if err := dec.Decode(&ev); err != nil {
			return 0, err
		}
		r.events = append(r.events, ev)
		r.times = append(r.times, time.Now())
	}
	return len(b), nil
}

func newLines(b []byte) *lines { return &lines{b} }

type lines struct{ b []byte }

func (l *lines) Read(p []byte) (int, error) {
	n := copy(p, l.b)
	l.b = l.b[n:]
	if n == 0 {
		return 0, fmt.Errorf("end")
	}
	return n, nil
}

// FlushError blocks as a full socket does.
func (r *reader) FlushError() error {
	r.mu.Lock()
	d := r.stuck
	r.stuck = 0
	r.mu.Unlock()
	time.Sleep(d)
	return nil
}

func (r *reader) stall(d time.Duration) { r.mu.Lock(); r.stuck = d; r.mu.Unlock() }

// take gives what came since the last take, without the signs of life.
func (r *reader) take() []control.Event {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	evs := slices.DeleteFunc(r.events, func(e control.Event) bool { return e.Kind == control.EventAlive })
	r.events, r.times = nil, nil
	return evs
}

// watching runs test while a watch of query runs in virtual time.
func watching(t *testing.T, h *controltest.Host, query string, test func(t *testing.T, r *reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := control.NewServer(control.Config{Host: h})
		r := &reader{header: http.Header{}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			s.Handler(control.Access{}).ServeHTTP(r, httptest.NewRequestWithContext(ctx, "GET", "/ops/watch?"+query, nil))
		})
		test(t, r)
		cancel()
		wg.Wait()
		if h.Watched() || h.Logs().Watched() || h.Calls().Watched() {
			t.Error("something is still watched after the reader left")
		}
	})
}

func kinds(evs []control.Event) (all []string) {
	for _, e := range evs {
		s := string(e.Kind)
		if e.Delta != nil {
			s += " " + string(e.Delta.Topic)
			if e.Delta.Notable {
				s += "!"
			}
		}
		all = append(all, s)
	}
	return all
}

func wantKinds(t *testing.T, evs []control.Event, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(evs)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}
