package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	stdio "io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// ctl is a project with a control API in front of a Host that the test sets.
type ctl struct {
	*controltest.Host
	dir string
}

func serveCtl(t *testing.T) *ctl {
	t.Helper()
	c := &ctl{Host: controltest.New(controltest.Three()), dir: t.TempDir()}
	sock, err := control.Listen(c.dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Config{Host: c.Host})
	done := make(chan error, 1)
	go func() { done <- s.Serve(sock, control.Access{Eval: true}) }()
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	return c
}

// outcome is what one run of the program left behind.
type outcome struct {
	exit     int
	out, err string
}

// shieldIn runs the program in a folder, without a terminal.
func shieldIn(t *testing.T, dir, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	io := &IO{In: strings.NewReader(stdin), Out: &out, Err: &errs, Dir: dir, Color: "auto", Exit: func(int) {}}
	exit := run(ctx, args, io)
	return outcome{exit, out.String(), errs.String()}
}

func (c *ctl) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return shieldIn(t, c.dir, "", args...)
}

func TestCtlCall(t *testing.T) {
	c := serveCtl(t)
	for _, tt := range []struct {
		name string
		args []string
		exit int
		out  string // whole
		err  string // a part
	}{
		{"values, one a line", []string{"call", "node-2:room.public", "ping", `{"a":[1,2]}`, "plain text", "3", "-5", "true", `"3"`}, 0,
			"{\"a\":[1,2]}\n\"plain text\"\n3\n-5\ntrue\n\"3\"\n", "node-2:room.public  code 1 a41f9c  0.40 ms  trace 0000000000000abc\n"},
		{"nothing returned", []string{"call", "auth", "login"}, 0, "", "node-1:auth"},
		{"an unknown method", []string{"call", "node-2:room.public", "pong"}, 4, "", "did you mean \"ping\"?"},
		{"several nodes", []string{"call", "room.public", "ping"}, 4, "", "node-2:room.public node-3:room.public"},
		{"too few words", []string{"call", "room.public"}, 2, "", "usage: shield call TARGET METHOD"},
		{"json", []string{"call", "node-2:room.public", "ping", "1", "--json"}, 0,
			`{"ok":true,"values":[1],"node":"node-2","service":"room.public","generation":1,"code":"a41f9c","ms":0.4,"trace":"0000000000000abc"}` + "\n", ""},
		{"json, failed", []string{"call", "nobody", "ping", "--json"}, 4,
			`{"ok":false,"error":{"code":"service_not_found","message":"no node publishes \"nobody\"; names: auth players room.public","retryable":true,"detail":{"known":["auth","players","room.public"]}},"ms":0}` + "\n", ""},
		{"eval", []string{"eval", "auth", "1 + 1"}, 0, "\"1 + 1\"\n", "node-1:auth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.run(t, tt.args...)
			if got.exit != tt.exit || got.out != tt.out || !strings.Contains(got.err, tt.err) {
				t.Errorf("shield %q = exit %d\nout: %s\nerr: %s\nwant exit %d\nout: %s\nerr with: %s", tt.args, got.exit, got.out, got.err, tt.exit, tt.out, tt.err)
			}
		})
	}
}

func TestCtlCallOutcomesHaveTheirExitCodes(t *testing.T) {
	c := serveCtl(t)
	for _, tt := range []struct {
		code shield.Code
		exit int
	}{{shield.Timeout, 6}, {shield.HandlerError, 4}, {shield.ServiceDead, 4}, {shield.NodeOffline, 4}} {
		c.Set(func(r *controltest.Rows) {
			r.Call = func(context.Context, control.Call) control.CallResult {
				return control.CallResult{Error: control.MakeError(&shield.Error{Code: tt.code, Message: "boom", Detail: "stack traceback:\n\tlib.lua:3"}, "")}
			}
		})
		got := c.run(t, "call", "auth", "login")
		if got.exit != tt.exit || got.out != "" || !strings.Contains(got.err, string(tt.code)+": boom") || !strings.Contains(got.err, "    lib.lua:3") {
			t.Errorf("%s: exit %d, want %d\nout: %s\nerr: %s", tt.code, got.exit, tt.exit, got.out, got.err)
		}
		if strings.Index(got.err, ": boom") > strings.Index(got.err, "stack traceback") {
			t.Errorf("%s: the traceback hides the error:\n%s", tt.code, got.err)
		}
		got = c.run(t, "call", "auth", "login", "--json")
		var body struct {
			OK    bool
			Error control.Error
		}
		if err := json.Unmarshal([]byte(got.out), &body); err != nil || body.OK || body.Error.Code != tt.code || got.exit != tt.exit || got.err != "" {
			t.Errorf("%s --json: exit %d, %v\nout: %s\nerr: %s", tt.code, got.exit, err, got.out, got.err)
		}
	}
}

