package luavm

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// plainTable is gopher-lua's table of instructions before init hooks it:
// package variables are set first.
var plainTable = jumpTable

var cpuBound = map[string]string{
	"fib":     `local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(24)`,
	"numeric": `local s = 0 for i = 1, 1000000 do s = s + i % 7 end return s`,
	"while":   `local i, s = 0, 0 while i < 500000 do i = i + 1 if i % 2 == 0 then s = s + i end end return s`,
	"tables":  `local t = {} for i = 1, 100000 do t[i] = {x = i} end local s = 0 for i, v in ipairs(t) do s = s + v.x end for k, v in pairs(t) do s = s + v.x end return s`,
}

// BenchmarkGuard compares CPU-bound Lua with and without the hooks. The bar is
// 20 % on each.
func BenchmarkGuard(b *testing.B) {
	hooked := jumpTable
	defer func() { jumpTable = hooked }()
	for name, src := range cpuBound {
		for _, mode := range []string{"off", "on"} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				x := oneBox(b, VMConfig{Limits: Limits{HandlerTime: time.Hour, Memory: 1 << 40}})
				fn := x.compile(src)
				x.hold()
				defer x.pass()
				h := x.w.Take()
				defer h.Give()
				jumpTable = plainTable
				if mode == "on" {
					jumpTable = hooked
				}
				for b.Loop() {
					if _, err := x.vm.Run(h, Call{Fn: fn}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// playerScript is a service of 40 handlers and some state.
var playerScript = func() string {
	var b strings.Builder
	b.WriteString("local M = {}\nlocal state = {uid = 0, name = '', lv = 1, exp = 0, gold = 0, x = 0, y = 0, hp = 100, items = {}, quests = {}}\n")
	for i := range 40 {
		fmt.Fprintf(&b, `
function M.handler_%d(ctx, a, b, c)
  local n = (a or 0) + (b or 0)
  if n > 10 then state.exp = state.exp + n else state.gold = state.gold + 1 end
  for i = 1, 3 do state.hp = state.hp + i end
  if c then state.name = tostring(c) end
  return state.exp, state.gold
end
`, i)
	}
	b.WriteString("return M\n")
	return b.String()
}()

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkNewVM makes a VM and loads a known script of 40 handlers into it.
// heap-B/vm is what one keeps while idle; the bar for a whole service is 16 KB.
func BenchmarkNewVM(b *testing.B) {
	w := newWorld(b, Config{Files: files{"player.lua": playerScript}})
	h := w.Take()
	defer h.Give()
	var keep []*VM
	before := heap()
	b.ReportAllocs()
	for b.Loop() {
		vm := w.NewVM(VMConfig{})
		if _, err := vm.Load(h, "player.lua", nil); err != nil {
			b.Fatal(err)
		}
		keep = append(keep, vm)
	}
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/float64(len(keep)), "heap-B/vm")
	runtime.KeepAlive(keep)
}

func BenchmarkEmptyVM(b *testing.B) {
	w := newWorld(b, Config{Files: files{}})
	var keep []*VM
	before := heap()
	for b.Loop() {
		keep = append(keep, w.NewVM(VMConfig{}))
	}
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/float64(len(keep)), "heap-B/vm")
	runtime.KeepAlive(keep)
}

// BenchmarkRun is the dispatch of one message: no allocation.
func BenchmarkRun(b *testing.B) {
	w := newWorld(b, Config{Files: files{"m.lua": `return {echo = function(x) return x end}`}})
	vm := w.NewVM(VMConfig{})
	h := w.Take()
	defer h.Give()
	m, err := vm.Load(h, "m.lua", nil)
	if err != nil {
		b.Fatal(err)
	}
	c := Call{Fn: m.Value.(*lua.LTable).RawGetString("echo"), Args: []lua.LValue{lua.LNumber(7)}, Data: vm, Results: make([]lua.LValue, 0, 4)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := vm.Run(h, c); err != nil {
			b.Fatal(err)
		}
		vm.Tidy()
	}
}

// BenchmarkSuspend is one park and wake inside a turn, without a service.
func BenchmarkSuspend(b *testing.B) {
	w := newWorld(b, Config{Files: files{}, Shield: Lib{"pause": func(L *lua.LState) int { Suspend(L, "shield.pause", nowait{}); return 0 }}})
	x := newBox(b, w, VMConfig{Limits: Limits{HandlerTime: time.Hour}})
	x.do(fmt.Sprintf(`local p = shield.pause for i = 1, %d do p() end`, b.N))
}

type nowait struct{}

func (nowait) Wait() {}

// BenchmarkMeasure is one look at a VM's memory.
func BenchmarkMeasure(b *testing.B) {
	x := oneBox(b, VMConfig{})
	x.do(`t = {} for i = 1, 10000 do t[i] = {id = i, name = "n" .. i, pos = {x = i, y = i}} end`)
	objects := 0
	for b.Loop() {
		objects = x.vm.Measure().Objects
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(objects), "ns/object")
}

// BenchmarkStrings are the calls that scripts make most.
func BenchmarkStrings(b *testing.B) {
	for name, call := range map[string]string{
		"upper": `s:upper()`, "sub": `s:sub(2, 5)`, "find plain": `s:find("world", 1, true)`, "match": `s:match("(%w+) (%w+)")`,
		"gsub": `s:gsub("o", "0")`, "format": `("%d %s"):format(7, s)`, "rep": `s:rep(3)`, "byte": `s:byte(3)`,
	} {
		b.Run(name, func(b *testing.B) {
			x := oneBox(b, VMConfig{Limits: Limits{HandlerTime: time.Hour}})
			x.do(fmt.Sprintf(`local s = "hello world" for i = 1, %d do local _ = %s end`, b.N, call))
		})
		b.Run(name+"/gopher-lua", func(b *testing.B) {
			L := lua.NewState()
			defer L.Close()
			if err := L.DoString(fmt.Sprintf(`local s = "hello world" for i = 1, %d do local _ = %s end`, b.N, call)); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkParked keeps handlers waiting in a call: what one holds.
func BenchmarkParked(b *testing.B) {
	release := make(chan struct{})
	w := newWorld(b, Config{Files: files{}, Shield: Lib{"wait": func(L *lua.LState) int {
		x := OwnerOf(L).(*box)
		Suspend(L, "shield.call", WaitFunc(func() { x.pass(); <-release; x.hold() }))
		return 0
	}}})
	x := newBox(b, w, VMConfig{})
	fn := x.compile(`local ok = pcall(shield.wait) return ok`)
	runtime.GC()
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	var all, parked sync.WaitGroup
	for range b.N {
		parked.Add(1)
		all.Go(func() {
			x.hold()
			h := w.Take()
			parked.Done()
			if _, err := x.vm.Run(h, Call{Fn: fn}); err != nil {
				b.Error(err)
			}
			h.Give()
			x.pass()
		})
	}
	parked.Wait()
	x.hold()
	x.pass()
	runtime.GC()
	runtime.ReadMemStats(&m1)
	b.ReportMetric(float64(m1.HeapAlloc+m1.StackInuse-m0.HeapAlloc-m0.StackInuse)/float64(b.N), "B/parked")
	close(release)
	all.Wait()
}
