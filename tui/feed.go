package tui

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// The messages the feed sends to the model.
type (
	// batchMsg is what came since the batch before, in order.
	batchMsg struct{ events []Event }
	// lostMsg says that the stream broke and is being tried again.
	lostMsg struct{ err error }
	// resyncMsg says that a snapshot was asked for again.
	resyncMsg struct{ why error }
	// endMsg says that nothing more will come.
	endMsg struct{}
	// crashMsg carries a panic of a goroutine of ours.
	crashMsg struct{ crash *Crash }
)

const (
	batchEvery = 100 * time.Millisecond // the screen is not drawn more often
	maxBatch   = 4096                   // events; beyond it the source has to wait
	firstRetry = 250 * time.Millisecond
	lastRetry  = 2 * time.Second
)

var errGap = errors.New("an event is missing")

// feed owns the source: it watches, watches again, and batches what comes.
type feed struct {
	src  Source
	send func(tea.Msg)

	mu    sync.Mutex
	room  *sync.Cond
	buf   []Event
	ready chan struct{}
	alive time.Time // when an event last came
}

func newFeed(src Source, send func(tea.Msg)) *feed {
	f := &feed{src: src, send: send, ready: make(chan struct{}, 1)}
	f.room = sync.NewCond(&f.mu)
	return f
}

// run watches until ctx ends.
func (f *feed) run(ctx context.Context) {
	defer f.rescue()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also when the source panics
	wg.Go(func() { f.flush(ctx) })
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.room.Broadcast()
	})
	defer stop()

	retry := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrEnd):
			f.drain(ctx)
			f.send(endMsg{})
			<-ctx.Done()
			return
		case errors.Is(err, ErrLagged), errors.Is(err, errGap):
			f.drain(ctx)
			f.send(resyncMsg{why: err})
			if time.Since(began) > time.Second {
				retry = firstRetry
			}
		default:
			f.drain(ctx)
			f.send(lostMsg{err: err})
			if f.heard() {
				retry = firstRetry
			}
		}
		if !sleep(ctx, retry) {
			return
		}
		retry = min(retry*2, lastRetry)
	}
}

// heard reports whether the watch that just ended brought anything.
func (f *feed) heard() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := !f.alive.IsZero()
	f.alive = time.Time{}
	return was
}

// watch runs one watch and checks that no event is missing.
func (f *feed) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var last uint64
	known := false
	err := f.src.Watch(ctx, func(ev Event) {
		switch {
		case ev.Snapshot != nil:
			known = true
		case ev.Lagged:
			known = false
			f.put(ctx, ev)
			return
		case ev.Trouble != "":
			f.put(ctx, ev)
			return
		case ev.Delta == nil:
			return
		case !known || ev.Seq != last+1:
			cancel(fmt.Errorf("%w: %d after %d", errGap, ev.Seq, last))
			known = false
			return
		}
		last = ev.Seq
		f.put(ctx, ev)
	})
	if cause := context.Cause(ctx); errors.Is(cause, errGap) {
		return cause
	}
	if err == nil {
		err = errors.New("the stream ended")
	}
	return err
}

func (f *feed) put(ctx context.Context, ev Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.buf) >= maxBatch && ctx.Err() == nil {
		f.room.Wait()
	}
	f.alive = time.Now()
	f.buf = append(f.buf, ev)
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// flush hands over what came, at once if it is the first in a while.
func (f *feed) flush(ctx context.Context) {
	defer f.rescue()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.ready:
		}
		if early := batchEvery - time.Since(last); early > 0 && !sleep(ctx, early) {
			return
		}
		last = time.Now()
		f.drain(ctx)
	}
}

func (f *feed) drain(ctx context.Context) {
	f.mu.Lock()
	events := f.buf
	f.buf = nil
	f.room.Broadcast()
	f.mu.Unlock()
	if len(events) > 0 && ctx.Err() == nil {
		f.send(batchMsg{events: events})
	}
}

// rescue turns a panic of this goroutine into a message: the terminal is not
// ours to leave raw.
func (f *feed) rescue() {
	if r := recover(); r != nil {
		f.send(crashMsg{crash: &Crash{Value: r, Stack: debug.Stack()}})
	}
}

// sleep waits; it reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// safely makes a panic in cmd end the program in order.
func safely(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		defer func() {
			if r := recover(); r != nil {
				msg = crashMsg{crash: &Crash{Value: r, Stack: debug.Stack()}}
			}
		}()
		return cmd()
	}
}