// Ctrl-C during a call is an outcome of it too.
func TestCtlInterruptedCall(t *testing.T) {
	c := serveCtl(t)
	started := make(chan struct{}, 2)
	c.Set(func(r *controltest.Rows) {
		r.Call = func(ctx context.Context, _ control.Call) control.CallResult {
			started <- struct{}{}
			<-ctx.Done()
			return control.CallResult{Error: control.MakeError(ctx.Err(), shield.Timeout)}
		}
	})
	for _, flags := range [][]string{nil, {"--json"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-started; cancel(errInterrupted) }()
		var out, errs bytes.Buffer
		exit := run(ctx, append([]string{"call", "auth", "login"}, flags...), &IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: c.dir, Color: "auto"})
		if exit != exitInterrupted {
			t.Errorf("%v: exit %d, want 130", flags, exit)
		}
		if flags != nil && (!strings.HasPrefix(out.String(), `{"ok":false,"error":{"code":"interrupted",`) || errs.Len() > 0) {
			t.Errorf("%v: out %q, err %q", flags, out.String(), errs.String())
		}
	}
}

func TestCtlEvalReadsStandardInput(t *testing.T) {
	c := serveCtl(t)
	got := shieldIn(t, c.dir, "return 1\n", "eval", "auth", "-")
	if got.exit != 0 || got.out != "\"return 1\\n\"\n" {
		t.Errorf("eval - = %+v", got)
	}
	c.Set(func(r *controltest.Rows) {
		r.Eval = func(context.Context, control.Eval) control.CallResult {
			return control.CallResult{OK: true, Values: []json.RawMessage{json.RawMessage("null")}, Text: []string{"function: builtin\x1b[31m"}}
		}
	})
	if got := c.run(t, "eval", "auth", "print"); got.out != "function: builtin\n" {
		t.Errorf("eval of what JSON can't show = %q", got.out)
	}
}

func TestCtlReadingVerbs(t *testing.T) {
	c := serveCtl(t)
	for _, tt := range []struct {
		args []string
		want string // a part of out
	}{
		{[]string{"nodes"}, "NODE    STATE   EPOCH  SERVICES  SESSIONS  ROUTES  HEARTBEAT  ADDRESS         GATEWAYS\n" +
			"node-1  online  100           1         0      v5      120ms  127.0.0.1:9000  tcp://127.0.0.1:7001\n"},
		{[]string{"nodes", "--from", "node-3"}, "node-3  online"},
		{[]string{"routes"}, "NAME         NODE    SERVICE  VERSION\nauth         node-1        1        3\n"},
		{[]string{"services", "--node", "node-1"}, "auth     node-1   1  running  1 a41f9c        0      0       0"},
		{[]string{"sessions"}, "s-1      ann         1  node-2:players  node-1:main  bound"},
		{[]string{"sessions", "show", "s-1"}, "s-1      ann"},
		{[]string{"status"}, "arena (dev)  shield 0.1.0  pid 4711"},
		{[]string{"status"}, "LINKS  RECONNECTS  TX  RX  HB-TX  HB-RX  COUNTED\n"},
		{[]string{"clock"}, "node-1  2026-05-01T12:00:00Z     0s"},
	} {
		got := c.run(t, tt.args...)
		if got.exit != 0 || !strings.Contains(got.out, tt.want) || got.err != "" && tt.args[0] != "sessions" {
			t.Errorf("shield %q = exit %d\nout: %s\nerr: %s\nwant: %s", tt.args, got.exit, got.out, got.err, tt.want)
		}
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("shield %q: escapes without a terminal: %q", tt.args, got.out)
		}
		got = c.run(t, append(tt.args, "--json")...)
		if got.exit != 0 || !json.Valid([]byte(got.out)) || strings.Count(got.out, "\n") != 1 || got.err != "" {
			t.Errorf("shield %q --json = exit %d\nout: %s\nerr: %s", tt.args, got.exit, got.out, got.err)
		}
		if tt.args[len(tt.args)-1] != "s-1" && !strings.HasPrefix(got.out, "[{") {
			t.Errorf("shield %q --json prints no array: %s", tt.args, got.out)
		}
	}
}

