package luavm

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// A million players come and go: the table of those online is as small as
// before, and it is the same table.
func TestTablesForgetDeadKeys(t *testing.T) {
	for name, key := range map[string]string{"string keys": `"player" .. i`, "number keys": `i + 0.5`, "table keys": `{i}`} {
		t.Run(name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: time.Minute}})
			b.do(`online = {first = 1, second = 2} other = online`)
			fn := b.compile(fmt.Sprintf(`local from = ... for i = from, from + 999 do local k = %s online[k] = true online[k] = nil end`, key))
			before := heap()
			b.hold()
			defer b.pass()
			h := b.w.Take()
			defer h.Give()
			batches := 100
			if name == "string keys" {
				batches = 1000 // a million, as DESIGN.md promises
			}
			for i := range batches {
				if _, err := b.vm.Run(h, Call{Fn: fn, Args: []lua.LValue{lua.LNumber(i * 1000)}}); err != nil {
					t.Fatal(err)
				}
				if i%50 == 49 {
					b.vm.Measure()
				}
			}
			grown := int64(heap()) - int64(before)
			if grown > 1<<20 {
				t.Errorf("the table kept %d KB", grown>>10)
			}
			b.pass()
			if got := b.do(`local s = "" for k, v in pairs(online) do s = s .. k .. v .. " " end return s, online == other`); got != "first1 second2  true" {
				t.Errorf("it now holds %q", got)
			}
			b.hold()
			runtime.KeepAlive(b)
		})
	}
}

// The same within one turn that never ends in between: the growth of the heap
// brings the look.
func TestDeadKeysWithinOneTurn(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: time.Minute, Memory: 64 << 20}})
	if got := b.do(`online = {} local function once(i) local k = "player" .. i online[k] = true online[k] = nil end for i = 1, 1e6 do once(i) end return next(online)`); got != "nil" {
		t.Errorf("got %q", got)
	}
}

// A table that a parked handler walks through keeps its order.
func TestCompactionSparesTraversals(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.vm.Globals().RawSetString("measure", b.w.libs.value(b.w.libs.thread, func(L *lua.LState) int {
		L.Push(lua.LNumber(VMOf(L).Measure().Compacted))
		return 1
	}))
	b.do(`big = {} for i = 1, 3000 do big["k" .. i] = i end for i = 1, 2800 do big["k" .. i] = nil end
		function meanwhile() compacted = measure() end`)
	got := b.do(`local n, twice, seen = 0, 0, {} for k, v in pairs(big) do
		if seen[k] then twice = twice + 1 end seen[k] = true n = n + 1 big[k] = nil
		if n == 100 then shield.call() end end return n, twice, compacted`)
	if got != "200 0 0" {
		t.Errorf("visited, twice, compacted = %q, want 200 0 0", got)
	}
	b.do(`for i = 1, 100 do big["n" .. i] = i end`)
	if got := b.do(`return measure(), #big`); got != "1 0" {
		t.Errorf("afterwards: %q, want 1 0", got)
	}
}

// The estimate is within a third of what the heap says.
func TestMeasureIsAboutRight(t *testing.T) {
	for name, src := range map[string]string{
		"strings":               `t = {} for i = 1, 20000 do t[i] = ("x"):rep(100) .. i end`,
		"records":               `t = {} for i = 1, 20000 do t[i] = {id = i, name = "n" .. i, x = i + 0.5, y = i + 0.5} end`,
		"arrays":                `t = {} for i = 1, 200 do t[i] = {} for j = 1, 1000 do t[i][j] = j + 0.5 end end`,
		"closures":              `t = {} for i = 1, 20000 do local a, b = i, {} t[i] = function() return a, b end end`,
		"map":                   `t = {} for i = 1, 50000 do t["key" .. i] = i + 0.5 end`,
		"parts":                 `t = {} for i = 1, 20000 do t[i] = (("x"):rep(2000) .. i):sub(-60) end`,
		"captures":              `t = {} for i = 1, 20000 do t[i] = (i .. ("x"):rep(2000)):match("^%d+") end`,
		"gmatch":                `t = {} for i = 1, 300 do t[i] = (("x"):rep(20000) .. i):gmatch(".") end`,
		"letters":               `t = {} for i = 1, 300 do t[i] = utf8.codes(("x"):rep(20000) .. i) end`,
		"wrap":                  `t = {} for i = 1, 300 do t[i] = coroutine.wrap(function(s) coroutine.yield() return s end) t[i](("x"):rep(90000) .. i) end`,
		"stacks":                `t = {} local function wait(...) coroutine.yield() return ... end for i = 1, 30 do t[i] = coroutine.wrap(function() wait(unpack({}, 1, 20000)) end) t[i]() end`,
		"code":                  `t = {} for i = 1, 300 do t[i] = assert(loadstring(("x = y" .. i .. " + z "):rep(100))) end`,
		"names":                 `t = {} for i = 1, 300 do local s = {} for j = 1, 100 do s[j] = "x" .. j .. "= 'y" .. i * j .. "' " end t[i] = assert(loadstring(table.concat(s))) end`,
		"a text in many places": `t = {} local s = ("x"):rep(1e6) for i = 1, 5000 do t[i] = {text = s} end`,
	} {
		t.Run(name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: time.Minute}})
			b.do(`return 1`)
			before := heap()
			b.do(src)
			after := heap()
			got, want := float64(b.vm.Measure().Bytes), float64(after-before)
			if ratio := got / want; ratio < 0.66 || ratio > 1.5 {
				t.Errorf("estimate %.0f KB, heap %.0f KB", got/1024, want/1024)
			}
			runtime.KeepAlive(b)
		})
	}
}

