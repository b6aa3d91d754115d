package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/service"
	"shield/runtime/shield"
)

func script(src string) map[string]string { return map[string]string{"services/svc.lua": src} }

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
	if got := b.call("v"); got != `[1,"new"]` {
		t.Fatalf("after the restart: %s", got)
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

// A file that is still gone is not restored by a save of another.
func TestADeletedFileIsMissedUntilItIsThereAgain(t *testing.T) {
	b := newBed(t, map[string]string{
		"services/svc.lua": "local u = require('lib.u')\nlocal M = {}\nfunction M.v(ctx) return u.v() end\nreturn M\n",
		"lib/u.lua":        "return { v = function() return 1 end }\n",
	})
	var out strings.Builder
	b.rl.cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
	b.save(map[string]string{"lib/u.lua": ""})
	b.save(map[string]string{"lib/other.lua": "return {}\n"})
	if strings.Contains(out.String(), "restored") {
		t.Errorf("the log says that the files hold what runs:\n%s", &out)
	}
	if src, err := b.rl.ReadFile("lib/u.lua"); err != nil || !strings.Contains(string(src), "return 1") {
		t.Errorf("a service that starts now gets %q, %v; want what worked", src, err)
	}
	b.save(map[string]string{"lib/u.lua": "return { v = function() return 1 end }\n"})
	if !strings.Contains(out.String(), "restored") {
		t.Errorf("the log does not say that the file is there again:\n%s", &out)
	}
	b.save(map[string]string{"lib/u.lua": ""})
	b.save(map[string]string{"lib/u.lua": "return { v = function() return 2 end }\n"})
	if got := b.call("v"); got != "[2]" {
		t.Errorf("v = %s (%s)", got, b.story())
	}
}

func TestSavingTwiceWhileAHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, script("local M = {}\nlocal n = 0\nfunction M.slow(ctx) shield.sleep(150) n = n + 1 return 'v0', n end\nreturn M\n"))
		got := make(chan string, 1)
		go func() { got <- b.callOn(b.nodes[0], "slow") }()
		synctest.Wait() // until the handler sleeps
		for i := range 5 {
			b.save(script(fmt.Sprintf("local M = {}\nlocal n = 0\nfunction M.slow(ctx) shield.sleep(1) n = n + 10 return 'v%d', n end\nreturn M\n", i+1)))
		}
		if r := <-got; r != `["v0",1]` {
			t.Errorf("the handler in flight gave %s", r)
		}
		if r := b.callOn(b.nodes[0], "slow"); r != `["v5",11]` {
			t.Errorf("the next one gave %s", r)
		}
	})
}

// busyLog is a log that keeps the service that writes to it: a turn that is busy
// for as long as a test wants.
type busyLog struct {
	slog.Handler
	let chan struct{}
}

func (h busyLog) Enabled(context.Context, slog.Level) bool { return true }

func (h busyLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "busy" {
		<-h.let
	}
	return nil
}

func (h busyLog) WithAttrs([]slog.Attr) slog.Handler { return h }

func TestABusyServiceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := busyLog{slog.DiscardHandler, make(chan struct{})}
		b := newBedWith(t, script("local M = {}\nfunction M.busy(ctx) shield.log.info('busy') return 1 end\nfunction M.v(ctx) return 1 end\nreturn M\n"), func(cfg *service.Config) { cfg.Log = slog.New(log) })
		busy, saved := make(chan string, 1), make(chan []Result, 1)
		go func() { busy <- b.callOn(b.nodes[0], "busy") }()
		synctest.Wait() // until the handler is inside
		go func() {
			saved <- b.save(script("local M = {}\nfunction M.busy(ctx) return 2 end\nfunction M.v(ctx) return 2 end\nreturn M\n"))
		}()
		synctest.Wait()
		select {
		case rs := <-saved:
			t.Errorf("the save did not wait: %+v", rs)
		default:
		}
		close(log.let)
		<-saved
		if r := <-busy; r != "[1]" || b.call("v") != "[2]" {
			t.Errorf("busy gave %s, v gives %s (%s)", r, b.call("v"), b.story())
		}
	})
}

