package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"shield/runtime/shield"
)

func TestLoginAndPlay(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		b := r.dial()
		ref := r.enter(b)
		if want := (shield.ClientRef{Gateway: "n1:main", Session: ref.Session, Profile: "test.v1/raw"}); ref != want {
			t.Errorf("before login the ref is %+v, want %+v", ref, want)
		}
		bound, err := r.Bind(ref, players, "ada")
		want := ref
		want.Epoch, want.Player = 1, "ada"
		if err != nil || bound != want {
			t.Fatalf("Bind = %+v, %v, want %+v", bound, err, want)
		}
		r.Push(&shield.Push{Client: bound, Route: rLoginOK, Body: []byte("welcome")})
		b.want(rLoginOK, "welcome")
		b.send(rMove, "north")
		got := r.router.wait(t, "move", func(e event) bool { return e.route == rMove })
		if diff := cmp.Diff(event{kind: "frame", ref: bound, target: players, route: rMove, body: "north"}, got, cmp.AllowUnexported(event{})); diff != "" {
			t.Errorf("the move differs (-want +got):\n%s", diff)
		}
		row, ok := r.Session(ref.Session)
		if !ok || row.Player != "ada" || row.Epoch != 1 || row.State != shield.SessionBound || row.Target != "n1#2" || len(row.History) != 2 || row.In != 2 {
			t.Errorf("Session = %+v, %v", row, ok)
		}
		b.conn.Close()
		r.router.wait(t, "disconnect", func(e event) bool { return e.kind == "on_client_disconnected" && e.ref == bound && e.target == players })
		r.gone()
		if diff := cmp.Diff([]string{"frame", "on_client_bound", "frame", "on_client_disconnected"}, r.router.kinds(ref.Session)); diff != "" {
			t.Errorf("the services heard (-want +got):\n%s", diff)
		}
		if n := r.Count(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

func TestChecksIn(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, func(c *Config) { c.Protocol.Provider = "json" })
		b := r.dial()
		for _, tt := range []struct {
			counter string
			route   shield.RouteID
			body    string
		}{
			{cInRoute, 999, "{}"},
			{cInRoute, 5, "a route of the gateway's own"},
			{cInDirection, rLoginOK, "{}"},
			{cInAuth, rMove, "{}"},
			{cInSize, rSmall, `"nine bytes"`},
			{cInDecode, rLogin, "{not json"},
		} {
			before := r.Counters()[tt.counter]
			b.send(tt.route, tt.body)
			b.send(shield.RoutePing, "sync")
			b.want(shield.RoutePong, "sync")
			r.wantCount(tt.counter, before+1)
		}
		for range 5 {
			b.send(rSlow, "1")
		}
		b.send(shield.RoutePing, "sync")
		b.want(shield.RoutePong, "sync")
		r.wantCount(cInRate, 3)
		b.send(rLogin, `{"ok":true}`)
		r.router.wait(t, "login", func(e event) bool { return e.body == `{"ok":true}` })
		for _, e := range r.router.list() {
			if e.route != rLogin && e.route != rSlow || strings.Contains(e.body, "not json") {
				t.Errorf("a refused frame reached the service: %+v", e)
			}
		}
	})
}

func TestChecksOut(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		b := r.dial()
		first := r.enter(b)
		ref, err := r.Bind(first, players, "ada")
		if err != nil {
			t.Fatal(err)
		}
		with := func(change func(*shield.ClientRef)) shield.ClientRef { c := ref; change(&c); return c }
		for _, tt := range []struct {
			counter string
			push    shield.Push
		}{
			{cOutSession, shield.Push{Client: with(func(c *shield.ClientRef) { c.Session = "s-nobody" }), Route: rPos}},
			{cOutEpoch, shield.Push{Client: first, Route: rPos}},
			{cOutEpoch, shield.Push{Client: with(func(c *shield.ClientRef) { c.Epoch = 2; c.Player = "bob" }), Route: 999}},
			{cOutOwner, shield.Push{Client: with(func(c *shield.ClientRef) { c.Player = "bob" }), Route: 999}},
			{cOutRoute, shield.Push{Client: ref, Route: 999}},
			{cOutDirection, shield.Push{Client: ref, Route: rMove}},
			{cOutSize, shield.Push{Client: ref, Route: rPos, Body: make([]byte, 64<<10)}},
			{cOutSize, shield.Push{Client: ref, Route: rPos, Body: make([]byte, 2<<20)}}, // longer than the whole queue
		} {
			before := r.Counters()[tt.counter]
			r.Push(&tt.push)
			r.wantCount(tt.counter, before+1)
		}
		r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("good")})
		b.want(rPos, "good") // and nothing before it
		if row, _ := r.Session(ref.Session); row.Stale != 2 {
			t.Errorf("the row counts %d stale pushes, want 2", row.Stale)
		}
	})
}

