package testrun

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"

	"shield/runtime/luavm"
)

// orderOf lets a few goroutines take turns and gives the order they had them in.
func orderOf(t *testing.T, seed uint64) (order []string, schedule string) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(seed)
		done := make(chan struct{})
		go turns.Run(done)
		for _, who := range []string{"a", "b", "c", "d"} {
			go func() {
				for range 5 {
					turns.Take(who)
					order = append(order, who) // nobody else runs
					if who == "d" {
						time.Sleep(time.Millisecond)
					}
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := turns.Count(); n != 20 {
			t.Errorf("%d turns, want 20", n)
		}
		schedule = turns.Schedule()
		close(done)
	})
	return order, schedule
}

func TestASeedGivesOneOrder(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		order, schedule := orderOf(t, seed+1)
		for range 5 {
			again, same := orderOf(t, seed+1)
			if diff := cmp.Diff(order, again); diff != "" || schedule != same {
				t.Fatalf("seed %d: another order (%s, %s):\n%s", seed+1, schedule, same, diff)
			}
		}
		seen[schedule] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 seeds gave %d orders", len(seen))
	}
}

// The command that repeats a failure must find it.
func TestAgainFindsTheFailure(t *testing.T) {
	const said = `{"event":"begin","name":"a b"}
{"event":"test","name":"a b","result":"fail"}
{"event":"test","name":"a teardown","result":"fail"}
{"event":"file_end","result":"error"}
`
	for file, word := range map[string]string{"tests/räume_test.lua": "tests/räume_test.lua", "tests/my $rooms_test.lua": "'tests/my $rooms_test.lua'"} {
		p, j := &parent{}, &job{file: file, seed: 7, events: make(chan *Event, 10)}
		if !p.read(t.Context(), j, bufio.NewReader(strings.NewReader(said)), time.Now()) {
			t.Error("the last event was not seen")
		}
		close(j.events)
		var have []string
		for e := range j.events {
			if e.Again != "" {
				have = append(have, e.Again)
			}
		}
		whole := "shield test " + word + " --seed 7"
		if diff := cmp.Diff([]string{whole + " --run '^a b$'", whole, whole}, have); diff != "" {
			t.Errorf("commands (-want +have):\n%s", diff)
		}
	}
}

// A cluster that has ended must not be kept: a file may start one for each test.
func TestAnEndedClusterIsForgotten(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shield.yaml": "services: [{ name: s, script: s.lua }]\n",
		"s.lua":       "return {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		spec := &Spec{Dir: dir, Seed: 1, Level: "error"}
		g := newGuard(spec, nil)
		turns := NewTurns(1)
		done := make(chan struct{})
		go turns.Run(done)
		defer close(done)
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		w := &world{spec: spec, turns: turns, book: newLogbook(turns, "error"), guard: g, files: rootFiles{root}}
		for range 3 {
			if err := w.start(2); err != nil {
				t.Fatal(err)
			}
			if n := len(g.nodes); n != 2 {
				t.Errorf("the guard looks at %d nodes, want 2", n)
			}
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		if len(g.nodes) > 0 {
			t.Errorf("the guard still looks at %d nodes", len(g.nodes))
		}
	})
}

