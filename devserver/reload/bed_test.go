package reload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"shield/devserver/watch"
	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodes is how many runtimes a bed has; every one runs every service.
const nodes = 3

// bed is a project on real runtimes, whose files live in memory. A test that
// waits for handlers makes it inside a synctest bubble.
type bed struct {
	t       testing.TB
	files   map[string]string
	snap    *watch.Snapshot
	rl      *Reloader
	nodes   []Node
	results []Result
	waiting map[string]chan string
}

func newBed(t testing.TB, files map[string]string) *bed {
	t.Helper()
	return newBedWith(t, files, func(*service.Config) {})
}

// newBedWith is newBed on runtimes that adjust has changed.
func newBedWith(t testing.TB, files map[string]string, adjust func(*service.Config)) *bed {
	t.Helper()
	b := &bed{t: t, files: maps.Clone(files), waiting: map[string]chan string{}}
	b.snap = b.snapshot()
	b.rl = New(Config{Nodes: func() []Node { return b.nodes }}, b.snap)
	for i := range nodes {
		cfg := service.Config{
			Node: shield.NodeID(fmt.Sprintf("node-%d", i+1)), Epoch: 1, API: luaapi.New(),
			Lua: luavm.Config{Files: b.rl}, Seed: 1,
		}
		adjust(&cfg)
		rt, err := service.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.nodes = append(b.nodes, Node{ID: rt.Node(), Runtime: rt})
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := rt.Stop(ctx); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		var specs []service.Spec
		for p := range files {
			if name, ok := strings.CutPrefix(p, "services/"); ok && !strings.Contains(name, "/") {
				name = strings.TrimSuffix(name, ".lua")
				specs = append(specs, service.Spec{Name: shield.Name(name), Script: p, Instances: 1, Config: map[string]any{"seats": 8}})
			}
		}
		if err := rt.Start(context.Background(), specs); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	return b
}

func (b *bed) snapshot() *watch.Snapshot {
	contents := map[string][]byte{}
	for p, c := range b.files {
		contents[p] = []byte(c)
	}
	return watch.SnapshotOf(contents)
}

// call calls a method of target ("svc", or "other.method") on every node; all
// must answer alike.
func (b *bed) call(method string, args ...string) string {
	b.t.Helper()
	var first string
	for i, n := range b.nodes {
		got := b.callOn(n, method, args...)
		if i == 0 {
			first = got
		} else if got != first {
			b.t.Fatalf("call %s: node-1 says %s, %s says %s", method, first, n.ID, got)
		}
	}
	return first
}

func (b *bed) callOn(n Node, method string, args ...string) string {
	target := "svc"
	if s, m, ok := strings.Cut(method, ":"); ok {
		target, method = s, m
	}
	var p value.Payload
	for _, a := range args {
		v, err := value.ParseJSON([]byte(a))
		if err != nil {
			b.t.Errorf("argument %s: %v", a, err)
		}
		p.Add(v)
	}
	out, _, err := n.Runtime.Call(context.Background(), service.CallRequest{Target: service.Target{Name: target}, Method: method, Args: p})
	if err != nil {
		var se *shield.Error
		if errors.As(err, &se) {
			return "error " + string(se.Code)
		}
		return "error " + err.Error()
	}
	var parts []string
	for i := range out.Len() {
		parts = append(parts, string(value.AppendJSON(nil, out.At(i))))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// save writes files, with "" for one that is deleted, and reloads.
func (b *bed) save(files map[string]string) []Result {
	b.t.Helper()
	for p, c := range files {
		if c == "" {
			delete(b.files, p)
		} else {
			b.files[p] = c
		}
	}
	next := b.snapshot()
	set := watch.ChangeSet{Changes: b.snap.Diff(next), Snapshot: next, Time: time.Now()}
	b.snap = next
	b.results = b.rl.Change(context.Background(), set)
	return b.results
}

// reloads is save for what must go live on every node.
func (b *bed) reloads(files map[string]string) []Result {
	b.t.Helper()
	rs := b.save(files)
	live := 0
	for _, r := range rs {
		if r.Outcome == Reloaded {
			live++
		}
	}
	if len(rs) == 0 || live != len(rs) || live%nodes != 0 {
		b.t.Fatalf("not live on every node: %s", b.story())
	}
	return rs
}

// TestCases runs every case of testdata/reload: those that were handed over and
// our own. Time is virtual but for runaways: what ends them looks at a clock that
// would stand still.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/reload/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			run := func(t *testing.T) { runCase(t, txtar.Parse(data)) }
			if strings.HasPrefix(filepath.Base(name), "runaway-") {
				run(t)
			} else {
				synctest.Test(t, run)
			}
		})
	}
}

