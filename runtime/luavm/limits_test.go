package luavm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Runaway code ends with handler_timeout and names the line; the next turn is
// sane.
func TestRunawayTurnsAreAborted(t *testing.T) {
	for name, src := range map[string]string{
		"while":              "\nwhile true do end",
		"repeat":             "\nrepeat until false",
		"for":                "\nfor i = 1, 1e15 do end",
		"goto":               "\n::again:: goto again",
		"pcall loop":         "\nwhile true do pcall(function() while true do end end) end",
		"nested pcalls":      "\nlocal function f() while true do pcall(pcall, pcall, error) end end while true do pcall(f) end",
		"xpcall loop":        "\nwhile true do xpcall(function() while true do end end, function() while true do end end) end",
		"error handler":      "\nxpcall(error, function() while true do end end)",
		"recursion in pcall": "\nlocal function f() return f() end f()",
		"iterator":           "\nfor _ in function() return 1 end do end",
		"metamethod":         "\nlocal t = setmetatable({}, {__index = function() while true do end end}) local _ = t.x",
		"sort":               "\nlocal t = {} for i = 1, 300 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
		"gsub":               "\nwhile true do ('x'):rep(100):gsub('x', function() while true do end end) end",
		"tostring":           "\nwhile true do tostring(setmetatable({}, {__tostring = function() return 'x' end})) end",
		"pattern":            "\nlocal s = ('a'):rep(200) while true do pcall(string.find, s, '.-.-.-.-.-.-.-.-b') end",
	} {
		t.Run(name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: 30 * time.Millisecond}})
			start := time.Now()
			_, err := b.try(src)
			if err == nil || err.Kind != KindTimeout {
				t.Fatalf("got %v, want a timeout", err)
			}
			if err.File != "test.lua" || err.Line != 2 || !strings.Contains(err.Message, "max_handler_ms") {
				t.Errorf("got %s:%d %q, want test.lua:2 and the limit's name", err.File, err.Line, err.Message)
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("took %v", took)
			}
			if got := b.do(`local n = 0 for i = 1, 1000 do n = n + i end return pcall(function() return n end)`); got != "true 500500" {
				t.Errorf("the next turn gave %q", got)
			}
		})
	}
}

// Time spent suspended does not count, and each stretch counts anew.
func TestSuspendedTimeIsNotRunningTime(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: 60 * time.Millisecond}})
	b.vm.Globals().RawSetString("wait", b.w.libs.value(b.w.libs.thread, func(L *lua.LState) int {
		Suspend(L, "shield.sleep", WaitFunc(func() { time.Sleep(150 * time.Millisecond) })) // longer than the limit, on the watcher's real clock
		return 0
	}))
	if got := b.do(`wait() return "done"`); got != "done" {
		t.Errorf("got %q", got)
	}
}

// An abort belongs to the stretch that earned it.
func TestAbortHitsNoInnocentTurn(t *testing.T) {
	const limit = 20 * time.Millisecond
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: limit}})
	for range 20 {
		if _, err := b.try(`while true do end`); err == nil || err.Kind != KindTimeout {
			t.Fatalf("got %v, want a timeout", err)
		}
		for range 50 {
			began := time.Now()
			_, err := b.try(`local s = 0 for i = 1, 200 do s = s + i end return s`)
			// On a busy machine the goroutine itself may stand still for that long.
			if err != nil && (err.Kind != KindTimeout || time.Since(began) < limit/2) {
				t.Fatalf("an innocent turn of %v: %v", time.Since(began), err)
			}
		}
	}
}