func TestDurations(t *testing.T) {
	for _, tt := range []struct {
		in   lua.LValue
		want time.Duration
		bad  bool
	}{
		{lua.LNumber(250), 250 * time.Millisecond, false},
		{lua.LString("500ms"), 500 * time.Millisecond, false},
		{lua.LString("1d"), 24 * time.Hour, false},
		{lua.LString("1.5d2h"), 38 * time.Hour, false},
		{lua.LString("2m30s"), 150 * time.Second, false},
		{lua.LString("soon"), 0, true},
		{lua.LString("-1s"), 0, true},
		{lua.LNumber(-1), 0, true},
		{lua.LTrue, 0, true},
		{lua.LString("36500d"), 36500 * 24 * time.Hour, false},
		{lua.LString("36501d"), 0, true},
		{lua.LString("1h2d"), 0, true},
		{lua.LString("NaNd"), 0, true},
		{lua.LString("36500d2000000h"), 0, true},
		{lua.LNumber(1e14), 0, true},
		{lua.LNumber(math.NaN()), 0, true},
	} {
		if d, problem := toDuration(tt.in); d != tt.want || (problem != "") != tt.bad {
			t.Errorf("toDuration(%v) = %v, %q, want %v", tt.in, d, problem, tt.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, in := range map[string][]int{"": nil, "3": {3}, "3-5, 9": {3, 4, 5, 9}, "1, 3, 5-6": {1, 3, 5, 6}} {
		if got := ranges(in); got != want {
			t.Errorf("ranges(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	for want, ms := range map[string]float64{"0s": 0, "350µs": 0.35, "1.5ms": 1.5, "12ms": 12, "15.02s": 15020, "24h0m0s": 86400_000, "3d1h0m0s": 3*86400_000 + 3600_000} {
		if got := span(ms); got != want {
			t.Errorf("span(%v) = %q, want %q", ms, got, want)
		}
	}
}

// script is a file in memory.
type script map[string]string

func (s script) ReadFile(path string) ([]byte, error) {
	if text, ok := s[path]; ok {
		return []byte(text), nil
	}
	return nil, os.ErrNotExist
}

// Lines are counted where they run, and nothing else about a script changes.
func TestCoverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHits()
		w, err := luavm.NewWorld(luavm.Config{Cover: h.cover, Files: script{"a.lua": `local M = {}
function M.f(x)
  if x > 1 then
    return "big"
  end
  local t = { g = function() return 1 end }
  for i = 1, 3 do
    x = x + t.g()
  end
  repeat local y = x; x = x - 1 until y < 0
  return x
end
function M.never()
  return 1
end
local env = getfenv and getfenv(1) or _G
for k in pairs(env) do assert(not tostring(k):find("cover")) end
M.f(0)
return M
`}})
		if err != nil {
			t.Fatal(err)
		}
		vm, hand := w.NewVM(luavm.VMConfig{}), w.Take()
		if _, err := vm.Load(hand, "a.lua", nil); err != nil {
			t.Fatal(err)
		}
		want := []FileCoverage{{File: "a.lua", Hit: 13, Total: 15, Missed: []int{4, 14}}}
		if diff := cmp.Diff(want, coverage(h.all())); diff != "" {
			t.Errorf("coverage (-want +got):\n%s", diff)
		}
		var b bytes.Buffer
		if err := writeLCOV(&b, h.all()); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"SF:a.lua\n", "DA:8,3\n", "DA:4,0\n", "LF:15\nLH:13\nend_of_record\n"} {
			if !strings.Contains(b.String(), line) {
				t.Errorf("lcov has no %q:\n%s", line, &b)
			}
		}
		hand.Give()
		vm.Close()
		w.Close(t.Context())
	})
}

// TestTypesMatchTheAPI holds types/test.lua, which editors of new projects read,
// to what a test file finds.
func TestTypesMatchTheAPI(t *testing.T) {
	src, err := os.ReadFile("../../templates/common/types/test.lua")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^function ([A-Za-z_]+(?:[.:][a-z_]+)?)\(`).FindAllStringSubmatch(string(src), -1) {
		have[m[1]] = true
	}
	r := &runner{}
	want := map[string]bool{"sleep": true, "eventually": true}
	for name := range r.suiteLib() {
		want[name] = true
	}
	for _, alias := range []string{"context", "insulate", "expose", "spec", "test", "lazy_setup", "strict_setup", "lazy_teardown", "strict_teardown"} {
		delete(want, alias) // busted's other names
	}
	for lib, funcs := range r.libs() {
		for name := range funcs {
			want[lib+"."+name] = true
		}
	}
	for name := range r.playerLib() {
		want["GameClient:"+name] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("types/test.lua (-API +types):\n%s", diff)
	}
}

func TestSame(t *testing.T) {
	L := lua.NewState()
	defer L.Close()
	for _, tt := range []struct {
		want, have string
		diff       string // "" = the same
	}{
		{`1`, `1`, ""},
		{`"1"`, `1`, `the value: expected "1", got 1`},
		{`{1, {a = 2}}`, `{1, {a = 2}}`, ""},
		{`{1, {a = 2}}`, `{1, {a = 3}}`, `[2].a: expected 2, got 3`},
		{`{["a b"] = 1}`, `{}`, `["a b"]: expected 1, got nil`},
		{`{}`, `{false}`, `[1]: expected nil, got false`},
		{`{[{1}] = 2}`, `{[{1}] = 2}`, ""},
		{`(function() local t = {} t.t = t return t end)()`, `(function() local t = {} t.t = t return t end)()`, ""},
		{`0/0`, `0/0`, `the value: expected nan, got nan`},
	} {
		if err := L.DoString("return " + tt.want + ", " + tt.have); err != nil {
			t.Fatal(err)
		}
		d := &differences{L: L}
		d.compare("", L.Get(-2), L.Get(-1), 0)
		L.SetTop(0)
		got := strings.Join(d.lines, "\n")
		if (tt.diff == "") != (got == "") || tt.diff != "" && !strings.EqualFold(got, tt.diff) && !strings.Contains(tt.diff, "nan") {
			t.Errorf("same(%s, %s): %q, want %q", tt.want, tt.have, got, tt.diff)
		}
	}
}
