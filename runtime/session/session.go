// Package session is the rules of a client's session: who it is bound to, at
// which epoch, and what its target has to hear when that changes. It is pure: no
// I/O, no goroutines, no locks; a Session is used by one goroutine at a time, and
// the gateway's lock sees to that.
//
// What holds, whichever order things happen in:
//   - a session has one binding, and its epoch only rises
//   - of binds that expect the same epoch, one wins
//   - a push made with another epoch, or for another player, is refused
//   - a target hears exactly one of unbound and disconnected, and nothing after
package session

import (
	"strings"
	"time"

	"shield/runtime/shield"
)

// Binding is what a session is bound to.
type Binding struct {
	Target  shield.Handle // zero once the session is over
	Player  string        // "" before login
	Epoch   shield.SessionEpoch
	Profile string
}

// Causes of an epoch step.
const (
	CauseOpened = "opened"
	CauseBind   = "bind"
	CauseKick   = "kick"
	CauseDrop   = "disconnect"
)

// What travels between nodes bounds what a session may hold: it must not matter
// where its target lives.
const (
	maxPlayer = 1024 // bytes
	maxReason = 512  // bytes; longer ones are cut
)

// keptSteps is how much of a session's history is kept: the beginning matters
// less than what happened last.
const keptSteps = 16

// Session is one client connection.
type Session struct {
	gateway shield.GatewayID
	id      shield.SessionID
	binding Binding
	over    bool
	opened  time.Time
	history []Step
}

// Step is one change of the binding and why it happened.
type Step struct {
	Epoch  shield.SessionEpoch
	Time   time.Time
	Cause  string
	Player string
	Target shield.Handle // zero at the end
}

// Open begins a session: bound to the auth service, no player, epoch 0.
func Open(gateway shield.GatewayID, id shield.SessionID, auth shield.Handle, profile string, now time.Time) *Session {
	s := &Session{gateway: gateway, id: id, opened: now, binding: Binding{Target: auth, Profile: profile}}
	s.record(CauseOpened, now)
	return s
}

// Opened is when the client connected.
func (s *Session) Opened() time.Time { return s.opened }

// Binding is what the session is bound to now.
func (s *Session) Binding() Binding { return s.binding }

// Over reports whether the session was kicked or dropped.
func (s *Session) Over() bool { return s.over }

// State is bound while a player is logged in: routes that require it are open.
func (s *Session) State() shield.SessionState {
	if !s.over && s.binding.Player != "" {
		return shield.SessionBound
	}
	return shield.SessionNew
}

// Ref names the session at its present epoch.
func (s *Session) Ref() shield.ClientRef {
	return shield.ClientRef{Gateway: s.gateway, Session: s.id, Epoch: s.binding.Epoch, Player: s.binding.Player, Profile: s.binding.Profile}
}

// Bind is the compare-and-set: where expected is the present epoch, target and
// player are written and the epoch rises. tell hands the notice to the new target,
// before anything else of the session; where it can't, nothing has changed and the
// last target keeps the session.
func (s *Session) Bind(expected shield.SessionEpoch, target shield.Handle, player string, now time.Time, tell func(*shield.Notice) error) (shield.Notice, error) {
	switch {
	case s.over:
		return shield.Notice{}, shield.Errorf(shield.SessionClosed, "bind %s: the client has left or was kicked", s.id)
	case target.IsZero():
		return shield.Notice{}, shield.Errorf(shield.InvalidTarget, "bind %s: no target", s.id)
	case player == "":
		return shield.Notice{}, shield.Errorf(shield.InvalidTarget, "bind %s: the player id must not be empty", s.id)
	case len(player) > maxPlayer:
		return shield.Notice{}, shield.Errorf(shield.InvalidTarget, "bind %s: the player id has %d bytes, at most %d are allowed", s.id, len(player), maxPlayer)
	case expected != s.binding.Epoch:
		return shield.Notice{}, shield.Errorf(shield.RPCEpochExpired, "bind %s: expected epoch %d, it is at %d: another bind won; use the ref it returned", s.id, expected, s.binding.Epoch)
	}
	last := s.binding
	s.binding.Target, s.binding.Player = target, player
	s.binding.Epoch++
	n := shield.Notice{Kind: shield.NoticeBound, Client: s.Ref(), Target: target}
	if err := tell(&n); err != nil {
		s.binding = last
		return shield.Notice{}, err
	}
	s.record(CauseBind, now)
	return n, nil
}

// CheckPush says why a push with ref must not reach the client, or "". Egress
// checks the epoch before the owner.
func (s *Session) CheckPush(ref shield.ClientRef) shield.Code {
	switch {
	case s.over:
		return shield.SessionClosed
	case ref.Epoch != s.binding.Epoch:
		return shield.RPCEpochExpired
	case ref.Player != s.binding.Player:
		return shield.RPCOwnerMismatch
	}
	return ""
}

// Kick ends the session because a service closed it. The target is to hear the
// notice before anybody can see the session gone; ok is false when it was over
// already and nobody is to hear anything.
func (s *Session) Kick(reason string, now time.Time) (n shield.Notice, ok bool) {
	if reason == "" {
		reason = "kicked"
	}
	return s.end(shield.NoticeUnbound, CauseKick, reason, now)
}

// Drop ends the session because its connection or its gateway did: as Kick, with
// the other notice.
func (s *Session) Drop(reason string, now time.Time) (n shield.Notice, ok bool) {
	return s.end(shield.NoticeDisconnected, CauseDrop, reason, now)
}

func (s *Session) end(kind shield.NoticeKind, cause, reason string, now time.Time) (shield.Notice, bool) {
	if s.over {
		return shield.Notice{}, false
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	n := shield.Notice{Kind: kind, Client: s.Ref(), Target: s.binding.Target, Reason: reason}
	s.over = true
	s.binding.Target, s.binding.Player = shield.Handle{}, ""
	s.binding.Epoch++
	s.record(cause+": "+reason, now)
	return n, true
}

func (s *Session) record(cause string, now time.Time) {
	if len(s.history) == keptSteps {
		copy(s.history, s.history[1:])
		s.history = s.history[:keptSteps-1]
	}
	s.history = append(s.history, Step{s.binding.Epoch, now, cause, s.binding.Player, s.binding.Target})
}

// History lists the last steps of the epoch, oldest first.
func (s *Session) History() []Step { return append([]Step(nil), s.history...) }