// A handler that does not come to rest costs its own service the save, and no
// other; the next save catches up.
func TestABusyServiceIsNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := busyLog{slog.DiscardHandler, make(chan struct{})}
		b := newBedWith(t, script("local M = {}\nfunction M.busy(ctx) shield.log.info('busy') return 1 end\nfunction M.v(ctx) return 1 end\nreturn M\n"), func(cfg *service.Config) {
			cfg.Log, cfg.Limits.MaxHandler = slog.New(log), time.Hour
		})
		busy := make(chan string, 1)
		go func() { busy <- b.callOn(b.nodes[0], "busy") }()
		synctest.Wait() // until the handler is inside
		rs := b.save(script("local M = {}\nfunction M.v(ctx) return 2 end\nreturn M\n"))
		for _, r := range rs {
			want := Reloaded
			if r.Node == b.nodes[0].ID {
				want = Failed
			}
			if r.Outcome != want {
				t.Errorf("%s on %s: %s (%v), want %s", r.Service, r.Node, r.Outcome, r.Err, want)
			}
			if want == Failed && !strings.Contains(Explain(r), "tried again at the next save") {
				t.Errorf("told: %s", Explain(r))
			}
		}
		if len(rs) != len(b.nodes) {
			t.Errorf("%d results for %d nodes: %+v", len(rs), len(b.nodes), rs)
		}
		close(log.let)
		<-busy
		b.save(script("local M = {}\nfunction M.v(ctx) return 2 end\nreturn M -- saved again\n"))
		if got := b.call("v"); got != "[2]" {
			t.Errorf("v gives %s (%s)", got, b.story())
		}
	})
}

func TestProblemsAreExplained(t *testing.T) {
	b := newBed(t, script("local M = {}\nreturn M\n"))
	for _, tt := range []struct{ name, src, want string }{
		{"syntax", "local M = {}\nlocal x = = 3\nreturn M\n",
			"services/svc.lua:2:11: syntax error near '='\n    2 | local x = = 3\n      |           ^\nsvc: gen 1 keeps serving"},
		{"syntax, a longer word", "local M = {}\nreturn M\n\tlocal x = 3\n",
			"services/svc.lua:3:2: syntax error near 'local'\n    3 | \tlocal x = 3\n      | \t^\nsvc: gen 1 keeps serving"},
		{"syntax, behind letters of several bytes", "local M = {}\nM.t = 'größe' = 3\nreturn M\n",
			"services/svc.lua:2:17: syntax error near '='\n    2 | M.t = 'größe' = 3\n      |               ^\nsvc: gen 1 keeps serving"},
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

func TestTheLogTellsOfEveryUndo(t *testing.T) {
	src := "local M = {}\nfunction M.v(ctx) return 1 end\nreturn M\n"
	b := newBed(t, map[string]string{"services/a.lua": src, "services/svc.lua": src})
	b.save(script(strings.ReplaceAll(src, "1", "2")))
	var out strings.Builder
	b.rl.cfg.Log = slog.New(slog.NewTextHandler(&out, nil))
	if rs := b.rl.Undo(context.Background(), "a", "svc"); len(rs) != 2*nodes || b.call("v") != "[1]" {
		t.Fatalf("undo = %+v, v = %s", rs, b.call("v"))
	}
	for _, want := range []string{"svc.lua undone: svc gen 2 -> 3", "nothing to undo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &out)
		}
	}
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
	want := `level=INFO msg="svc.lua: svc gen 1 -> 2 (HASH) in N ms on 3 nodes" service=reload event=reload generation=2
level=WARN msg="services/svc.lua:3: not run again: print(\"hello\"); to start afresh, without the old state: shield reload --restart svc" service=reload event=reload node=node-1
level=INFO msg="svc.lua undone: svc gen 2 -> 3 (HASH) on 3 nodes; what is on disk is not loaded until it changes again" service=reload event=reload generation=3
level=WARN msg="lost: n: 2, was 0" service=reload event=reload node=node-1
level=ERROR msg="services/svc.lua:1:12: the file ends, but '{' of line 1 is not closed\n    1 | local M = {\n      |            ^\nsvc: gen 3 keeps serving" service=reload event=reload
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
