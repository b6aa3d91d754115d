package node

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

func notice(k shield.NoticeKind, session shield.SessionID, target shield.ServiceID) *shield.Notice {
	return &shield.Notice{Kind: k, Client: shield.ClientRef{Gateway: "node-1:main", Session: session}, Target: shield.Handle{Node: "node-2", ID: target}}
}

func TestGuestsOfALostNodeAreDisconnectedOnce(t *testing.T) {
	var g guests
	g.heard("node-1", notice(shield.NoticeBound, "s-1", 7))
	g.heard("node-1", notice(shield.NoticeBound, "s-2", 7))
	g.heard("node-1", notice(shield.NoticeUnbound, "s-2", 7))
	g.heard("node-3", notice(shield.NoticeBound, "s-3", 7))

	want := notice(shield.NoticeDisconnected, "s-1", 7)
	want.Reason = "node_offline"
	if d := cmp.Diff([]*shield.Notice{want}, g.leave("node-1", time.Now(), "node_offline")); d != "" {
		t.Errorf("leave(node-1) differs (-want +got):\n%s", d)
	}
	if again := g.leave("node-1", time.Now(), "node_offline"); again != nil {
		t.Errorf("leave(node-1) again = %v, want nothing", again)
	}
}

func TestANoticeOfTheOldTargetKeepsTheNewBinding(t *testing.T) {
	var g guests
	g.heard("node-1", notice(shield.NoticeBound, "s-1", 7))
	g.heard("node-1", notice(shield.NoticeBound, "s-1", 8))
	g.heard("node-1", notice(shield.NoticeUnbound, "s-1", 7))
	if left := g.leave("node-1", time.Now(), "x"); len(left) != 1 || left[0].Target.ID != 8 {
		t.Errorf("leave = %v, want the binding to 8", left)
	}
}

func TestABindAfterTheLossStays(t *testing.T) {
	var g guests
	g.heard("node-1", notice(shield.NoticeBound, "s-1", 7))
	lost := time.Now()
	g.add("node-1", "s-2", guest{shield.ClientRef{Session: "s-2"}, shield.Handle{ID: 7}, lost.Add(time.Nanosecond)})
	if left := g.leave("node-1", lost, "x"); len(left) != 1 || left[0].Client.Session != "s-1" {
		t.Errorf("leave = %v, want s-1 alone", left)
	}
	if left := g.leave("node-1", lost.Add(time.Second), "x"); len(left) != 1 || left[0].Client.Session != "s-2" {
		t.Errorf("leave later = %v, want s-2", left)
	}
}

func TestGuestsOfADeadServiceAreForgotten(t *testing.T) {
	var g guests
	g.heard("node-1", notice(shield.NoticeBound, "s-1", 7))
	g.heard("node-3", notice(shield.NoticeBound, "s-3", 8))
	if got := g.dead(shield.Handle{Node: "node-2", ID: 7}); len(got) != 1 || got[0].Session != "s-1" {
		t.Errorf("dead(7) = %v, want s-1", got)
	}
	if g.leave("node-1", time.Now(), "x") != nil || len(g.leave("node-3", time.Now(), "x")) != 1 {
		t.Error("dead(7) must forget s-1 and keep s-3")
	}
	if len(g.byNode)+len(g.byTarget) != 0 {
		t.Errorf("nobody is there, but %v and %v", g.byNode, g.byTarget)
	}
}

func TestEpochFileRemembers(t *testing.T) {
	f := EpochFile(filepath.Join(t.TempDir(), "node-1.epoch"))
	if e, err := f.Load(); e != 0 || err != nil {
		t.Fatalf("Load of a missing file = %d, %v", e, err)
	}
	const want = 1<<63 + 1
	if err := f.Save(want); err != nil {
		t.Fatal(err)
	}
	if e, err := f.Load(); e != want || err != nil {
		t.Errorf("Load = %d, %v, want %d", e, err, uint64(want))
	}
}
