package luaapi_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// While a handler waits, its service goes on with its mailbox; the state it
// left behind may have changed when it is back.
func TestHandlersInterleaveOnlyWhereTheySuspend(t *testing.T) {
	synctest.Test(t, testHandlersInterleaveOnlyWhereTheySuspend)
}

func testHandlersInterleaveOnlyWhereTheySuspend(t *testing.T) {
	n := start(t, scripts{
		"a.lua": `
local M = {}
local inside, steps = 0, {}
function M.wait(ctx)
  inside = inside + 1
  local before = inside
  shield.call("b", "slow")
  inside = inside - 1
  return before
end
function M.peek() return inside end
return M`,
		"b.lua": `
local M = {}
function M.slow() shield.sleep(20) local ok, n = shield.call("a", "peek") assert(n == 2) end
return M`,
		"c.lua": `
local M = {}
function M.both()
  local got = {}
  for i = 1, 2 do shield.fork(function() local _, v = shield.call("a", "wait") got[#got + 1] = v end) end
  while #got < 2 do shield.sleep(1) end
  return got[1], got[2]
end
return M`,
	}, nil)
	n.want(`[1,2]`, "c", "both")
}

// suspending calls echo from every place a Lua programmer would call from. TARGET stands
// for who answers.
const suspending = `
local M = {}
local function get(v) local ok, r = shield.call("TARGET", "echo", v) assert(ok, r) return r end
function M.pcall() return pcall(get, 1) end
function M.xpcall() return xpcall(function() return get(2) end, debug.traceback) end
function M.index() return setmetatable({}, {__index = function(_, k) return get(k) end}).three end
function M.add() return setmetatable({}, {__add = function(_, b) return get(b) end}) + 4 end
function M.callmeta() return setmetatable({}, {__call = function(_, b) return get(b) end})(5) end
function M.eq() local m = {__eq = function() return get(true) end} return setmetatable({}, m) == setmetatable({}, m) end
function M.concat() return setmetatable({}, {__concat = function(_, b) return get(b) end}) .. "x" end
function M.iterator() local sum = 0 for i in function(_, i) i = (i or 0) + 1 if i < 4 then return get(i) end end do sum = sum + i end return sum end
function M.sort() local t = {3, 1, 2} table.sort(t, function(a, b) return get(a) < get(b) end) return t end
function M.gsub() return (("abc"):gsub("%w", function(c) return get(c:upper()) end)) end
function M.wrap() return coroutine.wrap(function() return get(6) end)() end
function M.resume()
  local co = coroutine.create(function(a) local b = coroutine.yield(get(a)) return get(b) end)
  local _, a = coroutine.resume(co, 7)
  local _, b = coroutine.resume(co, 8)
  return a, b, coroutine.status(co)
end
function M.nested() return coroutine.wrap(function() return coroutine.wrap(function() coroutine.yield(get(13)) end)() + get(1) end)() end
function M.tail() return get(9) end
function M.fork() local v shield.fork(function() v = get(10) end) while not v do shield.sleep(1) end return v end
function M.timer() local v shield.timer_once(1, function() v = get(11) end) while not v do shield.sleep(1) end return v end
function M.on_init() M.init = get(12) end
function M.inited() return M.init end
function M.parked()
  local co = coroutine.create(function() return shield.sleep(30) end)
  local first, second
  shield.fork(function() first = {coroutine.resume(co)} end)
  shield.sleep(1)
  second = {coroutine.resume(co)}
  while not first do shield.sleep(1) end
  return first[1], second[1], second[2]
end
function M.running() return coroutine.running() == nil end
return M`

const echoes = `local M = {} function M.echo(ctx, v) return v end return M`

func TestSuspendsAnywhere(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			testSuspendsAnywhere(t, start(t, scripts{"_echo.lua": echoes, "a.lua": strings.ReplaceAll(suspending, "TARGET", "_echo")}, nil))
		})
	})
	t.Run("remote", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, n, _ := newPair(t, scripts{"2/_echo.lua": echoes, "1/a.lua": strings.ReplaceAll(suspending, "TARGET", "node-2:_echo")})
			testSuspendsAnywhere(t, n)
		})
	})
}

