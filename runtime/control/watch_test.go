package control_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

func TestWatchBeginsWithASnapshotOfWhatWasAskedFor(t *testing.T) {
	watching(t, three(), "topics=nodes,sessions,calls", func(t *testing.T, r *reader) {
		evs := r.take()
		wantKinds(t, evs, "snapshot")
		s := evs[0].Snapshot
		if len(s.Nodes) != 3 || len(s.Sessions) != 1 || s.Calls == nil || s.Routes != nil || s.Logs != nil || s.Project.Name != "arena" {
			t.Errorf("snapshot = %+v", s)
		}
	})
}

func TestNotableChangesComeAtOnceAndCountedOnesMerged(t *testing.T) {
	h := three()
	watching(t, h, "topics=nodes,services", func(t *testing.T, r *reader) {
		r.take()
		h.Set(func(rows *controltest.Rows) {
			rows.Services[0].Calls = 9
			rows.Nodes[1].State = shield.Suspect
		}, control.TopicNodes)
		time.Sleep(time.Millisecond)
		evs := r.take()
		wantKinds(t, evs, "delta nodes!")
		if evs[0].Seq != 1 || len(evs[0].Delta.Nodes) != 1 || evs[0].Delta.Nodes[0].State != shield.Suspect {
			t.Errorf("delta = %+v", evs[0].Delta)
		}
		time.Sleep(time.Second)
		evs = r.take()
		wantKinds(t, evs, "delta services")
		if evs[0].Seq != 2 || evs[0].Delta.Services[0].Calls != 9 {
			t.Errorf("delta = %+v", evs[0].Delta)
		}
		for i := range 1000 { // ten seconds of traffic
			h.Set(func(rows *controltest.Rows) { rows.Services[0].Calls = int64(10 + i) })
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(r.take()); n < 18 || n > 21 {
			t.Errorf("%d deltas in 10 s of counting, want 2 a second", n)
		}
	})
}

func TestAStormOfNotableChangesIsMerged(t *testing.T) {
	h := three()
	watching(t, h, "topics=sessions", func(t *testing.T, r *reader) {
		r.take()
		for i := range 1000 { // one second
			h.Set(func(rows *controltest.Rows) { rows.Sessions[0].Epoch = shield.SessionEpoch(i + 2) }, control.TopicSessions)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		evs := r.take()
		if len(evs) > 60 {
			t.Errorf("%d deltas for 1000 changes within a second, want at most 50 and a few", len(evs))
		}
		if last := evs[len(evs)-1].Delta.Sessions[0].Epoch; last != 1001 {
			t.Errorf("the last delta has epoch %d, want 1001", last)
		}
	})
}

func TestRowsThatGoAreNamed(t *testing.T) {
	h := three()
	watching(t, h, "topics=sessions,routes", func(t *testing.T, r *reader) {
		r.take()
		h.Set(func(rows *controltest.Rows) {
			rows.Routes = rows.Routes[:3]
			for i := range rows.Routes { // the version of a table is no news of a route
				rows.Routes[i].Version++
			}
		}, control.TopicRoutes)
		time.Sleep(100 * time.Millisecond)
		h.Set(func(rows *controltest.Rows) { rows.Sessions = nil }, control.TopicSessions)
		time.Sleep(time.Millisecond)
		evs := r.take()
		wantKinds(t, evs, "delta routes!", "delta sessions!")
		if diff := cmp.Diff([]string{"node-3:room.public"}, evs[0].Delta.Gone); diff != "" || len(evs[0].Delta.Routes) != 0 {
			t.Errorf("routes: %+v", evs[0].Delta)
		}
		if diff := cmp.Diff([]string{"s-1"}, evs[1].Delta.Gone); diff != "" {
			t.Errorf("sessions gone: %s", diff)
		}
	})
}

func TestCountedChangesOnlyForTheRowsAskedFor(t *testing.T) {
	h := three()
	watching(t, h, "topics=services&rows=services/node-2%234", func(t *testing.T, r *reader) {
		r.take()
		h.Set(func(rows *controltest.Rows) {
			for i := range rows.Services {
				rows.Services[i].Calls = 100
			}
			rows.Services[0].Generation = 2 // notable: told whatever was asked for
		})
		time.Sleep(time.Second)
		evs := r.take()
		wantKinds(t, evs, "delta services!")
		var got []string
		for _, row := range evs[0].Delta.Services {
			got = append(got, control.ServiceKey(row))
		}
		if diff := cmp.Diff([]string{"node-1#1", "node-2#4"}, got); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	})
}

func TestAgesAreNoChanges(t *testing.T) {
	h := three()
	watching(t, h, "topics=nodes,sessions,status", func(t *testing.T, r *reader) {
		r.take()
		for range 10 {
			h.Set(func(rows *controltest.Rows) {
				rows.Nodes[0].Uptime += 500
				rows.Sessions[0].IdleMS += 500
				rows.Sessions[0].OpenedMS += 500
				rows.Status[0].Uptime += 500
			})
			time.Sleep(500 * time.Millisecond)
		}
		wantKinds(t, r.take())
	})
}

func TestAReaderThatLagsIsToldAndResynced(t *testing.T) {
	h := three()
	watching(t, h, "topics=nodes", func(t *testing.T, r *reader) {
		r.take()
		r.stall(3 * time.Second)
		change := func(epoch shield.NodeEpoch) {
			h.Set(func(rows *controltest.Rows) { rows.Nodes[0].Epoch = epoch }, control.TopicNodes)
		}
		change(200)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		for i := range 100 { // the reader is stuck; the host must not notice
			change(shield.NodeEpoch(201 + i))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the host waited %v for a reader", took)
		}
		time.Sleep(4 * time.Second)
		evs := r.take()
		wantKinds(t, evs[:3], "delta nodes!", "lagged", "snapshot")
		if evs[1].Missed == 0 || evs[2].Snapshot.Nodes[0].Epoch != 300 {
			t.Errorf("lagged = %+v, snapshot = %+v", evs[1], evs[2].Snapshot.Nodes[0])
		}
	})
}

func TestNobodyWatchingCostsNothing(t *testing.T) {
	h := three()
	synctest.Test(t, func(t *testing.T) {
		control.NewServer(control.Config{Host: h})
		before := h.Reads()
		for range 100 {
			h.Changed(control.TopicNodes)
			time.Sleep(time.Second)
		}
		if n := h.Reads() - before; n != 0 {
			t.Errorf("%d reads of the host with nobody watching", n)
		}
	})
}

func TestLinesComeInOrderAndDropsAreCounted(t *testing.T) {
	h := controltest.New(controltest.Three())
	watching(t, h, "topics=logs,calls&tail=2", func(t *testing.T, r *reader) {
		r.take()
		for i := range 700 {
			h.Logs().Append(shield.LogRow{Text: fmt.Sprint(i)})
		}
		if !h.Calls().Watched() {
			t.Error("Calls().Watched() = false while somebody does")
		}
		h.Calls().Append(shield.CallRow{Method: "ping"})
		time.Sleep(time.Second)
		var next, calls int
		for _, e := range r.take() {
			for _, row := range e.Delta.Logs {
				if row.Text != fmt.Sprint(next) {
					t.Fatalf("line %q, want %d", row.Text, next)
				}
				next++
			}
			calls += len(e.Delta.Calls)
		}
		if next != 700 || calls != 1 {
			t.Errorf("%d lines and %d calls, want 700 and 1", next, calls)
		}
		r.stall(500 * time.Millisecond) // not long enough to resync
		h.Logs().Append(shield.LogRow{Text: "stuck"})
		time.Sleep(100 * time.Millisecond)
		for range 1500 { // the ring holds 1000
			h.Logs().Append(shield.LogRow{})
		}
		time.Sleep(2 * time.Second)
		var lines, dropped uint64
		for _, e := range r.take() {
			lines += uint64(len(e.Delta.Logs))
			dropped += e.Delta.Dropped
		}
		if lines+dropped != 1501 || dropped != 500 {
			t.Errorf("%d lines and %d dropped, want 1501 in all, 500 dropped", lines, dropped)
		}
	})
}

func TestAFieldThatIsNoJSONDoesNotCostTheStream(t *testing.T) {
	h := three()
	watching(t, h, "topics=logs", func(t *testing.T, r *reader) {
		r.take()
		h.Logs().Append(shield.LogRow{Text: "odd", Fields: map[string]any{"x": math.NaN()}})
		time.Sleep(time.Second)
		evs := r.take()
		wantKinds(t, evs, "delta logs!")
		if evs[0].Delta.Logs[0].Fields["fields"] != "map[x:NaN]" {
			t.Errorf("fields = %v", evs[0].Delta.Logs[0].Fields)
		}
	})
}

func TestAHostThatFailsIsToldOnce(t *testing.T) {
	h := three()
	watching(t, h, "topics=nodes", func(t *testing.T, r *reader) {
		r.take()
		h.Set(func(rows *controltest.Rows) { rows.Err = shield.Errorf(shield.NodeOffline, "node-1 is stopped") })
		time.Sleep(5 * time.Second)
		evs := r.take()
		wantKinds(t, evs, "failed")
		if evs[0].Topic != control.TopicNodes || evs[0].Error.Code != shield.NodeOffline {
			t.Errorf("failed = %+v", evs[0])
		}
		h.Set(func(rows *controltest.Rows) { rows.Err = nil; rows.Nodes[0].Epoch = 7 }, control.TopicNodes)
		time.Sleep(time.Second)
		wantKinds(t, r.take(), "delta nodes!")
	})
}

// A host that fails at once is no reason to end the stream when it has mended.
func TestAHostThatFailsAtFirstIsFollowed(t *testing.T) {
	h := three()
	h.Set(func(rows *controltest.Rows) { rows.Err = shield.Errorf(shield.NodeOffline, "node-1 is stopped") })
	watching(t, h, "topics=nodes", func(t *testing.T, r *reader) {
		evs := r.take()
		wantKinds(t, evs, "snapshot", "failed")
		have := *evs[0].Snapshot
		h.Set(func(rows *controltest.Rows) { rows.Err = nil }, control.TopicNodes)
		time.Sleep(time.Second)
		evs = r.take()
		wantKinds(t, evs, "delta nodes!")
		if have.Apply(evs[0]); len(have.Nodes) != 3 {
			t.Errorf("nodes = %+v, want all three", have.Nodes)
		}
	})
}

func TestAQuietServerShowsThatItLives(t *testing.T) {
	watching(t, three(), "topics=nodes", func(t *testing.T, r *reader) {
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := 1; i < len(r.times); i++ {
			if gap := r.times[i].Sub(r.times[i-1]); gap > 3*time.Second {
				t.Fatalf("%v without a sign of life", gap)
			}
		}
		if n := len(r.events); n < 20 || n > 40 {
			t.Errorf("%d events in a minute, want about 30", n)
		}
	})
}

// BenchmarkWatchScan is what one look at 10 000 sessions costs, half of which
// sent something since the last; the watcher waits 200 times that long before
// the next.
func BenchmarkWatchScan(b *testing.B) {
	rows := make([]shield.SessionRow, 10_000)
	for i := range rows {
		rows[i] = shield.SessionRow{Session: shield.SessionID(fmt.Sprintf("s-%d", i)), Player: "p", Epoch: 1, Target: "node-1:player.p",
			Gateway: "node-1:main", State: shield.SessionBound, Address: "127.0.0.1:5000", Transport: "tcp"}
	}
	n := 0
	scan := control.Scanner(control.TopicSessions, func() []shield.SessionRow {
		n++
		now := slices.Clone(rows)
		for i := 0; i < len(now); i += 2 {
			now[i].In = int64(n)
		}
		return now
	})
	b.ReportAllocs()
	for b.Loop() {
		scan()
	}
}
