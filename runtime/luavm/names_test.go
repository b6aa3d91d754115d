package luavm

import (
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// TestNames is what a script's mistake is called: the value that was wrong, by
// the name it has in the source.
func TestNames(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"a parameter", `local function f(req) return req.n end f()`, `attempt to index a nil value (local 'req'), looking for field 'n'`},
		{"a second parameter", `local function f(a, b) return b.x end f(1)`, `nil value (local 'b'), looking for field 'x'`},
		{"self", `local M = {} function M:hp() return self.hp end M.hp()`, `nil value (local 'self'), looking for field 'hp'`},
		{"a local", `local t; return t.size`, `nil value (local 't'), looking for field 'size'`},
		{"a local from a call", `local m = tonumber("x"); return m.score`, `nil value (local 'm'), looking for field 'score'`},
		{"a local from a field", `local t = {} local m = t.a return m.b`, `nil value (local 'm'), looking for field 'b'`},
		{"a local that was set later", `local m = {} m = nil return m.b`, `nil value (local 'm'), looking for field 'b'`},
		{"a local that one branch set", "local m = {}\nif m then\nm = nil\nend\nreturn m.b", `nil value (local 'm'), looking for field 'b'`},
		{"of several", `local a, b, c = 1, nil, 3 return b.x`, `nil value (local 'b'), looking for field 'x'`},
		{"of a call's results", `local a, b, c = (function() return 1 end)() return c.x`, `nil value (local 'c'), looking for field 'x'`},
		{"behind a block that ended", "do\nlocal a = 1\nend\nlocal b\nreturn b.x", `nil value (local 'b'), looking for field 'x'`},
		{"in a second block", "if true then\nlocal a, aa = 1, 2\nend\nif true then\nlocal b, c\nreturn c.x\nend", `nil value (local 'c'), looking for field 'x'`},
		{"in the other branch", "local function f(p) if p then\nlocal a = 1\nreturn a\nelse\nlocal b\nreturn b.x\nend end f()", `nil value (local 'b'), looking for field 'x'`},
		{"behind loops", "local t = {1}\nfor i = 1, 2 do local z = i end\nfor k, v in pairs(t) do local y = k end\nlocal last\nreturn last.x", `nil value (local 'last'), looking for field 'x'`},
		{"a loop's variable", "for k, v in pairs({{}}) do\nlocal x = v.hp.max\nend", `nil value (field 'v.hp'), looking for field 'max'`},
		{"inside a numeric loop", "for i = 1, 3 do\nlocal w\nprint(w.x)\nend", `nil value (local 'w'), looking for field 'x'`},
		{"in one line with what has ended", `do local a = 1 end return tonumber("x").y`, `attempt to index a nil value, looking for field 'y'`},
		{"what replaces an ended local", "do\nlocal a = 1\nend\nreturn tonumber('x').y", `attempt to index a nil value, looking for field 'y'`},
		{"an upvalue", `local cfg; local function f() return cfg.size end f()`, `nil value (upvalue 'cfg'), looking for field 'size'`},
		{"a global", `return players.ann`, `nil value (global 'players'), looking for field 'ann'`},
		{"a misspelt global", `return strnig.rep`, `nil value (global 'strnig', did you mean 'string'?), looking for field 'rep'`},
		{"a misspelt local", `local members = {} return membres.x`, `nil value (global 'membres', did you mean 'members'?), looking for field 'x'`},
		{"a field", `local t = {} return t.a.b`, `nil value (field 't.a'), looking for field 'b'`},
		{"a path", `local t = {a = {b = {}}} return t.a.b.c.d`, `nil value (field 't.a.b.c'), looking for field 'd'`},
		{"a path of an upvalue", `local rooms = {} local function f() return rooms.red.state end f()`, `nil value (field 'rooms.red'), looking for field 'state'`},
		{"an index", `local t = {} return t[1].x`, `nil value (field 't[1]'), looking for field 'x'`},
		{"an odd key", `local t = {} return t["a b"].x`, `nil value (field 't["a b"]'), looking for field 'x'`},
		{"a key that is a variable", `local t, k = {}, "z" return t[k].x`, `attempt to index a nil value, looking for field 'x'`},
		{"a number as key", `local t return t[3]`, `nil value (local 't'), looking for field [3]`},
		{"writing", `local t; t.x = 1`, `nil value (local 't'), looking for field 'x'`},
		{"writing deeper", `local t = {} t.a.x = 1`, `nil value (field 't.a'), looking for field 'x'`},
		{"a function of a table", `local t = {} function t.a.b() end`, `nil value (field 't.a'), looking for field 'b'`},
		{"a boolean", `local t = true return t.x`, `boolean value (local 't'), looking for field 'x'`},
		{"a method of nil", `local t; t:go()`, `nil value (local 't'), looking for method 'go'`},
		{"an inner local hides an outer", `local x = {} do local x; return x.y end`, `nil value (local 'x'), looking for field 'y'`},

		{"calling a local", `local f; f()`, `attempt to call a nil value (local 'f')`},
		{"calling an upvalue", `local f; local function g() f() end g()`, `call a nil value (upvalue 'f')`},
		{"calling a global", `pirnt("x")`, `call a nil value (global 'pirnt', did you mean 'print'?)`},
		{"calling a field", `local t = {} t.go()`, `call a nil value (field 't.go')`},
		{"calling a field of a global", `string.nope()`, `call a nil value (field 'string.nope')`},
		{"calling a method", `local t = {} t:go()`, `call a nil value (method 'go')`},
		{"calling a string's method", `local s = "x" s:nope()`, `call a nil value (method 'nope')`},
		{"calling a result", `tonumber("x")()`, `attempt to call a nil value`},
		{"calling a table", `local t = {} t()`, `call a table value (local 't')`},
		{"a tail call", `local t = {} return t.go()`, `call a nil value (field 't.go')`},
		{"a call as argument", `local t = {} print(1, t.go(2))`, `call a nil value (field 't.go')`},
		{"a loop over nothing", `local t = {} for k in t.all do end`, `attempt to call a nil value (for iterator`},
		{"a loop over a table", `local t = {} for k in t do end`, `attempt to call a table value (for iterator`},

		{"adding nil", `local t = {} return 1 + t.n`, `attempt to perform arithmetic on a nil value (field 't.n')`},
		{"adding to nil", `local n; n = n + 1`, `arithmetic on a nil value (local 'n')`},
		{"adding a table", `local n = {} return n * 2`, `arithmetic on a table value (local 'n')`},
		{"adding a text", `local n = "x" return n - 2`, `arithmetic on a string value (local 'n'): "x" is no number`},
		{"a global sum", `score = score + 1`, `arithmetic on a nil value (global 'score')`},
		{"minus", `local n; return -n`, `arithmetic on a nil value (local 'n')`},
		{"length", `local n; return #n`, `attempt to get length of a nil value (local 'n')`},
		{"length of a field", `local t = {} return #t.list`, `length of a nil value (field 't.list')`},
		{"joining", `local n; return "a" .. n .. "b"`, `attempt to concatenate a nil value (local 'n')`},
		{"joining a field", `local p = {} return "hello " .. p.name`, `concatenate a nil value (field 'p.name')`},
		{"comparing", `local a, b = nil, 3 return a < b`, `attempt to compare nil with number (local 'a' is a nil, local 'b' is a number)`},
		{"comparing a field", `local t = {} if t.n >= 3 then end`, `(field 't.n' is a nil)`},
		{"a loop without limit", `local n; for i = 1, n do end`, `'for' limit must be a number, and is a nil`},
		{"a loop from a text", `for i = "a", 2 do end`, `'for' initial value must be a number, and is a string`},

		{"an argument", `local t; for k in pairs(t) do end`, `bad argument #1 to pairs (table expected, got nil: local 't' is nil)`},
		{"an argument that is a field", `local t = {} table.insert(t.list, 1)`, `bad argument #1 to insert (table expected, got nil: field 't.list' is nil)`},
		{"an argument that is missing", `table.insert()`, `bad argument #1 to insert (table expected, got nil)`},
		{"what a script says itself", `error("attempt to index a non-table object(nil) with key 'x'")`, `attempt to index a non-table object(nil) with key 'x'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := oneBox(t, VMConfig{})
			_, err := b.try(tt.src)
			if err == nil {
				t.Fatalf("%s\nhas not failed", tt.src)
			}
			if !strings.HasPrefix(err.Message, "test.lua:") || !strings.HasSuffix(strings.SplitN(err.Message+"\n", "\n", 2)[0], tt.want) && !strings.Contains(err.Message, tt.want) {
				t.Errorf("%s\nsays %q\nwant   %q", tt.src, err.Message, tt.want)
			}
			caught := b.do("return select(2, pcall(function(...) " + tt.src + "\nend))")
			if strings.Contains(tt.want, "local '") || strings.Contains(tt.want, "value (field") {
				if !strings.Contains(caught, tt.want) {
					t.Errorf("pcall of\n%s\ngives %q\nwant  %q", tt.src, caught, tt.want)
				}
			}
		})
	}
}

// FuzzNames runs any source: what is said of its errors must never fail itself,
// and whatever compiles has globals that can be listed.
func FuzzNames(f *testing.F) {
	for _, src := range []string{
		`local t; return t.x`, `local a, b = 1 return a.b.c .. b`, `for i = 1, nil do end`, `for k in 3 do end`, `return #x < -y`,
		`local function f(...) return arg.n.x, ... end return f(1)`, `do local a end local b b:c()`, `repeat local z until z.y`,
		`while true do local q = 1 if q then break end end return q.r`, `goto done local x ::done:: return ({}).x.y`,
		`pairs()`, `table.insert(t.x, 1)`, `return setmetatable({}, {__index = function(t, k) return k.z.y end}).a`,
	} {
		f.Add(src)
	}
	w := newWorld(f, Config{Files: files{}})
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 2000 {
			return
		}
		code, err := compile("test.lua", src)
		if err != nil {
			return
		}
		if _, err := Globals("test.lua", []byte(src)); err != nil {
			t.Fatalf("Globals of what compiles: %v", err)
		}
		vm := w.NewVM(VMConfig{Limits: Limits{HandlerTime: 50 * time.Millisecond, Memory: 64 << 20}})
		defer vm.Close()
		h := w.Take()
		defer h.Give()
		if _, re := vm.Run(h, Call{Fn: vm.closure(code.Proto)}); re != nil && re.Kind == KindPanic {
			t.Fatalf("%s\n%s\n%s", src, re.Message, re.Traceback)
		}
	})
}