// What must neither end the process nor take its memory: each gives an error
// that the script can see, at once.
func TestBombs(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"rep", `string.rep("x", 1e13)`, "max_memory"},
		{"rep inf", `string.rep("x", 1/0)`, "max_memory"},
		{"rep of nothing", `assert(string.rep("", 1e15) == "") error("fine")`, "fine"},
		{"concat doubling", `local s = "x" while true do s = s .. s end`, "max_memory"},
		{"concat of many", `local s = ("x"):rep(1e6) for i = 1, 10 do s = s..s..s..s..s..s..s..s end`, "max_memory"},
		{"table.concat", `local t, s = {}, ("x"):rep(1e6) for i = 1, 200 do t[i] = s end table.concat(t)`, "table.concat"},
		{"gsub growth", `local s = ("x"):rep(1e4) s:gsub("x", s)`, "string.gsub"},
		{"format width", `string.format("%999999d", 1)`, "too long"},
		{"format many", `string.format(("%s"):rep(200), unpack((function() local t = {} for i = 1, 200 do t[i] = ("x"):rep(1e6) end return t end)()))`, "max_memory"},
		{"unpack", `unpack({}, 1, 1e8)`, "too many results"},
		{"unpack wide", `unpack({}, -1e308, 1e308)`, "too many results"},
		{"byte", `string.byte(("x"):rep(1e6), 1, -1)`, "too many results"},
		{"sparse", `local t = {} t[60000000] = 1 t[2^53] = 1 t[1e300] = 1 error("fine")`, "fine"},
		{"pattern", `(("a"):rep(200)):find(".-.-.-.-.-b")`, "too many steps"},
		{"deep pattern", `(("a"):rep(1000)):find(("a?"):rep(1000) .. "b")`, "too complex"},
		{"many captures", `("a"):find(("()"):rep(100))`, "too many captures"},
		{"recursion", `local function f() return 1 + f() end f()`, "stack overflow"},
		{"recursion in a metamethod", `local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. "x"] end local _ = t.x`, "stack overflow"},
		{"deep source", `assert(loadstring("return " .. ("("):rep(1e5) .. "1" .. (")"):rep(1e5))) error("fine")`, "fine"},
		{"long concat source", `assert(loadstring("return 'a'" .. (" .. 'a'"):rep(5e4)))`, "nest"},
		{"long sum source", `assert(loadstring("return 1" .. (" + 1"):rep(1e5)))`, "nest"},
		{"deep tables", `assert(loadstring("return " .. ("{"):rep(1e5) .. ("}"):rep(1e5)))`, "nest"},
		{"deep functions", `assert(loadstring(("return function() "):rep(5000) .. ("end "):rep(5000)))`, "nest"},
		{"unary source", `assert(loadstring("return " .. ("not "):rep(1e5) .. "1"))`, "nest"},
		{"long source", `assert(loadstring(("x = 1 "):rep(1e6)))`, "longer than"},
		{"many locals", `local s = "" for i = 1, 300 do s = s .. "local a" .. i .. " = 1 " end assert(loadstring(s))`, "local"},
		{"tail calls", `local function f(n) if n == 0 then error("end of them") end return f(n - 1) end f(5e5)`, "end of them"},
		{"nested resume", `local function f() return assert(coroutine.resume(coroutine.create(f))) end local _, e = coroutine.resume(coroutine.create(f)) error("e: " .. tostring(e))`, "e: "},
		{"exit", `os.exit(1)`, "os.exit"},
		{"random of nothing", `math.random(0)`, "interval is empty"},
		{"random wide", `math.random(-1e308, 1e308)`, "interval is empty"},
		{"inconsistent sort", `local t = {} for i = 1, 500 do t[i] = i % 7 end for n = 1, 20 do table.sort(t, function() return math.random() < 0.5 end) table.sort(t, function() return true end) end error("fine")`, "fine"},
		{"sort that shrinks its table", `local t = {} for i = 1, 100 do t[i] = -i end table.sort(t, function(a, b) t[#t] = nil return a < b end) error("fine")`, "fine"},
		{"sort with holes", `local t = {3, 2, 1} t[3] = nil t[2] = nil table.sort(t) error("fine")`, "fine"},
		{"setmetatable of strings", `setmetatable("", {})`, "table expected"},
		{"tostring that lies", `tostring(setmetatable({}, {__tostring = function() return {} end}))`, "must return a string"},
		{"long require", `require(("x"):rep(1e6))`, "at most 200"},
		{"char", `string.char(1e9)`, "invalid value"},
		{"date", `os.date("%c", 1e300)`, "out of range"},
		{"time", `os.time{year = 1e300, month = 1, day = 1}`, "out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: time.Minute}})
			start := time.Now()
			_, err := b.try(tt.src)
			if err == nil || err.Kind == KindPanic || err.Kind == KindTimeout || !strings.Contains(err.Message, tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if got := b.do(`return pcall(function() return ("ok"):upper() end)`); got != "true OK" {
				t.Errorf("the next turn gave %q", got)
			}
			if took := time.Since(start); took > 15*time.Second { // generous: the race detector on a busy machine
				t.Errorf("took %v", took)
			}
		})
	}
}

// A stack overflow is an ordinary error for pcall, as often as one likes.
func TestOverflowIsCatchable(t *testing.T) {
	b := oneBox(t, VMConfig{})
	got := b.do(`local up = 42 local function f() return 1 + f() end
		for i = 1, 50 do local ok, e = pcall(f) assert(not ok and e:find("stack overflow"), e) end
		local function g(n) if n == 0 then return 0 end return 1 + g(n - 1) end
		return up, g(150)`)
	if got != "42 150" {
		t.Errorf("got %q, want 42 150", got)
	}
}

