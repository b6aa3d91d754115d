package luavm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What a script adds to a library works like anywhere else in Lua, in its own
// VM only.
func TestLibrariesAreExtensiblePerVM(t *testing.T) {
	w := newWorld(t, Config{Files: files{}})
	a, b := newBox(t, w, VMConfig{}), newBox(t, w, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`function string.split(s) return "split:" .. s end return string.split("x"), ("y"):split()`, "split:x split:y"},
		{`table.unpack = table.unpack or unpack return table.unpack({1, 2})`, "1 2"},
		{`local n = 0 for k in pairs(string) do n = n + 1 end return n > 14`, "true"},
		{`local seen for k in pairs(_G) do if k == "pairs" then seen = true end end return seen`, "true"},
		{`math.tau = 2 * math.pi return math.floor(math.tau)`, "6"},
		{`local old = string.upper function string.upper(s) return old(s) .. "!" end return ("a"):upper()`, "A!"},
		{`print = 7 pcall = 8 return print, pcall`, "7 8"},
		{`rawset(math, "x", 1) return math.x`, "1"},
		{`table.insert(table, "y") return table[1]`, "y"},
		{`_G.newglobal = 1 return newglobal, rawget(_G, "newglobal"), _G == _G._G`, "1 1 true"},
		{`setmetatable(_G, {__newindex = function(t, k, v) rawset(t, k, v * 2) end, __index = function(t, k) return "no " .. k end}) z = 4 return z, nothing, type(tostring), type(math)`, "8 no nothing function table"},
		{`return type(math), type(string), type(shield)`, "table table table"},
	} {
		if got := a.do(tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
	if got := b.do(`return string.split, table.y, math.tau, math.x, newglobal, z, ("a"):upper(), table[1], type(print)`); got != "nil nil nil nil nil nil A nil function" {
		t.Errorf("another VM sees %q", got)
	}
}

// No path leads from a script to a table that other VMs share.
func TestSharedTablesAreLocked(t *testing.T) {
	w := newWorld(t, Config{Files: files{}})
	for _, src := range []string{
		`shield.call = 1`, `shield.extra = 1`, `shield.log.info = 1`, `shield.log.extra = 1`, `rawset(shield, "x", 1)`, `rawset(shield.log, "x", 1)`,
		`table.insert(shield, 1)`, `table.remove(shield)`, `table.sort(shield)`, `setmetatable(shield, {})`, `setmetatable(shield.log, nil)`,
		`getmetatable("").__index = 1`, `getmetatable(shield).__index = nil`, `for k in pairs(shield) do shield[k] = nil end`,
		`setfenv(print, {})`, `setfenv(0, {})`, `setmetatable("", {})`, `string.gsub("x", "x", shield).y.z = 1`,
	} {
		b := newBox(t, w, VMConfig{})
		if _, err := b.try(src); err == nil || err.Kind != KindError {
			t.Errorf("%s: %v, want an error", src, err)
		}
	}
	hostile := newBox(t, w, VMConfig{})
	hostile.do(`
		for k in pairs(shield) do local copy = select(2, pairs(shield)) copy[k] = "stolen" end
		local _, t = pairs(shield.log) t.info = "stolen"
		for k, v in pairs(_G) do _G[k] = "stolen" end`)
	hostile = newBox(t, w, VMConfig{})
	hostile.do(`local s, l = string, {string, table, math, coroutine, os, utf8, debug, package}
		for _, lib in ipairs(l) do for k in pairs(lib) do lib[k] = "stolen" end end
		getfenv(print).print = "stolen" getfenv(0).type = "stolen" getfenv(loadstring).pairs = "stolen"
		loadstring("tostring = 'stolen'")()`)
	if got := newBox(t, w, VMConfig{}).do(`return type(shield.call), type(shield.log.info), ("a"):upper(), math.floor(1.5), type(print), type(type), type(pairs), type(tostring), coroutine.wrap(function() return 1 end)()`); got != "function function A 1 function function function function 1" {
		t.Errorf("after a hostile script another VM sees %q", got)
	}
}

func TestBaseFunctions(t *testing.T) {
	b := oneBox(t, VMConfig{Seed: 1})
	for _, tt := range []struct{ src, want string }{
		{`return tonumber("1e5"), tonumber(" 0x10 "), tonumber("z", 36), tonumber("8", 8), tonumber(""), tonumber("inf"), tonumber("1_0"), tonumber("0x"), tonumber("-7"), tonumber({})`, "100000 16 35 nil nil nil nil nil -7 nil"},
		{`return select('#', nil, nil), select(-1, 1, 2), select(2, "a", "b")`, "2 2 b"},
		{`return pcall(error, {code = 1})`, "x"},
		{`return pcall(error)`, "false nil"},
		{`local function f() error("deep", 2) end local ok, e = pcall(function()
			f() end) return e`, "test.lua:2: deep"},
		{`return pcall(assert, false, "m"), pcall(assert, nil)`, "false false test.lua:1: assertion failed!"},
		{`local t = {} local ok, e = pcall(assert, false, t) return e == t`, "true"},
		{`return rawequal("a", "a"), rawlen({1, 2}), rawget(setmetatable({}, {__index = function() return 1 end}), "x")`, "true 2 nil"},
		{`return unpack({1, 2, 3}, 2)`, "2 3"},
		{`return xpcall(function() error("e") end, function(m) return "h:" .. m end)`, "false h:test.lua:1: e"},
		{`local function deep() error("e") end local _, tb = xpcall(function() deep() end, debug.traceback) return tb:find("'deep'") ~= nil`, "true"},
		{`return xpcall(nil, function(m) return m end)`, "false attempt to call a nil value"},
		{`return pcall(xpcall, error, function() error("again", 0) end)`, "true false again"},
		{`local up = 42 local get local ok = xpcall(function() local v = up get = function() return v end error("x") end, tostring) local junk = {1, 2, 3} return ok, get()`, "false 42"},
		{`return math.log10(1000), math.log(1000, 10), math.log(8, 2), math.log(1e15, 10), math.log10(0)`, "3 3 3 15 -Inf"},
		{`return pcall(next, {a = 1}, "b")`, "false test.lua:1: invalid key to 'next': the table does not have it"},
		{`local t, s = {1, 2, 3, a = 1, b = 2}, "" for k in pairs(t) do s = s .. k if k == 3 then table.remove(t) end end return s`, "123ab"},
		{`local t, s = {1, a = 1, b = 2}, "" for k in pairs(t) do s = s .. k if k == 1 then table.remove(t) end end return s`, "1ab"},
		{`local t, s = {[0] = "z", [-1] = "y", [2.5] = "x", [2 ^ 53] = "w"}, "" for k, v in pairs(t) do s = s .. v t[k] = nil end return #s, next(t)`, "4 nil"},
		{`local t = {[0] = "z", 1} return table.remove(t, 0), t[0], table.remove(t, 5), #t`, "nil z nil 1"},
		{`return collectgarbage("count") > 0, collectgarbage(), collectgarbage("step")`, "true 0 true"},
		{`return #table.pack(1, nil, 3), table.pack(1, nil).n, table.concat({1, 2, 3}, "-", 2, 3), table.concat({})`, "3 2 2-3 "},
		{`local t = {1, 2, 3} t[3] = nil return table.remove(t), #t, table.remove({}), table.remove({5, 6}, 1)`, "2 1 nil 5"},
		{`local t = {3, 1, 2} table.sort(t) return t[1], t[2], t[3], table.maxn({1, 2, [10] = 3})`, "1 2 3 10"},
		{`math.randomseed(5) local a = math.random(100) math.randomseed(5) return a == math.random(100), math.random() < 1, math.random(3, 3)`, "true true 3"},
		{`return math.huge == 1/0, math.max(1, 3, 2), math.min(2, 1), math.fmod(7, 3), math.modf(3.5)`, "true 3 1 1 3 0.5"},
		{`return load("return 1 + 1")(), load(function() return nil end), loadstring("x =")`, "x"},
		{`local i = 0 return load(function() i = i + 1 return ({"return ", "7"})[i] end)()`, "7"},
		{`x = 5 local f = loadstring("return x") return f(), setfenv(f, {x = 6})(), getfenv(f).x`, "5 6 6"},
		{`return utf8.char(72, 228, 8364), utf8.len("hä€"), utf8.codepoint("ä", 1), utf8.offset("hä€", 3), utf8.len("\255")`, "Hä€ 3 228 4 nil 1"},
		{`local s = "" for p, c in utf8.codes("hä") do s = s .. p .. ":" .. c .. " " end return s`, "1:104 2:228 "},
		{`local n = 0 for c in ("hä€"):gmatch(utf8.charpattern) do n = n + 1 end return n`, "3"},
		{`return next({}), next({5}), type(next), pairs({}) == next`, "x"},
		{`return os.getenv, os.execute, os.exit, io, dofile, loadfile, module, newproxy, debug.sethook, debug.getupvalue`, "nil nil nil nil nil nil nil nil nil nil"},
		{`return debug.getinfo(1, "l").currentline, debug.getinfo(print).what, debug.getinfo(99)`, "1 G nil"},
		{`local t = setmetatable({}, {__metatable = "mine"}) return getmetatable(t), pcall(setmetatable, t, {})`, "mine false test.lua:1: cannot change a protected metatable"},
	} {
		got := b.do(tt.src)
		if tt.want == "x" {
			continue // runs without an error
		}
		if got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
}

func TestClockIsTheBusinessClock(t *testing.T) {
	now := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	b := oneBox(t, VMConfig{Now: func() time.Time { return now }})
	for _, tt := range []struct{ src, want string }{
		{`return os.time()`, "1935817689"},
		{`return os.date("%Y-%m-%d %H:%M:%S"), os.date("!%j %a %p %y")`, "2031-05-06 07:08:09 126 Tue AM 31"},
		{`local d = os.date("*t") return d.year, d.month, d.day, d.hour, d.min, d.sec, d.wday, d.yday, d.isdst`, "2031 5 6 7 8 9 3 126 false"},
		{`return os.time{year = 2031, month = 5, day = 6, hour = 7, min = 8, sec = 9}`, "1935817689"},
		{`return os.date("%Y", 0), os.difftime(5, 3), os.clock() < 100`, "1970 2 true"},
		{`return os.date("%e|%R|%r|%h|%n|%t|", 0)`, " 1|00:00|12:00:00 AM|Jan|\n|\t|"},
		{`return os.date("%c|%x|%X|%%|%Q", 0)`, "Thu Jan  1 00:00:00 1970|01/01/70|00:00:00|%|%Q"},
	} {
		if got := b.do(tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
	now = now.Add(24 * time.Hour)
	if got := b.do(`return os.date("%d")`); got != "07" {
		t.Errorf("after a shift of a day: %s", got)
	}
}

func TestRandomIsSeededPerVM(t *testing.T) {
	w := newWorld(t, Config{Files: files{}})
	src := `local s = "" for i = 1, 5 do s = s .. math.random(1000) .. " " end return s`
	a, b, c := newBox(t, w, VMConfig{Seed: 7}).do(src), newBox(t, w, VMConfig{Seed: 7}).do(src), newBox(t, w, VMConfig{}).do(src)
	if a != b || a == c {
		t.Errorf("seed 7: %q and %q, no seed: %q", a, b, c)
	}
}

// A scratch VM loads a new version without a trace in the live world.
func TestInertVM(t *testing.T) {
	calls := 0
	w := newWorld(t, Config{Shield: Lib{
		"send":    func(L *lua.LState) int { calls++; L.Push(lua.LTrue); return 1 },
		"cluster": Lib{"nodes": func(L *lua.LState) int { calls++; return 0 }},
		"client_rpc": Lib{Missing: Resolver(func(L *lua.LState, key string) lua.LValue {
			return &lua.LFunction{IsG: true, GFunction: func(L *lua.LState) int {
				if !Inert(L) {
					calls++
				}
				return 0
			}}
		})},
	}})
	f := files{"s.lua": `shield.send("x", "y") shield.call("z") shield.cluster.nodes() local f = shield.client_rpc.hello f(1)
		return {sent = shield.send("a"), null = shield.null, json = shield.json.encode({})}`}
	vm := w.NewVM(VMConfig{Files: f, Inert: true})
	h := w.Take()
	m, err := vm.Load(h, "s.lua", nil)
	if err != nil {
		t.Fatal(err)
	}
	v := m.Value.(*lua.LTable)
	if calls != 0 || v.RawGetString("sent") != lua.LNil || v.RawGetString("null").Type() != lua.LTUserData || v.RawGetString("json") != lua.LString("{}") {
		t.Errorf("%d live calls; got %v %v %v", calls, v.RawGetString("sent"), v.RawGetString("null"), v.RawGetString("json"))
	}
	if got := newBox(t, w, VMConfig{}).do(`shield.client_rpc.hello() return shield.send("x")`); got != "true" || calls != 2 {
		t.Errorf("the live table gives %q after %d calls", got, calls)
	}
}

func TestPrintGoesToTheHook(t *testing.T) {
	var lines []string
	w := newWorld(t, Config{Files: files{}, Print: func(L *lua.LState, line string) { lines = append(lines, line) }})
	newBox(t, w, VMConfig{}).do(`print("a", 1, nil, true) print() print(("x"):rep(1e6))`)
	if len(lines) != 3 || lines[0] != "a\t1\tnil\ttrue" || len(lines[2]) > maxLine+8 {
		t.Errorf("printed %d lines, first %q", len(lines), lines[0])
	}
}

// memFS is a file system in memory below data/.
type memFS map[string]*bytes.Buffer

func (m memFS) OpenFile(path, mode string) (File, error) {
	if !strings.HasPrefix(path, "data/") {
		return nil, errors.New("is outside the folders that lua.sandbox opens")
	}
	b, ok := m[path]
	switch {
	case mode[0] == 'w':
		b = new(bytes.Buffer)
		m[path] = b
	case !ok:
		return nil, fs.ErrNotExist
	}
	return &memFile{buf: b, Reader: bytes.NewReader(bytes.Clone(b.Bytes()))}, nil
}
func (m memFS) Remove(path string) error     { delete(m, path); return nil }
func (m memFS) Rename(from, to string) error { m[to] = m[from]; delete(m, from); return nil }

type memFile struct {
	*bytes.Reader
	buf *bytes.Buffer
}

func (f *memFile) Write(p []byte) (int, error) { return f.buf.Write(p) }
func (f *memFile) Close() error                { return nil }

var _ io.Seeker = (*memFile)(nil)

func TestIOBelowAllowedFolders(t *testing.T) {
	disk := memFS{}
	w := newWorld(t, Config{Files: files{}, AllowIO: true, AllowOS: true, FS: disk, Getenv: func(n string) (string, bool) { return "v-" + n, n == "HOME" }})
	b := newBox(t, w, VMConfig{})
	for _, tt := range []struct{ src, want string }{
		{`local f = io.open("data/a.txt", "w") f:write("one\ntwo\n", 3, "\n") f:close() return io.type(f), pcall(f.write, f, "x")`, "closed file false test.lua:1: attempt to use a closed file"},
		{`local f = io.open("data/a.txt") return f:read(), f:read("*a"), f:read(), f:seek("set", 4), f:read(3), f:read("*n")`, "one two\n3\n nil 4 two 3"},
		{`local t = {} for l in io.lines("data/a.txt") do t[#t + 1] = l end return table.concat(t, ",")`, "one,two,3"},
		{`return io.open("/etc/passwd")`, "nil /etc/passwd: is outside the folders that lua.sandbox opens"},
		{`return io.open("data/none")`, "nil data/none: file does not exist"},
		{`return pcall(io.open, "data/a", "z")`, "false test.lua:1: bad argument #2 to (anonymous) (invalid mode)"},
		{`local f = io.open("data/n.txt", "w") f:write("1 2.5\n-0x10,7") f:close() f = io.open("data/n.txt") local a, b, c = f:read("*n", "*n", "*n") return a, b, c, f:read(1), f:read("*n"), f:read(0), f:read(0)`, "1 2.5 -16 , 7 nil nil"},
		{`local f = io.open("data/n.txt") return f:read(0), f:read(0), f:read(100), f:read(100), f:read("*a"), f:read("*l")`, "  1 2.5\n-0x10,7 nil  nil"},
		{`return os.getenv("HOME"), os.getenv("X"), os.rename("data/a.txt", "data/b.txt"), os.remove("data/b.txt"), os.execute, os.exit, io.popen`, "v-HOME nil true true nil nil nil"},
	} {
		if got := b.do(tt.src); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
}

func TestIntern(t *testing.T) {
	b := oneBox(t, VMConfig{})
	made := 0
	mk := func() *lua.LUserData { made++; return &lua.LUserData{Value: made, Metatable: lua.LNil} }
	first := b.vm.Intern("h1", mk)
	if b.vm.Intern("h1", mk) != first || b.vm.Intern("h2", mk) == first || made != 2 {
		t.Errorf("equal keys gave different values (%d made)", made)
	}
	for i := range 10000 {
		b.vm.Intern(i, mk)
		if i%1000 == 0 {
			heap() // collects what Lua does not hold
		}
	}
	if n := len(b.vm.interned); n > 4000 {
		t.Errorf("%d values are remembered that nobody holds", n)
	}
	if b.vm.Intern("h1", mk) != first {
		t.Error("a value that is held was forgotten")
	}
}

// Two worlds share nothing, and a world works inside a synctest bubble.
func TestWorldInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWorld(Config{Files: files{"m.lua": `return {f = function() return coroutine.wrap(function() return os.time() end)() end}`}})
		if err != nil {
			t.Fatal(err)
		}
		vm := w.NewVM(VMConfig{})
		h := w.Take()
		m, err := vm.Load(h, "m.lua", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Hour)
			got, rerr := vm.Run(h, Call{Fn: m.Value.(*lua.LTable).RawGetString("f")})
			if rerr != nil || got[0] != lua.LNumber(time.Now().Unix()) {
				t.Errorf("got %v, %v", got, rerr)
			}
		}
		vm.Close()
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