// A VM that is closed leaves nothing behind.
func TestClosedVMsLeaveNothing(t *testing.T) {
	w := newWorld(t, Config{Files: files{"p.lua": playerScript}})
	cycle := func() {
		h := w.Take()
		defer h.Give()
		for range 300 {
			vm := w.NewVM(VMConfig{})
			if _, err := vm.Load(h, "p.lua", nil); err != nil {
				t.Fatal(err)
			}
			code, err := compile("x", `keep = {} for i = 1, 5 do keep[i] = coroutine.wrap(function() coroutine.yield() end) keep[i]() end`)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := vm.Run(h, Call{Fn: vm.closure(code.Proto)}); err != nil {
				t.Fatal(err)
			}
			vm.Close()
		}
	}
	cycle()
	time.Sleep(10 * time.Millisecond) // the ended goroutines leave
	before, goroutines := heap(), runtime.NumGoroutine()
	for range 3 {
		cycle()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines+5 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // they end by themselves: nothing to wait on
	}
	if after := heap(); after > before+before/20+256<<10 {
		t.Errorf("heap grew from %d to %d KB", before>>10, after>>10)
	}
	if n := runtime.NumGoroutine(); n > goroutines+5 {
		t.Errorf("goroutines grew from %d to %d", goroutines, n)
	}
}

// A look comes after many turns and some time, and then not soon again.
func TestTidyIsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWorld(Config{Files: files{}})
		if err != nil {
			t.Fatal(err)
		}
		vm := w.NewVM(VMConfig{})
		h := w.Take()
		fn := vm.Globals() // any value: calling it fails, which is a turn too
		looks := 0
		turns := func(n int) {
			for range n {
				vm.Run(h, Call{Fn: fn})
				time.Sleep(time.Millisecond)
				if _, ok := vm.Tidy(); ok {
					looks++
				}
			}
		}
		turns(2 * tidyTurns)
		if looks != 0 {
			t.Errorf("%d looks within a second", looks)
		}
		time.Sleep(tidyRest)
		turns(2 * tidyTurns)
		if looks != 1 {
			t.Errorf("%d looks after a rest, want 1", looks)
		}
		vm.Close()
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A function takes what its code does, not the compiler's working room.
func TestCodeIsNoLargerThanItIs(t *testing.T) {
	before := heap()
	code, err := compile("x", strings.Repeat("function f() return 1 end ", 2000))
	if err != nil {
		t.Fatal(err)
	}
	if each := int64(heap()-before) / 2000; each > 2000 {
		t.Errorf("a short function takes %d bytes", each)
	}
	runtime.KeepAlive(code)
}

// Turns that are over before the watcher sees them twice don't fill the process.
func TestShortTurnsAreFoundInTime(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{Memory: 8 << 20}})
	for n := 1; ; n++ {
		b.do(`t = t or {} t[#t + 1] = ("x"):rep(1e6)`)
		b.hold()
		u, looked := b.vm.Tidy()
		b.pass()
		if looked && u.Over(8<<20) {
			return
		}
		if n == 250 { // a look each 256 turns would come after this
			t.Fatalf("the service holds %d MB and nobody has looked", n)
		}
		if n%50 == 0 {
			runtime.GC() // a process that fills up does so by itself
		}
		time.Sleep(4 * time.Millisecond) // the watcher reads the real clock
	}
}
