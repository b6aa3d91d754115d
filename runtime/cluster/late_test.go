package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

// What the reader of an old link still has in hand says nothing of the node's new
// life.
func TestAnOldLinksFramesMarkNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		a := w.start("a", 1)
		b := w.start("b", 2, 1)
		a.wantStates(time.Second, "b online")
		old := a.c.ControlOf("b")
		b.crash()
		b = w.start("b", 2, 1)
		b.c.Publish("room", 7)
		a.wantStates(2*time.Second, "b online")
		a.wantResolve(time.Second, "b", "room", 7)
		if err := old(wire.KindGoodbye, wire.AppendGoodbye(nil, wire.KindGoodbye, "bye")[wire.ClusterHeader+1:]); err != nil {
			t.Fatal(err)
		}
		beat := wire.AppendHeartbeat(nil, &wire.Heartbeat{Seq: 9, Draining: true})
		if err := old(wire.KindHeartbeat, beat[wire.ClusterHeader+1:]); err != nil {
			t.Fatal(err)
		}
		a.wantResolve(time.Millisecond, "b", "room", 7)
		if row := a.c.Nodes()[1]; row.Intent != shield.Serving {
			t.Errorf("the row of b says %s", row.Intent)
		}
	})
}
