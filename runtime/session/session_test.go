package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

var (
	auth    = shield.Handle{Node: "n1", Epoch: 1, ID: 1}
	first   = shield.Handle{Node: "n1", Epoch: 1, ID: 2}
	second  = shield.Handle{Node: "n2", Epoch: 4, ID: 7}
	t0      = time.Unix(1000, 0)
	profile = "game.v1/json"
)

// told is a target that takes every notice.
func told(*shield.Notice) error { return nil }

func opened() *Session { return Open("n1:main", "s-1", auth, profile, t0) }

func mustBind(t *testing.T, s *Session, expected shield.SessionEpoch, target shield.Handle, player string) shield.ClientRef {
	t.Helper()
	n, err := s.Bind(expected, target, player, t0, told)
	if err != nil {
		t.Fatal(err)
	}
	return n.Client
}

func TestOpen(t *testing.T) {
	s := opened()
	if got, want := s.Binding(), (Binding{Target: auth, Profile: profile}); got != want {
		t.Errorf("Binding() = %+v, want %+v", got, want)
	}
	if s.State() != shield.SessionNew || s.Over() {
		t.Errorf("a new session is %s, over %v", s.State(), s.Over())
	}
}

func TestBind(t *testing.T) {
	for _, tt := range []struct {
		name     string
		prepare  func(*Session)
		expected shield.SessionEpoch
		target   shield.Handle
		player   string
		code     shield.Code
		epoch    shield.SessionEpoch // afterwards
	}{
		{"first login", func(*Session) {}, 0, first, "ada", "", 1},
		{"second bind with the first ref", func(s *Session) { _, _ = s.Bind(0, first, "ada", t0, told) }, 0, second, "bob", shield.RPCEpochExpired, 1},
		{"second bind with the new ref", func(s *Session) { _, _ = s.Bind(0, first, "ada", t0, told) }, 1, second, "ada", "", 2},
		{"an epoch from the future", func(*Session) {}, 1, first, "ada", shield.RPCEpochExpired, 0},
		{"the largest epoch is no wildcard", func(*Session) {}, 0xFFFFFFFF, first, "ada", shield.RPCEpochExpired, 0},
		{"no target", func(*Session) {}, 0, shield.Handle{}, "ada", shield.InvalidTarget, 0},
		{"no player", func(*Session) {}, 0, first, "", shield.InvalidTarget, 0},
		{"a player id too long to travel", func(*Session) {}, 0, first, strings.Repeat("x", 1025), shield.InvalidTarget, 0},
		{"the longest player id", func(*Session) {}, 0, first, strings.Repeat("x", 1024), "", 1},
		{"after a kick", func(s *Session) { s.Kick("", t0) }, 1, first, "ada", shield.SessionClosed, 1},
		{"after a drop", func(s *Session) { s.Drop("closed", t0) }, 0, first, "ada", shield.SessionClosed, 1},
	} {
		s := opened()
		tt.prepare(s)
		n, err := s.Bind(tt.expected, tt.target, tt.player, t0, told)
		if shield.CodeOf(err) != tt.code || s.Binding().Epoch != tt.epoch {
			t.Errorf("%s: Bind = %v, epoch %d, want %q and %d", tt.name, err, s.Binding().Epoch, tt.code, tt.epoch)
		}
		if err != nil {
			continue
		}
		if got, err := wire.DecodeNotice(wire.AppendNotice(nil, &n)); err != nil || *got != n {
			t.Errorf("%s: the notice arrives on another node as %+v, %v", tt.name, got, err)
		}
		want := shield.Notice{Kind: shield.NoticeBound, Target: tt.target,
			Client: shield.ClientRef{Gateway: "n1:main", Session: "s-1", Epoch: tt.epoch, Player: tt.player, Profile: profile}}
		if n != want {
			t.Errorf("%s: the notice is %+v, want %+v", tt.name, n, want)
		}
	}
}