func TestKick(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		for _, tt := range []struct{ reason, want string }{{"", "kicked"}, {"logged in elsewhere", "logged in elsewhere"}} {
			r := newRig(t, transport, nil)
			b := r.dial()
			stale := r.enter(b)
			ref, err := r.Bind(stale, players, "ada")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				r.Push(&shield.Push{Client: ref, Route: rPos, Body: fmt.Appendf(nil, "%d", i)})
			}
			// A kick does not look at the epoch of the ref it is given.
			if err := r.CloseSession(stale, tt.reason); err != nil {
				t.Fatalf("CloseSession: %v", err)
			}
			if err := r.CloseSession(ref, tt.reason); !errors.Is(err, shield.SessionClosed) {
				t.Errorf("a second kick = %v, want session_closed", err)
			}
			if _, err := r.Bind(ref, players, "ada"); !errors.Is(err, shield.SessionClosed) {
				t.Errorf("a bind after the kick = %v, want session_closed", err)
			}
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("late")})
			r.wantCount(cOutSession, 1)
			for i := range 100 {
				b.want(rPos, fmt.Sprint(i))
			}
			b.wantClose(tt.want)
			r.gone()
			last := r.router.list()[len(r.router.list())-1]
			if last.kind != "on_client_unbound" || last.ref != ref || last.target != players || last.reason != tt.want {
				t.Errorf("the target heard %+v last, want unbound with the last epoch", last)
			}
			if diff := cmp.Diff([]string{"frame", "on_client_bound", "on_client_unbound"}, r.router.kinds(ref.Session)); diff != "" {
				t.Errorf("the services heard (-want +got):\n%s", diff)
			}
		}
	})
}

func TestTargetGone(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		here, far, other := r.dial(), r.dial(), r.dial()
		r.login(here, "ada")
		farRef, err := r.Bind(r.enter(far), faraway, "bob")
		if err != nil {
			t.Fatal(err)
		}
		r.enter(other)
		r.TargetGone(players, shield.ServiceDead)
		here.wantClose("service_dead")
		r.NodeGone("n2", 8, shield.NodeOffline) // another start of that node
		r.Push(&shield.Push{Client: farRef, Route: rPos, Body: []byte("still there")})
		far.want(rPos, "still there")
		r.NodeGone("n2", 9, shield.NodeOffline)
		far.wantClose("node_offline")
		other.send(shield.RoutePing, "x")
		other.want(shield.RoutePong, "x")
		for _, e := range r.router.list() {
			if e.target == players && (e.kind == "on_client_disconnected" || e.kind == "on_client_unbound") {
				t.Errorf("a dead target heard %+v", e)
			}
		}
		// A node that is out of reach may live: its target has to hear in the end.
		if diff := cmp.Diff([]string{"frame", "on_client_bound", "on_client_disconnected"}, r.router.kinds(farRef.Session)); diff != "" {
			t.Errorf("the far target heard (-want +got):\n%s", diff)
		}
	})
}

func TestDeadTargetClosesOnItsFirstFrame(t *testing.T) {
	r := newRig(t, TCP, nil)
	b := r.dial()
	r.login(b, "ada")
	r.router.mu.Lock()
	r.router.fail[players] = shield.Errorf(shield.ServiceDead, "gone")
	r.router.mu.Unlock()
	b.send(rMove, "x")
	b.wantClose("service_dead")
	d := r.dial()
	r.router.mu.Lock()
	r.router.fail[authSvc] = shield.Errorf(shield.MailboxFull, "busy")
	r.router.mu.Unlock()
	d.send(rLogin, "dropped")
	d.send(shield.RoutePing, "x")
	d.want(shield.RoutePong, "x")
	r.wantCount(cInLost, 2)
}

// A bind whose target can't hear of it changes nothing: the last target keeps the
// session, its pushes arrive, and it hears of the end.
func TestABindThatFailsLeavesTheSession(t *testing.T) {
	for _, code := range []shield.Code{shield.ServiceDead, shield.NodeOffline, shield.MailboxFull} {
		r := newRig(t, TCP, nil)
		b := r.dial()
		ref := r.login(b, "ada")
		r.router.mu.Lock()
		r.router.fail[faraway] = shield.Errorf(code, "it can't hear")
		r.router.mu.Unlock()
		if got, err := r.Bind(ref, faraway, "ada"); shield.CodeOf(err) != code {
			t.Errorf("Bind = %v, %v, want %s", got, err, code)
		}
		r.TargetGone(faraway, shield.ServiceDead) // it has no session
		r.Push(&shield.Push{Client: ref, Route: rPos, Body: []byte("still here")})
		b.want(rPos, "still here")
		if row, _ := r.Session(ref.Session); row.Epoch != 1 || row.Target != players.String() || len(row.History) != 2 {
			t.Errorf("after a bind that failed with %s the session is %+v", code, row)
		}
		r.wantCount(cBinds, 1)
		r.wantCount(cNoticeLost, 1)
		r.TargetGone(players, shield.ServiceDead)
		b.wantClose("service_dead")
		r.gone()
	}
}

