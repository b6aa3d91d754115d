package cluster_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/cluster"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// A process that was paused accuses nobody when it wakes.
func TestPause(t *testing.T) {
	pair(t, func(_ *world, a, b *testNode) { a.cfg.Peers = []string{b.addr} }, func(w *world, a, b *testNode) {
		a.wantStates(time.Second, "b online")
		time.Sleep(3 * time.Second)
		w.net.Down(a.addr, true)
		a.c.Pause(30 * time.Second)
		time.Sleep(30 * time.Second)
		b.wantStates(0, "a offline")
		w.net.Down(a.addr, false)
		b.wantStates(2500*time.Millisecond, "a online")
		time.Sleep(20 * time.Second)
		if got := a.events(); len(got) != 1 {
			t.Errorf("the paused node accused: %q\n%s", got, a.log)
		}
		if a.c.Drops()["pauses_noticed"] != 1 || !a.log.has("event=pause") {
			t.Errorf("the pause is not told: %v", a.c.Drops())
		}
		if _, err := a.call(b, "echo", time.Second); err != nil {
			t.Error(err)
		}
	})
}

// The time of a pause, or of a rest, does not count for who has never answered
// either.
func TestPauseOfTheOthersDeadlines(t *testing.T) {
	for _, hold := range []func(c *cluster.Cluster){
		func(c *cluster.Cluster) { c.Pause(30 * time.Second); time.Sleep(30 * time.Second) },
		func(c *cluster.Cluster) { c.Rest(true); time.Sleep(30 * time.Second); c.Rest(false) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			defer w.close()
			a := w.make("a", 1, 9)
			a.cfg.Settle = -1
			if err := a.start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			hold(a.c)
			time.Sleep(5 * time.Second)
			a.wantStates(0, "10.0.0.9:9000 connecting")
			a.wantStates(6*time.Second, "10.0.0.9:9000 offline")
			time.Sleep(50 * time.Second)
			hold(a.c)
			time.Sleep(5 * time.Second)
			a.wantStates(0, "10.0.0.9:9000 offline")
			a.wantStates(6*time.Second, "10.0.0.9:9000 removed")
		})
	}
}

// While a machine sleeps most monotonic clocks stand still: when it wakes only the
// wall clock shows why its peers say that they have not heard it.
func TestSleep(t *testing.T) {
	for _, tt := range []struct {
		name  string
		jump  time.Duration // of the wall clock
		state shield.NodeState
	}{
		{"asleep for five minutes", 5 * time.Minute, shield.Online},
		{"awake all the time", 0, shield.Offline},
		{"the clock was set back", -5 * time.Minute, shield.Offline},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.token = ""
			defer w.close()
			var jump atomic.Int64
			a := w.make("a", 1)
			a.cfg.Wall = func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
			if err := a.start(); err != nil {
				t.Fatal(err)
			}
			s := w.stranger(66, "peer")
			l := s.join(t, a.addr, s.identity())
			a.wantStates(time.Second, "peer online")
			jump.Store(int64(tt.jump))
			time.Sleep(300 * time.Millisecond)
			// What the peer sent while a slept.
			_ = l.Write(cluster.Control, wire.AppendHeartbeat(nil, &wire.Heartbeat{Heard: 5 * time.Minute}))
			time.Sleep(300 * time.Millisecond)
			a.wantStates(0, "peer "+string(tt.state))
			if got := a.c.Drops()["pauses_noticed"] == 1 && a.log.has("event=pause") && a.log.has("for=5m0"); got != (tt.jump > 0) {
				t.Errorf("%s: told: %v\n%s", tt.name, got, a.log)
			}
		})
	}
}
