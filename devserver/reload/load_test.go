package reload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shield/devserver/watch"
)

// source is a script of about lines lines with state of every kind.
func source(lines, ver int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `local M = {}
local count, MAX = 0, %d
local state = { gold = 0, names = {} }
local Class = {}
Class.__index = Class
local function helper() return %d end
function Class:ver() return %d end
local objects = {}
function M.on_init(args) shield.timer(3600000, function() count = count + %d end) end
function M.add(ctx, n) count = count + 1 state.gold = state.gold + n objects[#objects %% 50 + 1] = setmetatable({}, Class) return state.gold end
function M.get(ctx) return count, state.gold, MAX, helper(), objects[1] and objects[1]:ver(), %d end
`, 10*ver, ver, ver, ver, ver)
	for i := 0; strings.Count(b.String(), "\n") < lines-2; i++ {
		fmt.Fprintf(&b, "function M.f%d(a, b)\n  local n = (a or 0) + (b or 0) * %d\n  if n > 10 then\n    state.gold = state.gold + n\n  end\n  return n, state.gold\nend\n", i, ver)
	}
	b.WriteString("return M\n")
	return b.String()
}

func TestThousandReloadsLeaveMemoryWhereItWas(t *testing.T) {
	b := newBed(t, script(source(120, 1)))
	heap := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	round := func(i int) {
		b.call("add", "1")
		b.reloads(script(source(120, i)))
	}
	// The first rounds fill pools and caches, the undo among them.
	for i := range 20 {
		round(i + 2)
	}
	before := heap()
	for i := range 1000 {
		round(i + 30)
	}
	after := heap()
	if grown := float64(after) / float64(before); grown > 1.05 {
		t.Errorf("heap went from %d to %d KB (%.2f times)", before>>10, after>>10, grown)
	}
	if got := b.call("get"); !strings.HasPrefix(got, "[1020,1020,") {
		t.Errorf("state after a thousand reloads: %s", got)
	}
	b.rl.round.Lock()
	defer b.rl.round.Unlock()
	for _, tg := range b.rl.all {
		for p, vs := range tg.state.files {
			if len(vs) > 2 {
				t.Errorf("%s: %d versions are remembered", p, len(vs))
			}
		}
	}
}

// Time is real here, and no verdict hangs on it: saves and calls meet wherever
// the machine lets them.
func TestReloadUnderLoadLosesNoCall(t *testing.T) {
	b := newBed(t, script(`local M = {}
local n = 0
function M.hit(ctx) n = n + 1 shield.sleep(1) return n end
function M.total(ctx) return n end
return M
`))
	var calls, failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	for i := range 16 {
		node := b.nodes[i%len(b.nodes)]
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				calls.Add(1)
				if got := b.callOn(node, "hit"); strings.HasPrefix(got, "error") {
					failed.Add(1)
				}
			}
		})
	}
	for i := range 60 {
		b.reloads(script(fmt.Sprintf(`local M = {}
local n = 0
function M.hit(ctx) n = n + 1 shield.sleep(1) return n, %d end
function M.total(ctx) return n end
return M
`, i)))
	}
	end()
	var total int64
	for _, n := range b.nodes {
		var got int64
		if _, err := fmt.Sscanf(b.callOn(n, "total"), "[%d]", &got); err != nil {
			t.Fatal(err)
		}
		total += got
	}
	if failed.Load() > 0 || total != calls.Load() {
		t.Errorf("%d calls, %d failed, the services counted %d", calls.Load(), failed.Load(), total)
	}
}

// TestRealSave is the whole way on a real file system: a save is live on every
// node. It logs how long that took.
func TestRealSave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "services", "svc.lua")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(i int) {
		if err := os.WriteFile(path, []byte(source(500, i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	b := newBed(t, script(source(500, 1)))
	done := make(chan []Result, 10)
	w, err := watch.New(watch.Config{Root: dir, Check: Whole, OnChange: func(set watch.ChangeSet) {
		done <- b.rl.Change(context.Background(), set)
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Start()
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	var times []time.Duration
	for i := range 21 {
		time.Sleep(40 * time.Millisecond) // a person's pause; longer than one burst
		began := time.Now()
		write(i + 2)
		select {
		case rs := <-done:
			times = append(times, time.Since(began))
			if len(rs) != nodes || slices.ContainsFunc(rs, func(r Result) bool { return r.Outcome != Reloaded }) {
				t.Fatalf("save %d: %+v", i, rs)
			}
		case <-time.After(time.Minute): // so as not to hang; how long it takes is no verdict
			t.Fatalf("save %d did not go live", i)
		}
	}
	slices.Sort(times)
	t.Logf("save to live on %d nodes, 500 lines: median %v, slowest %v", nodes, times[len(times)/2], times[len(times)-1])
}
