package gateway

import (
	"runtime"
	"testing"

	"shield/runtime/shield"
)

// Players that come and go leave nothing behind: after the first crowd, the heap
// is the same after each.
func TestCrowdsLeaveNothing(t *testing.T) {
	r := newRig(t, pipe, func(c *Config) { c.Limits.MaxPerIP = -1 })
	crowd := func() int64 {
		bots := make([]*bot, 0, 300)
		var refs []shield.ClientRef
		for range cap(bots) {
			conn, err := r.dialConn()
			if err != nil {
				t.Fatal(err)
			}
			b := &bot{t: t, conn: conn, br: newReader(conn), f: r.format}
			ref := r.login(b, "ada")
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("hello")})
			b.want(rPos, "hello")
			bots, refs = append(bots, b), append(refs, ref)
			r.router.mu.Lock()
			r.router.events = r.router.events[:0] // the fake's own memory is not the gateway's
			r.router.mu.Unlock()
		}
		for i, b := range bots {
			if i%3 == 0 {
				if err := r.CloseSession(refs[i], ""); err != nil {
					t.Error(err)
				}
			}
			b.conn.Close()
		}
		r.gone()
		r.router.mu.Lock()
		r.router.events = nil
		r.router.mu.Unlock()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	crowd()
	first := crowd()
	for round := range 4 {
		if now := crowd(); now > first+first/20+64<<10 {
			t.Errorf("crowd %d: the heap is %d KB, after the first %d KB", round, now>>10, first>>10)
		}
	}
}
