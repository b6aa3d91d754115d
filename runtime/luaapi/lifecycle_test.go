package luaapi_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/service"
	"shield/runtime/shield"
)

func TestOnInit(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		code         shield.Code // "" = starts
		part         string
	}{
		{"nothing", `return {}`, "", ""},
		{"returns nothing", `local M = {} function M.on_init() end return M`, "", ""},
		{"returns true", `local M = {} function M.on_init() return true end return M`, "", ""},
		{"returns nil", `local M = {} function M.on_init() return nil end return M`, "", ""},
		{"returns false", `local M = {} function M.on_init() return false, "no seats" end return M`, shield.InitFailed, "no seats"},
		{"returns nil and why", `local M = {} function M.on_init() return nil, "no table" end return M`, shield.InitFailed, "no table"},
		{"throws", `local M = {} function M.on_init() error("oops") end return M`, shield.InitFailed, "s.lua:1: oops"},
		{"no table", `return 7`, shield.InvalidServiceModule, "return M"},
		{"returns no module", `local M = {}`, shield.InvalidServiceModule, "return M"},
		{"syntax error", "local M = {\n", shield.ScriptLoadFailed, "s.lua:"},
		{"top level throws", `error("top")`, shield.ScriptLoadFailed, "top"},
		{"args", `local M = {} function M.on_init(a)
			assert(a.name == "s" and a.id == 1 and a.config.seats == 8 and a.config.list[2] == "y" and a.args == nil)
			assert(shield.config("seats") == 8 and shield.config("deep.er") == true and shield.config("none", 4) == 4) end return M`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, scripts{"s.lua": tt.script}, nil)
			err := n.Start(context.Background(), []service.Spec{{Name: "s", Script: "s.lua", Instances: 1,
				Config: map[string]any{"seats": 8, "list": []any{"x", "y"}, "deep": map[string]any{"er": true}}}})
			if shield.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.part) {
				t.Errorf("Start = %v, want %q with %q", err, tt.code, tt.part)
			}
			if _, published := n.Lookup("s"); published != (tt.code == "") {
				t.Errorf("name published = %v after %v", published, err)
			}
		})
	}
}

// The fourth type of on_panic; the others are in TestPanicAndExit and
// TestMemoryLimit.
func TestPanicOfInit(t *testing.T) {
	n := newNode(t, scripts{
		"log.lua": `local M, all = {}, {} function M.add(ctx, s) all[#all + 1] = s end function M.get() return all end return M`,
		"s.lua": `
local M = {}
function M.on_init() error("no database") end
function M.on_panic(reason, c) shield.send("log", "add", c.type .. ": " .. reason) end
function M.on_exit() shield.send("log", "add", "exit") end
return M`,
		"a.lua": `local M = {} function M.go() local h, e = shield.spawn("s.lua", {name = "s"}) return e.code end return M`,
	}, nil)
	n.start(service.Spec{Name: "log", Script: "log.lua", Instances: 1}, service.Spec{Name: "a", Script: "a.lua", Instances: 1})
	n.want(`["init_failed"]`, "a", "go")
	n.want(`[["init: s.lua:3: no database"]]`, "log", "get")
}

