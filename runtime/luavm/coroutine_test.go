package luavm

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestCoroutinesAreLuas(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"values both ways", `local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) return c * 2 end)
			local _, x = coroutine.resume(co, 1, 2) local _, y = coroutine.resume(co, 5) return x, y, coroutine.status(co)`, "3 10 dead"},
		{"argc is kept", `local co = coroutine.wrap(function(...) return select('#', coroutine.yield(select('#', ...))) end) return co(nil, nil), co(nil, 1, nil)`, "2 3"},
		{"dead", `local co = coroutine.create(function() end) coroutine.resume(co) return coroutine.resume(co)`, "false cannot resume dead coroutine"},
		{"wrap of a dead one", `local f = coroutine.wrap(function() end) f() return pcall(f)`, "false test.lua:1: cannot resume dead coroutine"},
		{"error inside", `local co = coroutine.create(function() error("oops", 0) end) local a, b = coroutine.resume(co) return a, b, coroutine.status(co)`, "false oops dead"},
		{"error value", `local e = {} local co = coroutine.create(function() error(e) end) local _, v = coroutine.resume(co) return v == e`, "true"},
		{"error out of wrap", `local f = coroutine.wrap(function() error("oops") end) return pcall(f)`, "false test.lua:1: oops"},
		{"not a function", `return pcall(coroutine.create, 1)`, "false test.lua:1: bad argument #1 to (anonymous) (function expected, got number)"},
		{"running outside", `return coroutine.running()`, "nil"},
		{"running inside", `local co co = coroutine.create(function() return coroutine.running() == co end) return coroutine.resume(co)`, "true true"},
		{"type", `return type(coroutine.create(print))`, "thread"},
		{"yield outside", `return pcall(coroutine.yield, 1)`, "false test.lua:1: attempt to yield from outside a coroutine"},
		{"status normal", `local a a = coroutine.create(function() local b = coroutine.create(function() return coroutine.status(a) end) return select(2, coroutine.resume(b)) end) return coroutine.resume(a)`, "true normal"},
		{"resumes itself", `local co co = coroutine.wrap(function() return coroutine.resume(coroutine.running()) end) return co()`, "false cannot resume non-suspended coroutine"},
		{"two resume each other", `local a, b a = coroutine.create(function() return coroutine.resume(b) end) b = coroutine.create(function() return coroutine.resume(a) end) return coroutine.resume(a)`,
			"true true false cannot resume non-suspended coroutine"},
		{"nested too deep", `local function f(n) local r = {coroutine.resume(coroutine.create(f), n + 1)} return unpack(r, 2) end local r = {f(1)} return type(r[#r])`, "string"},
		{"yield in a metamethod", `local mt = {__add = function(a, b) return coroutine.yield("add") + b end, __index = function(t, k) return coroutine.yield(k) end}
			local co = coroutine.wrap(function() local t = setmetatable({}, mt) return (t + 1) + t.x end) return co(), co(10), co(5)`, "add x 16"},
		{"yield in an iterator", `local co = coroutine.wrap(function() for v in function() return coroutine.yield("it") end do return v end end) return co(), co(7)`, "it 7"},
		{"yield in sort", `local co = coroutine.wrap(function() local t = {2, 1} table.sort(t, function(a, b) coroutine.yield("s") return a < b end) return t[1] end) local r repeat r = co() until r ~= "s" return r`, "1"},
		{"yield in gsub", `local co = coroutine.wrap(function() return (("ab"):gsub(".", function(c) return coroutine.yield(c) end)) end) return co(), co("x"), co("y")`, "a b xy"},
		{"yield across pcall", `local co = coroutine.wrap(function() return pcall(function() error(coroutine.yield(1), 0) end) end) return co(), co("e")`, "1 false e"},
		{"generator", `local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end local s = 0 for v in gen(100) do s = s + v end return s`, "5050"},
		{"upvalue of a suspended one", `local get local co = coroutine.wrap(function() local n = 1 get = function(d) n = n + d return n end coroutine.yield() return n end) co() local a = get(5) local b = get(1) return a, b, co()`, "6 7 7"},
		{"upvalue after it is dead", `local get local co = coroutine.wrap(function() local n = 1 get = function() n = n + 1 return n end coroutine.yield() n = 10 end) co() get() co() return get()`, "11"},
		{"traceback of a suspended one", `local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) return (debug.traceback(co):find("test.lua:1", 1, true)) ~= nil, coroutine.resume(co)`, "true true"},
		{"isyieldable", `return coroutine.isyieldable(), coroutine.wrap(coroutine.isyieldable)()`, "false true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := oneBox(t, VMConfig{}).do(tt.src); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A turn must not resume a coroutine that another one left waiting in a call.
func TestResumeOfAWaitingCoroutineIsRefused(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`outer = coroutine.create(function() inner = coroutine.create(function() return shield.call("done") end) return coroutine.resume(inner) end)
		function meanwhile() a = {coroutine.resume(inner)} b = {coroutine.resume(outer)} c = coroutine.status(inner) end`)
	if got := b.do(`return coroutine.resume(outer)`); got != "true true done" {
		t.Errorf("the waiting coroutine gave %q, want true true done", got)
	}
	want := "false cannot resume: waiting in shield.call false cannot resume: waiting in shield.call running"
	if got := b.do(`return a[1], a[2], b[1], b[2], c`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Coroutines of one turn can go on in the next.
func TestCoroutineOutlivesItsTurn(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`co = coroutine.create(function() local s = 0 while true do s = s + coroutine.yield(s) end end) coroutine.resume(co)`)
	for i := range 10 {
		b.do(fmt.Sprintf("coroutine.resume(co, %d)", i))
	}
	if got := b.do(`return coroutine.resume(co, 0)`); got != "true 45" {
		t.Errorf("got %q, want true 45", got)
	}
}

func TestCoroutineLimit(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{Coroutines: 20}})
	got := b.do(`keep = {} for i = 1, 50 do local co = coroutine.create(coroutine.yield) local ok, why = coroutine.resume(co) if not ok then return i, why end keep[i] = co end`)
	if want := "20 coroutine_limit: the service has 20 handlers and coroutines in flight (max_coroutines)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := b.do(`for _, co in ipairs(keep) do coroutine.resume(co) end return coroutine.resume(coroutine.create(function() return "free" end))`); got != "true free" {
		t.Errorf("after they ended: %q, want true free", got)
	}
}

