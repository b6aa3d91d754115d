package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/cluster"
	"shield/runtime/shield"
)

// What tools are shown counts envelopes and replies as messages and nothing
// else, and knows no heartbeat of who has sent none.
func TestCountersAndRows(t *testing.T) {
	synced := func(c shield.ClusterCounters) shield.ClusterCounters {
		c.TxHeartbeats, c.RxHeartbeats = min(c.TxHeartbeats, 1), min(c.RxHeartbeats, 1)
		return c
	}
	pair(t, func(_ *world, a, _ *testNode) { a.cfg.Peers = []string{addrOf(9)} }, func(_ *world, a, b *testNode) {
		a.wantStates(time.Second, "10.0.0.9:9000 connecting", "b online")
		b.c.SetInfo(cluster.Info{Gateways: []string{"tcp://10.0.0.2:7001"}, Services: 3, Sessions: 4, CallsPerSecond: 1.5})
		b.c.Publish("room", 7)
		for range 3 {
			if _, err := a.call(b, "echo", time.Second); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := a.c.Send(&shield.Envelope{Target: shield.Handle{Node: "b", Epoch: b.c.Epoch(), ID: 1}, Method: "m"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4900*time.Millisecond - time.Since(a.w.begin))
		want := shield.ClusterCounters{Connections: 1, TxMessages: 5, RxMessages: 3, TxHeartbeats: 1, RxHeartbeats: 1}
		if diff := cmp.Diff(want, synced(a.c.Counters())); diff != "" {
			t.Errorf("counters of a (-want +got):\n%s", diff)
		}
		want.TxMessages, want.RxMessages = 3, 5
		if diff := cmp.Diff(want, synced(b.c.Counters())); diff != "" {
			t.Errorf("counters of b (-want +got):\n%s", diff)
		}
		rows := a.c.Nodes()
		if len(rows) != 3 || !rows[0].Self || rows[0].LastHeartbeat != nil {
			t.Fatalf("rows %+v", rows)
		}
		if r := rows[1]; r.LastHeartbeat != nil || r.HeartbeatAge != nil || r.ClockSkew != nil || r.Reason == "" {
			t.Errorf("the row of who never answered: %+v", r)
		}
		r := rows[2]
		if r.LastHeartbeat == nil || r.HeartbeatAge == nil || *r.HeartbeatAge > 2000 || *r.LastHeartbeat < 2000 || *r.LastHeartbeat > 5000 {
			t.Errorf("heartbeats of b: %v, age %v", r.LastHeartbeat, r.HeartbeatAge)
		}
		if r.Services != 3 || r.Sessions != 4 || r.CallsPerSecond != 1.5 || len(r.Gateways) != 1 || r.RoutesVersion != 2 || r.RoutesBehind ||
			r.RTTMicros < 4000 || r.Address != b.addr || r.Epoch != b.c.Epoch() || r.Reason != "it dialled us" {
			t.Errorf("the row of b: %+v", r)
		}
		c := a.w.start("c", 3, 2)
		c.wantStates(time.Second, "b online")
		time.Sleep(10 * time.Millisecond)
		if gw := c.c.Nodes()[1].Gateways; len(gw) != 1 || gw[0] != "tcp://10.0.0.2:7001" {
			t.Errorf("who joins later hears of the gateways %q", gw)
		}
		c.stop()
		b.stop()
		if r := a.c.Nodes()[2]; r.State != shield.Offline || r.RoutesVersion != 0 || r.HeartbeatAge != nil || a.c.Counters().Connections != 0 {
			t.Errorf("the row of b when it has left: %+v", r)
		}
	})
}
