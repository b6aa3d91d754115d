package luaapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// headroom is what shield itself gives the collector; see package devserver.
var headroom []byte

func benchNode(b *testing.B, files scripts) *node {
	b.Helper()
	headroom = make([]byte, 32<<20)
	return newNode(b, files, func(c *service.Config) {
		c.Log, c.Dev = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError})), false
	})
}

// measure runs the timed part and reports, beside the time, the CPU it took: on
// a machine that does other things as well, only that can be compared.
func measure(b *testing.B, f func()) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	f()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

func (n *node) run(b *testing.B, target, method string, args ...any) {
	b.Helper()
	_, _, err := n.Call(context.Background(), service.CallRequest{Target: service.Target{Name: target}, Method: method, Args: payload(b, args...), Timeout: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
}

const benchLimits = 1000 * time.Hour

const echoScript = `local M = {} function M.echo(ctx, v) return v end return M`

// One caller, one callee, one integer; deadline, trace id and counters on.
func BenchmarkCallSequential(b *testing.B) {
	n := benchNode(b, scripts{"echo.lua": echoScript, "a.lua": `
local M = {}
local call = shield.call
function M.go(ctx, n) for i = 1, n do call("echo", "echo", i) end end
return M`})
	n.start(service.Spec{Name: "echo", Script: "echo.lua", Instances: 1},
		service.Spec{Name: "a", Script: "a.lua", Instances: 1, Limits: service.Limits{MaxHandler: benchLimits}})
	n.run(b, "a", "go", 1000)
	measure(b, func() { n.run(b, "a", "go", b.N) })
}

// 8 callers with 8 forks each on 8 callees.
func BenchmarkCall8x8x8(b *testing.B) {
	n := benchNode(b, scripts{"echo.lua": echoScript, "a.lua": `
local M = {}
local call = shield.call
function M.go(ctx, n, to)
  local left = 8
  for f = 1, 8 do
    shield.fork(function()
      for i = 1, n do call(to, "echo", i) end
      left = left - 1
    end)
  end
  while left > 0 do shield.sleep(1) end
end
return M`})
	n.start(service.Spec{Name: "echo", Script: "echo.lua", Instances: 8},
		service.Spec{Name: "a", Script: "a.lua", Instances: 8, Limits: service.Limits{MaxHandler: benchLimits}})
	measure(b, func() {
		var wg sync.WaitGroup
		for i := 1; i <= 8; i++ {
			wg.Go(func() { n.run(b, fmt.Sprintf("a.%d", i), "go", b.N/64+1, fmt.Sprintf("echo.%d", i)) })
		}
		wg.Wait()
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// Sends of a record of four fields, counted at the receiver.
func BenchmarkSendRecord(b *testing.B) {
	n := benchNode(b, scripts{"sink.lua": `
local M = {}
local n = 0
function M.put(ctx, r) n = n + 1 end
function M.wait(ctx, want) while n < want do shield.sleep(0) end end
return M`, "a.lua": `
local M = {}
local send, sleep = shield.send, shield.sleep
function M.go(ctx, n)
  for i = 1, n do
    while not send("sink", "put", {uid = 1001, x = 1.5, y = 2.5, name = "alice"}) do sleep(0) end
  end
  shield.call("sink", "wait", n)
end
return M`})
	long := service.Limits{MaxHandler: benchLimits, CallTimeout: benchLimits}
	n.start(service.Spec{Name: "sink", Script: "sink.lua", Instances: 1, Limits: long}, service.Spec{Name: "a", Script: "a.lua", Instances: 1, Limits: long})
	measure(b, func() { n.run(b, "a", "go", b.N) })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

// handlers40 is a script as long as a game's.
func handlers40() string {
	var s strings.Builder
	s.WriteString("local M = {}\nlocal state = {}\n")
	for i := range 40 {
		fmt.Fprintf(&s, "function M.handler_%d(ctx, a, b)\n  local t = state[a] or {}\n  state[a] = t\n  t[#t + 1] = b\n  if #t > %d then return #t end\n  return a\nend\n", i, i)
	}
	s.WriteString("function M.quit() shield.exit() end\nreturn M")
	return s.String()
}

// Heap of an idle service with 40 handlers, and what it takes to start one.
func BenchmarkStartService(b *testing.B) {
	r, err := service.New(service.Config{Lua: luavm.Config{Files: scripts{"s.lua": handlers40()}}, API: luaapi.New()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Stop(context.Background())
	if err := r.Start(context.Background(), []service.Spec{{Name: "first", Script: "s.lua", Instances: 1}}); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	measure(b, func() {
		if err := r.Start(context.Background(), []service.Spec{{Name: shield.Name("s"), Script: "s.lua", Instances: b.N}}); err != nil {
			b.Fatal(err)
		}
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-B/service")
}

// The first call to each of b.N services that have never run since on_init: cold
// tables, cold names, no stack. With -benchtime 100000x the bar of issue 3.
func BenchmarkFirstCall(b *testing.B) {
	n := benchNode(b, scripts{"s.lua": handlers40(), "a.lua": `
local M = {}
local call = shield.call
function M.go(ctx, n) for i = 1, n do assert(call("s." .. i, "handler_7", 1, 2)) end end
return M`})
	n.start(service.Spec{Name: "s", Script: "s.lua", Instances: max(b.N, 2)},
		service.Spec{Name: "a", Script: "a.lua", Instances: 1, Limits: service.Limits{MaxHandler: benchLimits}})
	runtime.GC()
	measure(b, func() { n.run(b, "a", "go", b.N) })
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-process")
}

// The floor of a call: a goroutine of its own calls the same Lua function, with
// two channels between. No services, names, limits, deadlines or counters.
func BenchmarkFloor(b *testing.B) {
	L := lua.NewState()
	defer L.Close()
	if err := L.DoString(`function echo(v) return v end`); err != nil {
		b.Fatal(err)
	}
	echo := lua.P{Fn: L.GetGlobal("echo"), NRet: 1, Protect: true}
	in, out := make(chan lua.LValue, 1), make(chan lua.LValue, 1)
	go func() {
		defer close(out)
		for v := range in {
			if L.CallByParam(echo, v) != nil {
				return
			}
			out <- L.Get(-1)
			L.Pop(1)
		}
	}()
	defer close(in)
	measure(b, func() {
		for i := range b.N {
			in <- lua.LNumber(i)
			<-out
		}
	})
}
