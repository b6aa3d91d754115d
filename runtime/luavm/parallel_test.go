package luavm

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Many VMs at once on the shared tables, with everything that passes a stack
// from one goroutine to another: suspension, coroutines, aborts, errors. The
// race detector is the judge.
func TestManyVMsInParallel(t *testing.T) {
	w := newWorld(t, Config{Tick: time.Millisecond, Files: files{"lib/u.lua": `local M = {} function M.twice(x) return x * 2 end return M`}})
	src := `local u = require("u")
		function string.tag(s, n) return s .. n end
		local n = ...
		local gen = coroutine.wrap(function() for i = 1, 20 do coroutine.yield(shield.call(i)) end end)
		local sum = 0 for i = 1, 20 do sum = sum + u.twice(gen()) end
		local ok, e = pcall(function() local t = setmetatable({}, {__index = function(_, k) return shield.call(k) end}) error(t.oops, 0) end)
		local parts = {} for k in pairs(math) do parts[#parts + 1] = k end table.sort(parts)
		for i = 1, 5 do coroutine.wrap(function() coroutine.yield() end)() end
		return sum, e, ("vm"):tag(n), #parts > 20, (("a-b"):gsub("%w", string.upper))`
	var wg sync.WaitGroup
	for i := range 16 {
		b := newBox(t, w, VMConfig{Limits: Limits{HandlerTime: 10 * time.Second}})
		wg.Go(func() {
			for j := range 5 {
				got, err := b.try(src, lua.LNumber(i))
				if want := fmt.Sprintf("420 oops vm%d true A-B", i); err != nil || show(got) != want {
					t.Errorf("VM %d, round %d: %q %v, want %q", i, j, show(got), err, want)
				}
			}
		})
	}
	for range 2 {
		slow := newBox(t, w, VMConfig{Limits: Limits{HandlerTime: 5 * time.Millisecond}})
		wg.Go(func() {
			for range 3 {
				_, err := slow.try(`coroutine.wrap(function() while true do pcall(error) end end)()`)
				if err == nil || err.Kind != KindTimeout {
					t.Errorf("the runaway turn gave %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// One VM with many turns in flight: each waits and comes back in any order.
func TestManyTurnsOfOneVM(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`total = 0 function work(n) local mine = n local co = coroutine.wrap(function() for i = 1, 3 do mine = mine + shield.call(1) coroutine.yield() end end)
		co() co() co() total = total + mine return mine end`)
	work := b.vm.Globals().RawGetString("work")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			b.hold()
			defer b.pass()
			h := b.w.Take()
			defer h.Give()
			got, err := b.vm.Run(h, Call{Fn: work, Args: []lua.LValue{lua.LNumber(i)}})
			if err != nil || got[0] != lua.LNumber(i+3) {
				t.Errorf("turn %d gave %v, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	if got := b.do(`return total`); got != "900" {
		t.Errorf("total = %s, want 900", got)
	}
	if n := b.vm.Turns(); n != 0 {
		t.Errorf("%d turns are still in flight", n)
	}
}

// Hands and goroutines that a busy moment needed go away afterwards.
func TestTrim(t *testing.T) {
	w := newWorld(t, Config{Files: files{}, Tick: time.Millisecond})
	var hands []*Hand
	for range 100 {
		hands = append(hands, w.Take())
	}
	for _, h := range hands {
		h.Give()
	}
	b := newBox(t, w, VMConfig{})
	b.do(`local all = {} for i = 1, 100 do all[i] = coroutine.wrap(function() coroutine.yield() end) all[i]() end for i = 1, 100 do all[i]() end`)
	deadline := time.Now().Add(10 * time.Second) // real time: the watcher works by it
	for {
		s := w.Stats()
		if s.Hands <= 10 && s.CoroutineGoroutines <= 10 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %+v", s)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got := b.do(`return coroutine.wrap(function() return "still works" end)()`); got != "still works" {
		t.Errorf("got %q", got)
	}
}

// Tracebacks call functions by their names and the outermost by the handler's.
func TestTracebacks(t *testing.T) {
	b := oneBox(t, VMConfig{})
	fn := b.compile("local function hit(n)\n  return n.hp - 1\nend\nreturn function(x)\n  local y = hit(x)\n  return y\nend")
	b.hold()
	defer b.pass()
	h := b.w.Take()
	defer h.Give()
	res, err := b.vm.Run(h, Call{Fn: fn})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.vm.Run(h, Call{Fn: res[0], Name: "arena.attack"})
	if err == nil || err.File != "test.lua" || err.Line != 2 {
		t.Fatalf("got %+v, want test.lua:2", err)
	}
	for _, want := range []string{"test.lua:2:", "in function 'hit'", "test.lua:5:", "in handler 'arena.attack'"} {
		if !strings.Contains(err.Traceback, want) {
			t.Errorf("the traceback lacks %q:\n%s", want, err.Traceback)
		}
	}
	if strings.Contains(err.Traceback, "main chunk") {
		t.Errorf("a handler is called main chunk:\n%s", err.Traceback)
	}
	_, err = b.vm.Run(h, Call{Fn: lua.LString("no function")})
	if err == nil || strings.HasPrefix(err.Message, " ") {
		t.Errorf("calling a string: %v", err)
	}
}
