package luavm

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files is a project in memory.
type files map[string]string

func (f files) ReadFile(path string) ([]byte, error) {
	s, ok := f[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(s), nil
}

// newWorld makes a world whose shield table has what the tests suspend with.
func newWorld(t testing.TB, cfg Config) *World {
	t.Helper()
	if cfg.Shield == nil {
		cfg.Shield = Lib{}
	}
	for name, f := range map[string]any{
		"call": fakeCall, "self": func(L *lua.LState) int { L.Push(lua.LString("me")); return 1 },
		"log":  Lib{"info": func(L *lua.LState) int { return 0 }},
		"json": Lib{"encode": func(L *lua.LState) int { L.Push(lua.LString("{}")); return 1 }},
		"null": &lua.LUserData{Metatable: lua.LNil},
	} {
		if _, ok := cfg.Shield[name]; !ok {
			cfg.Shield[name] = f
		}
	}
	cfg.Pure = append(cfg.Pure, "null", "json")
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// box is a VM with its baton: the fake service of these tests.
type box struct {
	t     testing.TB
	w     *World
	vm    *VM
	baton chan struct{}
}

func newBox(t testing.TB, w *World, cfg VMConfig) *box {
	t.Helper()
	b := &box{t: t, w: w, baton: make(chan struct{}, 1)}
	cfg.Owner = b
	b.vm = w.NewVM(cfg)
	t.Cleanup(func() { b.hold(); b.vm.Close() })
	b.pass()
	return b
}

func (b *box) hold() { <-b.baton }
func (b *box) pass() { b.baton <- struct{}{} }

// fakeCall suspends like shield.call: another goroutine gets the baton, does
// something in the VM, and gives it back before the answer, which is the
// arguments.
func fakeCall(L *lua.LState) int {
	b := OwnerOf(L).(*box)
	n := L.GetTop()
	Suspend(L, "shield.call", WaitFunc(func() {
		b.pass()
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.hold()
			defer b.pass()
			h := b.w.Take()
			defer h.Give()
			if _, err := b.vm.Run(h, Call{Fn: b.vm.Globals().RawGetString("meanwhile")}); err != nil && b.vm.Globals().RawGetString("meanwhile") != lua.LNil {
				b.t.Error("the turn in between:", err)
			}
		}()
		<-done
		b.hold()
	}))
	return n
}

// compileTest makes a function of source in vm.
func (b *box) compile(src string) *lua.LFunction {
	b.t.Helper()
	code, err := compile("test.lua", src)
	if err != nil {
		b.t.Fatalf("compile: %v", err)
	}
	return b.vm.closure(code.Proto)
}

// try runs source as one turn.
func (b *box) try(src string, args ...lua.LValue) ([]lua.LValue, *RunError) {
	b.t.Helper()
	fn := b.compile(src)
	b.hold()
	defer b.pass()
	h := b.w.Take()
	defer h.Give()
	return b.vm.Run(h, Call{Fn: fn, Args: args, Data: "turn"})
}

// do runs source and gives its results as text.
func (b *box) do(src string, args ...lua.LValue) string {
	b.t.Helper()
	r, err := b.try(src, args...)
	if err != nil {
		b.t.Fatalf("run: %v\n%s\n%s", err, err.Traceback, src)
	}
	return show(r)
}

func show(values []lua.LValue) string {
	var s []string
	for _, v := range values {
		s = append(s, fmt.Sprint(v))
	}
	return strings.Join(s, " ")
}

// oneBox is a world with one VM.
func oneBox(t testing.TB, cfg VMConfig) *box {
	t.Helper()
	return newBox(t, newWorld(t, Config{Files: files{}}), cfg)
}