// TestNamesAreUnsure leaves a value nameless where two things could be meant.
func TestNamesAreUnsure(t *testing.T) {
	for _, src := range []string{
		`local a = {} return (a.x or a.y).z`,
		`return ((...) and {}).x`,
		`local t = setmetatable({}, {__index = true}) return t.x`,
	} {
		b := oneBox(t, VMConfig{})
		if _, err := b.try(src); err == nil || strings.Contains(err.Message, "'a.x'") || strings.Contains(err.Message, "value (") {
			t.Errorf("%s says %v", src, err)
		}
	}
}

// TestPcall compares pcall with gopher-lua's own PCall, in what both leave of a
// stack.
func TestPcall(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.hold()
	defer b.pass()
	h := b.w.Take()
	defer h.Give()
	fn := b.compile(`local a = ... if a then local t; return t.x end return 1, 2, 3`)
	gofn := lua.NewState().NewFunction(func(L *lua.LState) int {
		type mark struct{ top, sp, n int }
		look := func(n int) mark { return mark{registryOf(L).top, framesOf(L).sp, n} }
		before := look(0)
		for _, arg := range []lua.LValue{lua.LTrue, lua.LFalse} {
			L.Push(fn)
			L.Push(arg)
			theirs := L.PCall(1, lua.MultRet, nil)
			want := look(L.GetTop())
			L.SetTop(want.n - (want.top - before.top))
			L.Push(fn)
			L.Push(arg)
			ours := pcall(L, 1, lua.MultRet)
			if got := look(L.GetTop()); got != want || (ours == nil) != (theirs == nil) {
				t.Errorf("with %v: %+v, %v; PCall leaves %+v, %v", arg, got, ours, want, theirs)
			}
			L.SetTop(L.GetTop() - (look(0).top - before.top))
		}
		return 0
	})
	if _, err := b.vm.Run(h, Call{Fn: gofn}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkThrow is an error that pcall catches.
func BenchmarkThrow(b *testing.B) {
	for name, src := range map[string]string{
		"index": `local t for i = 1, 1000 do pcall(function() return t.x end) end`,
		"error": `for i = 1, 1000 do pcall(error, "x") end`,
		"none":  `local f = function() end for i = 1, 1000 do pcall(f) end`,
	} {
		b.Run(name, func(b *testing.B) {
			x := oneBox(b, VMConfig{})
			fn := x.compile(src)
			x.hold()
			defer x.pass()
			h := x.w.Take()
			defer h.Give()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.vm.Run(h, Call{Fn: fn}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTraceLeavesOutNameless keeps functions without a name out of tracebacks:
// what a misspelt shield.x runs is one of ours.
func TestTraceLeavesOutNameless(t *testing.T) {
	b := oneBox(t, VMConfig{})
	missing := lua.NewState().NewFunction(func(L *lua.LState) int { L.RaiseError("there is no %s", L.Get(2)); return 0 })
	_, err := b.try("local t = setmetatable({}, {__index = ...})\nreturn t.cofnig", missing)
	if err == nil || err.Message != "test.lua:2: there is no cofnig" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Traceback, "[Go]") || !strings.Contains(err.Traceback, "test.lua:2: in ") {
		t.Errorf("the traceback is\n%s", err.Traceback)
	}
}

func TestMisspelt(t *testing.T) {
	names := []string{"players", "pairs", "print", "type", "members"}
	for name, want := range map[string]string{"playres": "players", "pirnt": "print", "player": "players", "nope": "", "pears": "pairs", "x": "", "": "", "membersss": ""} {
		if got := Misspelt(name, names); got != want {
			t.Errorf("Misspelt(%q) = %q, want %q", name, got, want)
		}
	}
}
