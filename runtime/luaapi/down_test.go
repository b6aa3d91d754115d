package luaapi_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
)

// failing is a spec whose script lies in files.
func failing(name string) service.Spec {
	return service.Spec{Name: shield.Name(name), Script: name + ".lua", Instances: 1, Restart: service.Restart{Policy: service.RestartOnFailure}}
}

func TestAFailedServiceStartsAgainOnRequest(t *testing.T) {
	files := scripts{"ee.lua": "local M = {}\nfunction M.hi() return 'hi' end\nreturn M)\n"}
	n := newNode(t, files, nil)
	if err := n.Start(context.Background(), []service.Spec{failing("ee")}); err == nil {
		t.Fatal("a syntax error started")
	}
	down := n.Down()
	if len(down) != 1 || down[0].Name != "ee" || !strings.HasPrefix(down[0].Why, "init: ee.lua:3:") {
		t.Fatalf("Down = %+v", down)
	}
	if row := n.Services()[0]; row.State != shield.Failed || !strings.HasPrefix(row.Reason, "init: ee.lua:3:") {
		t.Errorf("row = %+v, want it failed with the reason", row)
	}
	if _, err := n.StartAgain(context.Background(), "ee"); shield.CodeOf(err) != shield.ScriptLoadFailed {
		t.Errorf("StartAgain of a broken script = %v", err)
	}
	if rows := n.Services(); len(rows) != 1 {
		t.Errorf("%d rows after a second failure, want one: %+v", len(rows), rows)
	}
	files["ee.lua"] = "local M = {}\nfunction M.hi() return 'hi' end\nreturn M\n"
	if _, err := n.StartAgain(context.Background(), "ee"); err != nil {
		t.Fatal(err)
	}
	n.want(`["hi"]`, "ee", "hi")
	if rows := n.Services(); len(rows) != 1 || rows[0].State != shield.Running || rows[0].Reason != "" {
		t.Errorf("rows = %+v, want one that runs", rows)
	}
	if _, err := n.StartAgain(context.Background(), "ee"); err == nil {
		t.Error("a service that runs started again")
	}
	if !strings.Contains(n.log.text(), "3 | return M)") {
		t.Errorf("the start's error shows no source line:\n%s", n.log.text())
	}
}

func TestAServiceThatExitedStartsAgainOnRequest(t *testing.T) {
	n := start(t, scripts{"cc.lua": "local M = {}\nfunction M.go() shield.exit('tired') end\nfunction M.hi() return 'hi' end\nreturn M\n"}, nil)
	n.want(`[]`, "cc", "go")
	waitFor(t, func() bool { return len(n.Down()) == 1 })
	if d := n.Down()[0]; d.Name != "cc" || d.Why != "" {
		t.Errorf("Down = %+v", d)
	}
	if n.log.count("INFO ended: tired") != 1 {
		t.Errorf("the end is not told:\n%s", n.log.text())
	}
	if _, err := n.StartAgain(context.Background(), "cc"); err != nil {
		t.Fatal(err)
	}
	n.want(`["hi"]`, "cc", "hi")
}

// waitFor polls for what another goroutine is about to do.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happened")
		}
	}
}

func TestRespecStartsWhatItCanAndLeavesNoOldRows(t *testing.T) {
	files := scripts{"a.lua": "return {hi = function() return 'a' end}", "b.lua": "error('boom')", "c.lua": "return {hi = function() return 'c' end}"}
	n := newNode(t, files, nil)
	d, err := n.Respec(context.Background(), []service.Spec{failing("a"), failing("b"), failing("c")})
	if err == nil || !strings.Contains(err.Error(), "start b: ") {
		t.Errorf("err = %v", err)
	}
	if got := joinNames(d.Started); got != "a c" {
		t.Errorf("started = %q, want a c: b is none of them", got)
	}
	n.want(`["c"]`, "c", "hi")
	other := failing("b")
	other.Config = map[string]any{"x": 1}
	if _, err = n.Respec(context.Background(), []service.Spec{failing("a"), other, failing("c")}); err == nil || strings.Contains(err.Error(), "said before") {
		t.Errorf("a failed service goes back to what had failed: %v", err)
	}
	if rows := n.Services(); len(rows) != 3 {
		t.Errorf("%d rows, want 3: %+v", len(rows), rows)
	}
	files["b.lua"] = "return {hi = function() return 'b' end}"
	if d, err = n.Respec(context.Background(), []service.Spec{failing("a"), failing("b"), failing("c")}); err != nil || joinNames(d.Restarted) != "b" {
		t.Errorf("Respec = %+v, %v", d, err)
	}
	n.want(`["b"]`, "b", "hi")
	if rows := n.Services(); len(rows) != 3 {
		t.Errorf("%d rows, want 3: %+v", len(rows), rows)
	}
}

