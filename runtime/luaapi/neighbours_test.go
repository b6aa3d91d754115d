package luaapi_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"shield/runtime/service"
	"shield/runtime/shield"
)

// runaways are the ways a script can go wrong that would freeze or end an
// unguarded process, and the errors that they may end with.
var runaways = []struct{ name, body, codes string }{
	{"loop", `while true do end`, "handler_timeout"},
	{"loop of pcall", `while true do pcall(function() while true do end end) end`, "handler_timeout"},
	{"loop in a coroutine", `coroutine.wrap(function() while true do end end)()`, "handler_timeout"},
	{"loop in a comparator", `table.sort({3, 1, 2}, function() while true do end end)`, "handler_timeout"},
	{"recursion", `local function f() return 1 + f() end f()`, "handler_error"},
	{"recursion through pcall", `local function f() return pcall(f) end f() f()`, "handler_error ok"},
	{"endless tail calls", `local function f() return f() end f()`, "handler_timeout"},
	{"string.rep", `return #("x"):rep(1e13)`, "handler_error"},
	{"doubling string", `local s = "x" while true do s = s .. s end`, "handler_error memory_limit"},
	{"many strings", `local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) .. i end`, "memory_limit"},
	{"unpack", `return unpack({}, 1, 1e8)`, "handler_error"},
	{"sparse table", `local t = {} t[60000000] = 1`, "ok"},
	{"pattern", `return ((("a"):rep(200)):find(".-.-.-.-.-b"))`, "handler_error handler_timeout"},
	{"nested resume", `local function f() return coroutine.wrap(f)() end f()`, "handler_error coroutine_limit"},
	{"deep source", `return load(("("):rep(1e5) .. "1" .. (")"):rep(1e5))`, "ok handler_error encode_failed"},
	{"collectgarbage", `for i = 1, 1e9 do collectgarbage() end`, "handler_timeout"},
	{"os.exit", `os.exit(1)`, "handler_error"},
	{"format", `return ("%99999999d"):format(1)`, "handler_error"},
	{"table.concat", `local t = {} for i = 1, 1e5 do t[i] = "x" end return #table.concat(t, ("y"):rep(1e6))`, "handler_error"},
	{"gsub bomb", `return #(("x"):rep(1e6):gsub("x", ("y"):rep(1e4)))`, "handler_error"},
}

// Whatever one service does, the others on the node keep answering.
func TestNeighboursOfARunawayAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real loops into real limits")
	}
	for _, tt := range runaways {
		t.Run(tt.name, func(t *testing.T) {
			// The collector and the scheduler may hold anybody up for a moment, but not
			// each time.
			var worst, idle time.Duration
			for range 3 {
				if worst, idle = besideRunaway(t, tt.body, tt.codes); worst <= 100*time.Millisecond+idle {
					return
				}
			}
			t.Errorf("a neighbour was held up for %v, a goroutine without Lua for %v", worst, idle)
		})
	}
}

// besideRunaway runs body to its end and gives the longest that a neighbour and
// an idle goroutine were held up meanwhile.
func besideRunaway(t *testing.T, body, codes string) (worst, idle time.Duration) {
	t.Helper()
	limit := 5 * time.Second // what ends by itself must not meet it
	if strings.Contains(codes, string(shield.HandlerTimeout)) {
		limit = 150 * time.Millisecond
	}
	n := newNode(t, scripts{
		"bad.lua":  "local M = {}\nfunction M.go()\n" + body + "\nend\nreturn M",
		"good.lua": `return {ping = function(ctx, v) return v end}`,
	}, nil)
	n.start(service.Spec{Name: "good", Script: "good.lua", Instances: 1},
		service.Spec{Name: "bad", Script: "bad.lua", Instances: 1, Restart: service.Restart{Policy: service.RestartNever},
			Limits: service.Limits{MaxHandler: limit, MaxMemory: 32 << 20}})
	ended := make(chan error, 1)
	go func() {
		_, err := n.call("bad", "go")
		ended <- err
	}()
	worst, idle = n.worstPing(ended)
	err := <-ended
	if code := codeOr(err, "ok"); !strings.Contains(codes, code) {
		t.Errorf("ended with %v, want one of: %s", err, codes)
	}
	if c := n.Counters(); c.Wedged != 0 || c.Panics != 0 {
		t.Errorf("wedged %d, Go panics %d", c.Wedged, c.Panics)
	}
	return worst, idle
}

func codeOr(err error, ok string) string {
	if err == nil {
		return ok
	}
	return string(shield.CodeOf(err))
}

