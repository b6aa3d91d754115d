package luaapi_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, scripts{"a.lua": `
local M = {}
local t0 = shield.monotonic()
local log = {}
local function note(what) log[#log + 1] = what .. "@" .. (shield.monotonic() - t0) end
function M.go()
  t0 = shield.monotonic()
  local every
  local n = 0
  every = shield.timer(100, function() note("every") n = n + 1 shield.sleep(50) if n == 3 then shield.cancel_timer(every) end end)
  shield.timer(100, function() note("bad") error("bad") end)
  shield.timer_once(30, function() note("once") end)
  local never = shield.timer_once(10, function() note("never") end)
  shield.cancel_timer(never)
  shield.timer_once(0, function() note("now") end)
  shield.timer_once(-5, function() note("past") end)
end
function M.log() return log end
return M`}, nil)
		n.want(`[]`, "a", "go")
		time.Sleep(time.Second)
		n.SetClockOffset(time.Hour) // timers don't care
		time.Sleep(time.Second)
		n.want(`[["now@0","past@0","once@30","every@100","bad@100","every@250","every@400"]]`, "a", "log")
		if c := n.Counters(); c.Errors != 1 {
			t.Errorf("errors = %d, want 1: a periodic timer that throws stops", c.Errors)
		}
	})
}

func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, scripts{"a.lua": `
local M = {}
function M.go() return shield.now(), os.time(), shield.monotonic(), os.date("!%Y-%m-%d") end
return M`}, nil)
		n.want(`[946684800000,946684800,0,"2000-01-01"]`, "a", "go")
		n.SetClockOffset(48 * time.Hour)
		time.Sleep(time.Second)
		n.want(`[946857601000,946857601,1000,"2000-01-03"]`, "a", "go")
	})
}

func TestJSONAndArray(t *testing.T) {
	n := start(t, scripts{"a.lua": `
local M = {}
function M.go()
  local text = shield.json.encode({list = shield.array(), n = 3, none = shield.null})
  local back = shield.json.decode('{"a":[1,null,{"b":true}],"e":[]}')
  local bad, e = shield.json.decode("{")
  local none, e2 = shield.json.encode(print)
  return #text, back.a[2] == shield.null, back.a[3].b, shield.json.encode(back.e), bad, e.code, none, e2.code, tostring(shield.null)
end
function M.empty() return shield.array(), {} end
return M`}, nil)
	n.want(`[29,true,true,"[]",null,"decode_error",null,"encode_failed","null"]`, "a", "go")
	n.want(`[[],{}]`, "a", "empty")
}

// Any text as a target and a method gives an answer, soon.
func FuzzTargetAndMethod(f *testing.F) {
	for _, s := range []string{"a", "node-1:a", "node-9:a", ":", "a:b:c", "\x00", "on_init", ""} {
		f.Add(s, "m")
		f.Add("a", s)
	}
	n := start(f, scripts{"a.lua": `local M = {} function M.m() return 1 end return M`}, nil)
	f.Fuzz(func(t *testing.T, target, method string) {
		_, _, err := n.Call(context.Background(), service.CallRequest{Target: service.Target{Name: target}, Method: method, Args: value.Payload{}})
		if err == nil && !((target == "a" || target == "node-1:a") && method == "m") {
			t.Errorf("call %q %q succeeded", target, method)
		}
		if err != nil && shield.CodeOf(err) == "" {
			t.Errorf("call %q %q = %v, which has no code", target, method, err)
		}
	})
}

// Any number is a time that a timer can take.
func FuzzTimer(f *testing.F) {
	for _, ms := range []float64{0, -1, 0.1, 1e3, 1e18, math.Inf(1), math.NaN(), math.MaxFloat64} {
		f.Add(ms)
	}
	n := start(f, scripts{"a.lua": `
local M = {}
function M.go(ctx, ms)
  local ok, id = pcall(shield.timer, ms, function() end)
  if ok then shield.cancel_timer(id) end
  pcall(shield.call_timeout, math.min(ms, 1), "a", "none")
  return true
end
return M`}, nil)
	f.Fuzz(func(t *testing.T, ms float64) {
		got, err := n.call("a", "go", ms)
		if err != nil || got != `[true]` {
			t.Errorf("timer(%v) = %s, %v", ms, got, err)
		}
	})
}
