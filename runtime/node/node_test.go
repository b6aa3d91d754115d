package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/config"
	"shield/runtime/node"
	"shield/runtime/shield"
)

func TestCallsCrossNodes(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			name, target, method string
			args                 []any
			want                 string
			code                 shield.Code
		}{
			{"from a tool", "node-2:echo", "echo", []any{1, "two", nil}, `[1,"two",null]`, ""},
			{"from Lua", "echo", "far", []any{"node-3:echo", map[string]any{"x": 1.5}}, `[true,{"x":1.5}]`, ""},
			{"to itself by its own id", "node-1:echo", "echo", []any{7}, `[7]`, ""},
			{"unknown name", "node-2:nobody", "echo", nil, "", shield.ServiceNotFound},
			{"unknown node", "node-9:echo", "echo", nil, "", shield.NodeNotFound},
			{"unknown method", "node-2:echo", "shout", nil, "", shield.MethodNotFound},
		} {
			got, err := w.call("node-1", tt.target, tt.method, tt.args...)
			if shield.CodeOf(err) != tt.code || got != tt.want {
				t.Errorf("%s: call %s %s = %s, %v, want %s %s", tt.name, tt.target, tt.method, got, err, tt.want, tt.code)
			}
		}
	})
}

func TestAPlayerOnAnotherNode(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		p.send(1002, map[string]int{"x": 4})
		p.want(2002, `{"x":5}`)
		if rows := w.nodes["node-1"].Sessions(); len(rows) != 1 || rows[0].Target != "node-2:player" || rows[0].Player != "ann" || rows[0].Epoch != 1 {
			t.Errorf("sessions = %+v", rows)
		}
		p.send(1003, nil)
		p.want(shield.RouteClose, "bye")
		w.wantSeen(`[["bound ann","unbound ann bye"]]`)

		q := w.connect()
		q.login("bob")
		q.conn.Close()
		w.wantSeen(`[["bound ann","unbound ann bye","bound bob","disconnected bob closed"]]`)
	})
}

func (w *world) wantSeen(want string) {
	w.t.Helper()
	var got string
	w.eventually("player.seen is "+want, func() bool {
		var err error
		if got, err = w.call("node-2", "player", "seen"); err != nil {
			w.t.Fatal(err)
		}
		if got == want {
			return true
		}
		if len(got) >= len(want) {
			w.t.Fatalf("player.seen = %s, want %s", got, want)
		}
		return false
	})
}

func TestATargetThatDiesClosesItsSessions(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann") // the notice of the bind is still under way
		if _, err := w.call("node-2", "player", "die"); err != nil && !errors.Is(err, shield.ServiceDead) {
			t.Fatal(err)
		}
		p.want(shield.RouteClose, "service_dead")
	})
}

func TestATargetsNodeThatIsCutOffClosesItsSessions(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		w.wantSeen(`[["bound ann"]]`)
		w.net.Down(addrOf(2), true)
		p.want(shield.RouteClose, "node_offline")
		// The other side can't hear the gateway either: its own node tells it.
		w.wantSeen(`[["bound ann","disconnected ann node_offline"]]`)
		w.net.Down(addrOf(2), false)
	})
}

func TestAKilledNodeComesBack(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		before := w.nodes["node-2"].Epoch()
		if err := w.nodes["node-2"].Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		n := w.make(2, 2)
		if err := n.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.eventually("node-2 answers again", func() bool {
			got, err := w.call("node-1", "node-2:echo", "echo", "hi")
			return err == nil && got == `["hi"]`
		})
		if n.Epoch() <= before {
			t.Errorf("epoch went from %d to %d", before, n.Epoch())
		}
	})
}

func TestATargetThatDiesLaterClosesItsSessions(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		p := w.connect()
		p.login("ann")
		w.wantSeen(`[["bound ann"]]`)
		if _, err := w.call("node-2", "player", "die"); err != nil && !errors.Is(err, shield.ServiceDead) {
			t.Fatal(err)
		}
		p.want(shield.RouteClose, "service_dead")
	})
}

// K4: whenever a stop comes, nothing is left behind and nothing panics.
func TestStopAtAnyMomentOfAStart(t *testing.T) {
	c := loadProject(t, 2)
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, c)
			defer w.stop()
			for i := range 2 {
				n := w.make(i+1, 2)
				go func() { _ = n.Start(context.Background()) }() // it fails when the stop comes first
			}
			time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		})
	}
}

// The handlers of a service that came with a later shield.yaml are looked for
// like those of the first.
func TestHandlersOfServicesOfALaterProjectAreLookedFor(t *testing.T) {
	first := config.Default()
	n, err := node.New(node.Config{Project: first, Files: files{"shop.lua": "return { buy = function() end }"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Stop(context.Background()) }()
	later := first.Clone()
	later.Services = []config.Service{{Name: "shop", Script: "shop.lua", Instances: 1}}
	if _, err := n.Respec(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	route := func(handler string) []config.Route {
		return []config.Route{{RPCRoute: shield.RPCRoute{ID: 16, Name: handler, Dir: shield.ClientToServer, Service: "shop", Handler: handler}}}
	}
	if err := n.CheckHandlers(route("buy")); err != nil {
		t.Errorf("buy: %v", err)
	}
	if err := n.CheckHandlers(route("sell")); err == nil {
		t.Error("nobody missed the handler sell")
	}
}

// Whoever embeds a node may ask it for its rows from the first moment on, and
// need not log.
func TestANodeAnswersAtAnyMomentOfItsStart(t *testing.T) {
	c := loadProject(t, 2)
	ask := func(n *node.Node) {
		n.Nodes()
		n.Routes()
		n.Services()
		n.Sessions()
		n.Totals()
		n.Gateways()
		n.SetClockShift(time.Hour)
		n.SetClockShift(0)
		n.Epoch()
	}
	t.Run("alone", func(t *testing.T) {
		n, err := node.New(node.Config{Project: config.Default()})
		if err != nil {
			t.Fatal(err)
		}
		ask(n)
		if err := n.Drain(t.Context()); err != nil {
			t.Errorf("Drain before Start: %v", err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(n)
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		ask(n)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, c)
		defer w.stop()
		n := w.make(1, 2)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				ask(n)
				time.Sleep(100 * time.Microsecond) // virtual
			}
		}()
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}