// heldUp is how long this process worked on something else while it waited for
// wait. A clock alone would also count what the machine gave to other processes,
// and a runaway that freezes its neighbours burns all the time that it takes.
func heldUp(wait func()) time.Duration {
	cpu, begin := cpuTime(), time.Now()
	wait()
	took := time.Since(begin)
	if cpu == 0 { // this system does not tell
		return took
	}
	return min(took, cpuTime()-cpu)
}

// worstPing calls the service good until something arrives on done, and puts
// that back. It gives the longest that an answer was held up, and the longest
// that a goroutine of our own was that answers on a channel.
func (n *node) worstPing(done chan error) (worst, idle time.Duration) {
	ping, pong := make(chan bool), make(chan bool)
	go func() {
		for range ping {
			pong <- true
		}
	}()
	defer close(ping)
	for {
		worst = max(worst, heldUp(func() { n.want(`[7]`, "good", "ping", 7) }))
		idle = max(idle, heldUp(func() { ping <- true; <-pong }))
		select {
		case err := <-done:
			done <- err
			return worst, idle
		case <-time.After(time.Millisecond):
		}
	}
}

// A table that lives long does not grow with the keys it once had.
func TestMillionKeysComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds: memory is looked at once a second")
	}
	n := start(t, scripts{"s.lua": `
local M = {}
local online = {}
function M.visit(ctx, from, n)
  for i = from, from + n - 1 do online["player-" .. i] = {uid = i} end
  for i = from, from + n - 1 do online["player-" .. i] = nil end
end
function M.none() return next(online) == nil end
return M`}, nil)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 1000 {
		n.want(`[]`, "s", "visit", i*1000, 1000)
	}
	n.want(`[true]`, "s", "none")
	// The look at the memory comes with one of the next turns.
	grown := int64(0)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); { // how soon is no verdict
		for range 300 {
			n.want(`[true]`, "s", "none")
		}
		if grown = heap() - before; grown < 4<<20 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("a million keys that came and went left %d KiB", grown>>10)
}

// Ten times ten thousand players come and go, each a service of its own.
func TestCrowdsLeaveNothing(t *testing.T) {
	players, rounds := 10000, 10
	if testing.Short() {
		players, rounds = 1000, 3
	}
	n := newNode(t, scripts{
		"player.lua": handlers40(),
		"lobby.lua": `
local M = {}
local online = {}
function M.join(ctx, n)
  for i = 1, n do online[i] = assert(shield.spawn("player", {name = "player." .. i})) end
  for i = 1, n do assert(shield.call(online[i], "handler_7", "bag", "sword")) end
end
function M.leave(ctx, n) for i = 1, n do shield.send(online[i], "quit") online[i] = nil end end
return M`,
	}, func(c *service.Config) { c.Log = nil }) // the recorder would keep a line of each
	long := service.Limits{MaxHandler: time.Hour, CallTimeout: time.Hour}
	n.start(service.Spec{Name: "player", Script: "player.lua"}, service.Spec{Name: "lobby", Script: "lobby.lua", Instances: 1, Limits: long})
	type held struct{ heap, goroutines int64 }
	settle := func() held {
		time.Sleep(3 * time.Second) // stacks that nobody needs are let go after a second without work
		var m runtime.MemStats
		for range 3 { // weak references and finalizers take more than one
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return held{int64(m.HeapAlloc), int64(runtime.NumGoroutine())}
	}
	round := func() {
		for _, method := range []string{"join", "leave"} {
			if _, _, err := n.Call(context.Background(), service.CallRequest{Target: service.Target{Name: "lobby"}, Method: method, Args: payload(t, players), Timeout: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(2 * time.Minute); n.Counters().Ended < n.Counters().Started-1; { // how soon is no verdict
			if time.Now().After(end) {
				t.Fatalf("of %+v not all have ended", n.Counters())
			}
			time.Sleep(time.Millisecond)
		}
	}
	for range 4 { // pools and maps take their size
		round()
	}
	before := settle()
	for range rounds {
		round()
	}
	// 2 MiB for maps and stacks that happen to be there: a service that left a
	// hundred bytes would make 10.
	after := settle()
	if after.heap > before.heap+max(before.heap/20, 2<<20) || after.goroutines > before.goroutines+max(before.goroutines/20, 1) {
		t.Errorf("after %d times %d players: heap %d KiB, was %d; goroutines %d, were %d", rounds, players, after.heap>>10, before.heap>>10, after.goroutines, before.goroutines)
	}
	t.Logf("heap %d -> %d KiB, goroutines %d -> %d", before.heap>>10, after.heap>>10, before.goroutines, after.goroutines)
}