func testSuspendsAnywhere(t *testing.T, n *node) {
	for method, want := range map[string]string{
		"pcall": `[true,1]`, "xpcall": `[true,2]`, "index": `["three"]`, "add": `[4]`, "callmeta": `[5]`, "eq": `[true]`,
		"concat": `["x"]`, "iterator": `[6]`, "sort": `[[1,2,3]]`, "gsub": `["ABC"]`, "wrap": `[6]`, "resume": `[7,8,"dead"]`,
		"tail": `[9]`, "fork": `[10]`, "timer": `[11]`, "inited": `[12]`, "running": `[true]`,
		"nested": `[14]`,
	} {
		n.want(want, "a", method)
	}
	got, err := n.call("a", "parked")
	if err != nil || !strings.Contains(got, "cannot resume: waiting in shield.sleep") {
		t.Errorf("resuming a coroutine that waits = %s, %v", got, err)
	}
}

func TestOrderPerPair(t *testing.T) {
	n := start(t, scripts{
		"sink.lua": `
local M = {}
local last, ok = {}, true
function M.put(ctx, from, i) if i ~= (last[from] or 0) + 1 then ok = false end last[from] = i end
function M.ok() return ok, last.a, last.b end
return M`,
		"a.lua": `local M = {} function M.go() for i = 1, 2000 do assert(shield.send("sink", "put", "a", i)) if i % 100 == 0 then shield.sleep(0) end end end return M`,
		"b.lua": `local M = {} function M.go() for i = 1, 2000 do assert(shield.send("sink", "put", "b", i)) end end return M`,
		"c.lua": `local M = {} function M.go()
  local done = 0
  for _, s in ipairs{"a", "b"} do shield.fork(function() assert(shield.call(s, "go")) done = done + 1 end) end
  while done < 2 do shield.sleep(1) end
end return M`,
	}, nil)
	n.want(`[]`, "c", "go")
	n.want(`[true,2000,2000]`, "sink", "ok")
}

func TestValuesAreCopied(t *testing.T) {
	n := start(t, scripts{
		"b.lua": `local M = {} M.kept = nil
function M.keep(ctx, t) M.kept = t t.n = 99 return t end
function M.get() return M.kept.n end return M`,
		"a.lua": `
local M = {}
function M.go()
  local t = {n = 1}
  local ok, back = shield.call("b", "keep", t)
  back.n = 5
  local _, kept = shield.call("b", "get")
  local twice = {}
  local _, s = shield.call("b", "keep", {x = twice, y = twice})
  return t.n, kept, s.x ~= s.y
end
function M.bad(ctx) local ok, e = shield.call("b", "keep", 1, {inventory = {on_use = function() end}}) return ok, e.code, e.message end
function M.badresult(ctx) return print end
function M.badsend(ctx) return (shield.send("b", "keep", coroutine.create(function() end))) end
function M.huge(ctx) local ok, e = shield.send("b", "keep", ("x"):rep(2 * 1024 * 1024)) return ok, e.code end
return M`,
	}, nil)
	n.want(`[1,99,true]`, "a", "go")
	n.want(`[false,"encode_failed","args[2].inventory.on_use: function (only nil, booleans, numbers, strings, tables, shield.null, handles and client refs travel)"]`, "a", "bad")
	n.wantError(shield.EncodeFailed, "results[1]: function", "a", "badresult")
	n.want(`[false]`, "a", "badsend")
	n.want(`[false,"message_too_large"]`, "a", "huge")
	if c := n.Counters(); c.MessageTooLarge != 1 {
		t.Errorf("counter message_too_large = %d, want 1", c.MessageTooLarge)
	}
}

func TestContext(t *testing.T) {
	n := start(t, scripts{
		"b.lua": `
local M = {}
function M.who(ctx) kept = ctx return ctx.sender, ctx.trace, ctx.method, ctx.deadline end
function M.later() local ok, e = pcall(function() return kept.trace end) return ok, e.code end
function M.write(ctx) local ok, e = pcall(function() ctx.trace = "x" end) return ok, (tostring(e):match("read%-only")) end
return M`,
		"a.lua": `
local M = {}
function M.go(ctx)
  local ok, sender, trace, method, deadline = shield.call("b", "who")
  return sender == shield.self(), trace == ctx.trace, #trace, method, deadline <= 5000 and deadline > 4000
end
function M.nosender(ctx) return ctx.sender == nil end
return M`,
	}, nil)
	n.want(`[true,true,16,"who",true]`, "a", "go")
	n.want(`[true]`, "a", "nosender")
	n.want(`[false,"context_expired"]`, "b", "later")
	n.want(`[false,"read-only"]`, "b", "write")
}

