package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

// Nodes that rest and wake together accuse nobody, and go on as before.
func TestRestingNodesStayOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a, b := w.start("a", 1), w.start("b", 2, 1)
		a.wantStates(time.Second, "b online")
		b.wantStates(time.Second, "a online")
		rest := func(on bool) {
			a.c.Rest(on)
			b.c.Rest(on)
		}
		before := a.c.Counters().TxHeartbeats
		rest(true)
		rest(true) // twice is as once
		time.Sleep(5 * time.Minute)
		if n := a.c.Counters().TxHeartbeats - before; n > 1 {
			t.Errorf("%d heartbeats were sent by a node that rests", n)
		}
		rest(false)
		time.Sleep(20 * time.Second)
		for _, n := range []*testNode{a, b} {
			for _, row := range n.c.Nodes() {
				if row.State != shield.Online {
					t.Errorf("%s sees %s %s: %s\n%s", n.id, row.Node, row.State, row.Reason, n.log)
				}
			}
		}
		if n := a.c.Counters().TxHeartbeats - before; n < 8 {
			t.Errorf("%d heartbeats in 20 s after the rest", n)
		}
		w.cut(a, b, false)
		a.wantStates(15*time.Second, "b offline") // who is awake notices
	})
}
