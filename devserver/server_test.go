package devserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/devserver/logs"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// These tests run on real sockets and real files, so they wait in real time,
// each wait for something that happens as soon as it can.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const projectYAML = `
app: { name: test }
services:
  - { name: room, script: room.lua }
gateways:
  - { name: main, nodes: [node-1], auth: room, network: { tcp: "127.0.0.1:%d" } }
`

const roomLua = `
local M = {}
local n = 0
function M.ping(ctx) n = n + 1 return "one", n end
return M
`

// newProject writes a project whose gateway takes port; 0 = any.
func newProject(t *testing.T, port int) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "shield.yaml", fmt.Sprintf(projectYAML, port))
	write(t, dir, "room.lua", roomLua)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newServer(t *testing.T, dir string, nodes int) (*Server, error) {
	t.Helper()
	project, err := config.Load(config.Options{Dir: dir, Dev: true, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	rows := control.NewRing[shield.LogRow](1000, func(r *shield.LogRow, seq uint64) { r.Seq = seq })
	return New(Config{
		Project: project, Mode: control.ModeDev, Nodes: nodes, Version: "test", Watch: true, Rows: rows,
		Log: logs.New(func(r shield.LogRow) { rows.Append(r) }),
	})
}

// serve starts a server and a client of it.
func serve(t *testing.T, dir string, nodes int) (*Server, *client.Client) {
	t.Helper()
	s, err := newServer(t, dir, nodes)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	dumpOnFail(t, s)
	t.Cleanup(func() { stop(t, s) })
	c := client.New(client.Endpoint{Network: "unix", Address: s.socket.Path})
	t.Cleanup(c.Close)
	return s, c
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

// call gives the values of a call as JSON.
func call(t *testing.T, c *client.Client, target, method string, args ...string) string {
	t.Helper()
	req := control.CallRequest{Target: target, Method: method}
	for _, a := range args {
		req.Args = append(req.Args, json.RawMessage(a))
	}
	res, err := c.Call(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK {
		return "error " + string(res.Error.Code)
	}
	out, err := json.Marshal(res.Values)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func wantCall(t *testing.T, c *client.Client, want, target, method string, args ...string) {
	t.Helper()
	if got := call(t, c, target, method, args...); got != want {
		t.Errorf("call %s %s %v = %s, want %s", target, method, args, got, want)
	}
}

func dumpOnFail(t *testing.T, s *Server) {
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range allRows(s) {
				t.Log(r.Node, r.Level, r.Text)
			}
		}
	})
}

// eventually waits for what real files, sockets and processes bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func TestThreeNodesServeAndAreOnlineToEachOther(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 3)
	for _, from := range []shield.NodeID{"node-1", "node-2", "node-3"} {
		rows, err := c.Nodes(context.Background(), from)
		if err != nil || len(rows) != 3 {
			t.Fatalf("nodes from %s = %v, %v", from, rows, err)
		}
		for _, r := range rows {
			if r.State != shield.Online {
				t.Errorf("%s sees %s %s", from, r.Node, r.State)
			}
		}
		wantCall(t, c, `["one",1]`, string(from)+":room", "ping")
	}
	b := s.Banner(true).String() // with the keys, the longest
	if lines := strings.Count(b, "\n"); lines > 12 {
		t.Errorf("the banner has %d lines:\n%s", lines, b)
	}
	for line := range strings.Lines(b) {
		if len(strings.TrimRight(line, "\n")) > 80 && !strings.Contains(line, "control.sock") { // a path can't be cut
			t.Errorf("the banner has a line of %d bytes: %s", len(line), line)
		}
		if _, addr, ok := strings.Cut(line, "tcp://"); ok {
			conn, err := net.Dial("tcp", strings.TrimSpace(addr))
			if err != nil {
				t.Errorf("the banner's gateway can't be dialled: %v", err)
				continue
			}
			conn.Close()
		}
	}
}

func TestASecondServerLearnsTheFirst(t *testing.T) {
	dir := newProject(t, 0)
	serve(t, dir, 1)
	_, err := newServer(t, dir, 1)
	var locked *control.LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("a second server: %v, want a LockedError with pid %d", err, os.Getpid())
	}
}

func TestAPortInUseLeavesNothingBehind(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	dir := newProject(t, port)
	_, err = newServer(t, dir, 2)
	var taken *PortError
	if !errors.As(err, &taken) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Fatalf("New = %v, want a PortError that names %d", err, port)
	}
	if taken.PID != 0 && taken.PID != os.Getpid() { // 0 where /proc can't tell
		t.Errorf("the port's owner is said to be %d, want %d", taken.PID, os.Getpid())
	}
	if entries, _ := filepath.Glob(filepath.Join(dir, ".shield", "*.[sl]*")); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestASaveGoesLiveOnEveryNodeAndKeepsState(t *testing.T) {
	dir := newProject(t, 0)
	_, c := serve(t, dir, 3)
	for _, n := range []string{"node-1", "node-2", "node-3"} {
		wantCall(t, c, `["one",1]`, n+":room", "ping")
	}
	write(t, dir, "room.lua", strings.ReplaceAll(roomLua, `"one"`, `"two"`))
	count := 1
	eventually(t, "the save is live", func() bool {
		count++
		return call(t, c, "node-3:room", "ping") == fmt.Sprintf(`["two",%d]`, count)
	})
	wantCall(t, c, `["two",2]`, "node-1:room", "ping")

	write(t, dir, "room.lua", "local M = {}\nfunction M.ping( return 1 end\nreturn M\n")
	eventually(t, "the broken save is reported", func() bool {
		rows, err := c.Services(context.Background(), "")
		return err == nil && len(rows) == 3 && strings.Contains(rows[0].Reload, "room.lua:2")
	})
	wantCall(t, c, `["two",3]`, "node-1:room", "ping")
}

func TestASavedProjectStartsOnlyWhatDiffersAfresh(t *testing.T) {
	dir := newProject(t, 0)
	write(t, dir, "shield.yaml", fmt.Sprintf(projectYAML, 0)+"\n") // the same in other words
	_, c := serve(t, dir, 2)
	wantCall(t, c, `["one",1]`, "node-1:room", "ping")
	yaml := strings.Replace(fmt.Sprintf(projectYAML, 0), "services:\n", "services:\n  - { name: hall, script: room.lua, nodes: [node-2] }\n", 1)
	write(t, dir, "shield.yaml", yaml)
	eventually(t, "the new service answers", func() bool { return call(t, c, "node-2:hall", "ping") == `["one",1]` })
	wantCall(t, c, `["one",2]`, "node-1:room", "ping") // did not notice

	write(t, dir, "shield.yaml", strings.Replace(yaml, "script: room.lua }", "script: room.lua, config: { seats: 3 } }", 1))
	eventually(t, "room starts afresh", func() bool { return call(t, c, "node-1:room", "ping") == `["one",1]` })
	wantCall(t, c, `["one",2]`, "node-2:hall", "ping")

	write(t, dir, "shield.yaml", strings.Replace(yaml, "room.lua }", "gone.lua }", 1)) // refused
	write(t, dir, "shield.yaml", fmt.Sprintf(projectYAML, 0))
	eventually(t, "hall is gone", func() bool { return call(t, c, "node-2:hall", "ping") == "error service_not_found" })
}

// A file that is empty for longer than anybody waits, as slow disks make it, must
// not cost the state of every service.
func TestAnEmptyProjectStopsNothing(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	wantCall(t, c, `["one",1]`, "node-2:room", "ping")
	write(t, dir, "shield.yaml", "")
	eventually(t, "the empty file is refused", func() bool {
		return slices.ContainsFunc(allRows(s), func(r shield.LogRow) bool { return strings.Contains(r.Text, "no services in it any more") })
	})
	wantCall(t, c, `["one",2]`, "node-2:room", "ping")
	write(t, dir, "shield.yaml", fmt.Sprintf(projectYAML, 0)+"  # again\n")
	eventually(t, "the whole file is live", func() bool {
		res, err := c.Reload(t.Context(), control.ReloadRequest{})
		return err == nil && res.OK
	})
	wantCall(t, c, `["one",3]`, "node-2:room", "ping")
}

func TestANodeIsKilledRestartedAndDrained(t *testing.T) {
	dir := newProject(t, 0)
	_, c := serve(t, dir, 3)
	ctx := context.Background()
	state := func(id shield.NodeID) shield.NodeState {
		rows, err := c.Nodes(ctx, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Node == id {
				return r.State
			}
		}
		return ""
	}
	if _, err := c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeKill}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeRestart}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-2 is online again", func() bool { return state("node-2") == shield.Online })
	eventually(t, "node-2 answers again", func() bool { return call(t, c, "node-2:room", "ping") == `["one",1]` })

	if _, err := c.Drain(ctx, control.DrainRequest{Node: "node-3"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-3 is offline", func() bool { return state("node-3") == shield.Offline })
	wantCall(t, c, "error node_offline", "node-3:room", "ping")
	wantCall(t, c, `["one",1]`, "node-1:room", "ping")
}

// A node that takes long to start keeps nobody waiting who asks about it, can be
// ended meanwhile, and started again at once.
func TestANodeThatTakesLongToStart(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	ctx := context.Background()
	if _, err := c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeKill}); err != nil {
		t.Fatal(err)
	}

	write(t, dir, "room.lua", strings.Replace(roomLua, "local n = 0", "local n = 0\nfunction M.on_init() shield.sleep(9000) end", 1))
	eventually(t, "the slow script is live", func() bool {
		_, err := c.Reload(ctx, control.ReloadRequest{})
		return err == nil && strings.Contains(fileOf(s, "room.lua"), "on_init")
	})
	restarted := make(chan error, 1)
	restart := func() {
		_, err := c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeRestart})
		restarted <- err
	}
	go restart()
	starting := func() bool {
		m, err := s.member("node-2")
		if err != nil {
			t.Fatal(err)
		}
		n, alive := m.running()
		return !alive && n.Runtime() != nil && len(n.Services()) == 1
	}
	asked := time.Now()
	eventually(t, "node-2 starts", starting)
	if _, err := c.Services(ctx, ""); err != nil || time.Since(asked) > 5*time.Second {
		t.Errorf("Services() answered after %v: %v, while a node started", time.Since(asked), err)
	}
	if _, err := c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeKill}); err != nil {
		t.Errorf("kill of a node that starts: %v", err)
	}
	if err := <-restarted; err == nil || time.Since(asked) > 8*time.Second {
		t.Errorf("the restart ended after %v: %v, want an error at once", time.Since(asked), err)
	}
	write(t, dir, "room.lua", roomLua)
	eventually(t, "the quick script is live", func() bool {
		_, err := c.Reload(ctx, control.ReloadRequest{})
		return err == nil && !strings.Contains(fileOf(s, "room.lua"), "on_init")
	})
	go restart()
	if err := <-restarted; err != nil {
		t.Fatalf("restart: %v", err)
	}
	wantCall(t, c, `["one",1]`, "node-2:room", "ping")
}

// fileOf is what a service that starts now would load.
func fileOf(s *Server, name string) string {
	b, _ := s.reload.code.ReadFile(name) // "" says enough
	return string(b)
}

func TestStopLeavesNoFile(t *testing.T) {
	dir := newProject(t, 0)
	s, _ := serve(t, dir, 2)
	stop(t, s)
	entries, err := os.ReadDir(filepath.Join(dir, ".shield"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".epoch") { // what makes the next epoch higher
			t.Errorf("left behind: %s", e.Name())
		}
	}
}
