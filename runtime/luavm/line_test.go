package luavm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

func TestCompileLine(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"1 + 1", "ok"}, {"x = 1", "ok"}, {"", "ok"}, {"= 5", "ok"}, {"return 1, 2", "ok"}, {"local a, b = 1\r\nlocal c", "ok a b c"},
		{"local function f() return f end", "ok f"}, {"do local x = 1 end", "ok"},
		{"f(", "more"}, {"if x then", "more"}, {"x =", "more"}, {"{1,", "more"}, {"[==[ x ]=]", "more"}, {"function f()", "more"}, {"--[[ x", "more"},
		{"x = = 1", "wrong"}, {`"a`, "wrong"}, {"f(]", "wrong"}, {"end", "wrong"}, {"break", "wrong"},
		{strings.Repeat("{", 3000) + "1" + strings.Repeat("}", 3000), "wrong"},
	} {
		l, err := CompileLine("repl", tt.source, true)
		var more *Incomplete
		got := "ok"
		switch {
		case errors.As(err, &more):
			got = "more"
		case err != nil:
			got = "wrong"
		default:
			got = strings.TrimSpace("ok " + strings.Join(l.Locals, " "))
		}
		if got != tt.want {
			t.Errorf("CompileLine(%.40q) = %s (%v), want %s", tt.source, got, err, tt.want)
		}
	}
}

func TestPathsOfALine(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"a.b.c", "a.b.c"}, {"a['b c'][3].d", `a["b c"][3].d`}, {"x:y(z.w)", "x.y x z.w"}, {"#a + b", "a b"}, {"a[b].c", "a b"},
		{"for k, v in pairs(t.u) do print(k.x, v) end", "pairs t.u print"}, {"local q = 1 return q.r", "r"}, {"(function(p) return p.x, y end)()", "y"},
	} {
		l, err := CompileLine("repl", tt.source, false)
		if err != nil {
			t.Fatalf("%s: %v", tt.source, err)
		}
		var got []string
		for _, p := range l.Paths() {
			got = append(got, p.Text(len(p.Keys)))
		}
		if text := strings.Join(got, " "); text != tt.want && !(tt.want == "r" && text == "") {
			t.Errorf("Paths(%s) = %s, want %s", tt.source, text, tt.want)
		}
	}
}

// A turn that does not end can be asked where it is, and goes on.
func TestRunningTellsItsStack(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: time.Second}})
	if stack, ok := b.vm.Running(context.Background()); ok {
		t.Errorf("nothing runs, but there is a stack: %q", stack)
	}
	done := make(chan *RunError, 1)
	go func() {
		_, err := b.try("local function inner()\n while true do end\nend\nreturn (inner())")
		done <- err
	}()
	for { // until it runs
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		stack, ok := b.vm.Running(ctx)
		cancel()
		if !ok {
			select {
			case err := <-done:
				t.Fatalf("it has ended without being seen: %v", err)
			default:
				continue
			}
		}
		if !strings.Contains(stack, "in function 'inner'") {
			t.Errorf("the stack is %q", stack)
		}
		break
	}
	answers := make(chan string, 3) // each of several who ask at once gets one
	for range cap(answers) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			stack, _ := b.vm.Running(ctx)
			answers <- stack
		}()
	}
	for range cap(answers) {
		if stack := <-answers; !strings.Contains(stack, "in function 'inner'") {
			t.Errorf("one of several got %q", stack)
		}
	}
	if err := <-done; err == nil || err.Kind != KindTimeout {
		t.Errorf("after it was asked it did not go on to its limit: %v", err)
	}
}

func TestBudgetOfACall(t *testing.T) {
	b := oneBox(t, VMConfig{Limits: Limits{HandlerTime: 10 * time.Second}})
	l, err := CompileLine("repl", "while true do end", false)
	if err != nil {
		t.Fatal(err)
	}
	h := b.w.Take()
	defer h.Give()
	began := time.Now()
	_, re := b.vm.Run(h, Call{Fn: lineFunc(b.vm, l), Budget: 30 * time.Millisecond})
	if re == nil || re.Kind != KindTimeout || !strings.Contains(re.Message, "budget of 30 ms") {
		t.Errorf("Run = %v", re)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestWeighFindsTheHeaviest(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`
		big, small = {}, {1, 2, 3}
		for i = 1, 500 do big["key" .. i] = {name = ("x"):rep(100), i} end
		big.self = big`)
	u, tables := b.vm.Weigh(4)
	if m := b.vm.Measure(); u.Objects != m.Objects || u.Bytes < m.Bytes*9/10 || u.Bytes > m.Bytes*11/10 {
		t.Errorf("Weigh found %+v, Measure %+v", u, m)
	}
	if len(tables) != 4 || tables[0].Path != "_G" || tables[1].Path != "_G.big" || tables[1].Entries != 501 {
		t.Fatalf("tables: %+v", tables)
	}
	if tables[1].Bytes < 500*100 || tables[1].Bytes > tables[0].Bytes {
		t.Errorf("big weighs %d of %d", tables[1].Bytes, tables[0].Bytes)
	}
	siblings := 0
	for _, w := range tables {
		if strings.HasPrefix(w.Path, "_G.big.") {
			siblings++
		}
	}
	if siblings != maxSiblings {
		t.Errorf("%d of the records are listed: %+v", siblings, tables)
	}
}

// TestWeighLeavesOutHandles lists no table that only a handle or a client ref
// holds, though its bytes count: it would stand under the path of the table that
// has the handle as a key.
func TestWeighLeavesOutHandles(t *testing.T) {
	b := oneBox(t, VMConfig{})
	L := lua.NewState()
	defer L.Close()
	meta := L.NewTable()
	meta.RawSetString("__index", L.NewTable())
	b.do(`members = {} members[...] = {score = 1}`, &lua.LUserData{Metatable: meta})
	_, tables := b.vm.Weigh(10)
	var paths []string
	for _, w := range tables {
		paths = append(paths, w.Path)
	}
	for _, p := range paths {
		if p == "_G.members" || p == "_G.members[userdata]" || p == "_G" || !strings.HasPrefix(p, "_G.members") {
			continue
		}
		t.Errorf("%s is listed among %v", p, paths)
	}
	if n := strings.Count(strings.Join(paths, " ")+" ", "_G.members "); n != 1 {
		t.Errorf("members is listed %d times: %v", n, paths)
	}
}

func FuzzCompileLine(f *testing.F) {
	for _, s := range []string{"1 + 1", "local a = {b = 1}", "f(", "[[", "-- x", "a.b[1]:c()", "x = = 1", "=", "local function f() end"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		l, err := CompileLine("repl", source, true)
		if err != nil {
			return
		}
		for _, p := range l.Paths() {
			if p.Root == "" {
				t.Errorf("%q: a path without a root: %v", source, p)
			}
			_ = fmt.Sprint(p.Text(len(p.Keys)))
		}
	})
}

func lineFunc(vm *VM, l *Line) *lua.LFunction {
	return &lua.LFunction{Proto: l.Proto, Env: vm.Globals(), Upvalues: make([]*lua.Upvalue, l.Proto.NumUpvalues)}
}
