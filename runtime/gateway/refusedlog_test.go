package gateway

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"shield/runtime/shield"
)

// lockedBuffer is written by the gateway's goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A refused frame is told with the route's name and the epoch of its session.
func TestARefusedFrameIsNamed(t *testing.T) {
	var log lockedBuffer
	r := newRig(t, pipe, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	b := r.dial()
	ref := r.login(b, "ada")
	b.send(rLoginOK, "{}") // the wrong way
	b.send(999, "{}")      // no such route
	b.send(shield.RoutePing, "sync")
	b.want(shield.RoutePong, "sync")
	text := log.String()
	for _, want := range []string{"route=auth.login_ok", "route=999", "epoch=1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s for session %s in:\n%s", want, ref.Session, text)
		}
	}
	if strings.Contains(text, "epoch=0") {
		t.Errorf("a bound session at epoch 0:\n%s", text)
	}
}
