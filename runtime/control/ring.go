package control

import (
	"context"
	"sync"
	"sync/atomic"
)

// Ring keeps the last rows of something that only grows. Writers never wait
// for readers: a reader holds a position, and what fell out before it came back
// is counted for it.
type Ring[T any] struct {
	number func(*T, uint64) // tells a row its number; may be nil

	mu      sync.Mutex
	rows    []T
	next    uint64        // number of the next row; the first is 1
	wake    chan struct{} // closed at the next Append; nil while nobody waits
	watched atomic.Int32
}

// NewRing keeps size rows. number, when not nil, is called with each row and
// the number it gets.
func NewRing[T any](size int, number func(row *T, seq uint64)) *Ring[T] {
	return &Ring[T]{number: number, rows: make([]T, max(size, 1)), next: 1}
}

// Append adds a row and returns its number.
func (r *Ring[T]) Append(row T) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq := r.next
	if r.number != nil {
		r.number(&row, seq)
	}
	r.rows[seq%uint64(len(r.rows))] = row
	r.next++
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
	return seq
}

// Watched reports whether anybody follows the ring, so that a writer whose rows
// are only for watchers can spare itself the work.
func (r *Ring[T]) Watched() bool { return r.watched.Load() > 0 }

// Last gives up to n of the newest rows, oldest first, and the position after
// them.
func (r *Ring[T]) Last(n int) (rows []T, pos uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := min(r.next-1, uint64(len(r.rows)))
	from := r.next - min(have, uint64(max(n, 0)))
	return r.copyFrom(from, r.next), r.next
}

// Since gives up to n rows from position pos on, the position after them, and
// how many rows after pos are lost.
func (r *Ring[T]) Since(pos uint64, n int) (rows []T, next, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pos = min(max(pos, 1), r.next)
	if oldest := r.next - min(r.next-1, uint64(len(r.rows))); pos < oldest {
		dropped, pos = oldest-pos, oldest
	}
	end := min(r.next, pos+uint64(n))
	return r.copyFrom(pos, end), end, dropped
}

// Wait returns when a row at position pos or later exists.
func (r *Ring[T]) Wait(ctx context.Context, pos uint64) error {
	for {
		r.mu.Lock()
		if r.next > pos {
			r.mu.Unlock()
			return nil
		}
		if r.wake == nil {
			r.wake = make(chan struct{})
		}
		wake := r.wake
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// Follow makes Watched true until done is called.
func (r *Ring[T]) Follow() (done func()) {
	r.watched.Add(1)
	return sync.OnceFunc(func() { r.watched.Add(-1) })
}

func (r *Ring[T]) copyFrom(from, to uint64) []T {
	rows := make([]T, 0, to-from)
	for ; from < to; from++ {
		rows = append(rows, r.rows[from%uint64(len(r.rows))])
	}
	return rows
}
