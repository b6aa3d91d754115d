package luaapi_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/service"
	"shield/runtime/shield"
)

// Every limit has an error and a counter, and the service lives on.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limits  service.Limits
		script  string // a method go, whose first result is the code
		code    shield.Code
		counter func(service.Counters) int64
	}{
		{"mailbox", service.Limits{MaxMailbox: 3}, `function M.go()
			for i = 1, 3 do assert(shield.send(shield.self(), "ping")) end
			local ok, e = shield.send(shield.self(), "ping") return e.code, e.retryable end`,
			shield.MailboxFull, func(c service.Counters) int64 { return c.MailboxFull }},
		{"coroutines", service.Limits{MaxCoroutines: 5}, `
			function M.park() shield.sleep(50) end
			function M.go()
			for i = 1, 4 do shield.send(shield.self(), "park") end
			shield.sleep(1)
			local ok, e = shield.call_timeout(40, shield.self(), "ping") return e.code end`,
			shield.CoroutineLimit, func(c service.Counters) int64 { return c.CoroutineLimit }},
		{"pending calls", service.Limits{MaxPendingCalls: 2}, `
			function M.park() shield.sleep(30) end
			function M.go()
			for i = 1, 2 do shield.fork(function() shield.call(shield.self(), "park") end) end
			shield.sleep(1)
			local ok, e = shield.call(shield.self(), "ping") return e.code end`,
			shield.PendingCallLimit, func(c service.Counters) int64 { return c.PendingCallLimit }},
		{"timers", service.Limits{MaxTimers: 2}, `function M.go()
			local a = shield.timer(1e6, M.ping) shield.timer_once(1e6, M.ping)
			local id, e = shield.timer(1, M.ping)
			assert(id == nil and shield.cancel_timer(a) and shield.timer(1e6, M.ping))
			local ok, e2 = shield.cancel_timer(a) assert(e2.code == "timer_not_found")
			return e.code end`,
			shield.TimerLimit, func(c service.Counters) int64 { return c.TimerLimit }},
		{"forks", service.Limits{MaxForks: 2}, `function M.go()
			shield.fork(M.ping) shield.fork(M.ping)
			local ok, e = shield.fork(M.ping) shield.sleep(1) assert(shield.fork(M.ping)) return e.code end`,
			shield.ForkLimit, func(c service.Counters) int64 { return c.ForkLimit }},
		{"message size", service.Limits{MaxMessageSize: 100}, `function M.go()
			local ok, e = shield.call(shield.self(), "ping", ("x"):rep(200)) return e.code end`,
			shield.MessageTooLarge, func(c service.Counters) int64 { return c.MessageTooLarge }},
		{"result size", service.Limits{MaxMessageSize: 100}, `
			function M.big() return ("x"):rep(200) end
			function M.go() local ok, e = shield.call(shield.self(), "big") return e.code end`,
			shield.MessageTooLarge, func(c service.Counters) int64 { return c.MessageTooLarge }},
		{"handler", service.Limits{MaxHandler: 50 * time.Millisecond}, `
			function M.spin() while true do pcall(function() while true do end end) end end
			function M.go() local ok, e = shield.call(shield.self(), "spin") assert(e.message:find("s.lua:")) return e.code end`,
			shield.HandlerTimeout, func(c service.Counters) int64 { return c.HandlerTimeout }},
		{"call depth", service.Limits{MaxCallDepth: 500}, `
			local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end
			function M.deep() return deep(600) end
			function M.go()
				assert(deep(450) == 450)
				local ok, e = shield.call(shield.self(), "deep")
				assert(e.message:find("stack overflow"), e.message) return e.code end`,
			shield.HandlerError, func(c service.Counters) int64 { return c.Errors }},
	} {
		run := func(t *testing.T) {
			n := newNode(t, scripts{"s.lua": "local M = {}\nfunction M.ping() return 'pong' end\n" + tt.script + "\nreturn M"}, nil)
			n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Limits: tt.limits})
			got, err := n.call("s", "go")
			if err != nil || !strings.HasPrefix(got, `["`+string(tt.code)+`"`) {
				t.Errorf("go = %s, %v, want %s\n%s", got, err, tt.code, n.log.text())
			}
			if c := tt.counter(n.Counters()); c != 1 {
				t.Errorf("counter = %d, want 1", c)
			}
			time.Sleep(60 * time.Millisecond) // the parked handlers of the test are over
			n.want(`["pong"]`, "s", "ping")
		}
		t.Run(tt.name, func(t *testing.T) {
			if tt.code == shield.HandlerTimeout {
				run(t) // in virtual time a loop would never be too long
				return
			}
			synctest.Test(t, run)
		})
	}
}