// Stacks go from VM to VM, and each VM has a call depth of its own, in turns and
// in coroutines.
func TestCallDepthOfEachVM(t *testing.T) {
	w := newWorld(t, Config{MaxCallDepth: 100})
	const probe = `local n = 0
		local function f() n = n + 1 return 1 + f() end
		local ok, e = pcall(f) assert(not ok and e:find("stack overflow"), e)
		local turn = n
		n = 0
		coroutine.wrap(function() pcall(f) end)()
		return turn, n`
	for range 3 {
		for _, depth := range []int{100, 40, 1000, 0} {
			b := newBox(t, w, VMConfig{Limits: Limits{CallDepth: depth}})
			var turn, inside int
			if _, err := fmt.Sscan(b.do(probe), &turn, &inside); err != nil {
				t.Fatal(err)
			}
			want := depth
			if depth == 0 {
				want = 100
			}
			for _, n := range []int{turn, inside} {
				if n > want || n < want-10 { // pcall and the chunk are calls too
					t.Errorf("CallDepth %d: %d calls, want about %d", depth, n, want)
				}
			}
		}
	}
}

// A turn that hoards is ended with memory_limit while it runs, whatever it
// hoards; one that only makes garbage is not.
func TestMemoryIsWatchedWhileATurnRuns(t *testing.T) {
	for name, src := range map[string]string{
		"strings":    `local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) .. i end`,
		"tables":     `local t = {} while true do t = {t, {}, {}} end`,
		"closures":   `local t = {} for i = 1, 1e9 do t[i] = function() return i end end`,
		"in pcall":   `local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = {} end end) end`,
		"coroutines": `coroutine.wrap(function() local t = {} for i = 1, 1e9 do t[i] = {i} end end)()`,
		"array":      `local t = {} for i = 1, 1e9 do t[i] = i end`,
	} {
		t.Run(name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{Memory: 32 << 20, HandlerTime: time.Minute}})
			_, err := b.try(src)
			if err == nil || err.Kind != KindMemory {
				t.Fatalf("got %v, want memory_limit", err)
			}
		})
	}
	b := oneBox(t, VMConfig{Limits: Limits{Memory: 32 << 20, HandlerTime: time.Minute}})
	b.do(`for i = 1, 3e5 do local s = ("x"):rep(1000) .. i end`)
}

// A Go panic is contained, comes with its stack, and no script can catch it.
func TestGoPanicIsContained(t *testing.T) {
	cfg := Config{Files: files{}, Shield: Lib{"crash": func(L *lua.LState) int {
		var m map[string]int
		//lint:ignore SA5000 the panic is the point
		m["x"] = 1
		return 0
	}}}
	w := newWorld(t, cfg)
	for _, src := range []string{`shield.crash()`, `pcall(shield.crash)`, `pcall(pcall, shield.crash)`, `xpcall(shield.crash, print)`,
		`coroutine.wrap(function() shield.crash() end)()`, `coroutine.resume(coroutine.create(function() pcall(shield.crash) end))`,
		`("x"):gsub("x", shield.crash)`, `table.sort({1, 2}, shield.crash)`} {
		b := newBox(t, w, VMConfig{})
		_, err := b.try(src)
		if err == nil || err.Kind != KindPanic || !strings.Contains(err.Message, "nil map") || !strings.Contains(err.Traceback, "limits_test.go") {
			t.Errorf("%s: %+v, want a contained panic with its Go stack", src, err)
		}
		if got := b.do(`return 1`); got != "1" {
			t.Errorf("%s: the next turn gave %q", src, got)
		}
	}
}

// Abort unwinds through everything and says why.
func TestAbort(t *testing.T) {
	reason := new(int)
	w := newWorld(t, Config{Files: files{}, Shield: Lib{"exit": func(L *lua.LState) int { Abort(L, reason, "exits"); return 0 }}})
	b := newBox(t, w, VMConfig{})
	for _, src := range []string{`shield.exit()`, `pcall(shield.exit) after = true`, `coroutine.wrap(function() pcall(shield.exit) after = true end)() after = true`,
		`xpcall(shield.exit, function() after = true end) after = true`} {
		_, err := b.try(src)
		if err == nil || err.Kind != KindAborted || err.Reason != reason {
			t.Errorf("%s: %+v, want an abort", src, err)
		}
		if b.do(`return after`) != "nil" {
			t.Errorf("%s: code ran after the abort", src)
		}
	}
}

