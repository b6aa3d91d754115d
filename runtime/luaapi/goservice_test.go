package luaapi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// counter is a service in Go.
type counter struct {
	n      int // no lock: at most one goroutine is inside
	args   service.GoArgs
	exited chan string
}

func (c *counter) Init(ctx *service.GoContext, args service.GoArgs) error {
	c.args = args
	if args.Args == "fail" {
		return errors.New("told to fail")
	}
	return nil
}

func (c *counter) Handle(ctx *service.GoContext, method string, args value.Payload) (value.Payload, error) {
	switch method {
	case "inc":
		c.n++
		return value.PayloadOf(c.n)
	case "ask": // calls back while others come in
		before := c.n
		out, err := ctx.Call(service.Target{Name: "a"}, "slow", before)
		if err != nil {
			return out, err
		}
		return value.PayloadOf(before, c.n, value.ToGo(out.At(0)))
	case "sleep":
		return value.Payload{}, ctx.Sleep(time.Hour)
	case "own":
		return value.Payload{}, shield.Errorf(shield.PermissionDenied, "not you")
	case "wrapped":
		return value.Payload{}, fmt.Errorf("opening the vault: %w", shield.Errorf(shield.PermissionDenied, "not you"))
	case "crash":
		panic("a bug in Go")
	case "panic":
		ctx.Panic("on purpose")
	case "timer":
		_, err := ctx.Timer(time.Millisecond, false, func(*service.GoContext) error { c.n = 100; return nil })
		return value.Payload{}, err
	case "fork":
		return value.Payload{}, ctx.Fork(func(*service.GoContext) error { c.n = 200; return nil })
	case "config":
		return value.PayloadOf(c.args.Config, string(c.args.Name))
	}
	return value.Payload{}, shield.Errorf(shield.MethodNotFound, "no method %s", method)
}

func (c *counter) Shutdown(*service.GoContext, string) {}
func (c *counter) Exit(reason string)                  { c.exited <- reason }

func TestGoService(t *testing.T) { synctest.Test(t, testGoService) }

func testGoService(t *testing.T) {
	c := &counter{exited: make(chan string, 1)}
	n := newNode(t, scripts{"a.lua": `
local M = {}
function M.slow(ctx, n) shield.call("counter", "inc") return n * 10 end
function M.err(ctx, m) local ok, e = shield.call("counter", m) return ok, e.code, e.message end
function M.spawn() local h, e = shield.spawn("counter", {args = "fail"}) return h, e.code end
return M`}, nil)
	n.start(service.Spec{Name: "counter", Go: func() service.GoService { return c }, Instances: 1, Config: map[string]any{"a": 1},
		Restart: service.Restart{Policy: service.RestartNever}},
		service.Spec{Name: "a", Script: "a.lua", Instances: 1})
	n.want(`[1]`, "counter", "inc")
	n.want(`[1,2,10]`, "counter", "ask")
	n.want(`[{"a":1},"counter"]`, "counter", "config")
	n.want(`[false,"permission_denied","not you"]`, "a", "err", "own")
	n.want(`[false,"permission_denied","opening the vault: permission_denied: not you"]`, "a", "err", "wrapped")
	n.want(`[false,"method_not_found","no method none"]`, "a", "err", "none")
	n.want(`[false,"handler_error","crash: Go panic: a bug in Go"]`, "a", "err", "crash")
	n.want(`[null,"init_failed"]`, "a", "spawn")
	n.want(`[]`, "counter", "fork")
	n.want(`[201]`, "counter", "inc")
	n.want(`[]`, "counter", "timer")
	time.Sleep(20 * time.Millisecond) // the timer fires
	n.want(`[101]`, "counter", "inc")
	go n.call("counter", "sleep")
	for len(n.Waits(context.Background())) == 0 {
		time.Sleep(time.Millisecond) // until it sleeps
	}
	n.wantError(shield.HandlerError, "panic: on purpose", "counter", "panic")
	if reason := <-c.exited; reason != "panic" {
		t.Errorf("Exit heard %q, want panic", reason)
	}
}

