package repl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/controltest"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a control server on a real socket. It evaluates lines from a table:
// "line" -> "value", or "!why it fails"; a line that ends in "(" is not complete.
func serve(t *testing.T, lines map[string]string) (*client.Client, *controltest.Host) {
	t.Helper()
	rows := controltest.Three()
	rows.Eval = func(ctx context.Context, e control.Eval) control.CallResult {
		res := control.CallResult{ID: 4, Generation: 1, Code: "a41f9c", OK: true, Values: []json.RawMessage{}}
		said, ok := lines[e.Source]
		switch why, failed := strings.CutPrefix(said, "!"); {
		case strings.HasSuffix(e.Source, "("):
			return control.CallResult{Incomplete: "'=' expected near <eof>"}
		case e.Source == "hang":
			<-ctx.Done()
		case failed:
			res.OK, res.Hint = false, "it is nil"
			res.Error = &control.Error{Code: shield.HandlerError, Message: why, Detail: "stack traceback:\n\troom.lua:3\n\trepl:1"}
		case ok:
			res.Text, res.Values = []string{said}, append(res.Values, json.RawMessage("1"))
		}
		return res
	}
	rows.Complete = func(c control.Complete) (control.Completion, error) {
		return control.Completion{From: strings.LastIndexAny(c.Line, " .") + 1, Words: []string{"members"}}, nil
	}
	rows.Inspect = func(r control.Inspect) (control.Inspection, error) {
		in := control.Inspection{Service: r.Service, Node: r.Node, ID: 4, State: shield.Running, Generation: 1, Code: "a41f9c", Memory: 12 << 10,
			Handlers: []control.HandlerRow{{Method: "ping", Count: 3, MeanMS: 1.5, MaxMS: 2}}, Tables: []control.TableRow{},
			Timers:  []control.TimerRow{{ID: 1, InMS: 1500, Function: "room.lua:9"}, {ID: 2, InMS: -1, EveryMS: 100, Function: "room.lua:10"}},
			Waiting: []control.WaitRow{{Method: "doze", What: "shield.sleep", ForMS: 70, Stack: "room.lua:4"}, {Method: "doze", What: "shield.sleep", ForMS: 60, Stack: "room.lua:4"}}}
		if r.State {
			in.Held = []control.HeldRow{{Name: "M.gold", Kind: "field", Text: "3"}, {Name: "seats", Kind: "local", Text: "{\n  1 }"}}
		}
		if r.Service == "auth" {
			in.State, in.Reason = shield.Failed, "panic: 10 errors in a row"
		}
		return in, nil
	}
	h := controltest.New(rows)
	dir := t.TempDir()
	sock, err := control.Listen(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Config{Host: h})
	done := make(chan error, 1)
	go func() { done <- s.Serve(sock, control.Access{Eval: true}) }()
	c, err := client.Open(t.Context(), client.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-done); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return c, h
}

