package tui

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shield/runtime/shield"
	"shield/tui/keys"
)

// crowd is the arena with n sessions.
func crowd(n int) *Snapshot {
	s := arena()
	s.Sessions = make([]shield.SessionRow, n)
	for i := range s.Sessions {
		s.Sessions[i] = shield.SessionRow{Session: shield.SessionID(fmt.Sprintf("s-%05x", i*7919%n)), Player: fmt.Sprintf("player-%d", i), Epoch: 1,
			Target: "node-2:player", Gateway: "node-1:main", State: shield.SessionBound, IdleMS: int64(i * 37 % 60000)}
	}
	return s
}

// BenchmarkFrame is what one batch of changes costs, from Update to the finished
// View, at 140x40 with 10,000 sessions. The budget is 5 ms.
func BenchmarkFrame(b *testing.B) {
	for _, view := range []keys.View{keys.Overview, keys.Nodes, keys.Sessions, keys.Services, keys.Calls, keys.Logs} {
		for _, kind := range []string{"delta", "key", "filtered"} {
			b.Run(view.Word()+"/"+kind, func(b *testing.B) {
				snap := crowd(10_000)
				m := newModel(context.Background(), Config{Width: 140, Height: 40, Location: time.UTC})
				m.Update(batchMsg{events: []Event{{Seq: 1, Snapshot: snap}}})
				m.show(view)
				if kind == "filtered" {
					m.setFilter("1")
				}
				m.View()
				b.ReportAllocs()
				seq := uint64(1)
				for b.Loop() {
					if kind == "key" {
						m.Update(key("j"))
						m.View()
						continue
					}
					seq++
					d := Delta{Nodes: snap.Nodes, Services: snap.Services, Sessions: make([]shield.SessionRow, 200), Calls: make([]shield.CallRow, 200)}
					for i := range d.Sessions {
						d.Sessions[i] = snap.Sessions[(int(seq)*200+i)%len(snap.Sessions)]
						d.Sessions[i].IdleMS = int64(seq) % 1000
					}
					for i := range d.Calls {
						d.Calls[i] = shield.CallRow{From: "control", Target: "room.public", Method: "ping", Result: "ok", Micros: 900}
					}
					m.Update(batchMsg{events: []Event{{Seq: seq, Delta: &d}}})
					m.View()
				}
			})
		}
	}
}

// BenchmarkAttach is what the first frame after an attach costs, with nothing known
// before. The budget is 5 ms.
func BenchmarkAttach(b *testing.B) {
	snap := crowd(10_000)
	b.ReportAllocs()
	for b.Loop() {
		m := newModel(context.Background(), Config{Width: 140, Height: 40, Location: time.UTC})
		m.Update(batchMsg{events: []Event{{Seq: 1, Snapshot: snap}}})
		m.View()
	}
}

// BenchmarkResync is the same with all rows known, sorted by each kind of column.
func BenchmarkResync(b *testing.B) {
	for _, by := range []string{"session", "player", "epoch", "idle"} {
		b.Run(by, func(b *testing.B) {
			snap := crowd(10_000)
			m := newModel(context.Background(), Config{Width: 140, Height: 40, Location: time.UTC})
			m.st.sessions.sortOn(by, false)
			b.ReportAllocs()
			for b.Loop() {
				m.Update(batchMsg{events: []Event{{Seq: 1, Snapshot: snap}}})
				m.View()
			}
		})
	}
}
