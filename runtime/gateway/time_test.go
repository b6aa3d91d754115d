package gateway

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"shield/runtime/shield"
)

// inVirtualTime runs a test on pipes. Everything is closed inside the bubble.
func inVirtualTime(t *testing.T, change func(*Config), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t, pipe, change)) })
}

// within checks that the virtual clock stands where it should, give or take the
// sweeper's step.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+time.Second {
		t.Errorf("%s after %v, want %v", what, got, want)
	}
}

func TestNeverLoggingInIsClosed(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		start := time.Now()
		silent, chatty, half := r.dial(), r.dial(), r.dial()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for i := 0; ; i++ {
				frame, _ := chatty.f.Append(nil, rLogin, fmt.Append(nil, i))
				if _, err := chatty.conn.Write(frame); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		if _, err := half.conn.Write([]byte{0, 0, 0, 100, 0, 0}); err != nil {
			t.Fatal(err)
		}
		for _, b := range []*bot{silent, chatty, half} {
			b.wantClose("handshake_timeout")
			within(t, "closed", time.Since(start), 10*time.Second)
		}
		r.wantCount("closed_handshake_timeout", 3)
	})
}

func TestIdleIsClosed(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		quiet, pinging := r.dial(), r.dial()
		ref := r.login(quiet, "ada")
		r.login(pinging, "bob")
		start := time.Now()
		for range 4 {
			time.Sleep(20 * time.Second)
			if time.Since(start) < 60*time.Second {
				r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("pushes are no sign of life")})
				quiet.want(rPos, "pushes are no sign of life")
			} else if time.Since(start) < 61*time.Second {
				quiet.wantClose("idle_timeout")
			}
			pinging.send(shield.RoutePing, "")
			pinging.want(shield.RoutePong, "")
		}
		within(t, "closed", time.Since(start)-20*time.Second, 60*time.Second)
		r.wantCount("closed_idle_timeout", 1)
	})
}

// A client that drips one byte at a time never finishes a frame.
func TestSlowlorisIsClosed(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		b := r.dial()
		r.login(b, "ada")
		start := time.Now()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for range 1000 {
				if _, err := b.conn.Write([]byte{0}); err != nil {
					return
				}
				time.Sleep(30 * time.Second)
			}
		})
		b.wantClose("idle_timeout")
		// Eight zero bytes are a whole frame (of a route that is refused), which
		// is a sign of life every 240 s; 60 s of less are enough.
		within(t, "closed", time.Since(start), 60*time.Second)
	})
}

// A long frame over a slow line is a sign of life when it is there, not when it
// began.
func TestALongFrameCountsWhenItIsThere(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		b := r.dial()
		r.login(b, "ada")
		frame, err := b.f.Append(nil, rMove, []byte("slowly"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{frame[:9], frame[9:]} {
			time.Sleep(25 * time.Second)
			if _, err := b.conn.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Second)
		if r.Count() != 1 {
			t.Error("closed 50 s after a whole frame, want 60 s")
		}
	})
}

// What a client sends before it hears that it was kicked is counted as that, and
// not as if it had never logged in.
func TestFramesAfterTheEndAreCountedAsThat(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		b := r.dial()
		ref := r.login(b, "ada")
		synctest.Wait()
		if err := r.CloseSession(ref, "out"); err != nil {
			t.Fatal(err)
		}
		b.send(rMove, "on its way")
		b.wantClose("out")
		synctest.Wait()
		r.wantCount(cFramesIn, 2)
		r.wantCount(cInOver, 1)
		r.wantCount(cInAuth, 0)
	})
}

// A client that asks for page after page without ever opening a WebSocket keeps
// no place.
func TestAnHTTPClientKeepsNoPlace(t *testing.T) {
	r := newRig(t, WebSocket, func(c *Config) { c.Limits.HandshakeTimeout = time.Hour })
	resp, err := http.Get("http://" + r.listeners[0].Net.Addr().String() + "/other")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %s, want 404", resp.Status)
	}
	r.gone()
	r.wantCount(cWebFailed, 1)
}