// A service over its memory ends and comes again; its neighbours don't notice.
func TestMemoryLimit(t *testing.T) {
	n := newNode(t, scripts{
		"hog.lua": `
local M = {}
function M.grow() local t = {} for i = 1, 1e9 do t[#t + 1] = ("x"):rep(1000) .. i end end
function M.keep() M.kept = {} for i = 1, 40000 do M.kept[i] = ("x"):rep(1000) .. i end end
function M.on_panic(reason, c) shield.log.info("panicked " .. c.type) end
function M.ping() return "pong" end
return M`,
		"b.lua": `return {ping = function() return "pong" end}`,
	}, nil)
	restart := service.Restart{InitialDelay: 10 * time.Millisecond}
	n.start(service.Spec{Name: "hog", Script: "hog.lua", Instances: 1, Restart: restart, Limits: service.Limits{MaxMemory: 16 << 20}},
		service.Spec{Name: "b", Script: "b.lua", Instances: 1})
	n.wantError(shield.MemoryLimit, "", "hog", "grow")
	n.want(`["pong"]`, "b", "ping")
	n.untilRestarted("hog", 1)
	n.want(`["pong"]`, "hog", "ping")
	if _, err := n.call("hog", "keep"); err != nil && shield.CodeOf(err) != shield.MemoryLimit {
		t.Errorf("keep = %v", err)
	}
	for n.Counters().Restarts < 2 { // what a turn left behind is measured after one of the next
		_, _ = n.call("hog", "ping")
		time.Sleep(time.Millisecond)
	}
	if c := n.Counters(); c.MemoryLimit != 2 {
		t.Errorf("memory_limit %d, want 2", c.MemoryLimit)
	}
	if n.log.count("panicked vm") == 0 {
		t.Errorf("on_panic(vm) was not called:\n%s", n.log.text())
	}
}

// A turn that ignores its abort costs its service the VM, and nobody else
// anything.
func TestWedgedService(t *testing.T) {
	release := make(chan struct{})
	n := newNode(t, scripts{
		"s.lua": `
local M = {}
function M.hang() shield.hang() return "back" end
function M.park() pcall(shield.sleep, 1e9) return "parked" end
function M.ping() return "pong" end
return M`,
		"b.lua": `local M = {} function M.call(ctx, m) local ok, e = shield.call("s", m) return ok, e.code end function M.ping() return "pong" end return M`,
	}, func(c *service.Config) {
		c.API.Shield["hang"] = func(*lua.LState) int { <-release; return 0 }
		c.Lua.StuckAfter, c.Lua.Tick = 30*time.Millisecond, 5*time.Millisecond
	})
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Limits: service.Limits{MaxHandler: 50 * time.Millisecond},
		Restart: service.Restart{InitialDelay: time.Millisecond}}, service.Spec{Name: "b", Script: "b.lua", Instances: 1})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { n.want(`[false,"service_dead"]`, "b", "call", "park") })
	}
	for len(n.Waits(t.Context())) < 6 {
		time.Sleep(time.Millisecond) // until they wait: three in b, three in s
	}
	wg.Go(func() { n.want(`[false,"handler_timeout"]`, "b", "call", "hang") })
	for n.Counters().Wedged == 0 {
		n.want(`["pong"]`, "b", "ping")
	}
	wg.Wait()
	n.untilRestarted("s", 1)
	n.want(`["pong"]`, "s", "ping")
	if n.log.count("the VM is abandoned") != 1 || n.Counters().Restarts != 1 {
		t.Errorf("want one wedged service that came again:\n%s", n.log.text())
	}
	close(release)
	n.stop()
}

// A line with a budget below max_handler_ms wedges its service as a handler does.
func TestALineThatHangsWedges(t *testing.T) {
	release := make(chan struct{})
	n := start(t, scripts{"s.lua": `local M = {} function M.ping() return "pong" end return M`}, func(c *service.Config) {
		c.API.Shield["hang"] = func(*lua.LState) int { <-release; return 0 }
		c.Lua.StuckAfter, c.Lua.Tick = 30*time.Millisecond, 5*time.Millisecond
	})
	_, _, err := n.Eval(t.Context(), service.EvalRequest{Target: service.Target{Name: "s"}, Source: "shield.hang()", Budget: 30 * time.Millisecond, Timeout: 3 * time.Second})
	if shield.CodeOf(err) != shield.HandlerTimeout || n.Counters().Wedged != 1 {
		t.Errorf("a line that hangs = %v with %d wedged services, want handler_timeout and one", err, n.Counters().Wedged)
	}
	close(release)
	n.stop()
}