// A nested call never outlives its caller's deadline, unless it asks.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, scripts{
			"slow.lua": `local M = {} function M.slow(ctx, ms) ran = (ran or 0) + 1 shield.sleep(ms) return "late" end function M.ran() return ran end return M`,
			"mid.lua": `
local M = {}
function M.nested(ctx) local ok, e = shield.call("slow", "slow", 3000) M.seen = e.code return ok end
function M.asks(ctx) local ok, e = shield.call_timeout(10000, "slow", "slow", 7000) M.seen = e return ok end
function M.get() return M.seen end
return M`,
			"a.lua": `
local M = {}
function M.go(ctx, method)
  local t0 = shield.monotonic()
  local ok, e = shield.call_timeout(1000, "mid", method)
  return ok, e.code, e.retryable, shield.monotonic() - t0
end
return M`,
		}, nil)
		n.want(`[false,"timeout",true,1000]`, "a", "go", "nested")
		n.want(`["timeout"]`, "mid", "get")
		n.want(`[false,"timeout",true,1000]`, "a", "go", "asks")
		time.Sleep(8 * time.Second)
		n.want(`["late"]`, "mid", "get")
		synctest.Wait()
		// Both waits of the nested call, the call that asked, and no more.
		if c := n.Counters(); c.Timeouts != 3 || c.LateReplies != 3 {
			t.Errorf("timeouts %d, late replies %d, want 3 and 3", c.Timeouts, c.LateReplies)
		}
		n.stop()
	})
}

// A call whose deadline passes while it waits in the mailbox is never run.
func TestExpiredCallIsNotRun(t *testing.T) {
	n := start(t, scripts{
		"busy.lua": `
local M = {}
function M.spin(ctx, ms) local t0 = shield.monotonic() while shield.monotonic() - t0 < ms do end end
function M.mark() marked = true end
function M.marked() return marked == true end
return M`,
		"a.lua": `
local M = {}
function M.go()
  shield.send("busy", "spin", 100)
  local ok, e = shield.call_timeout(10, "busy", "mark")
  return ok, e.code
end
return M`,
	}, nil)
	n.want(`[false,"timeout"]`, "a", "go")
	n.want(`[false]`, "busy", "marked")
	if c := n.Counters(); c.Expired != 1 {
		t.Errorf("expired = %d, want 1", c.Expired)
	}
}

func TestSelfCallAndSelfSend(t *testing.T) {
	n := start(t, scripts{"a.lua": `
local M = {}
local log = {}
function M.put(ctx, v) log[#log + 1] = v return #log end
function M.go()
  shield.send(shield.self(), "put", 1)
  log[#log + 1] = 0
  local ok, n = shield.call(shield.self(), "put", 2)
  return n, log
end
return M`}, nil)
	n.want(`[3,[0,1,2]]`, "a", "go")
}

func TestHandlesAreTableKeys(t *testing.T) {
	n := start(t, scripts{
		"b.lua": `local M = {} local seen = {}
function M.note(ctx, h) seen[h] = (seen[h] or 0) + 1 seen[ctx.sender] = (seen[ctx.sender] or 0) + 1 return h, seen[h] end
return M`,
		"a.lua": `
local M = {}
function M.go()
  local b = shield.query("b")
  shield.call("b", "note", b)
  local _, back, n = shield.call(b, "note", ({h = b}).h)
  return back == b, n, ({[b] = "x"})[back], b:id() > 0, b:node(), b:valid(), tostring(b)
end
return M`,
	}, nil)
	n.want(`[true,2,"x",true,"node-1",true,"node-1#2"]`, "a", "go")
}

func TestDeadLetters(t *testing.T) {
	n := start(t, scripts{
		"a.lua": `
local M = {}
function M.go()
  local h = shield.spawn("gone.lua")
  local ok = shield.send("b", "nothing")
  shield.call(h, "quit")
  local sent, e = shield.send(h, "x")
  return ok, sent, e.code
end
return M`,
		"b.lua":    `return {ping = function() return "pong" end}`,
		"gone.lua": `local M = {} function M.quit() shield.exit() end return M`,
	}, nil)
	n.want(`[true,false,"service_dead"]`, "a", "go")
	n.want(`["pong"]`, "b", "ping")
	if c := n.Counters(); c.DeadLetters != 1 || n.log.count("dead letter: nothing") != 1 {
		t.Errorf("dead letters = %d, want 1 and a log line\n%s", c.DeadLetters, n.log.text())
	}
}

