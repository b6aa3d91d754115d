package play

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// Crowd is many clients that do the same.
type Crowd struct {
	Count  int
	Script Script // copied for each; Number counts from 1
	Dials  int    // how many connect at once; 0 = 32
}

// Result is how a crowd fared.
type Result struct {
	OK     int
	Failed map[int]error // by number
}

// Run runs all of them to their end. tell may be called from any of their
// goroutines, one at a time.
func (c Crowd) Run(ctx context.Context) Result {
	var mu sync.Mutex
	tell := c.Script.Tell
	res := Result{Failed: make(map[int]error)}
	gate := make(chan struct{}, cmp.Or(c.Dials, 32))
	var wg sync.WaitGroup
	for n := 1; n <= c.Count; n++ {
		s := c.Script
		s.Number = n
		opened := sync.OnceFunc(func() { <-gate })
		s.Tell = func(e Event) {
			if e.Kind == EventOpen {
				opened()
			}
			mu.Lock()
			defer mu.Unlock()
			tell(e)
		}
		gate <- struct{}{}
		wg.Go(func() {
			err := s.Run(ctx)
			opened()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				res.Failed[n] = err
				return
			}
			res.OK++
		})
	}
	wg.Wait()
	return res
}

// Worst picks the error that says most about a crowd: one that is a client's
// own fault before one that many share.
func (r Result) Worst() error {
	var worst error
	for _, n := range slices.Sorted(maps.Keys(r.Failed)) {
		err := r.Failed[n]
		if errors.Is(err, ErrLine) {
			return err
		}
		worst = cmp.Or(worst, err)
	}
	return worst
}
