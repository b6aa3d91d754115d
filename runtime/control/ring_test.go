package control_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
)

func TestRingTellsWhatFellOut(t *testing.T) {
	r := control.NewRing[int](4, nil)
	if rows, pos := r.Last(10); len(rows) != 0 || pos != 1 {
		t.Errorf("Last() of an empty ring = %v, %d", rows, pos)
	}
	for i := 1; i <= 6; i++ {
		if seq := r.Append(i); seq != uint64(i) {
			t.Errorf("Append() = %d, want %d", seq, i)
		}
	}
	for _, tt := range []struct {
		name          string
		pos           uint64
		n             int
		want          []int
		next, dropped uint64
	}{
		{"from the start", 1, 10, []int{3, 4, 5, 6}, 7, 2},
		{"from zero", 0, 10, []int{3, 4, 5, 6}, 7, 2},
		{"a part", 4, 2, []int{4, 5}, 6, 0},
		{"nothing new", 7, 10, []int{}, 7, 0},
		{"a position from another ring", 99, 10, []int{}, 7, 0},
	} {
		rows, next, dropped := r.Since(tt.pos, tt.n)
		if diff := cmp.Diff(tt.want, rows); diff != "" || next != tt.next || dropped != tt.dropped {
			t.Errorf("%s: Since(%d, %d) = %v, %d, %d", tt.name, tt.pos, tt.n, rows, next, dropped)
		}
	}
	if rows, pos := r.Last(2); pos != 7 || !cmp.Equal(rows, []int{5, 6}) {
		t.Errorf("Last(2) = %v, %d", rows, pos)
	}
}

func TestRingReadersSeeEveryRow(t *testing.T) {
	const writers, each = 4, 500
	r := control.NewRing[int](writers*each, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			seen := 0
			for pos := uint64(1); seen < writers*each; {
				if err := r.Wait(ctx, pos); err != nil {
					t.Errorf("Wait(%d) = %v after %d rows", pos, err, seen)
					return
				}
				rows, next, dropped := r.Since(pos, 64)
				if dropped != 0 {
					t.Errorf("dropped %d of a ring that holds all", dropped)
				}
				seen += len(rows)
				pos = next
			}
		})
	}
	for range writers {
		wg.Go(func() {
			for i := range each {
				r.Append(i)
			}
		})
	}
	wg.Wait()
}