// abandoned are coroutines that nobody can resume, each held by something that
// a naive design would keep alive for ever.
var abandoned = map[string]string{
	"plain":                `coroutine.wrap(function() coroutine.yield() end)()`,
	"knows itself":         `local co co = coroutine.create(function() local me = co coroutine.yield(me) end) coroutine.resume(co)`,
	"in a metamethod":      `local co co = coroutine.create(function() return setmetatable({co}, {__index = function() coroutine.yield() end}).x end) coroutine.resume(co)`,
	"in pcall":             `local co co = coroutine.create(function() pcall(function() coroutine.yield(co) end) end) coroutine.resume(co)`,
	"in an iterator":       `local co co = coroutine.create(function() for _ in function() coroutine.yield(co) end do end end) coroutine.resume(co)`,
	"with an open upvalue": `local co co = coroutine.create(function() local n = co local f = function() n = n end coroutine.yield(f) f() end) coroutine.resume(co)`,
	"after others ran":     `for i = 1, 3 do local co co = coroutine.wrap(function() local x = co coroutine.yield() end) co() end`,
}

func TestAbandonedCoroutinesAreReclaimed(t *testing.T) {
	for name, src := range abandoned {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Files: files{}})
			b := newBox(t, w, VMConfig{})
			b.do(fmt.Sprintf("for i = 1, 100 do %s end", src))
			deadline := time.Now().Add(10 * time.Second) // real: the collector decides when
			for {
				runtime.GC()
				w.reap()
				b.hold()
				b.vm.prune()
				live := len(b.vm.coroutines)
				b.pass()
				s := w.Stats()
				if live == 0 && s.CoroutineGoroutines-s.Waiting == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d coroutines and %d of their goroutines are still there", live, s.CoroutineGoroutines-s.Waiting)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// At the limit, the forgotten ones make room without anybody waiting for the
// collector.
func TestForgottenCoroutinesDoNotCount(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{Coroutines: 50}})
	if got := b.do(`for i = 1, 60 do local ok, why = coroutine.resume(coroutine.create(function() coroutine.yield() end)) if not ok then return i, why end end return "all"`); got != "all" {
		t.Errorf("got %q, want all", got)
	}
}

func TestAbortReachesIntoCoroutines(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: 30 * time.Millisecond}})
	for _, src := range []string{
		`coroutine.wrap(function() while true do end end)()`,
		`while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end`,
		`coroutine.wrap(function() coroutine.wrap(function() while true do pcall(coroutine.wrap(function() end)) end end)() end)()`,
	} {
		_, err := b.try(src)
		if err == nil || err.Kind != KindTimeout || err.File != "test.lua" || err.Line != 1 {
			t.Errorf("%s: %+v, want a timeout at test.lua:1", src, err)
		}
	}
	if got := b.do(`return coroutine.wrap(function() return "sane" end)()`); got != "sane" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestWrapKeepsTheInnerTraceback(t *testing.T) {
	b := oneBox(t, VMConfig{})
	_, err := b.try("local function deep()\n  error('oops')\nend\nlocal co = coroutine.wrap(function()\n  deep()\nend)\nco()")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"test.lua:2:", "'deep'", "in coroutine", "test.lua:7:"} {
		if !strings.Contains(err.Traceback, want) {
			t.Errorf("the traceback lacks %q:\n%s", want, err.Traceback)
		}
	}
}

func BenchmarkResumeYield(b *testing.B) {
	x := oneBox(b, VMConfig{Limits: Limits{HandlerTime: time.Hour}})
	x.do(fmt.Sprintf(`local co = coroutine.wrap(function() while true do coroutine.yield() end end) for i = 1, %d do co() end`, b.N))
}

func BenchmarkCreateRun(b *testing.B) {
	x := oneBox(b, VMConfig{Limits: Limits{HandlerTime: time.Hour}})
	x.do(fmt.Sprintf(`local function f() end for i = 1, %d do coroutine.wrap(f)() end`, b.N))
}
