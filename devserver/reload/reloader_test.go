package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"shield/devserver/watch"
	"shield/runtime/luavm"
	"shield/runtime/shield"
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

func script(src string) map[string]string { return map[string]string{"services/svc.lua": src} }

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
		for _, r := range b.save(script(source(120, i))) {
			if r.Outcome != Reloaded {
				t.Fatalf("round %d: %s", i, b.story())
			}
		}
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
		for _, r := range b.save(script(fmt.Sprintf(`local M = {}
local n = 0
function M.hit(ctx) n = n + 1 shield.sleep(1) return n, %d end
function M.total(ctx) return n end
return M
`, i))) {
			if r.Outcome != Reloaded {
				t.Errorf("round %d: %s", i, b.story())
			}
		}
	}
	close(stop)
	wg.Wait()
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

// TestFilesServeWhatWorked shows that a service that starts while the file on
// disk is broken, or undone, gets the code that works.
func TestFilesServeWhatWorked(t *testing.T) {
	good := "local M = {}\nfunction M.v(ctx) return 1 end\nreturn M\n"
	b := newBed(t, script(good))
	read := func() string {
		src, err := b.rl.ReadFile("services/svc.lua")
		if err != nil {
			t.Fatal(err)
		}
		return string(src)
	}
	b.save(script("local M = {"))
	if got := read(); got != good {
		t.Errorf("after a broken save: %q", got)
	}
	better := strings.ReplaceAll(good, "1", "2")
	b.save(script(better))
	if got := read(); got != better || b.call("v") != "[2]" {
		t.Errorf("after the fix: %q", got)
	}
	b.rl.Undo(context.Background())
	if got := read(); got != good || b.call("v") != "[1]" {
		t.Errorf("after the undo: %q", got)
	}
	// The undone content is not loaded again, however often somebody asks.
	for _, r := range b.rl.Reload(context.Background()) {
		if r.Outcome != Unchanged {
			t.Errorf("reload after undo: %+v", r)
		}
	}
	if rs := b.rl.Undo(context.Background(), "svc"); len(rs) != nodes || !errors.Is(rs[0].Err, ErrNothingToUndo) {
		t.Errorf("a second undo: %+v", rs)
	}
	best := strings.ReplaceAll(good, "1", "3")
	b.save(script(best))
	if got := read(); got != best || b.call("v") != "[3]" {
		t.Errorf("after another save: %q, %s", got, b.call("v"))
	}
}