// The seed's table of what happens to messages under way.
func TestWindows(t *testing.T) {
	t.Run("a rebind while a handler runs: its push with the old ref is refused", func(t *testing.T) {
		s := opened()
		old := mustBind(t, s, 0, first, "ada")
		now := mustBind(t, s, 1, first, "ada")
		if got := s.CheckPush(old); got != shield.RPCEpochExpired {
			t.Errorf("CheckPush(old) = %q", got)
		}
		if got := s.CheckPush(now); got != "" {
			t.Errorf("CheckPush(new) = %q", got)
		}
	})
	t.Run("two binds at one moment: one wins, the other can go on with the new ref", func(t *testing.T) {
		s := opened()
		ref := s.Ref()
		won := mustBind(t, s, ref.Epoch, first, "ada")
		if _, err := s.Bind(ref.Epoch, second, "ada", t0, told); !errors.Is(err, shield.RPCEpochExpired) {
			t.Fatalf("the loser gets %v", err)
		}
		mustBind(t, s, won.Epoch, second, "ada")
	})
	t.Run("a target that can't be told gets nothing, and the last one keeps the session", func(t *testing.T) {
		s := opened()
		ref := mustBind(t, s, 0, first, "ada")
		away := shield.Errorf(shield.NodeOffline, "away")
		if _, err := s.Bind(ref.Epoch, second, "bob", t0, func(n *shield.Notice) error {
			if n.Client.Epoch != 2 || n.Target != second {
				t.Errorf("the target would hear %+v", n)
			}
			return away
		}); !errors.Is(err, shield.NodeOffline) {
			t.Errorf("Bind = %v, want node_offline", err)
		}
		if s.Ref() != ref || s.Binding().Target != first || len(s.History()) != 2 || s.CheckPush(ref) != "" {
			t.Errorf("the session is %+v, %v, want it as it was", s.Binding(), s.History())
		}
		mustBind(t, s, ref.Epoch, second, "ada")
	})
	t.Run("kick, then the connection closes: one notice", func(t *testing.T) {
		s := opened()
		ref := mustBind(t, s, 0, first, "ada")
		n, ok := s.Kick("", t0)
		want := shield.Notice{Kind: shield.NoticeUnbound, Client: ref, Target: first, Reason: "kicked"}
		if !ok || n != want {
			t.Errorf("Kick = %+v, %v, want %+v", n, ok, want)
		}
		if n, ok := s.Drop("closed", t0); ok {
			t.Errorf("the disconnect after a kick speaks: %+v", n)
		}
	})
	t.Run("the connection closes, then a kick: one notice", func(t *testing.T) {
		s := opened()
		ref := mustBind(t, s, 0, first, "ada")
		n, ok := s.Drop("closed", t0)
		want := shield.Notice{Kind: shield.NoticeDisconnected, Client: ref, Target: first, Reason: "closed"}
		if !ok || n != want {
			t.Errorf("Drop = %+v, %v, want %+v", n, ok, want)
		}
		if n, ok := s.Kick("late", t0); ok {
			t.Errorf("the kick after a disconnect speaks: %+v", n)
		}
	})
	t.Run("the old target's frames may finish, its pushes may not", func(t *testing.T) {
		s := opened()
		old := mustBind(t, s, 0, first, "ada")
		mustBind(t, s, 1, second, "ada")
		if s.CheckPush(old) == "" {
			t.Error("a push of the old target reaches the client")
		}
	})
	t.Run("after the end nothing passes, not even the newest ref", func(t *testing.T) {
		s := opened()
		mustBind(t, s, 0, first, "ada")
		s.Kick("", t0)
		if got := s.CheckPush(s.Ref()); got != shield.SessionClosed {
			t.Errorf("CheckPush after the kick = %q", got)
		}
		if b := s.Binding(); !b.Target.IsZero() || b.Player != "" || b.Epoch != 2 {
			t.Errorf("the binding after the kick is %+v", b)
		}
	})
	t.Run("a visitor who never logged in is announced to the auth service", func(t *testing.T) {
		s := opened()
		if n, ok := s.Drop("closed", t0); !ok || n.Target != auth || n.Client.Epoch != 0 {
			t.Errorf("Drop = %+v, %v", n, ok)
		}
	})
}

func TestALongReasonIsCutAsItIsBetweenNodes(t *testing.T) {
	s := opened()
	mustBind(t, s, 0, first, "ada")
	n, _ := s.Kick(strings.Repeat("ü", 300), t0)
	if want := strings.Repeat("ü", 256); n.Reason != want {
		t.Errorf("a reason of 600 bytes became %q", n.Reason)
	}
	n, _ = opened().Kick("x"+strings.Repeat("ü", 300), t0)
	if got, err := wire.DecodeNotice(wire.AppendNotice(nil, &n)); err != nil || *got != n || n.Reason != "x"+strings.Repeat("ü", 255) {
		t.Errorf("the notice %+v arrives on another node as %+v, %v", n, got, err)
	}
}

func TestCheckPushOrder(t *testing.T) {
	s := opened()
	ref := mustBind(t, s, 0, first, "ada")
	both := ref
	both.Epoch, both.Player = 0, "bob"
	if got := s.CheckPush(both); got != shield.RPCEpochExpired {
		t.Errorf("the epoch is not checked first: %q", got)
	}
	owner := ref
	owner.Player = "bob"
	if got := s.CheckPush(owner); got != shield.RPCOwnerMismatch {
		t.Errorf("another player's push = %q", got)
	}
}

func TestHistory(t *testing.T) {
	s := opened()
	mustBind(t, s, 0, first, "ada")
	s.Kick("logged in elsewhere", t0.Add(time.Second))
	want := []Step{
		{Epoch: 0, Time: t0, Cause: "opened", Target: auth},
		{Epoch: 1, Time: t0, Cause: "bind", Player: "ada", Target: first},
		{Epoch: 2, Time: t0.Add(time.Second), Cause: "kick: logged in elsewhere"},
	}
	if diff := cmp.Diff(want, s.History()); diff != "" {
		t.Errorf("History (-want +got):\n%s", diff)
	}
	s = opened()
	for i := range shield.SessionEpoch(100) {
		mustBind(t, s, i, first, "ada")
	}
	h := s.History()
	if len(h) != keptSteps || h[len(h)-1].Epoch != 100 {
		t.Errorf("after 100 binds the history has %d steps, the last at %d", len(h), h[len(h)-1].Epoch)
	}
}

