package cluster_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

var bigCluster = flag.Bool("big", false, "measure one node among 200 with 2 000 names each (half a minute, 2 GB)")

// heap is what lives after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An idle cluster does not grow.
func TestIdleHour(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour of virtual time")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1, 2, 3)
		b := w.start("b", 2, 1, 3)
		c := w.start("c", 3, 1, 2)
		for _, n := range []*testNode{a, b, c} {
			n.c.Publish("x", 1)
		}
		time.Sleep(5 * time.Minute)
		before, real := heap(), realTime()
		time.Sleep(time.Hour)
		after, used := heap(), realTime()-real
		t.Logf("heap %d KiB, an hour later %d KiB; the hour took %v of CPU", before>>10, after>>10, used)
		if used > time.Hour/100 {
			t.Errorf("three idle nodes take %v of CPU an hour, want under 1 %% of a core", used)
		}
		if after > before+512<<10 {
			t.Errorf("an idle hour grew the heap from %d to %d bytes", before, after)
		}
		a.wantStates(0, "b online", "c online")
		if got := a.events(); len(got) != 2 {
			t.Errorf("events of an idle hour: %q", got)
		}
	})
}

// One node in the middle of 199 others, each with 2 000 names: what joining, an
// idle second and one change cost it.
func TestTwoHundredNodes(t *testing.T) {
	if !*bigCluster {
		t.Skip("asked for with -big")
	}
	const nodes, names = 200, 2000
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		hub := w.start("hub", 1)
		for i := range names {
			hub.c.Publish(shield.Name(fmt.Sprintf("hub.service.%d", i)), shield.ServiceID(i+1))
		}
		cpu := realTime()
		var starts sync.WaitGroup
		for i := 1; i < nodes; i++ {
			leaf := w.make(fmt.Sprintf("leaf-%d", i), i+1, 1)
			leaf.prepare()
			for j := range names {
				leaf.c.Publish(shield.Name(fmt.Sprintf("leaf%d.service.%d", i, j)), shield.ServiceID(j+1))
			}
			starts.Go(func() {
				if err := leaf.c.Start(t.Context()); err != nil {
					t.Errorf("start: %v", err)
				}
			})
		}
		starts.Wait()
		time.Sleep(10 * time.Second)
		if got := len(hub.c.Routes()); got != nodes*names {
			t.Fatalf("the hub knows %d names, want %d", got, nodes*names)
		}
		t.Logf("join: %v of CPU for %d links", realTime()-cpu, nodes-1)
		measure := func(what string, seconds int, everySecond func(i int)) {
			packets, bytes := w.net.Traffic()
			cpu := realTime()
			for i := range seconds {
				everySecond(i)
				time.Sleep(time.Second)
			}
			used := realTime() - cpu
			p, b := w.net.Traffic()
			t.Logf("%s: %.1f KB/s and %.0f packets/s in and out of one node, %.2f ms of CPU a second", what,
				float64(b-bytes)/float64(seconds)/1e3, float64(p-packets)/float64(seconds),
				float64(used.Microseconds())/1e3/float64(seconds)/2) // both ends of each link ran
		}
		measure("idle", 60, func(int) {})
		measure("one change a second", 20, func(i int) { hub.c.Publish("changing", shield.ServiceID(i+1)) })
	})
}
