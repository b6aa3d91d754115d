package luaapi_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/service"
	"shield/runtime/shield"
)

func TestRestartPolicies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart service.Restart
		method  string
		want    []time.Duration // when it starts, since the beginning
		state   shield.ServiceState
	}{
		{"never", service.Restart{Policy: service.RestartNever}, "boom", []time.Duration{0}, shield.Failed},
		{"normal exit, on-failure", service.Restart{}, "quit", []time.Duration{0}, ""},
		{"normal exit, always", service.Restart{Policy: service.RestartAlways, MaxRetries: 1}, "quit", []time.Duration{0, time.Second}, ""},
		{"backoff", service.Restart{InitialDelay: time.Second, Multiplier: 3, MaxDelay: 5 * time.Second, MaxRetries: 4}, "boom",
			[]time.Duration{0, 1 * time.Second, 4 * time.Second, 9 * time.Second, 14 * time.Second}, shield.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var starts []time.Duration
				n := newNode(t, scripts{"s.lua": `
local M = {}
function M.on_init(a) shield.send(shield.self(), a.config) end
function M.boom() shield.panic("boom") end
function M.quit() shield.exit() end
return M`}, func(c *service.Config) {
					c.OnName = func(_ shield.Name, _ shield.ServiceID, published bool) {
						if published {
							starts = append(starts, time.Since(begin))
						}
					}
				})
				n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Config: tt.method, Restart: tt.restart})
				time.Sleep(time.Minute)
				synctest.Wait()
				if d := cmp.Diff(tt.want, starts); d != "" {
					t.Errorf("starts (-want +got):\n%s", d)
				}
				state := shield.ServiceState("")
				if rows := n.Services(); len(rows) > 0 {
					state = rows[0].State
				}
				if state != tt.state {
					t.Errorf("state = %q, want %q", state, tt.state)
				}
				n.stop()
			})
		})
	}
}

// A restart that meets a service on its way out must not wait for a successor
// that nobody makes.
func TestRestartOfAServiceThatEndsByItself(t *testing.T) {
	for _, tt := range []struct {
		name    string
		restart service.Restart
		late    bool        // the service has ended when the restart comes
		want    shield.Code // "" = it runs again
	}{
		{"it would stay away", service.Restart{}, false, ""},
		{"its policy brings it back", service.Restart{Policy: service.RestartAlways}, false, ""},
		{"its policy will bring it back", service.Restart{Policy: service.RestartAlways}, true, shield.NameConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				n := newNode(t, scripts{"s.lua": `return {quit = function() shield.exit("done") end, ping = function() return "pong" end}`}, func(c *service.Config) {
					c.OnDead = func(shield.Handle, shield.Code) { <-leave }
				})
				n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Restart: tt.restart})
				old, _ := n.Lookup("s")
				n.want(`[]`, "s", "quit")
				if tt.late {
					close(leave)
					synctest.Wait()
				}
				restarted := make(chan error, 1)
				go func() {
					_, err := n.Restart(context.Background(), old.ID, "edit")
					restarted <- err
				}()
				synctest.Wait() // until the restart waits for the end that is under way
				if !tt.late {
					close(leave)
				}
				if err := <-restarted; shield.CodeOf(err) != tt.want {
					t.Fatalf("Restart = %v, want %q\n%s", err, tt.want, n.log.text())
				}
				time.Sleep(time.Minute)
				n.want(`["pong"]`, "s", "ping")
			})
		})
	}
}

func TestRestartByHand(t *testing.T) { synctest.Test(t, testRestartByHand) }

func testRestartByHand(t *testing.T) {
	var dead []shield.Handle
	var mu sync.Mutex
	n := start(t, scripts{"s.lua": `local M = {n = 0} function M.inc() M.n = M.n + 1 return M.n end
function M.on_shutdown(ctx) assert(ctx.reason == "edit" and ctx.deadline > 0) end return M`}, func(c *service.Config) {
		c.OnDead = func(h shield.Handle, _ shield.Code) { mu.Lock(); dead = append(dead, h); mu.Unlock() }
	})
	n.want(`[1]`, "s", "inc")
	n.want(`[2]`, "s", "inc")
	old, _ := n.Lookup("s")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h, err := n.Restart(ctx, old.ID, "edit")
	if err != nil || h == old {
		t.Fatalf("Restart = %v, %v, want a new handle\n%s", h, err, n.log.text())
	}
	n.want(`[1]`, "s", "inc")
	if _, _, err := n.Call(ctx, service.CallRequest{Target: service.Target{Handle: old}, Method: "inc"}); shield.CodeOf(err) != shield.ServiceDead {
		t.Errorf("call by the old handle = %v, want service_dead", err)
	}
	rows := n.Services()
	if len(rows) != 1 || rows[0].Restarts != 1 || rows[0].State != shield.Running || rows[0].Generation != 1 {
		t.Errorf("rows = %+v", rows)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(dead) != 1 || dead[0] != old {
		t.Errorf("OnDead heard %v, want %v", dead, old)
	}
}