func TestCtlEmptyListsAreArrays(t *testing.T) {
	c := serveCtl(t)
	c.Set(func(r *controltest.Rows) { r.Sessions = nil })
	if got := c.run(t, "sessions", "--json"); got.out != "[]\n" || got.exit != 0 {
		t.Errorf("sessions --json = %+v", got)
	}
	if got := c.run(t, "sessions"); got.out != "" || !strings.Contains(got.err, "shield client") {
		t.Errorf("sessions = %+v", got)
	}
}

func TestCtlNothingToTalkTo(t *testing.T) {
	empty := t.TempDir()
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "shield.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir string
		args      []string
		exit      int
		want      string
	}{
		{"no project", empty, []string{"nodes"}, 3, "looked for shield.yaml, .shield/"},
		{"not running", project, []string{"call", "a", "b"}, 3, "looked for .shield/control.sock, .shield/NODE.sock"},
		{"the way out", project, []string{"status"}, 3, "\n  start one: shield dev\n"},
		{"an endpoint by hand", empty, []string{"nodes", "--endpoint", "unix:/nowhere.sock"}, 3, "unix:/nowhere.sock does not answer"},
		{"no endpoint", empty, []string{"nodes", "--endpoint", "http://x"}, 2, "want unix:PATH or tcp://HOST:PORT"},
	} {
		got := shieldIn(t, tt.dir, "", tt.args...)
		if got.exit != tt.exit || got.out != "" || !strings.Contains(got.err, tt.want) {
			t.Errorf("%s: exit %d, want %d\nout: %s\nerr: %s\nwant: %s", tt.name, got.exit, tt.exit, got.out, got.err, tt.want)
		}
	}
	// Every outcome of a call is JSON on standard output; of other verbs, on
	// standard error.
	got := shieldIn(t, project, "", "call", "a", "b", "--json")
	var body control.ErrorBody
	if err := json.Unmarshal([]byte(got.out), &body); err != nil || body.OK || body.Error.Code != "nobody" || got.exit != 3 || got.err != "" {
		t.Errorf("call --json = %+v, %v", got, err)
	}
	got = shieldIn(t, project, "", "nodes", "--json")
	if !json.Valid([]byte(got.err)) || got.out != "" || got.exit != 3 {
		t.Errorf("nodes --json = %+v", got)
	}
}