func TestCallRowsOnlyWhileSomebodyListens(t *testing.T) {
	n := start(t, scripts{"a.lua": `return {ping = function() return "pong" end}`}, nil)
	rows := make(chan shield.CallRow, 10)
	n.want(`["pong"]`, "a", "ping")
	n.OnCall(func(r shield.CallRow) { rows <- r })
	n.want(`["pong"]`, "a", "ping")
	n.OnCall(nil)
	n.want(`["pong"]`, "a", "ping")
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	if r := <-rows; r.From != "control" || r.Target != "a" || r.Method != "ping" || r.Result != "ok" || r.Trace == 0 {
		t.Errorf("row = %+v", r)
	}
}

func TestServedAndEval(t *testing.T) {
	n := start(t, scripts{"a.lua": `local M = {count = 3} function M.inc() M.count = M.count + 1 return M.count end return M`}, nil)
	eval := func(src string) (string, error) {
		v, by, err := n.Eval(context.Background(), service.EvalRequest{Target: service.Target{Name: "a"}, Source: src})
		if err == nil && (by.Service != "a" || by.Generation != 1 || by.Code == "" || by.Trace == 0) {
			t.Errorf("Eval(%q) served by %+v", src, by)
		}
		return string(v.Values.AppendJSON(nil)), err
	}
	for _, tt := range []struct{ src, want string }{
		{"M.count", "[3]"}, {"1, 2", "[1,2]"}, {"x = 5 return x", "[5]"}, {"M.inc()", "[4]"}, {"", "[]"},
	} {
		if got, err := eval(tt.src); err != nil || got != tt.want {
			t.Errorf("Eval(%q) = %s, %v, want %s", tt.src, got, err, tt.want)
		}
	}
	if _, err := eval("x ="); shield.CodeOf(err) != shield.ScriptLoadFailed {
		t.Errorf("Eval of nonsense = %v, want script_load_failed", err)
	}
	if _, err := eval(`error("no")`); shield.CodeOf(err) != shield.HandlerError {
		t.Errorf("Eval that throws = %v, want handler_error", err)
	}
	_, by, err := n.Call(context.Background(), service.CallRequest{Target: service.Target{Name: "node-1:a"}, Method: "inc", Args: value.Payload{}})
	if err != nil || by.Service != "a" || by.Node != "node-1" || by.Generation != 1 || len(by.Code) != 7 || by.ID == 0 {
		t.Errorf("Call served by %+v, %v", by, err)
	}
}

// An error that pcall has caught leaves the locals around it joined to the
// closures that captured them.
func TestCaughtErrorsKeepUpvalues(t *testing.T) {
	n := start(t, scripts{"a.lua": `
local M = {}
function M.pcall()
  local n, deep = 0, 0
  local add = function(x) n = n + x end
  local ok = pcall(function()
    local inner = 1
    M.kept = function() inner = inner + 1 return inner end
    deep = deep + 1
    pcall(error, "nested")
    deep = deep + 1
    error("x")
  end)
  add(5)
  n = n + 1
  add(10)
  return ok, n, deep, M.kept(), M.kept()
end
function M.xpcall()
  local n, kept = 42, nil
  local add = function(x) n = n + x end
  local ok, told = xpcall(function()
    local inner = 7
    kept = function() inner = inner + 1 return inner end
    shield.sleep(1)
    error("x")
  end, function(e) return e .. " " .. tostring(debug.traceback():find("a.lua:") ~= nil) end)
  local other = "not that"
  add(5)
  return ok, told, n, kept(), kept()
end
function M.event()
  local n = 0
  shield.event.on("e", function() error("x") end)
  shield.event.on("e", function(x) n = n + x end)
  shield.event.emit("e", 5)
  return n
end
function M.co()
  local n = 0
  local co = coroutine.wrap(function() pcall(error) n = n + 1 coroutine.yield() n = n + 1 end)
  co() pcall(error) co()
  return n
end
return M`}, nil)
	n.want(`[false,16,2,2,3]`, "a", "pcall")
	n.want(`[false,"a.lua:26: x true",47,8,9]`, "a", "xpcall")
	n.want(`[5]`, "a", "event")
	n.want(`[2]`, "a", "co")
}
