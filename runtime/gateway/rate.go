package gateway

import "time"

// bucket is a token bucket. It starts full and is used by one goroutine.
type bucket struct {
	tokens float64
	last   time.Duration
}

// take spends one token if there is one.
func (b *bucket) take(now time.Duration, rate float64, burst int) bool {
	b.tokens = min(float64(burst), b.tokens+rate*(now-b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