// What a Go service returns for a send goes nowhere, least of all into the answer
// of the next call that its goroutine serves.
func TestResultsOfASendGoNowhere(t *testing.T) {
	c := &counter{exited: make(chan string, 1)}
	n := newNode(t, scripts{"a.lua": `
local M = {}
function M.echo(ctx, v) return v end
function M.tell() shield.send("counter", "inc") shield.send("counter", "inc") end
return M`}, nil)
	n.start(service.Spec{Name: "counter", Go: func() service.GoService { return c }, Instances: 1}, service.Spec{Name: "a", Script: "a.lua", Instances: 1})
	for range 20 {
		n.want(`[]`, "a", "tell")
		n.want(`["mine"]`, "a", "echo", "mine")
	}
}

func TestSwap(t *testing.T) { synctest.Test(t, testSwap) }

func testSwap(t *testing.T) {
	n := start(t, scripts{"a.lua": `
local M = {}
function M.on_reload(a) M.reloaded = a.name end
function M.get() return "old", M.reloaded end
function M.wait() shield.sleep(30) return "old" end
shield.event.on("e", function() end)
return M`}, nil)
	h, _ := n.Lookup("a")
	before := n.Loaded(context.Background(), time.Second)
	if len(before) != 1 || before[0].ID != h.ID || len(before[0].Paths) != 1 || before[0].Paths[0] != "a.lua" || before[0].Code.Generation != 1 {
		t.Fatalf("Loaded = %+v", before)
	}
	inFlight := make(chan string)
	go func() { got, _ := n.call("a", "wait"); inFlight <- got }()
	for len(n.Waits(context.Background())) == 0 {
		time.Sleep(time.Millisecond) // until it waits
	}
	functions := 0
	err := n.Swap(t.Context(), h.ID, func(w *service.Swapping) error {
		code, err := n.World().Compile("new.lua", []byte(`return function() return "new" end`))
		if err != nil {
			return err
		}
		fn := &lua.LFunction{Proto: code.Proto, Env: w.VM().Globals()}
		res, rerr := w.VM().Run(w.Hand(), luavm.Call{Fn: fn})
		if rerr != nil {
			return rerr
		}
		w.Module().RawSetString("wait", res[0])
		w.Functions(func(f *lua.LFunction) *lua.LFunction { functions++; return f })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.want(`["new"]`, "a", "wait")
	if got := <-inFlight; got != `["old"]` {
		t.Errorf("the handler in flight answered %s, want the old code's answer", got)
	}
	n.want(`["old","a"]`, "a", "get")
	if row := n.Services()[0]; row.Generation != 2 || functions != 1 {
		t.Errorf("generation %d, %d functions held, want 2 and 1", row.Generation, functions)
	}
	err = n.Swap(t.Context(), h.ID, func(*service.Swapping) error { return errors.New("refused") })
	if err == nil || n.Services()[0].Generation != 2 {
		t.Errorf("a refused swap: %v, generation %d", err, n.Services()[0].Generation)
	}
}

// Two runtimes in one process share nothing.
func TestTwoRuntimes(t *testing.T) {
	files := scripts{"s.lua": `
local M = {}
function string.mark() return "marked" end
n = 0
function M.inc() n = n + 1 return n end
function M.now() return shield.now() > 4e12 end
return M`}
	one, two := start(t, files, nil), start(t, files, nil)
	one.want(`[1]`, "s", "inc")
	one.want(`[2]`, "s", "inc")
	two.want(`[1]`, "s", "inc")
	one.SetClockOffset(200 * 365 * 24 * time.Hour)
	one.want(`[true]`, "s", "now")
	two.want(`[false]`, "s", "now")
	one.stop()
	two.want(`[2]`, "s", "inc")
}