func TestCtlActsOnlyWithAYes(t *testing.T) {
	c := serveCtl(t)
	for _, args := range [][]string{{"kill", "node-2"}, {"stop", "node-2"}, {"restart", "node-2"}, {"drain", "node-2"},
		{"sessions", "kick", "s-1"}, {"reload", "auth", "--restart"}} {
		got := c.run(t, args...)
		if got.exit != 2 || !strings.Contains(got.err, "add --yes") {
			t.Errorf("shield %q = %+v, want a demand for --yes", args, got)
		}
	}
	if asked := c.Requests(); len(asked) != 0 {
		t.Errorf("the host was asked %v", asked)
	}
	for _, args := range [][]string{{"kill", "node-2", "--yes"}, {"drain", "node-2", "--yes"},
		{"sessions", "kick", "s-1", "--yes", "--reason", "x"}, {"reload", "auth", "--undo"}, {"loglevel", "debug", "--node", "node-1"}, {"clock", "-30m"}} {
		if got := c.run(t, args...); got.exit != 0 {
			t.Errorf("shield %q = %+v", args, got)
		}
	}
	want := []any{
		control.NodeRequest{Node: "node-2", Action: control.NodeKill},
		control.DrainRequest{Node: "node-2"}, control.KickRequest{Session: "s-1", Reason: "x"},
		control.ReloadRequest{Names: []shield.Name{"auth"}, Undo: true}, control.LogLevelRequest{Level: "debug", Node: "node-1"},
		control.ClockRequest{Shift: -30 * 60 * 1000},
	}
	if diff := cmp.Diff(want, c.Requests()); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
}

func TestCtlReloadSaysWhatBecameOfEachService(t *testing.T) {
	c := serveCtl(t)
	c.Set(func(r *controltest.Rows) {
		r.Reload = func(control.ReloadRequest) (control.ReloadResult, error) {
			return control.ReloadResult{OK: false, Services: []control.ReloadRow{
				{Service: "auth", Node: "node-1", Result: "reloaded", From: 1, To: 2, Code: "b7", MS: 3.5, Warnings: []string{"services/auth.lua:9: captures more"}},
				{Service: "room", Node: "node-2", Result: "failed", From: 1, To: 1, Code: "a4",
					Error: control.MakeError(shield.Errorf(shield.ScriptLoadFailed, "services/room.lua:12:7: '=' expected near 'x'"), "")},
			}}, nil
		}
	})
	got := c.run(t, "reload")
	if got.exit != 5 || !strings.Contains(got.out, "auth     node-1  reloaded  1 -> 2  b7    3.50 ms\n") ||
		!strings.Contains(got.err, "services/room.lua:12:7") || !strings.Contains(got.err, "services/auth.lua:9") {
		t.Errorf("reload = exit %d\n%s%s", got.exit, got.out, got.err)
	}
	if got := c.run(t, "reload", "--json"); got.exit != 5 || !json.Valid([]byte(got.out)) || got.err != "" {
		t.Errorf("reload --json = %+v", got)
	}
}

func TestCtlLogs(t *testing.T) {
	c := serveCtl(t)
	c.Logs().Append(shield.LogRow{Time: time.Unix(0, 0), Level: "info", Node: "node-1", Service: "auth", Text: "hello\n\x1b[2Jtraceback"})
	c.Logs().Append(shield.LogRow{Time: time.Unix(0, 0), Level: "debug", Node: "node-1", Service: "auth", Text: "fine detail"})
	c.Logs().Append(shield.LogRow{Time: time.Unix(0, 0), Level: "error", Node: "node-2", Service: "room", Text: "broken"})
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--level", "info"}, "00:00:00.000 info  node-1   auth         hello\n    \\x1b[2Jtraceback\n00:00:00.000 error node-2   room         broken\n"},
		{[]string{"--level", "error"}, "00:00:00.000 error node-2   room         broken\n"},
		{[]string{"--level", "debug", "--tail", "2", "--node", "node-1", "--service", "auth"}, "00:00:00.000 info  node-1   auth         hello\n    \\x1b[2Jtraceback\n00:00:00.000 debug node-1   auth         fine detail\n"},
		{[]string{"--tail", "0"}, ""},
	} {
		got := c.run(t, append([]string{"logs", "--utc"}, tt.args...)...)
		if got.exit != 0 || got.out != tt.want {
			t.Errorf("logs %q = exit %d\n%q\nwant\n%q\n%s", tt.args, got.exit, got.out, tt.want, got.err)
		}
	}
	got := c.run(t, "logs", "--json")
	for line := range strings.Lines(got.out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if got := c.run(t, "logs", "--level", "inof"); got.exit != 1 || !strings.Contains(got.err, `did you mean "info"?`) {
		t.Errorf("logs --level inof = %+v", got)
	}
}

// follower runs a verb that does not end by itself.
type follower struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (f *follower) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(b)
}