func TestRestartTakesWhatIsOnDisk(t *testing.T) {
	b := newBed(t, script("local M = {}\nlocal n = 0\nfunction M.v(ctx) n = n + 1 return n end\nreturn M\n"))
	b.call("v")
	b.save(script("local M = {}\nlocal n = 0\nlocal t = shield.timer(1000, function() end)\nfunction M.v(ctx) n = n + 1 return n, 'new' end\nreturn M\n"))
	if got := b.call("v"); got != `[2,"new"]` {
		t.Fatalf("before the restart: %s", got)
	}
	for _, r := range b.rl.Restart(context.Background(), "svc") {
		if r.Outcome != Restarted {
			t.Fatalf("restart: %+v", r)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for b.call("v") != `[1,"new"]` {
		if time.Now().After(deadline) {
			t.Fatalf("after the restart: %s", b.call("v"))
		}
		b.rl.Restart(context.Background(), "svc")
	}
}

func TestByteOrderMarkAndLineEndsAreNoChange(t *testing.T) {
	src := "local M = {}\nfunction M.v(ctx) return 1 end\nreturn M\n"
	b := newBed(t, script(src))
	if rs := b.save(script("\ufeff" + strings.ReplaceAll(src, "\n", "\r\n"))); len(rs) != 0 {
		t.Errorf("reloaded: %+v", rs)
	}
	b.save(script("\ufeff" + strings.ReplaceAll(strings.ReplaceAll(src, "1", "2"), "\n", "\r\n")))
	if got := b.call("v"); got != "[2]" {
		t.Errorf("v = %s", got)
	}
	b.save(script("#!/usr/bin/lua\n" + strings.ReplaceAll(src, "1", "\"\xff\"")))
	if len(b.results) == 0 || b.results[0].Outcome != Reloaded {
		t.Errorf("a shebang and invalid UTF-8: %s", b.story())
	}
}

func TestDeletedFiles(t *testing.T) {
	b := newBed(t, map[string]string{
		"services/svc.lua": "local u = require('lib.u')\nlocal M = {}\nfunction M.v(ctx) return u.v end\nreturn M\n",
		"lib/u.lua":        "return { v = 1 }\n",
	})
	b.save(map[string]string{"lib/u.lua": ""})
	if len(b.results) == 0 || b.results[0].Outcome != Failed || !strings.Contains(b.results[0].Err.Error(), "lib.u") {
		t.Errorf("a required file is deleted: %s", b.story())
	}
	if got := b.call("v"); got != "[1]" {
		t.Errorf("v = %s", got)
	}
	b.save(map[string]string{"services/svc.lua": "local M = {}\nfunction M.v(ctx) return 2 end\nreturn M\n"})
	if got := b.call("v"); got != "[2]" {
		t.Errorf("after the script has stopped to require it: %s (%s)", got, b.story())
	}
	b.save(map[string]string{"services/svc.lua": ""})
	if len(b.results) == 0 || b.results[0].Outcome != Failed || b.call("v") != "[2]" {
		t.Errorf("the script is deleted: %s", b.story())
	}
}

func TestSavingTwiceWhileAHandlerRuns(t *testing.T) {
	b := newBed(t, script("local M = {}\nlocal n = 0\nfunction M.slow(ctx) shield.sleep(150) n = n + 1 return 'v0', n end\nreturn M\n"))
	got := make(chan string, 1)
	go func() { got <- b.callOn(b.nodes[0], "slow") }()
	time.Sleep(50 * time.Millisecond) // the handler sleeps for 150
	for i := range 5 {
		b.save(script(fmt.Sprintf("local M = {}\nlocal n = 0\nfunction M.slow(ctx) shield.sleep(1) n = n + 10 return 'v%d', n end\nreturn M\n", i+1)))
	}
	if r := <-got; r != `["v0",1]` {
		t.Errorf("the handler in flight gave %s", r)
	}
	if r := b.callOn(b.nodes[0], "slow"); r != `["v5",11]` {
		t.Errorf("the next one gave %s", r)
	}
}

func TestABusyServiceIsWaitedFor(t *testing.T) {
	b := newBed(t, script("local M = {}\nfunction M.busy(ctx) local t = shield.monotonic() while shield.monotonic() - t < 200 do end return 1 end\nfunction M.v(ctx) return 1 end\nreturn M\n"))
	done := make(chan string, 1)
	go func() { done <- b.callOn(b.nodes[0], "busy") }()
	time.Sleep(30 * time.Millisecond) // the handler is busy for 200
	b.save(script("local M = {}\nfunction M.busy(ctx) return 2 end\nfunction M.v(ctx) return 2 end\nreturn M\n"))
	if r := <-done; r != "[1]" || b.call("v") != "[2]" {
		t.Errorf("busy gave %s, v gives %s (%s)", r, b.call("v"), b.story())
	}
}

func TestProblemsAreExplained(t *testing.T) {
	b := newBed(t, script("local M = {}\nreturn M\n"))
	for _, tt := range []struct{ name, src, want string }{
		{"syntax", "local M = {}\nlocal x = = 3\nreturn M\n",
			"services/svc.lua:2:11: syntax error near '='\n    2 | local x = = 3\n      |           ^\nsvc: gen 1 keeps serving"},
		{"syntax, a longer word", "local M = {}\nreturn M\n\tlocal x = 3\n",
			"services/svc.lua:3:2: syntax error near 'local'\n    3 | \tlocal x = 3\n      | \t^\nsvc: gen 1 keeps serving"},
		{"throws", "local M = {}\n\terror('no map')\nreturn M\n",
			"services/svc.lua:2: no map\n    2 | \terror('no map')\nsvc: gen 1 keeps serving"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rs := b.save(script(tt.src))
			if len(rs) == 0 {
				t.Fatal("nothing was tried")
			}
			if diff := cmp.Diff(tt.want, Explain(rs[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !errors.Is(rs[0].Err, shield.ScriptLoadFailed) {
				t.Errorf("%v is no script_load_failed", rs[0].Err)
			}
		})
	}
}

// corpus is every Lua file of the cases.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/reload/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(data).Files {
			if strings.HasSuffix(f.Name, ".lua") {
				all[filepath.Base(name)+"/"+f.Name] = string(f.Data)
			}
		}
	}
	return all
}

// compileOrNil compiles what can be; gopher-lua's compiler panics on what its
// instructions can't hold, which a world refuses.
func compileOrNil(chunk []ast.Stmt, path string) (proto *lua.FunctionProto) {
	defer func() {
		if recover() != nil {
			proto = nil
		}
	}()
	proto, err := lua.Compile(chunk, path)
	if err != nil {
		return nil
	}
	return proto
}

// checkShape shows that the analysis finds exactly the functions and captures
// that the compiler does, and that a version matched with itself, read again,
// keeps everything.
func checkShape(t *testing.T, path, src string) {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(src), path)
	if err != nil {
		return
	}
	proto := compileOrNil(chunk, path)
	if proto == nil {
		return
	}
	s, err := Analyse(path, src)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if _, ok := s.protos(proto); !ok {
		t.Fatalf("%s: the functions found are not those that the compiler made", path)
	}
	again, err := Analyse(path, src)
	if err != nil {
		t.Fatal(err)
	}
	p := PlanFor(s, again)
	for i, f := range p.fns {
		if f == nil || f.id != i {
			t.Errorf("%s:%d: function %s is not itself", path, s.fns[i].line, s.fns[i].name)
		}
	}
	for i, l := range p.locals {
		if l == nil || l.id != i {
			t.Errorf("%s:%d: local %s is not itself", path, s.locals[i].line, s.locals[i].name)
		}
	}
	for _, x := range p.slots {
		if x.act != keep {
			t.Errorf("%s: a slot does not keep its value: %+v", path, x)
		}
	}
}

