package control_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// A reader that applies every event has what the host has, whatever happens.
func TestASnapshotKeptUpToDateIsTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := three()
		watching(t, h, "topics=nodes,routes,services,sessions,status", func(t *testing.T, r *reader) {
			var mine control.Snapshot
			for range rapid.IntRange(1, 8).Draw(rt, "rounds") {
				h.Set(func(rows *controltest.Rows) { scramble(rt, rows) }, rapid.SampledFrom(control.Topics()).Draw(rt, "told"))
				if rapid.Bool().Draw(rt, "stuck") {
					r.stall(2 * time.Second)
				}
				time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
			}
			time.Sleep(4 * time.Second)
			seq := uint64(0)
			for _, ev := range r.take() {
				if ev.Delta != nil && ev.Seq != seq+1 {
					rt.Fatalf("seq %d after %d", ev.Seq, seq)
				}
				seq = ev.Seq
				mine.Apply(ev)
			}
			truth := control.Snapshot{Project: h.Project()}
			truth.Nodes, _ = h.Nodes("")
			truth.Routes, _ = h.Routes("")
			truth.Services, _ = h.Services()
			truth.Sessions, _ = h.Sessions()
			truth.Status, _ = h.Status()
			control.SortNodes(truth.Nodes)
			control.SortRoutes(truth.Routes)
			control.SortServices(truth.Services)
			control.SortSessions(truth.Sessions)
			control.SortStatus(truth.Status)
			// A route's version is not sent again for itself; all else must be equal.
			for i := range mine.Routes {
				mine.Routes[i].Version = 0
			}
			for i := range truth.Routes {
				truth.Routes[i].Version = 0
			}
			if a, b := toJSON(t, mine), toJSON(t, truth); a != b {
				rt.Fatalf("reader and host differ:\n%s\n%s", a, b)
			}
		})
	})
}

func scramble(t *rapid.T, r *controltest.Rows) {
	r.Nodes, r.Services, r.Status = slices.Clone(r.Nodes), slices.Clone(r.Services), slices.Clone(r.Status)
	switch rapid.IntRange(0, 6).Draw(t, "change") {
	case 0:
		r.Nodes[rapid.IntRange(0, 2).Draw(t, "node")].State = rapid.SampledFrom([]shield.NodeState{shield.Online, shield.Offline}).Draw(t, "state")
	case 1:
		r.Services[rapid.IntRange(0, len(r.Services)-1).Draw(t, "service")].Calls++
	case 2:
		id := shield.SessionID(fmt.Sprintf("s-%d", rapid.IntRange(1, 12).Draw(t, "session")))
		r.Sessions = append(slices.DeleteFunc(slices.Clone(r.Sessions), func(s shield.SessionRow) bool { return s.Session == id }),
			shield.SessionRow{Session: id, In: rapid.Int64Range(0, 3).Draw(t, "in")})
	case 3:
		if len(r.Sessions) > 0 {
			r.Sessions = slices.Clone(r.Sessions)[1:]
		}
	case 4:
		if len(r.Routes) > 0 {
			r.Routes = slices.Clone(r.Routes)[1:]
		}
	case 5:
		r.Status[0].Counters = map[string]int64{"calls": rapid.Int64Range(0, 5).Draw(t, "calls")}
	case 6:
		r.Nodes[0].CallsPerSecond += 1.5
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
