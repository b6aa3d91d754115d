package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A link that is cut one way about as long as the offline time-out may be lost in
// the eyes of one node and not of the other. Whoever saw it lost, both ends of a
// session agree in the end: it lives and its target has heard nothing, or it is
// closed and the target has heard so once.
func TestBothEndsOfASessionAgreeOnALostLink(t *testing.T) {
	for _, way := range []struct{ name, from, to string }{
		{"to the gateway", addrOf(2), addrOf(1)},
		{"to the target", addrOf(1), addrOf(2)},
	} {
		for ms := 9500; ms <= 12500; ms += 500 {
			t.Run(fmt.Sprint(way.name, " for ", ms), func(t *testing.T) {
				inGame(t, func(t *testing.T, w *world) {
					p := w.connect()
					p.login("ann")
					w.wantHeard("node-2", "player", "bound ann")
					w.net.Cut(way.from, way.to)
					time.Sleep(time.Duration(ms) * time.Millisecond)
					w.net.HealAll()
					time.Sleep(20 * time.Second)
					heard, err := w.call("node-2", "player", "heard")
					if err != nil {
						t.Fatal(err)
					}
					ends := strings.Count(heard, "unbound ann") + strings.Count(heard, "disconnected ann")
					if live := w.nodes["node-1"].Gateways()[0].Sessions; live+ends != 1 {
						t.Errorf("%d sessions are there and the target heard %s, want one or the other", live, heard)
					}
				})
			})
		}
	}
}