func TestShapeAgreesWithTheCompiler(t *testing.T) {
	for path, src := range corpus(t) {
		checkShape(t, path, src)
	}
}

func FuzzShape(f *testing.F) {
	for _, src := range corpus(f) {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		// What nests deeper than a world takes never gets here.
		if strings.Count(src, "(")+strings.Count(src, "{")+strings.Count(src, "function") > 200 || len(src) > 10000 {
			return
		}
		checkShape(t, "fuzz.lua", src)
	})
}

// BenchmarkSwap is what the service waits for: a scratch load and the swap of
// 500 lines, analysis and plan included the first time.
func BenchmarkSwap(b *testing.B) {
	bed := newBed(b, script(source(500, 1)))
	for range 50 {
		bed.callOn(bed.nodes[0], "add", "1")
	}
	var took time.Duration
	i := 1
	for b.Loop() {
		i++
		for _, r := range bed.save(script(source(500, i))) {
			if r.Outcome != Reloaded {
				b.Fatal(bed.story())
			}
			took += r.Took
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/nodes, "us/swap")
}

// BenchmarkSwapOnly leaves the scratch load out.
func BenchmarkSwapOnly(b *testing.B) {
	world, err := luavm.NewWorld(luavm.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := world.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	rl := New(Config{Nodes: func() []Node { return nil }}, nil)
	load := func(ver int) *Image {
		files := memory{"svc.lua": strings.ReplaceAll(source(500, ver), "shield.timer", "print")}
		vm := world.NewVM(luavm.VMConfig{Files: files})
		h := world.Take()
		defer h.Give()
		if _, err := vm.Load(h, "svc.lua", nil); err != nil {
			b.Fatal(err)
		}
		ms, err := rl.modules(vm.Modules())
		if err != nil {
			b.Fatal(err)
		}
		return &Image{Globals: vm.Globals(), Modules: ms, Shared: world.Shared, Plan: rl.plan}
	}
	st, err := NewState(load(1))
	if err != nil {
		b.Fatal(err)
	}
	i := 1
	for b.Loop() {
		b.StopTimer()
		i++
		fresh := load(i)
		rl.plan(st.Modules()[0].Shape, fresh.Modules[0].Shape)
		b.StartTimer()
		if _, err := st.Swap(fresh); err != nil {
			b.Fatal(err)
		}
	}
}

type memory map[string]string

func (m memory) ReadFile(p string) ([]byte, error) {
	if s, ok := m[p]; ok {
		return []byte(s), nil
	}
	return nil, os.ErrNotExist
}

// BenchmarkAnalyse reads 500 lines and matches them with the version before.
func BenchmarkAnalyse(b *testing.B) {
	old, err := Analyse("svc.lua", source(500, 1))
	if err != nil {
		b.Fatal(err)
	}
	src := source(500, 2)
	for b.Loop() {
		s, err := Analyse("svc.lua", src)
		if err != nil {
			b.Fatal(err)
		}
		PlanFor(old, s)
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
			if len(rs) != nodes || rs[0].Outcome != Reloaded {
				t.Fatalf("save %d: %+v", i, rs)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("save %d did not go live", i)
		}
	}
	for i := range times {
		for j := i + 1; j < len(times); j++ {
			if times[j] < times[i] {
				times[i], times[j] = times[j], times[i]
			}
		}
	}
	t.Logf("save to live on %d nodes, 500 lines: median %v, slowest %v", nodes, times[len(times)/2], times[len(times)-1])
}

func TestTheLogTellsWhatHappened(t *testing.T) {
	b := newBed(t, script("local M = {}\nlocal n = 0\nfunction M.v(ctx) n = n + 1 return n end\nreturn M\n"))
	var out strings.Builder
	b.rl.cfg.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "code" {
			return slog.Attr{}
		}
		return a
	}}))
	b.save(script("local M = {}\nlocal n = 0\nprint('hello')\nfunction M.v(ctx) n = n + 2 return n end\nreturn M\n"))
	b.call("v")
	b.rl.Undo(context.Background())
	b.save(script("local M = {"))
	got := regexp.MustCompile(`\([0-9a-f]{7}\) in [0-9.]+ ms`).ReplaceAllString(out.String(), "(HASH) in N ms")
	got = regexp.MustCompile(`\([0-9a-f]{7}\)`).ReplaceAllString(got, "(HASH)")
	want := `level=INFO msg="svc.lua: svc gen 1 -> 2 (HASH) in N ms on 2 nodes" service=reload event=reload generation=2
level=WARN msg="services/svc.lua:3: not run again: print(\"hello\"); to start afresh, without the old state: shield reload --restart svc" service=reload event=reload node=node-1
level=INFO msg="svc.lua undone: svc gen 2 -> 3 (HASH) on 2 nodes; what is on disk is not loaded until it changes again" service=reload event=reload generation=3
level=WARN msg="lost: n: 2, was 0" service=reload event=reload node=node-1
level=ERROR msg="services/svc.lua:1:12: the file ends, but '{' of line 1 is not closed\n    1 | local M = {\n      |            ^\nsvc: gen 3 keeps serving" service=reload event=reload
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