func TestCoroutineLimitOfScripts(t *testing.T) {
	n := newNode(t, scripts{"s.lua": `
local M = {}
function M.go()
  kept = {}
  for i = 1, 100 do
    kept[i] = coroutine.create(function() coroutine.yield() end)
    local ok, e = coroutine.resume(kept[i])
    if not ok then return i > 5, e.code end
  end
end
return M`}, nil)
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Limits: service.Limits{MaxCoroutines: 10}})
	n.want(`[true,"coroutine_limit"]`, "s", "go")
	if c := n.Counters(); c.CoroutineLimit != 1 {
		t.Errorf("counter coroutine_limit = %d, want 1", c.CoroutineLimit)
	}
}

// untilRestarted waits until a service has come again.
func (n *node) untilRestarted(name shield.Name, times int64) {
	n.tb.Helper()
	for range 5000 {
		if _, ok := n.Lookup(name); ok && n.Counters().Restarts == times {
			return
		}
		time.Sleep(time.Millisecond)
	}
	n.tb.Fatalf("%s has not come again\n%s", name, n.log.text())
}

// At max_coroutines dev mode shows what all handlers wait for.
func TestFullServiceIsReported(t *testing.T) { synctest.Test(t, testFullServiceIsReported) }

func testFullServiceIsReported(t *testing.T) {
	n := newNode(t, scripts{"s.lua": `
local M = {}
function M.park()
  shield.sleep(30)
end
function M.ping() end
return M`}, nil)
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: 1, Limits: service.Limits{MaxCoroutines: 3}})
	for range 3 {
		go n.call("s", "park")
	}
	for n.Counters().Calls < 3 {
		time.Sleep(time.Millisecond) // until they wait
	}
	n.wantError(shield.CoroutineLimit, "max_coroutines", "s", "ping")
	for _, part := range []string{"event=deadlock", "3 in park, waiting in shield.sleep", "s.lua:4"} {
		if n.log.count(part) != 1 {
			t.Errorf("the report lacks %q:\n%s", part, n.log.text())
		}
	}
}

// Go code that panics inside a handler is contained.
func TestNothingAScriptSaysPanics(t *testing.T) {
	n := start(t, scripts{"s.lua": `
local M = {}
local values = {false, true, 0, -1, 0/0, 1/0, -1/0, 1e308, "", "x", {}, function() end, coroutine.create(function() end), shield.null, shield.array(), shield.self}
local function try(name, f, ...)
  local ok, e = pcall(f, ...)
  if not ok then assert(not tostring(e):find("runtime error"), name .. ": " .. tostring(e)) end
end
function M.go(ctx)
  local fns = {}
  local function walk(prefix, t) for _, k in ipairs(t) do fns[#fns + 1] = {prefix .. k[1], k[2]} end end
  walk("shield.", {{"send", shield.send}, {"call", shield.call}, {"call_timeout", shield.call_timeout}, {"spawn", shield.spawn},
    {"query", shield.query}, {"register", shield.register}, {"unregister", shield.unregister}, {"timer", shield.timer},
    {"timer_once", shield.timer_once}, {"cancel_timer", shield.cancel_timer}, {"fork", shield.fork}, {"config", shield.config},
    {"array", shield.array}, {"json.encode", shield.json.encode}, {"json.decode", shield.json.decode}, {"log", shield.log.info},
    {"event.on", shield.event.on}, {"event.off", shield.event.off}, {"event.emit", shield.event.emit}, {"event.clear", shield.event.clear},
    {"cluster.query", shield.cluster.query}, {"pool", shield.pool}, {"bind", shield.client.bind}, {"close", shield.client.close},
    {"tostring", tostring}, {"ctx", function(k) return ctx[k] end}})
  for _, f in ipairs(fns) do
    try(f[1], f[2])
    for _, a in ipairs(values) do
      try(f[1], f[2], a)
      for _, b in ipairs(values) do try(f[1], f[2], a, b) try(f[1], f[2], a, b, a) end
    end
  end
  return #fns
end
return M`}, nil)
	n.want(`[26]`, "s", "go")
	if c := n.Counters(); c.Panics != 0 {
		t.Errorf("%d Go panics:\n%s", c.Panics, n.log.text())
	}
}