// Whatever happens in whatever order, the oracle has nothing to say.
func TestPropertyOracleIsSilent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var breaches []string
		o := NewOracle(func(b string) { breaches = append(breaches, b) })
		s := opened()
		o.Opened(s.Ref(), auth)
		refs := []shield.ClientRef{s.Ref()}
		notices := 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			ref := rapid.SampledFrom(refs).Draw(t, "ref")
			before := s.Binding().Epoch
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3:
				target := rapid.SampledFrom([]shield.Handle{first, second}).Draw(t, "target")
				if n, err := s.Bind(ref.Epoch, target, fmt.Sprint(len(refs)), t0, told); err == nil {
					o.Noticed(&n)
					refs = append(refs, n.Client)
				}
			case 4:
				if n, ok := s.Kick("", t0); ok {
					o.Noticed(&n)
					notices++
				}
			case 5:
				if n, ok := s.Drop("closed", t0); ok {
					o.Noticed(&n)
					notices++
				}
			default:
				if s.CheckPush(ref) == "" {
					o.Pushed(ref)
				}
			}
			if s.Binding().Epoch < before {
				t.Fatalf("the epoch fell from %d to %d", before, s.Binding().Epoch)
			}
		}
		if n, ok := s.Drop("end", t0); ok {
			o.Noticed(&n)
			notices++
		}
		o.Forget("s-1")
		if len(breaches) > 0 || notices != 1 {
			t.Fatalf("%d ends, breaches: %s", notices, strings.Join(breaches, "\n"))
		}
	})
}

// Each promise that is broken is reported, with the steps before it.
func TestOracleSpeaks(t *testing.T) {
	ref := func(epoch shield.SessionEpoch, player string) shield.ClientRef {
		return shield.ClientRef{Session: "s-1", Epoch: epoch, Player: player}
	}
	bound := func(epoch shield.SessionEpoch, player string) *shield.Notice {
		return &shield.Notice{Kind: shield.NoticeBound, Client: ref(epoch, player), Target: first}
	}
	end := func(kind shield.NoticeKind, epoch shield.SessionEpoch, player string, target shield.Handle) *shield.Notice {
		return &shield.Notice{Kind: kind, Client: ref(epoch, player), Target: target}
	}
	for _, tt := range []struct {
		name, want string
		do         func(*Oracle)
	}{
		{"epoch skips", "bound from epoch 0 to 2", func(o *Oracle) { o.Noticed(bound(2, "ada")) }},
		{"epoch repeats", "bound from epoch 1 to 1", func(o *Oracle) { o.Noticed(bound(1, "ada")); o.Noticed(bound(1, "bob")) }},
		{"stale push", "a push of epoch 0", func(o *Oracle) { o.Noticed(bound(1, "ada")); o.Pushed(ref(0, "")) }},
		{"another's push", `for "bob"`, func(o *Oracle) { o.Noticed(bound(1, "ada")); o.Pushed(ref(1, "bob")) }},
		{"push after the kick", "after the session had ended", func(o *Oracle) { o.Noticed(end(shield.NoticeUnbound, 0, "", auth)); o.Pushed(ref(0, "")) }},
		{"two ends", "on_client_disconnected after", func(o *Oracle) {
			o.Noticed(end(shield.NoticeUnbound, 0, "", auth))
			o.Noticed(end(shield.NoticeDisconnected, 0, "", auth))
		}},
		{"the wrong target hears", "the owner is n1#1", func(o *Oracle) { o.Noticed(end(shield.NoticeUnbound, 0, "", second)) }},
		{"no end", "gone without", func(o *Oracle) { o.Forget("s-1") }},
		{"unknown session", "never opened", func(o *Oracle) { o.Pushed(shield.ClientRef{Session: "s-2"}) }},
		{"opened twice", "opened twice", func(o *Oracle) { o.Opened(ref(0, ""), auth) }},
		{"ended twice", "ended twice", func(o *Oracle) { o.Ended("s-1"); o.Ended("s-1") }},
	} {
		var got []string
		o := NewOracle(func(b string) { got = append(got, b) })
		o.Opened(ref(0, ""), auth)
		tt.do(o)
		if len(got) == 0 || !strings.Contains(got[len(got)-1], tt.want) {
			t.Errorf("%s: the oracle says %q, want %q", tt.name, got, tt.want)
		}
	}
	var off *Oracle // switched off: every method is fine and does nothing
	off.Opened(ref(0, ""), auth)
	off.Noticed(bound(5, "x"))
	off.Pushed(ref(9, ""))
	off.Ended("s-1")
	off.Forget("s-1")
}
