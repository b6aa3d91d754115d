package shield

import (
	"encoding/json"
	"errors"
	"net"
	"testing"
)

func TestNodeEpochKeepsAllDigits(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   NodeEpoch
		want string
	}{
		{"unknown", 0, "null"},
		{"beyond a double", 1<<63 + 1, `"9223372036854775809"`},
	} {
		b, err := json.Marshal(tt.in)
		if err != nil || string(b) != tt.want {
			t.Errorf("%s: Marshal(%d) = %s, %v, want %s", tt.name, uint64(tt.in), b, err, tt.want)
		}
		var back NodeEpoch
		if err := json.Unmarshal(b, &back); err != nil || back != tt.in {
			t.Errorf("%s: Unmarshal(%s) = %d, %v, want %d", tt.name, b, uint64(back), err, uint64(tt.in))
		}
	}
}

func TestCheckPublicName(t *testing.T) {
	for _, tt := range []struct {
		in string
		ok bool
	}{
		{"room.public", true}, {"player-17", true}, {"A_b", true},
		{"", false}, {"my game", false}, {"node:x", false}, {"shield.gateway", false},
		{string(make([]byte, 65)), false}, {"naïve", false},
	} {
		err := CheckPublicName(tt.in)
		if (err == nil) != tt.ok {
			t.Errorf("CheckPublicName(%q) = %v, want ok=%v", tt.in, err, tt.ok)
		}
		if err != nil && !errors.Is(err, InvalidName) {
			t.Errorf("CheckPublicName(%q) = %v, want invalid_name", tt.in, err)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"heartbeat_interval_ms", "suspect_timeout_ms", "room.public", "ping"}
	for _, tt := range []struct{ in, want string }{
		{"room.pubilc", "room.public"}, {"pong", "ping"}, {"Ping", "ping"},
		{"heartbeat_interval", "heartbeat_interval_ms"}, {"zzz", ""},
	} {
		if got := Nearest(tt.in, words); got != tt.want {
			t.Errorf("Nearest(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestErrorMatching(t *testing.T) {
	err := error(Errorf(SessionClosed, "close s-1: %w", net.ErrClosed))
	if !errors.Is(err, SessionClosed) || !errors.Is(err, net.ErrClosed) || errors.Is(err, Timeout) {
		t.Errorf("errors.Is of %v matches the wrong things", err)
	}
	if got := err.Error(); got != "session_closed: close s-1: use of closed network connection" {
		t.Errorf("Error() = %q", got)
	}
	if CodeOf(errors.New("x")) != "" {
		t.Error("a plain error must carry no code")
	}
}

// Every code has words for people: shield explain prints them as they stand.
func TestCodeTableIsComplete(t *testing.T) {
	for _, c := range Codes() {
		i, ok := c.Info()
		if !ok || i.Meaning == "" || i.Causes == "" || i.Cure == "" {
			t.Errorf("%s: the table lacks a meaning, causes or cure", c)
		}
	}
}
