package node

import (
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/shield"
)

// The names of other nodes' services are found without reading the table each
// time, and changes of it are seen soon.
func TestNamesAreFoundWithoutReadingEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x names
		reads := 0
		rows := []shield.RouteRow{{Node: "n2", Name: "a", Service: 1}, {Node: "n2", Name: "b", Service: 1}, {Node: "n3", Name: "c", Service: 1}}
		find := func(node shield.NodeID, id shield.ServiceID, want shield.Name) {
			t.Helper()
			got, ok := x.find(shield.Handle{Node: node, ID: id}, func() []shield.RouteRow { reads++; return rows })
			if got != want || ok != (want != "") {
				t.Errorf("find(%s#%d) = %q, %v, want %q", node, id, got, ok, want)
			}
		}
		for range 1000 {
			find("n2", 1, "a")
			find("n3", 1, "c")
			find("n3", 2, "")
		}
		if reads != 1 {
			t.Errorf("the table was read %d times, want once", reads)
		}
		rows = append(rows[1:], shield.RouteRow{Node: "n3", Name: "d", Service: 2})
		time.Sleep(namesPause)
		find("n3", 2, "d")
		find("n2", 1, "b")
		rows = nil
		time.Sleep(namesLast)
		find("n3", 2, "")
		if reads != 3 {
			t.Errorf("the table was read %d times, want 3", reads)
		}
	})
}