func (f *follower) has(s string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.out.String(), s)
}

func TestCtlWatchIsOneRowALine(t *testing.T) {
	c := serveCtl(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &follower{}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"nodes", "--watch", "--json"}, &IO{In: strings.NewReader(""), Out: out, Err: stdio.Discard, Dir: c.dir, Color: "auto"})
	}()
	waitUntil(t, func() bool { return out.has(`"node-3"`) })
	c.Set(func(r *controltest.Rows) { r.Nodes[1].State = shield.Offline; r.Nodes = r.Nodes[:2] }, control.TopicNodes)
	waitUntil(t, func() bool { return out.has(`{"gone":"node-3"}`) })
	cancel(errInterrupted)
	if exit := <-done; exit != exitInterrupted {
		t.Errorf("exit %d, want 130", exit)
	}
	var lines []string
	for line := range strings.Lines(out.out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
		lines = append(lines, line)
	}
	if len(lines) != 5 || !strings.Contains(lines[3], `"node":"node-2","state":"offline"`) {
		t.Errorf("lines = %q", lines)
	}
}

// waitUntil polls, because what it waits for crosses a real socket.
func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 10 s")
		}
	}
}

func TestCtlWait(t *testing.T) {
	c := serveCtl(t)
	for _, args := range [][]string{{"wait"}, {"wait", "node-2"}, {"wait", "room.public"}, {"wait", "node-3:room.public"}} {
		if got := c.run(t, args...); got.exit != 0 || got.out != "" || got.err != "" {
			t.Errorf("shield %q = %+v", args, got)
		}
	}
	got := c.run(t, "wait", "node-2", "--state", "offline", "--timeout", "80ms")
	if got.exit != 6 || !strings.Contains(got.err, "waited 80ms for node-2: node-2 is online") {
		t.Errorf("wait for what does not come = %+v", got)
	}
	if got := shieldIn(t, t.TempDir(), "", "wait", "--timeout", "80ms"); got.exit != 3 {
		t.Errorf("wait without a server = %+v", got)
	}
	c.Set(func(r *controltest.Rows) { r.Ready = errors.New("node-3 is connecting") })
	time.AfterFunc(100*time.Millisecond, func() { c.Set(func(r *controltest.Rows) { r.Ready = nil }) })
	if got := c.run(t, "wait", "--timeout", "10s"); got.exit != 0 {
		t.Errorf("wait for ready = %+v", got)
	}
}

func TestCtlCompletion(t *testing.T) {
	c := serveCtl(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"call", ""}, "node-2:room.public\n"},
		{[]string{"call", "node-2:room.public", ""}, "join\nping\n"},
		{[]string{"sessions", "show", ""}, "s-1\tann\n"},
		{[]string{"drain", ""}, "node-2\tonline\n"},
		{[]string{"nodes", "--from", ""}, "node-3\tonline\n"},
	} {
		got := c.run(t, append([]string{"__complete"}, tt.args...)...)
		if !strings.Contains(got.out, tt.want) {
			t.Errorf("complete %q = %q, want %q", tt.args, got.out, tt.want)
		}
		got = shieldIn(t, t.TempDir(), "", append([]string{"__complete"}, tt.args...)...)
		if got.out != ":4\n" {
			t.Errorf("complete %q without a server = %q, want nothing", tt.args, got.out)
		}
	}
}

func TestCtlAges(t *testing.T) {
	for _, tt := range []struct {
		ms   int64
		want string
	}{{0, "0ms"}, {999, "999ms"}, {1500, "1.5s"}, {61_000, "1m01s"}, {3_725_000, "1h02m"}, {math.MaxInt32 * 1000, "596523h14m"}} {
		if got := age(tt.ms); got != tt.want {
			t.Errorf("age(%d) = %q, want %q", tt.ms, got, tt.want)
		}
	}
}