// A Go function that never returns is told about once, after StuckAfter.
func TestStuckTurnIsReported(t *testing.T) {
	told := make(chan *VM, 8)
	release := make(chan struct{})
	w := newWorld(t, Config{Files: files{}, Tick: 5 * time.Millisecond, StuckAfter: 40 * time.Millisecond,
		OnStuck: func(vm *VM, err *RunError) { told <- vm },
		Shield:  Lib{"hang": func(L *lua.LState) int { <-release; return 0 }}})
	b := newBox(t, w, VMConfig{Limits: Limits{HandlerTime: 20 * time.Millisecond}})
	done := make(chan *RunError, 1)
	go func() { _, err := b.try(`shield.hang() while true do end`); done <- err }()
	if vm := <-told; vm != b.vm {
		t.Errorf("OnStuck named another VM")
	}
	close(release)
	if err := <-done; err == nil || err.Kind != KindTimeout {
		t.Errorf("the late turn gave %v, want its timeout", err)
	}
	if len(told) > 0 {
		t.Error("OnStuck was called twice for one turn")
	}
}

// Tracebacks stay short however many tail calls there were.
func TestTailCallsLeaveShortTracebacks(t *testing.T) {
	b := oneBox(t, VMConfig{})
	_, err := b.try(`local function f(n) if n == 0 then local x = nil + 1 end return f(n - 1) end local function g() f(1e5) return 1 end g()`)
	if err == nil || len(err.Traceback) > 1000 {
		t.Errorf("got %+v", err)
	}
	got := b.do(`local function f(n) if n == 0 then return (debug.traceback()) end return f(n - 1) end local s = f(1e5) return #s < 1000, s:find("after tail calls", 1, true) ~= nil`)
	if got != "true true" {
		t.Errorf("debug.traceback: %q", got)
	}
}

// More values than a stack holds are an error, wherever they are passed.
func TestTooManyValues(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{"local function f(...) return f(" + strings.Repeat("1, ", 100) + "...) end return pcall(f)", "overflow"},
		{`local t = {} for i = 1, 60000 do t[i] = i end local function f(...) return select('#', ...) end return f(unpack(t))`, "60000"},
		{`local t = {} for i = 1, 20000 do t[i] = i end local co = coroutine.wrap(function(...) return select('#', coroutine.yield(...)) end) return select('#', co(unpack(t))), co(unpack(t))`, "20000 20000"},
		{`local t = {} for i = 1, 60000 do t[i] = i end local co = coroutine.wrap(function() local a, b = pcall(function() return unpack(t), (function(...) return coroutine.yield(), ... end)(unpack(t)) end) return coroutine.yield(1, 2) end)
			local function deep(...) return co(), ... end return (select('#', pcall(deep, unpack(t)))) > 0`, "true"},
	} {
		r, err := b.try(tt.src)
		if got := show(r) + fmt.Sprint(err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.200s, want %q", tt.src, got, tt.want)
		}
		if got := b.do(`return coroutine.wrap(function(...) return ... end)(1, 2)`); got != "1 2" {
			t.Errorf("afterwards: %q", got)
		}
	}
	h := b.w.Take()
	defer h.Give()
	if _, err := b.vm.Run(h, Call{Fn: b.compile(""), Args: make([]lua.LValue, 200000)}); err == nil || !strings.Contains(err.Message, "200000 arguments") {
		t.Errorf("a call with 200000 arguments: %v", err)
	}
}

// What was thrown keeps its identity, and its own words if it has any.
func TestThrownValues(t *testing.T) {
	b := oneBox(t, VMConfig{})
	for _, tt := range []struct{ src, message string }{
		{`error("plain", 0)`, "plain"},
		{`error({code = "x", message = "y"})`, "x: y"},
		{`error(setmetatable({}, {__tostring = function() return "my words" end}))`, "my words"},
		{`error(setmetatable({}, {__tostring = function() error("no") end}))`, "(a table was thrown)"},
		{`error(nil)`, "nil"},
		{`error(42, 0)`, "42"},
		{`error(true)`, "(a boolean was thrown)"},
	} {
		_, err := b.try(tt.src)
		if err == nil || err.Kind != KindError || err.Message != tt.message {
			t.Errorf("%s: %+v, want %q", tt.src, err, tt.message)
		}
	}
	_, err := b.try(`keep = {} error(keep)`)
	if err == nil || err.Value != b.vm.Globals().RawGetString("keep") {
		t.Errorf("the thrown table came out as %v", err)
	}
}