// A reader that stops reading fills its queue and is closed; the close frame
// can't be written, the socket still closes within the limit, the loss counts.
func TestSlowReader(t *testing.T) {
	inVirtualTime(t, func(c *Config) { c.Limits.SendQueue = 10 }, func(t *testing.T, r *rig) {
		b := r.dial()
		ref := r.login(b, "ada")
		start := time.Now()
		for i := range 30 {
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: fmt.Append(nil, i)})
		}
		synctest.Wait()
		if n := r.Count(); n != 0 {
			t.Errorf("the session is still there")
		}
		r.wantCount(cOutQueue, 1)
		r.wantCount(cOutSession, 19)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		r.wantCount(cCloseLost, 1)
		r.wantCount(cOutLost, 10)
		r.wantCount("closed_session_send_queue_full", 1)
		if len(r.slots.conns) != 0 {
			t.Errorf("the socket is open %v after the close", time.Since(start))
		}
	})
}

func TestStuckWriteEndsTheSession(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		b := r.dial()
		ref := r.login(b, "ada")
		r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("nobody reads this")})
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if r.Count() != 1 {
			t.Fatal("closed too early")
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if r.Count() != 0 || len(r.slots.conns) != 0 {
			t.Error("a write that is stuck for 5 s keeps its session")
		}
		want := []string{"frame", "on_client_bound", "on_client_disconnected"}
		if diff := cmp.Diff(want, r.router.kinds(ref.Session)); diff != "" {
			t.Errorf("the services heard (-want +got):\n%s", diff)
		}
		r.wantCount(cCloseLost, 1)
		r.wantCount("closed_session_send_queue_full", 1)
	})
}

// A kicked client that does not react is cut.
func TestKickOfADeadPeerEnds(t *testing.T) {
	inVirtualTime(t, nil, func(t *testing.T, r *rig) {
		b := r.dial()
		ref := r.login(b, "ada")
		start := time.Now()
		if err := r.CloseSession(ref, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(r.slots.conns) != 0 {
			t.Errorf("the socket is open %v after the kick", time.Since(start))
		}
		r.wantCount(cCloseLost, 1)
	})
}

func TestRateRefills(t *testing.T) {
	inVirtualTime(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 10, 5 }, func(t *testing.T, r *rig) {
		b := r.dial()
		flood := func(n int) (accepted int64) {
			before := r.Counters()[cInRate]
			for range n {
				b.send(rLogin, "x")
			}
			synctest.Wait()
			return int64(n) - (r.Counters()[cInRate] - before)
		}
		if got := flood(20); got != 5 {
			t.Errorf("%d of a burst of 20 pass, want 5", got)
		}
		time.Sleep(300 * time.Millisecond)
		if got := flood(20); got != 3 {
			t.Errorf("%d pass after 300 ms at 10/s, want 3", got)
		}
	})
}

func TestWarningsAreCivil(t *testing.T) {
	var w warnings
	now := time.Unix(0, 0)
	shown, skipped := 0, 0
	for i := range 2500 {
		if s, ok := w.allow("x", now.Add(time.Duration(i)*time.Millisecond)); ok {
			shown++
			skipped += s
		}
	}
	if shown != 3 || skipped != 1998 {
		t.Errorf("2500 warnings in 2.5 s show %d lines that speak of %d more, want 3 and 1998", shown, skipped)
	}
}

func TestCloseCutsWhatHangs(t *testing.T) {
	inVirtualTime(t, func(c *Config) { c.Limits.CloseTimeout = time.Hour }, func(t *testing.T, r *rig) {
		b := r.dial()
		r.login(b, "ada")
		start := time.Now()
		r.close() // gives it 5 s
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("Close took %v, want its context's 5s", d)
		}
	})
}
