package luavm

import (
	"runtime/metrics"
	"time"
)

// lookFromOutside is look for a world without a watcher of its own. It touches
// nothing but atomics and the list of hands, so it may be called from outside the
// synctest bubble that the world lives in.
func (w *World) lookFromOutside(now time.Time) {
	heap := uint64(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hands {
		t := &h.turn
		clock, vm := t.clock.Load(), t.vm.Load()
		if clock&1 == 0 || vm == nil {
			continue
		}
		if t.seen.clock != clock {
			t.seen = watched{clock: clock, since: now}
			continue
		}
		if heap == 0 {
			sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			metrics.Read(sample)
			heap = sample[0].Value.Uint64()
		}
		t.watch(vm, now, heap)
	}
}