func attach(t *testing.T, c *client.Client, cfg repl.Config) *repl.Session {
	t.Helper()
	if cfg.Target == "" {
		cfg.Target = "node-2:room.public"
	}
	s, _, err := repl.Attach(t.Context(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// text is an answer as a screen without colours would print it.
func text(a repl.Answer) string {
	var b strings.Builder
	for _, bl := range a.Blocks {
		if bl.Table != nil {
			fmt.Fprintln(&b, strings.Join(bl.Table.Head, " "))
			for _, row := range bl.Table.Rows {
				fmt.Fprintln(&b, strings.Join(row, " | "))
			}
			continue
		}
		sign := map[repl.Kind]string{repl.Failure: "error: ", repl.Hint: "hint: ", repl.Warning: "! ", repl.Note: "# ", repl.Aside: "# ", repl.Trace: "trace: ", repl.Alarm: "!! "}[bl.Kind]
		fmt.Fprintln(&b, sign+bl.Text+strings.Repeat("  -- ", min(len(bl.Kept), 1))+bl.Kept)
	}
	return b.String()
}

// say types a line and gives what came.
func say(t *testing.T, s *repl.Session, line string) string {
	t.Helper()
	var b strings.Builder
	if err := s.Line(t.Context(), line, func(a repl.Answer) { b.WriteString(text(a)) }); err != nil {
		fmt.Fprintf(&b, "over: %v\n", err)
	}
	return b.String()
}

func TestAttach(t *testing.T) {
	c, _ := serve(t, nil)
	s, hello, err := repl.Attach(t.Context(), c, repl.Config{Target: "node-2:room.public"})
	if err != nil {
		t.Fatal(err)
	}
	want := "# attached to node-2:room.public   code 1 a41f9c   memory 12 KiB   mailbox 0\n" +
		"# each line is one turn of the service; it may run 1s; Ctrl-C gives it up, Ctrl-D detaches, .help\n"
	if got := text(hello); got != want {
		t.Errorf("greeting %q, want %q", got, want)
	}
	if got := s.Prompt(); got != "node-2:room.public:1> " {
		t.Errorf("prompt %q", got)
	}
	var still *repl.NotRunningError
	if _, _, err := repl.Attach(t.Context(), c, repl.Config{Target: "node-1:auth"}); !errors.As(err, &still) || err.Error() != "auth on node-1 is failed: panic: 10 errors in a row" {
		t.Errorf("attach to a failed service: %v", err)
	}
	if _, _, err := repl.Attach(t.Context(), c, repl.Config{Target: "nobody"}); !errors.Is(err, shield.ServiceNotFound) {
		t.Errorf("attach to nobody: %v", err)
	}
}

func TestLines(t *testing.T) {
	c, _ := serve(t, map[string]string{"#M": "7", "-- a remark\n#M": "8", "f(\n1)": "9", "boom": "!boom"})
	dir := t.TempDir()
	for name, lua := range map[string]string{"good.lua": "#M", "half.lua": "f("} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(lua), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := attach(t, c, repl.Config{Dir: dir})
	tests := []struct{ line, want string }{
		{"", ""}, {"-- a remark", ""}, {"-- a remark\n#M", "8\n"}, {"#M", "7\n"}, {"x = 1", ""},
		{"boom", "error: boom\nhint: it is nil\ntrace: stack traceback:\n\troom.lua:3\n\trepl:1\n"},
		{"f(", ""}, {"1)", "9\n"},
		{".state", "M.gold = 3  -- field\nseats = {\n  1 }  -- local\n"},
		{".state gold", "M.gold = 3  -- field\n"},
		{".state nix", "error: it holds nothing called nix\n"},
		{".timers", "TIMER DUE EVERY FUNCTION\n1 | in 1.5s | once | room.lua:9\n2 | now | 100ms | room.lua:10\n"},
		{".calls", "HANDLER COUNT ERRORS MEAN MAX\nping | 3 | 0 | 1.50 ms | 2.00 ms\n\nHANDLER WAITS IN SINCE TRACE\ndoze | shield.sleep | 70ms | \ndoze | shield.sleep | 60ms | \n"},
		{".stack", "\n2 times doze in shield.sleep\nroom.lua:4\n"},
		{".load good.lua", "7\n"},
		{".load half.lua", "error: half.lua ends too early: '=' expected near <eof>\n"},
		{".save lines.txt", "# 6 lines are in lines.txt\n"},
		{".save lines.txt", "error: lines.txt exists already; choose another name\n"},
		{".watch", "error: use it as: .watch EXPR\n"},
		{".watch f(", "error: f(: it is not complete\n"},
		{".timers now", "error: use it as: .timers\n"},
		{".tmers", "error: there is no .tmers (did you mean .timers?); .help lists what there is\n"},
		{".abracadabra", "error: there is no .abracadabra; .help lists what there is\n"},
		{".quit", "over: leave\n"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, say(t, s, tt.line)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "lines.txt")); err != nil || string(b) != "-- a remark\n#M\n#M\nx = 1\nboom\nf(\n1)\n" {
		t.Errorf("saved %q, %v", b, err)
	}
	if s.Line(t.Context(), ".load nowhere.lua", func(a repl.Answer) {
		if !errors.Is(a.Err, os.ErrNotExist) {
			t.Errorf("load of nothing: %v", a.Err)
		}
	}) != nil {
		t.Error("a file that is not there ends the session")
	}
}

// Every command of .help is one that works, and .help names them all.
func TestHelpNamesEveryCommand(t *testing.T) {
	c, _ := serve(t, map[string]string{"1": "1"})
	s := attach(t, c, repl.Config{Dir: t.TempDir(), Once: true})
	help := text(repl.Help())
	for _, name := range repl.Dots("") {
		if !strings.Contains(help, "  "+name+" ") {
			t.Errorf(".help lacks %s", name)
		}
		line := name + map[string]string{".watch": " 1", ".load": " x", ".save": " x"}[name]
		if got := say(t, s, line); strings.Contains(got, "there is no") || strings.Contains(got, "use it as") {
			t.Errorf("%s: %s", line, got)
		}
	}
	if got := repl.Dots(".s"); !slices.Equal(got, []string{".state", ".stack", ".save"}) {
		t.Errorf("what begins with .s: %q", got)
	}
}

func TestChangesAreSaid(t *testing.T) {
	c, h := serve(t, nil)
	s := attach(t, c, repl.Config{})
	as := func(id shield.ServiceID, gen int) {
		h.Set(func(r *controltest.Rows) {
			r.Eval = func(context.Context, control.Eval) control.CallResult {
				return control.CallResult{OK: true, Values: []json.RawMessage{}, ID: id, Generation: gen}
			}
		})
	}
	for _, tt := range []struct {
		id   shield.ServiceID
		gen  int
		want string
	}{
		{5, 1, "! -- it was started afresh --\n"},
		{5, 1, ""},
		{5, 2, "# -- generation 1 -> 2; the locals of this session were kept --\n"},
		{6, 1, "! -- it was started afresh; the locals of this session are gone --\n"},
	} {
		as(tt.id, tt.gen)
		if got := say(t, s, "1"); got != tt.want {
			t.Errorf("#%d generation %d: %q, want %q", tt.id, tt.gen, got, tt.want)
		}
	}
}

// A watch shows what changes until it is ended; on a pipe it looks once.
func TestWatch(t *testing.T) {
	c, h := serve(t, nil)
	var looks atomic.Int64
	h.Set(func(r *controltest.Rows) {
		r.Eval = func(context.Context, control.Eval) control.CallResult {
			return control.CallResult{OK: true, Values: []json.RawMessage{}, ID: 4, Generation: 1, Text: []string{fmt.Sprint(looks.Add(1) / 2)}}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	s := attach(t, c, repl.Config{})
	err := s.Line(ctx, ".watch #M", func(a repl.Answer) {
		if !a.Watched {
			t.Error("a look that does not say so")
		}
		if seen = append(seen, strings.TrimSpace(text(a))); len(seen) == 2 {
			cancel()
		}
	})
	if err != nil || !slices.Equal(seen, []string{"0", "1"}) {
		t.Errorf("watched %q, %v", seen, err)
	}
	looks.Store(10)
	if got := say(t, attach(t, c, repl.Config{Once: true}), ".watch #M"); got != "5\n" || looks.Load() != 11 {
		t.Errorf("on a pipe it saw %q", got)
	}
	if got := repl.Watches(" .watch  #M "); got != "#M" {
		t.Errorf("Watches: %q", got)
	}
	if got := repl.Watches(".watchful x"); got != "" {
		t.Errorf("Watches: %q", got)
	}
}

func TestGivenUp(t *testing.T) {
	c, _ := serve(t, nil)
	s := attach(t, c, repl.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // another process would be asked
	defer cancel()
	var got string
	err := s.Line(ctx, "hang", func(a repl.Answer) { got += text(a) })
	if !errors.Is(err, context.DeadlineExceeded) || got != "! given up\n" {
		t.Errorf("a line that is given up: %q, %v", got, err)
	}
}

func TestComplete(t *testing.T) {
	c, _ := serve(t, nil)
	s := attach(t, c, repl.Config{})
	tests := []struct {
		line  string
		from  int
		words string
	}{
		{".st", 0, ".state .stack"}, {"M.me", 2, "members"}, {".watch M.me", 9, "members"}, {".load M.me", 0, ""}, {".zz", 0, ""},
	}
	for _, tt := range tests {
		from, words, err := s.Complete(t.Context(), tt.line)
		if err != nil || from != tt.from || strings.Join(words, " ") != tt.words {
			t.Errorf("Complete(%q) = %d, %q, %v", tt.line, from, words, err)
		}
	}
	say(t, s, "f(")
	if from, words, err := s.Complete(t.Context(), ".st"); err != nil || from != 1 || len(words) != 1 {
		t.Errorf("inside of a chunk .st completes to %d, %q, %v", from, words, err)
	}
	if a, bad := s.End(); !bad || a.Result.OK || !strings.Contains(text(a), `inside of what began with "f("`) {
		t.Errorf("End() = %q, %v", text(a), bad)
	}
	s.Drop()
	if _, bad := s.End(); bad || s.Prompt() != "node-2:room.public:1> " {
		t.Errorf("after Drop a chunk is open: %q", s.Prompt())
	}
}

func TestReload(t *testing.T) {
	c, h := serve(t, nil)
	if got := say(t, attach(t, c, repl.Config{ReadOnly: true}), ".reload"); got != "error: this session is read-only, and a reload changes the service\n" {
		t.Errorf("read-only: %q", got)
	}
	s := attach(t, c, repl.Config{})
	for _, tt := range []struct {
		res  control.ReloadResult
		want string
	}{
		{control.ReloadResult{OK: true, MS: 11, Services: []control.ReloadRow{{Service: "room.public", Node: "node-1", Result: "reloaded"}}}, "1 reloaded in 11ms\n"},
		{control.ReloadResult{MS: 11, Services: []control.ReloadRow{{Service: "room.public", Node: "node-1", Result: "failed", Warnings: []string{"kept"}, Lost: []string{"2 messages"},
			Error: &control.Error{Code: shield.ScriptLoadFailed, Message: "room.lua:12:7: '=' expected", Detail: "12 | local x"}}}},
			"error: 1 failed in 11ms\nroom.public on node-1: script_load_failed: room.lua:12:7: '=' expected\n12 | local x\nroom.public on node-1: kept\nroom.public on node-1: lost 2 messages\n"},
		{control.ReloadResult{OK: true}, "nothing to reload in 0ms\n"},
	} {
		h.Set(func(r *controltest.Rows) {
			r.Reload = func(control.ReloadRequest) (control.ReloadResult, error) { return tt.res, nil }
		})
		if got := say(t, s, ".reload"); got != tt.want {
			t.Errorf("reload: %q, want %q", got, tt.want)
		}
	}
}

// A stuck service is told as such by what would show its state.
func TestStuck(t *testing.T) {
	c, h := serve(t, nil)
	s := attach(t, c, repl.Config{})
	h.Set(func(r *controltest.Rows) {
		inspect := r.Inspect
		r.Inspect = func(q control.Inspect) (control.Inspection, error) {
			in, err := inspect(q)
			in.Stuck, in.Waiting = &control.StuckRow{Method: "spin", Kind: "handler", ForMS: 3000, Stack: "room.lua:7"}, nil
			return in, err
		}
	})
	for _, line := range []string{".state", ".stack"} {
		if got, want := say(t, s, line), "!! stuck in spin (handler) since 3.0s\nroom.lua:7\n"; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	_, hello, err := repl.Attach(t.Context(), c, repl.Config{Target: "room.public", ReadOnly: true})
	if err == nil && !strings.Contains(text(hello), "it is inside spin since 3.0s") {
		t.Errorf("greeting: %q", text(hello))
	}
}

// A file without an end is too long, and not read until the memory is full.
func TestLoadIsBounded(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	c, _ := serve(t, nil)
	var said string
	if err := attach(t, c, repl.Config{}).Line(t.Context(), ".load /dev/zero", func(a repl.Answer) { said += text(a) }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, "longer than 1048576 bytes") {
		t.Errorf(".load /dev/zero said %q", said)
	}
}
