package luavm

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// Every place where a Lua programmer may call something that suspends. Each
// case runs a second turn in the same VM while it waits.
var suspendPlaces = []struct{ name, src, want string }{
	{"plain", `return shield.call(1)`, "1"},
	{"argument count", `return select('#', shield.call(1, nil, nil))`, "3"},
	{"pcall", `return pcall(shield.call, 2)`, "true 2"},
	{"pcall of a Lua function", `return pcall(function(x) return shield.call(x) + 1 end, 2)`, "true 3"},
	{"error after it in pcall", `return pcall(function() shield.call() error("no", 0) end)`, "false no"},
	{"xpcall", `return xpcall(function(x) return shield.call(x) end, debug.traceback, 4)`, "true 4"},
	{"xpcall handler", `return xpcall(function() error("e", 0) end, function(e) return shield.call(e .. "!") end)`, "false e!"},
	{"__add", `local t = setmetatable({}, {__add = function(a, b) return shield.call(b) end}) return t + 5`, "5"},
	{"__sub", `local t = setmetatable({}, {__sub = function(a, b) return shield.call(b) end}) return t - 5`, "5"},
	{"__unm", `local t = setmetatable({}, {__unm = function(a) return shield.call(6) end}) return -t`, "6"},
	{"__index", `local t = setmetatable({}, {__index = function(t, k) return shield.call(k) end}) return t.x, t[7]`, "x 7"},
	{"__newindex", `local got local t = setmetatable({}, {__newindex = function(t, k, v) got = shield.call(k .. v) end}) t.a = "b" return got`, "ab"},
	{"__call", `local t = setmetatable({}, {__call = function(self, x) return shield.call(x) end}) return t(8)`, "8"},
	{"__eq", `local mt = {__eq = function() return shield.call(true) end} return setmetatable({}, mt) == setmetatable({}, mt)`, "true"},
	{"__lt", `local mt = {__lt = function() return shield.call(true) end} return setmetatable({}, mt) < setmetatable({}, mt)`, "true"},
	{"__le", `local mt = {__le = function() return shield.call(true) end} return setmetatable({}, mt) <= setmetatable({}, mt)`, "true"},
	{"__concat", `local t = setmetatable({}, {__concat = function(a, b) return shield.call("c") end}) return "x" .. t`, "c"},
	{"__len", `local t = setmetatable({}, {__len = function() return shield.call(9) end}) return #t`, "9"},
	{"__tostring", `return tostring(setmetatable({}, {__tostring = function() return shield.call("s") end}))`, "s"},
	{"iterator", `local function it(_, i) i = shield.call(i + 1) if i <= 3 then return i end end local s = 0 for i in it, nil, 0 do s = s + i end return s`, "6"},
	{"loop body of pairs", `local s = 0 for k, v in pairs{1, 2, a = 3} do s = s + shield.call(v) end return s`, "6"},
	{"table.sort", `local t = {3, 1, 2} table.sort(t, function(a, b) return shield.call(a) < b end) return table.concat(t, ",")`, "1,2,3"},
	{"gsub callback", `return (("abc"):gsub("%w", function(c) return shield.call(c:upper()) end))`, "ABC"},
	{"gmatch loop", `local s = "" for w in ("a b"):gmatch("%a") do s = s .. shield.call(w) end return s`, "ab"},
	{"tail call", `local function f(x) return shield.call(x) end return f(10)`, "10"},
	{"tail call through pcall", `local function f(x) return pcall(shield.call, x) end return f(10)`, "true 10"},
	{"method", `local o = {v = 11} function o:get() return shield.call(self.v) end return o:get()`, "11"},
	{"upvalue kept", `local n = 42 local function f() shield.call() n = n + 1 return n end local ok, v = pcall(f) return v, n`, "43 43"},
	{"coroutine.wrap", `return coroutine.wrap(function(x) return shield.call(x) end)(12)`, "12"},
	{"coroutine.resume", `local co = coroutine.create(function(x) local y = shield.call(x) local z = coroutine.yield(y) return shield.call(z) end)
		local a = {coroutine.resume(co, 1)} local b = {coroutine.resume(co, 2)} return a[2], b[2], coroutine.status(co)`, "1 2 dead"},
	{"nested coroutines", `return coroutine.wrap(function() return coroutine.wrap(function() return pcall(shield.call, 13) end)() end)()`, "true 13"},
	{"yield inside pcall", `local co = coroutine.wrap(function() local ok, v = pcall(function() return coroutine.yield(shield.call(1)) end) return v end) return co(), co(2)`, "1 2"},
	{"require", `return require("waits").v`, "14"},
	{"load", `return loadstring("return shield.call(15)")()`, "15"},
}

func TestSuspendAnywhere(t *testing.T) {
	w := newWorld(t, Config{Files: files{"waits.lua": `local M = {} M.v = shield.call(14) return M`}})
	for _, tt := range suspendPlaces {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, w, VMConfig{})
			b.do(`ran = 0 function meanwhile() ran = ran + 1 local t = {} for i = 1, 50 do t[i] = tostring(i) end return coroutine.wrap(function() return #t end)() end`)
			if got := b.do(tt.src); got != tt.want {
				t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
			}
			if b.do(`return ran > 0`) != "true" {
				t.Error("no other turn ran while it waited")
			}
		})
	}
}

// A turn may suspend hundreds of times without its stack growing.
func TestSuspendInALoop(t *testing.T) {
	b := oneBox(t, VMConfig{})
	if got := b.do(`local s = 0 for i = 1, 300 do s = s + shield.call(i) end return s`); got != "45150" {
		t.Errorf("sum = %s, want 45150", got)
	}
}

func TestParkedTurnsShowTheirStacks(t *testing.T) {
	var parked []ParkedTurn
	w := newWorld(t, Config{Files: files{}})
	b := newBox(t, w, VMConfig{})
	b.vm.Globals().RawSetString("look", w.libs.value(w.libs.thread, func(*lua.LState) int { parked = b.vm.Parked(); return 0 }))
	b.do(`function meanwhile() look() end`)
	b.do("local function inner()\n  shield.call(1)\nend\nlocal co = coroutine.wrap(function()\n  pcall(inner)\nend)\nco()")
	if len(parked) != 1 || parked[0].What != "shield.call" || parked[0].Data != "turn" {
		t.Fatalf("Parked() = %+v, want one turn in shield.call", parked)
	}
	for _, want := range []string{"test.lua:2: in function <test.lua:1>", "coroutine", "test.lua:7: in main chunk"} {
		if !strings.Contains(parked[0].Stack, want) {
			t.Errorf("the stack lacks %q:\n%s", want, parked[0].Stack)
		}
	}
}

// A Go function finds its turn and its owner from any stack.
func TestTurnOf(t *testing.T) {
	var seen []any
	w := newWorld(t, Config{Files: files{}, Shield: Lib{"who": func(L *lua.LState) int { seen = append(seen, TurnOf(L), OwnerOf(L)); return 0 }}})
	b := newBox(t, w, VMConfig{})
	b.do(`shield.who() co = coroutine.create(function() shield.who() coroutine.yield() shield.who() end) coroutine.resume(co)`)
	fn := b.compile(`coroutine.resume(co)`)
	b.hold()
	h := b.w.Take()
	if _, err := b.vm.Run(h, Call{Fn: fn, Data: "another"}); err != nil {
		t.Error(err)
	}
	h.Give()
	b.pass()
	want := []any{"turn", b, "turn", b, "another", b}
	for i := range want {
		if i >= len(seen) || seen[i] != want[i] {
			t.Fatalf("saw %v, want %v", seen, want)
		}
	}
}
