package watch

import (
	"errors"
	"time"

	"github.com/fsnotify/fsnotify"
)

// run is the watcher's goroutine: it waits for something to look for, looks,
// and hands over what it found.
func (w *Watcher) run() {
	poll := time.NewTimer(w.cfg.Poll)
	defer poll.Stop()
	// What was saved since New gave no event: nothing was followed then.
	w.last = time.Now()
	w.first, w.touched = w.last, nil
	w.burst()
	for {
		select {
		case <-w.ctx.Done():
			return
		case e := <-w.eventsC():
			w.note(e)
			w.burst()
		case err := <-w.errorsC():
			w.noteError(err)
			w.burst()
		case done := <-w.asks:
			w.touched, w.asked = nil, true
			w.believe(time.Now())
			w.asked = false
			close(done)
		case <-poll.C:
			w.poll()
		}
		w.copying = false
		poll.Reset(w.cfg.Poll)
	}
}

// endless reports whether a burst has kept a change back for long enough.
func (w *Watcher) endless(began time.Time) bool {
	limit := maxBurst
	if w.copying {
		limit = maxCopy
	}
	return time.Since(began) > limit
}

func (w *Watcher) eventsC() <-chan fsnotify.Event {
	if w.events == nil {
		return nil
	}
	return w.events.Events
}

func (w *Watcher) errorsC() <-chan error {
	if w.events == nil {
		return nil
	}
	return w.events.Errors
}

func (w *Watcher) note(e fsnotify.Event) {
	w.last = time.Now()
	if w.first.IsZero() {
		w.first = w.last
	}
	if w.touched != nil {
		w.touched[e.Name] = true
		w.copying = w.copying || len(w.touched) > manyFiles
	}
}

// noteError takes every error for lost events: then all files are read.
func (w *Watcher) noteError(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.once("file events: %v; all files are read again", err)
	}
	w.last = time.Now()
	if w.first.IsZero() {
		w.first = w.last
	}
	w.touched = nil
}

// wait lets time pass, noting events; false when the watcher is closed.
func (w *Watcher) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return false
		case e := <-w.eventsC():
			w.note(e)
		case err := <-w.errorsC():
			w.noteError(err)
		case <-t.C:
			return true
		}
	}
}

// drain notes the events that came while nobody looked.
func (w *Watcher) drain() {
	for {
		select {
		case e := <-w.eventsC():
			w.note(e)
		case err := <-w.errorsC():
			w.noteError(err)
		default:
			return
		}
	}
}

// burst waits until events stop coming, then looks.
func (w *Watcher) burst() {
	began := w.first
	if !w.settle(began, w.cfg.Quiet) {
		return
	}
	w.believe(began)
}

// settle waits until no event has come for quiet and git is done; false when the
// watcher is closed. A burst without end is cut.
func (w *Watcher) settle(began time.Time, quiet time.Duration) bool {
	for {
		if w.last.Sub(began) > oneSave {
			quiet = max(quiet, burstQuiet)
		}
		left := quiet - time.Since(w.last)
		if left <= 0 && w.checkingOut() {
			left = quiet
		}
		if left <= 0 || w.endless(began) {
			return true
		}
		if !w.wait(left) {
			return false
		}
	}
}

// believe scans until two looks agree, gives files that are not whole their
// time, and hands the change over.
func (w *Watcher) believe(began time.Time) {
	next := w.read()
	for next != nil {
		changes := w.Snapshot().Diff(next)
		if len(changes) == 0 && w.first.IsZero() {
			break // and nothing has happened while we read
		}
		quiet := w.cfg.Quiet
		if len(changes) > manyFiles {
			w.copying = true
			quiet = max(quiet, manyQuiet)
		}
		if !w.first.IsZero() || time.Since(w.last) < quiet {
			if !w.settle(began, quiet) {
				return
			}
		}
		if !w.giveTime(changes, next) {
			return
		}
		look := w.read()
		if look == nil {
			return
		}
		same := len(next.Diff(look)) == 0 && w.first.IsZero()
		next = look
		if same || w.endless(began) {
			w.hand(began, next)
			break
		}
	}
}

// read scans the tree, and forgets the events that asked for it.
func (w *Watcher) read() *Snapshot {
	touched := w.touched
	w.touched, w.first = map[string]bool{}, time.Time{}
	for {
		snap, err := w.scan.run(touched)
		if err != nil {
			w.once("read the project: %v; what runs goes on as it is", err)
			return nil
		}
		if w.events == nil || !w.follow() {
			w.drain()
			return snap
		}
	}
}

func (w *Watcher) hand(began time.Time, next *Snapshot) {
	if w.paused.Load() && !w.asked {
		return
	}
	changes := w.Snapshot().Diff(next)
	if len(changes) == 0 {
		return
	}
	w.now.Store(next)
	if w.cfg.OnChange != nil {
		w.cfg.OnChange(ChangeSet{Changes: changes, Snapshot: next, Time: began})
	}
}

// giveTime waits, up to Settle, for files that are gone, empty or not whole:
// many editors and tools take a file away, or empty it, before they write it. It
// returns false when the watcher is closed.
func (w *Watcher) giveTime(changes []Change, next *Snapshot) bool {
	deadline := time.Now().Add(w.cfg.Settle)
	whole := map[Hash]bool{}
	for w.doubtful(changes, next, whole) {
		left := time.Until(deadline)
		if left <= 0 {
			return true
		}
		if !w.wait(min(again, left)) {
			return false
		}
		look, err := w.scan.run(w.paths(changes))
		if err != nil {
			return true // the next read tells
		}
		next = look
	}
	return true
}

func (w *Watcher) paths(changes []Change) map[string]bool {
	full := map[string]bool{}
	for _, c := range changes {
		full[w.full(c.Path)] = true
	}
	return full
}

// doubtful reports whether a changed file is gone, empty or not whole. whole
// remembers what was found good: many files may change at once.
func (w *Watcher) doubtful(changes []Change, next *Snapshot, whole map[Hash]bool) bool {
	for _, c := range changes {
		f := next.File(c.Path)
		if f == nil || len(f.Content) == 0 {
			return true
		}
		if w.cfg.Check == nil || whole[f.Hash] {
			continue
		}
		if w.cfg.Check(c.Path, f.Content) != nil {
			return true
		}
		whole[f.Hash] = true
	}
	return false
}

// poll is a look that no event asked for. One that finds a change, and no event
// for it either, proves that events don't come.
func (w *Watcher) poll() {
	if w.paused.Load() {
		return // what was kept back would be found each time
	}
	// Most looks cost a stat for each file; every fifth reads them all.
	w.polls++
	if w.polls%5 == 0 {
		w.touched = nil
	}
	began := time.Now()
	w.scan.quick = true
	next := w.read()
	w.scan.quick = false
	if next == nil || len(w.Snapshot().Diff(next)) == 0 {
		return
	}
	if w.events != nil || w.cfg.noEvents {
		if !w.wait(w.cfg.Quiet) {
			return
		}
		if w.first.IsZero() && w.wait(eventGrace) && w.first.IsZero() {
			w.once("no file events arrive here (a container mount, WSL or a network share?): looking every %v instead", w.cfg.Poll)
		}
	}
	w.believe(began)
}