func joinNames(names []shield.Name) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = string(n)
	}
	return strings.Join(all, " ")
}

func TestAThrowingTimerSaysThatItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, scripts{"a.lua": "local M = {}\nfunction M.go()\n  shield.timer(100, function() error('bad') end)\n  shield.timer_once(10, function() error('once') end)\nend\nreturn M"}, nil)
		n.want(`[]`, "a", "go")
		time.Sleep(time.Second)
		if got := n.log.count("the timer of a.lua:3, every 100ms, is stopped"); got != 1 {
			t.Errorf("told %d times:\n%s", got, n.log.text())
		}
		if got := n.log.count("is stopped: it has thrown"); got != 1 {
			t.Errorf("a timer that fires once needs no such line:\n%s", n.log.text())
		}
	})
}

// A handler that sleeps through the drain is the only one that is late.
func TestDrainWaitsForTheSlowOneLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, scripts{
			"aa.lua": "local M = {}\nfunction M.on_shutdown() shield.log.info('aa says bye') end\nreturn M",
			"bb.lua": "local M = {}\nfunction M.nap() shield.sleep(60000) end\nreturn M",
			"cc.lua": "return {}"}, nil)
		go n.call("bb", "nap") //nolint:errcheck // it ends with the node
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := n.Drain(ctx)
		if err == nil || !strings.Contains(err.Error(), "bb was not ready to stop in time: nap has waited in shield.sleep for 2s") {
			t.Errorf("Drain = %v", err)
		}
		if strings.Contains(err.Error(), "aa") || strings.Contains(err.Error(), "cc") || n.log.count("aa says bye") != 1 {
			t.Errorf("the others were kept from finishing: %v\n%s", err, n.log.text())
		}
	})
}

func TestATimeoutSaysThatTheCalleeIsInsideATurn(t *testing.T) {
	n := start(t, scripts{"a.lua": "local M = {}\nfunction M.spin() while true do end end\nreturn M"}, func(c *service.Config) {
		c.Limits.MaxHandler = 600 * time.Millisecond
		c.Limits.CallTimeout = 300 * time.Millisecond
	})
	n.wantError(shield.Timeout, "a is inside spin for", "a", "spin")
}

func TestAThrownTableIsShown(t *testing.T) {
	n := start(t, scripts{"a.lua": `return {
  num = function() error({code = 42}) end,
  full = function() error({code = "x", message = "y"}) end,
}`}, nil)
	n.wantError(shield.HandlerError, "{code = 42}", "a", "num")
	n.wantError(shield.HandlerError, "x: y", "a", "full")
}

func TestAMisspeltFunctionIsNamed(t *testing.T) {
	n := start(t, scripts{"a.lua": `return {
  slip = function() return shield.querry("a") end,
  deep = function() return shield.log.inof("a") end,
  ask = function() return shield.something_else == nil, shield.query ~= nil end,
}`}, nil)
	n.wantError(shield.HandlerError, "a.lua:2: there is no shield.querry (did you mean shield.query?)", "a", "slip")
	n.wantError(shield.HandlerError, "there is no shield.log.inof (did you mean shield.log.info?)", "a", "deep")
	n.want(`[true,true]`, "a", "ask")
}