func TestNoAuthService(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		r.router.mu.Lock()
		r.router.authErr = shield.Errorf(shield.ServiceNotFound, "no auth")
		r.router.mu.Unlock()
		r.dial().wantClose("service_not_found")
		r.gone()
		r.wantCount(cConnections, 1)
		r.wantCount(cNoSession, 1)
		r.wantCount(cRefusedConn, 0)
	})
}

func TestDrainAndClose(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		b := r.dial()
		ref := r.login(b, "ada")
		r.Drain()
		if _, err := r.dialConn(); err == nil {
			t.Error("a draining gateway takes a new client")
		}
		b.send(rMove, "still served")
		r.router.wait(t, "move", func(e event) bool { return e.route == rMove })
		closed := make(chan error, 1)
		go func() { closed <- r.Close(context.Background()) }()
		b.wantClose("runtime_stopping")
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
		r.router.wait(t, "disconnect", func(e event) bool {
			return e.kind == "on_client_disconnected" && e.ref == ref && e.reason == "runtime_stopping"
		})
		if err := r.Start(); err == nil {
			t.Error("a closed gateway starts again")
		}
	})
}

func TestSetRoutes(t *testing.T) {
	r := newRig(t, TCP, func(c *Config) { c.Protocol.Provider = "" })
	b := r.dial()
	bad := shield.NewRPCTable([]shield.RPCRoute{{ID: rLogin, Name: "x", Dir: shield.ClientToServer, Codec: "jsno"}})
	if err := r.SetRoutes(bad); err == nil || !strings.Contains(err.Error(), `did you mean "json"?`) {
		t.Errorf("SetRoutes with a wrong codec = %v", err)
	}
	b.send(rLogin, "{}")
	r.router.wait(t, "login by the old table", func(e event) bool { return e.route == rLogin })
	if err := r.SetRoutes(shield.NewRPCTable([]shield.RPCRoute{{ID: 300, Name: "new", Dir: shield.ClientToServer, Codec: "raw"}})); err != nil {
		t.Fatal(err)
	}
	b.send(rLogin, "{}")
	b.send(300, "\xff")
	r.router.wait(t, "frame by the new table", func(e event) bool { return e.route == 300 })
	r.wantCount(cInRoute, 1)
}

func TestAddrs(t *testing.T) {
	r := newRig(t, WebSocket, nil)
	want := "ws://" + r.listeners[0].Net.Addr().String() + "/"
	if got := r.Addrs(); len(got) != 1 || got[0] != want {
		t.Errorf("Addrs() = %q, want %q", got, want)
	}
}

func TestCountTargets(t *testing.T) {
	r := newRig(t, TCP, nil)
	for i := range 3 {
		r.login(r.dial(), fmt.Sprint(i))
	}
	r.enter(r.dial())
	got := map[shield.Handle]int{}
	r.CountTargets(func(h shield.Handle) { got[h]++ })
	if diff := cmp.Diff(map[shield.Handle]int{players: 3, authSvc: 1}, got); diff != "" {
		t.Errorf("CountTargets (-want +got):\n%s", diff)
	}
	if rows := r.Sessions(); len(rows) != 4 || rows[0].Session >= rows[1].Session {
		t.Errorf("Sessions() gives %d rows, want 4 sorted", len(rows))
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{ID: "n1:main", Auth: "auth", Router: &fakeRouter{}, Routes: testRoutes()}
	for _, tt := range []struct {
		name, want string
		change     func(*Config)
	}{
		{"codec", "unknown codec", func(c *Config) { c.Protocol.Provider = "xml" }},
		{"header", "1, 2 or 4", func(c *Config) { c.Protocol.LengthBytes = 3 }},
		{"router", "router", func(c *Config) { c.Router = nil }},
		{"transport", "this release has", func(c *Config) { c.Listeners = []Listener{{Transport: "quic", Net: newPipes()}} }},
		{"certificate", "certificate", func(c *Config) { c.Listeners = []Listener{{Transport: TLS, Net: newPipes()}} }},
	} {
		c := good
		tt.change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// What a service says last before it closes always arrives, however busy the
// client is sending.
func TestLastMessageArrives(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		r := newRig(t, transport, nil)
		for i := range 20 {
			b := r.dial()
			ref := r.login(b, "ada")
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				frame, _ := b.f.Append(nil, rMove, []byte("noise"))
				for {
					if _, err := b.conn.Write(frame); err != nil {
						return
					}
				}
			}()
			r.Push(&shield.Push{Client: ref, Route: rPos, Body: fmt.Appendf(nil, "last %d", i)})
			if err := r.CloseSession(ref, "bye"); err != nil {
				t.Fatal(err)
			}
			b.want(rPos, fmt.Sprintf("last %d", i))
			b.want(shield.RouteClose, "bye")
			b.conn.Close()
			<-stop
		}
	})
}