func TestStartOrder(t *testing.T) {
	files := scripts{"s.lua": `return {}`}
	spec := func(name shield.Name, deps ...shield.Name) service.Spec {
		return service.Spec{Name: name, Script: "s.lua", Instances: 1, DependsOn: deps}
	}
	for _, tt := range []struct {
		name  string
		specs []service.Spec
		want  string // names in the order they were published, or part of the error
		fails bool
	}{
		{"as given", []service.Spec{spec("a"), spec("b")}, "a b", false},
		{"dependencies first", []service.Spec{spec("a", "c"), spec("b"), spec("c", "b")}, "b c a", false},
		{"circle", []service.Spec{spec("x"), spec("a", "b"), spec("b", "c"), spec("c", "a")}, "a -> b -> c -> a", true},
		{"itself", []service.Spec{spec("a", "a")}, "a -> a", true},
		{"unknown", []service.Spec{spec("player"), spec("a", "plaier")}, `"plaier", which is not a service (did you mean "player"?)`, true},
		{"twice", []service.Spec{spec("a"), spec("a")}, "two services", true},
		{"reserved", []service.Spec{spec("shield.x")}, "runtime", true},
		{"instances", []service.Spec{{Name: "w", Script: "s.lua", Instances: 3}, {Name: "m", Script: "s.lua"}}, "w.1 w.2 w.3", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var names []string
			n := newNode(t, files, func(c *service.Config) {
				c.OnName = func(name shield.Name, _ shield.ServiceID, published bool) {
					if published {
						names = append(names, string(name))
					}
				}
			})
			err := n.Start(context.Background(), tt.specs)
			got := strings.Join(names, " ")
			if err != nil {
				got = err.Error()
			}
			if (err != nil) != tt.fails || !strings.Contains(got, tt.want) {
				t.Errorf("Start = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSpawn(t *testing.T) { synctest.Test(t, testSpawn) }

func testSpawn(t *testing.T) {
	n := newNode(t, scripts{
		"room.lua": `
local M = {}
function M.on_init(a) if a.args == "fail" then return false, "full" end if a.args == "slow" then shield.sleep(60000) end M.a = a end
function M.get() return M.a.name, M.a.args, M.a.config.seats, shield.names() end
return M`,
		"a.lua": `
local M = {}
function M.go()
  local h = assert(shield.spawn("room", {name = "room.7", args = {n = 7}}))
  local ok, name, args, seats, names = shield.call("room.7", "get")
  local taken, e1 = shield.spawn("room", {name = "room.7"})
  local bad, e2 = shield.spawn("rom")
  local failed, e3 = shield.spawn("room", {name = "room.8", args = "fail"})
  local free = shield.query("room.8") == nil
  local again = shield.spawn("room", {name = "room.8"}) ~= nil
  local _, e4 = shield.spawn("room", {name = "no spaces"})
  local _, e5 = shield.spawn("room", {args = {f = print}})
  return h == shield.query("room.7"), name, args.n, seats, names, e1.code, e2.message, e3.code, e3.message, free, again, e4.code, e5.message
end
function M.slow()
  local t0 = shield.monotonic()
  local h, e = shield.spawn("room", {name = "late", args = "slow", timeout = 50})
  local reserved = shield.query("late")
  return h == nil, e.code, shield.spawn("room", {name = "late"}) ~= nil
end
function M.ping() return "pong" end
return M`,
	}, nil)
	n.start(service.Spec{Name: "a", Script: "a.lua", Instances: 1}, service.Spec{Name: "room", Script: "room.lua", Config: map[string]any{"seats": 4}})
	n.want(`[true,"room.7",7,4,["room.7"],"name_conflict","no module \"rom\" (did you mean \"room\"? known: a, room)","init_failed","room.8: full",true,true,"invalid_name",`+
		`"args[1].f: function (only nil, booleans, numbers, strings, tables, shield.null, handles and client refs travel)"]`, "a", "go")
	n.want(`[true,"spawn_timeout",true]`, "a", "slow")
}

func TestNames(t *testing.T) {
	var mu sync.Mutex
	var changes []string
	n := newNode(t, scripts{
		"a.lua": `
local M = {}
function M.go()
  local r1 = shield.register("alias")
  local r2, e2 = shield.register("b")
  local r3, e3 = shield.register("shield.x")
  local r4 = shield.register("for-b", shield.query("b"))
  local u1 = shield.unregister("alias")
  local u2, e5 = shield.unregister("alias")
  local u3, e6 = shield.unregister("for-b")
  return r1, r2, e2.code, e3.code, r4, u1, e5.code, e6.code
end
return M`,
		"b.lua": `return {quit = function() shield.exit() end}`,
	}, func(c *service.Config) {
		c.OnName = func(name shield.Name, _ shield.ServiceID, published bool) {
			mu.Lock()
			defer mu.Unlock()
			sign := "-"
			if published {
				sign = "+"
			}
			changes = append(changes, sign+string(name))
		}
	})
	n.start(service.Spec{Name: "a", Script: "a.lua", Instances: 1}, service.Spec{Name: "b", Script: "b.lua", Instances: 1})
	n.want(`[true,false,"name_conflict","invalid_name",true,true,"unregister_failed","unregister_failed"]`, "a", "go")
	n.want(`[]`, "b", "quit")
	n.stop()
	mu.Lock()
	defer mu.Unlock()
	want := []string{"+a", "+b", "+alias", "+for-b", "-alias", "-b", "-for-b", "-a"}
	if d := cmp.Diff(want, changes); d != "" {
		t.Errorf("changes of names (-want +got):\n%s", d)
	}
}

func TestHooksOfFailure(t *testing.T) { synctest.Test(t, testHooksOfFailure) }

func testHooksOfFailure(t *testing.T) {
	n := start(t, scripts{"a.lua": `
local M = {}
local seen = {}
function M.on_error(err, c) seen[#seen + 1] = c.type .. ":" .. tostring(c.method or c.event) .. ":" .. err.code if M.worse then error("worse") end end
function M.boom() error("boom") end
function M.fork() shield.fork(function() error("in fork") end) end
function M.timer() shield.timer_once(0, function() error("in timer") end) end
function M.event()
  local heard = {n = 0}
  shield.event.on("e", function() error("in event") end)
  shield.event.on("e", function() error({code = "mine", message = "no place"}) end)
  shield.event.on("e", function(x) heard.n = heard.n + x end)
  return shield.event.emit("e", 5), heard.n
end
function M.seen() return seen end
function M.errtable() error({code = "mine", message = "own table"}) end
function M.bad() M.worse = true error("first") end
return M`}, nil)
	n.wantError(shield.HandlerError, "boom", "a", "boom")
	n.want(`[]`, "a", "fork")
	n.want(`[]`, "a", "timer")
	time.Sleep(20 * time.Millisecond) // the timer's zero milliseconds and its turn
	n.want(`[3,5]`, "a", "event")
	n.wantError(shield.HandlerError, "mine: own table", "a", "errtable")
	n.want(`[["handler:boom:handler_error","fork:nil:handler_error","timer:nil:handler_error","event:e:handler_error","event:e:handler_error","handler:errtable:handler_error"]]`, "a", "seen")
	for _, line := range []string{`event "e": a.lua:10: in event`, `event "e", listener of a.lua:11: mine: no place`} {
		if n.log.count(line) != 1 {
			t.Errorf("the log lacks %q: a throwing listener is told with its event and place:\n%s", line, n.log.text())
		}
	}
	n.wantError(shield.HandlerError, "first", "a", "bad")
	if n.log.count("on_error: a.lua:4: worse") != 1 {
		t.Errorf("a throwing on_error must be logged:\n%s", n.log.text())
	}
}

// What a service sees of its end, by the way it ends.
func TestPanicAndExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, scripts{
			"log.lua": `local M, all = {}, {} function M.add(ctx, s) all[#all + 1] = s end function M.get() local r = all all = {} return r end return M`,
			"s.lua": `
local M = {}
local function say(s) shield.send("log", "add", s) end
function M.on_init(a) say("init") end
function M.on_panic(reason, c) say("panic " .. c.type) end
function M.on_exit(reason) say("exit " .. reason) local ok, e = shield.call("log", "get") say(e.code) end
function M.quit() shield.exit("done") return "bye" end
function M.explicit() shield.panic("on purpose") end
function M.boom() error("boom") end
function M.ok() return true end
return M`,
		}, nil)
		n.start(service.Spec{Name: "log", Script: "log.lua", Instances: 1},
			service.Spec{Name: "s", Script: "s.lua", Instances: 1, Restart: service.Restart{Policy: service.RestartAlways, MaxRetries: -1}})
		n.want(`["bye"]`, "s", "quit")
		synctest.Wait()
		n.want(`[["init","exit done","api_not_allowed_in_exit"]]`, "log", "get")
		n.wantError(shield.ServiceNotFound, "known: log", "s", "ok") // it comes again in a second
		time.Sleep(1100 * time.Millisecond)
		n.want(`[true]`, "s", "ok")
		n.wantError(shield.HandlerError, "panic: on purpose", "s", "explicit")
		time.Sleep(2100 * time.Millisecond)
		n.want(`[["init","panic explicit","exit panic","api_not_allowed_in_exit","init"]]`, "log", "get")
		for range 9 {
			n.wantError(shield.HandlerError, "boom", "s", "boom")
		}
		n.want(`[true]`, "s", "ok") // ends the row
		for range 10 {
			n.wantError(shield.HandlerError, "boom", "s", "boom")
		}
		time.Sleep(5100 * time.Millisecond)
		n.want(`[["panic threshold","exit panic","api_not_allowed_in_exit","init"]]`, "log", "get")
		n.stop()
	})
}

// A stopping node: on_shutdown in reverse order, services still reach each
// other, nothing from outside is taken, nothing restarts.
func TestDrainAndStop(t *testing.T) { synctest.Test(t, testDrainAndStop) }

func testDrainAndStop(t *testing.T) {
	n := newNode(t, scripts{
		"store.lua": `
local M, all = {}, {}
function M.save(ctx, s) all[#all + 1] = s return #all end
function M.on_shutdown() all[#all + 1] = "store" end
function M.on_exit() shield.log.info("saved " .. table.concat(all, ",")) end
return M`,
		"room.lua": `
local M = {}
function M.on_shutdown(ctx)
  shield.sleep(5)
  local ok = shield.call("store", "save", "room " .. ctx.reason)
  local h, e = shield.spawn("room.lua")
  shield.call("store", "save", e.code)
end
function M.slow() shield.sleep(30) return "finished" end
return M`,
	}, nil)
	n.start(service.Spec{Name: "store", Script: "store.lua", Instances: 1}, service.Spec{Name: "room", Script: "room.lua", Instances: 1, DependsOn: []shield.Name{"store"}})
	answered := make(chan string, 1)
	go func() {
		got, err := n.call("room", "slow")
		if err != nil {
			got = err.Error()
		}
		answered <- got
	}()
	for n.Counters().Calls == 0 {
		time.Sleep(time.Millisecond) // until the call above has been taken
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Drain(ctx); err != nil {
		t.Errorf("Drain = %v", err)
	}
	if got := <-answered; got != `["finished"]` {
		t.Errorf("a call that was under way got %s", got)
	}
	n.wantError(shield.RuntimeStopping, "", "room", "slow")
	n.stop()
	if n.log.count("saved room stop,runtime_stopping,store") != 1 {
		t.Errorf("the order of the drain:\n%s", n.log.text())
	}
}

// Stop ends every kind of waiter.
func TestStopEndsEveryWaiter(t *testing.T) { synctest.Test(t, testStopEndsEveryWaiter) }

func testStopEndsEveryWaiter(t *testing.T) {
	n := newNode(t, scripts{
		"s.lua": `
local M = {}
function M.never() shield.sleep(1e9) return "never" end
function M.self() return shield.call_timeout(1e9, shield.self(), "never") end
function M.protected() while true do pcall(shield.sleep, 1e9) end end
function M.co() local co = coroutine.wrap(function() shield.sleep(1e9) end) co() end
function M.abandoned() kept = coroutine.create(function() coroutine.yield() end) coroutine.resume(kept) end
function M.forks() for i = 1, 50 do shield.fork(function() shield.sleep(1e9) end) end end
function M.timers() for i = 1, 50 do shield.timer(1e9, function() end) end end
function M.spawning() return shield.spawn("hang.lua", {timeout = 1e9}) end
return M`,
		"hang.lua":   `local M = {} function M.on_init() shield.sleep(1e9) end return M`,
		"caller.lua": `local M = {} function M.call(ctx, m) local ok, e = shield.call_timeout(1e9, "s", m) return ok, e.code end return M`,
	}, nil)
	n.start(service.Spec{Name: "caller", Script: "caller.lua", Instances: 1}, service.Spec{Name: "s", Script: "s.lua", Instances: 1})
	n.want(`[]`, "s", "forks")
	n.want(`[]`, "s", "timers")
	n.want(`[]`, "s", "abandoned")
	var wg sync.WaitGroup
	methods := []string{"never", "self", "protected", "co", "spawning"}
	for _, m := range methods {
		wg.Go(func() {
			got, err := n.call("caller", "call", m)
			// caller may itself have gone before its handler could answer.
			if err == nil && got != `[false,"service_dead"]` || err != nil && shield.CodeOf(err) != shield.ServiceDead {
				t.Errorf("%s ended with %s, %v", m, got, err)
			}
		})
	}
	for n.Counters().Calls < int64(3+2*len(methods)+1) {
		time.Sleep(time.Millisecond) // until all of them wait
	}
	if got := n.Waits(context.Background()); len(got) < 50+2*len(methods) || !strings.Contains(got[0].Stack, ".lua:") {
		t.Errorf("%d waits, the first is %+v", len(got), got[0])
	}
	h, _ := n.Lookup("s")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.Kill(ctx, h.ID, "test"); err != nil {
		t.Errorf("Kill = %v\n%s", err, n.log.text())
	}
	wg.Wait()
	n.stop()
}

func TestStopAtAnyMoment(t *testing.T) {
	for i := range 60 {
		n := newNode(t, scripts{"s.lua": `
local M = {}
function M.on_init() shield.sleep(0) shield.timer(1, function() shield.send(shield.self(), "tick") end) end
function M.tick() shield.fork(function() shield.sleep(1) end) end
return M`}, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			// It may be stopped while it starts: any error will do.
			_ = n.Start(context.Background(), []service.Spec{{Name: "s", Script: "s.lua", Instances: 20}})
		}()
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // real: the moment is the point
		n.stop()
		<-done
		n.stop()
	}
}

func TestRingOfInitsIsReported(t *testing.T) { synctest.Test(t, testRingOfInitsIsReported) }

func testRingOfInitsIsReported(t *testing.T) {
	n := newNode(t, scripts{
		"a.lua": `local M = {}
function M.on_init() assert(shield.spawn("b.lua", {args = shield.self()})) end
function M.ping() end
return M`,
		"b.lua": `local M = {}
function M.on_init(a)
  return shield.call(a.args, "ping")
end
return M`,
	}, func(c *service.Config) { c.Limits.CallTimeout = 200 * time.Millisecond })
	begin := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.Start(context.Background(), []service.Spec{{Name: "a", Script: "a.lua", Instances: 1}})
	}()
	for n.log.count("can never end") == 0 {
		if time.Since(begin) > 150*time.Millisecond {
			t.Fatalf("the ring was not reported before its time-out:\n%s", n.log.text())
		}
		time.Sleep(time.Millisecond)
	}
	<-done
	for _, part := range []string{"can never end: ", "handler 'on_init'", "a.lua:2", "b.lua:3", `shield.call("node-1#1", "ping")`} {
		if n.log.count(part) == 0 {
			t.Errorf("the report lacks %q:\n%s", part, n.log.text())
		}
	}
}