// filesOf lays a folder of a case out as a project.
func filesOf(ar *txtar.Archive, dir string) map[string]string {
	files := map[string]string{}
	for _, f := range ar.Files {
		p, ok := strings.CutPrefix(f.Name, dir+"/")
		if !ok {
			continue
		}
		if !strings.HasPrefix(p, "lib/") {
			p = "services/" + p
		}
		files[p] = string(f.Data)
	}
	return files
}

func runCase(t *testing.T, ar *txtar.Archive) {
	b := newBed(t, filesOf(ar, "before"))
	steps := ""
	for _, f := range ar.Files {
		if f.Name == "steps" {
			steps = string(f.Data)
		}
	}
	if steps == "" {
		t.Fatal("the case has no steps")
	}
	for n, line := range strings.Split(steps, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			b.step(ar, n+1, line)
		}
	}
}

func (b *bed) step(ar *txtar.Archive, n int, line string) {
	t := b.t
	t.Helper()
	left, want, _ := strings.Cut(line+" ", " => ")
	want = strings.TrimSpace(want)
	words := strings.Fields(left)
	switch words[0] {
	case "call":
		b.same(n, line, b.call(words[1], words[2:]...), want)
	case "eventually":
		for _, node := range b.nodes {
			deadline := time.Now().Add(5 * time.Second)
			got := b.callOn(node, words[2], words[3:]...)
			for got != want && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond) // virtual
				got = b.callOn(node, words[2], words[3:]...)
			}
			b.same(n, line, got, want)
		}
	case "start":
		for i, node := range b.nodes {
			ch := make(chan string, 1)
			b.waiting[fmt.Sprint(words[1], i)] = ch
			go func() { ch <- b.callOn(node, words[2], words[3:]...) }()
		}
		synctest.Wait() // until the handlers sleep
	case "wait":
		for i := range b.nodes {
			b.same(n, line, <-b.waiting[fmt.Sprint(words[1], i)], want)
		}
	case "save":
		b.save(filesOf(ar, words[1]))
	case "delete":
		b.save(map[string]string{words[1]: ""})
	case "undo":
		b.results = b.rl.Undo(context.Background())
		if len(b.results) == 0 || b.results[0].Outcome != Undone {
			t.Fatalf("steps:%d: undo: %+v", n, b.results)
		}
		b.same(n, line, strings.Join(b.results[0].Lost, "; "), want)
	case "warns":
		b.warns(n, line, strings.TrimPrefix(line, "warns "))
	case "generation":
		for _, node := range b.nodes {
			got := "no service"
			for _, r := range node.Runtime.Services() {
				if string(r.Name) == words[1] {
					got = fmt.Sprint(r.Generation)
				}
			}
			b.same(n, line, got, want)
		}
	case "expect":
		b.expect(n, line, words[2], strings.Join(words[3:], " "))
	default:
		t.Fatalf("steps:%d: unknown step %q", n, line)
	}
}

func (b *bed) same(n int, line, got, want string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("steps:%d: %s: got %s (last reload: %s)", n, line, got, b.story())
	}
}

func (b *bed) story() string {
	var parts []string
	for _, r := range b.results {
		s := fmt.Sprintf("%s on %s %s %v", r.Service, r.Node, r.Outcome, r.Warnings)
		if r.Err != nil {
			s += " " + r.Err.Error()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func (b *bed) warns(n int, line, text string) {
	b.t.Helper()
	if len(b.results) == 0 {
		b.t.Fatalf("steps:%d: %s: nothing was reloaded", n, line)
	}
	for _, r := range b.results {
		all := strings.Join(r.Warnings, "\n")
		if text == "nothing" && all != "" || text != "nothing" && !strings.Contains(all, text) {
			b.t.Fatalf("steps:%d: %s: warnings are %q", n, line, r.Warnings)
		}
	}
}

func (b *bed) expect(n int, line, what, text string) {
	b.t.Helper()
	outcome := map[string]string{"ok": Reloaded, "failed": Failed, "refused": Refusal}[what]
	if len(b.results) == 0 && what != "nothing" {
		b.t.Fatalf("steps:%d: %s: nothing was reloaded", n, line)
	}
	for _, r := range b.results {
		if r.Outcome == HeldBack && what != "ok" {
			continue
		}
		if r.Outcome != outcome || r.Err != nil && !strings.Contains(Explain(r), text) {
			b.t.Fatalf("steps:%d: %s: %s", n, line, b.story())
		}
	}
}
