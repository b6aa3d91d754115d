package luavm

import (
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// What a single call of the library could do to the process: each is refused
// before it takes time or memory that no limit would see.
func TestLibraryCallsAreBounded(t *testing.T) {
	w := newWorld(t, Config{Files: files{}, AllowIO: true, AllowOS: true, FS: memFS{}, Print: func(*lua.LState, string) {}})
	for _, tt := range []struct{ name, src, want string }{
		{"captures in a replacement", `return ("x"):rep(3e7):gsub("^.*", ("%0"):rep(60))`, "string.gsub"},
		{"a long date", `os.date(("%c"):rep(3e7))`, "too long"},
		{"a long line", `local t = {} for i = 1, 40000 do t[i] = "x" end t[1] = ("x"):rep(65536) for i = 2, 40000 do t[i] = t[1] end io.write(unpack(t)) error("fine")`, "fine"},
		{"a chunk with a long name", `local f = loadstring("local function f(n) if n == 0 then error('x') end return 1 + f(n - 1) end f(150)", ("x"):rep(3e7)) local _, e = pcall(f) error(#e < 1000 and "fine" or #e)`, "fine"},
		{"many constants", `local p = {} for i = 1, 65000 do p[i] = "x=" .. i .. ";" end assert(loadstring(table.concat(p)))`, "too many functions or labels"},
		{"many functions", `assert(loadstring(("function f() end "):rep(30000)))`, "too many functions or labels"},
		{"many labels", `local p = {} for i = 1, 40000 do p[i] = "::a" .. i .. ":: " end assert(loadstring(table.concat(p)))`, "too many functions or labels"},
		{"names in deep blocks", `assert(loadstring(("do "):rep(900) .. ("x=y "):rep(120000) .. ("end "):rep(900)))`, "too many functions or labels"},
		{"many files", `local t = {} for i = 1, 1000 do t[i] = assert(io.open("data/" .. i, "w")) end`, "100 files open already"},
		{"long strings in iterators", `local t = {} for i = 1, 300 do t[i] = ("x"):rep(1e6):gmatch(".") end error("not fine")`, "max_memory"},
		{"long strings in coroutines", `local t = {} for i = 1, 300 do t[i] = coroutine.wrap(function() local s = ("x"):rep(1e6) coroutine.yield() return s end) t[i]() end error("not fine")`, "max_memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, w, VMConfig{Limits: Limits{HandlerTime: time.Minute}})
			start := time.Now()
			_, err := b.try(tt.src)
			if err == nil || !strings.Contains(err.Message, tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A library call that takes long by itself hears an abort.
func TestLongLibraryCallsHearAnAbort(t *testing.T) {
	for name, src := range map[string]string{
		"gsub with a long replacement": `return (("x"):rep(1e5)):gsub("(y-)x", ("%1"):rep(2e6))`,
		"back reference":               `return (("a"):rep(1e7)):find("(a-)%1%1%1%1b")`,
		"frontier and set":             `return (("a"):rep(3e6)):find(("[abc]-"):rep(8) .. "x")`,
	} {
		t.Run(name, func(t *testing.T) {
			b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: 50 * time.Millisecond}})
			start := time.Now()
			_, err := b.try(src)
			if err == nil || err.Kind != KindTimeout {
				t.Fatalf("got %v, want a timeout", err)
			}
			if took := time.Since(start); took > 5*time.Second { // two, and a busy machine
				t.Errorf("took %v", took)
			}
		})
	}
}

// A text held in many places is there once.
func TestSharedTextEndsNoService(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`t = {} local s = ("x"):rep(1e6) for i = 1, 1000 do t[i] = {text = s, id = i} end`)
	if u := b.vm.Measure(); u.Over(64<<20) || u.Bytes < 1e6 {
		t.Errorf("one megabyte in a thousand places is said to be %d bytes", u.Bytes)
	}
}
