package devserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

const hiLua = "local M = {}\nfunction M.hi() return 'hi' end\nreturn M\n"

// withService is the test's shield.yaml with one more service.
func withService(name string) string {
	return strings.Replace(fmt.Sprintf(projectYAML, 0), "services:\n", "services:\n  - { name: "+name+", script: "+name+".lua }\n", 1)
}

func logHas(s *Server, part string) bool { return logCount(s, part) > 0 }

func logCount(s *Server, part string) (lines int) {
	for _, row := range allRows(s) {
		if strings.Contains(row.Text, part) {
			lines++
		}
	}
	return lines
}

func answers(t *testing.T, c *client.Client, target, method string) bool {
	return call(t, c, target, method) == `["hi"]`
}

func TestAScriptAndItsEntrySavedTogetherStart(t *testing.T) {
	dir := newProject(t, 0)
	_, c := serve(t, dir, 2)
	write(t, dir, "bb.lua", hiLua)
	write(t, dir, "shield.yaml", withService("bb"))
	eventually(t, "bb answers", func() bool { return answers(t, c, "node-2:bb", "hi") })
}

func TestAnEntryWhoseScriptComesLaterStarts(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	write(t, dir, "shield.yaml", withService("bb"))
	eventually(t, "shield.yaml is refused", func() bool { return logHas(s, "shield.yaml is refused") })
	res, err := c.Reload(context.Background(), control.ReloadRequest{})
	if err != nil || res.OK {
		t.Errorf("reload with a refused shield.yaml = %+v, %v, want it to fail", res, err)
	}
	write(t, dir, "bb.lua", hiLua)
	eventually(t, "bb answers", func() bool { return answers(t, c, "node-2:bb", "hi") })
}

func TestAFailedServiceComesBackWhenItsScriptIsMended(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	write(t, dir, "ee.lua", "error('boom at load')\n")
	write(t, dir, "shield.yaml", withService("ee"))
	eventually(t, "ee fails on both nodes", func() bool { return logCount(s, "failed for good") == 2 })
	if logHas(s, "shield.yaml: ee started") {
		t.Error("the log says that ee was started")
	}
	res, err := c.Call(context.Background(), control.CallRequest{Target: "ee", Method: "hi"})
	if err != nil || res.OK || !strings.Contains(res.Error.Message, "failed") || !strings.Contains(res.Error.Message, "boom at load") {
		t.Errorf("call of a failed service = %+v, %v, want that it failed and why", res.Error, err)
	}
	restart := control.ReloadRequest{Names: []shield.Name{"ee"}, Restart: true}
	if rl, err := c.Reload(context.Background(), restart); err != nil || rl.OK || len(rl.Services) != 2 {
		t.Errorf("reload --restart of a broken script = %+v, %v, want two failures", rl, err)
	}
	write(t, dir, "ee.lua", hiLua)
	eventually(t, "ee answers", func() bool { return answers(t, c, "node-1:ee", "hi") && answers(t, c, "node-2:ee", "hi") })
	rows, err := s.Services()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.State != shield.Running {
			t.Errorf("an old row is left: %+v", row)
		}
	}
}

func TestAServiceThatExitedIsRestartedEverywhere(t *testing.T) {
	dir := newProject(t, 0)
	write(t, dir, "cc.lua", "local M = {}\nfunction M.go() shield.exit('tired') end\nfunction M.hi() return 'hi' end\nreturn M\n")
	write(t, dir, "shield.yaml", withService("cc"))
	s, c := serve(t, dir, 2)
	wantCall(t, c, `[]`, "node-1:cc", "go")
	eventually(t, "its end is told", func() bool { return logHas(s, "ended: tired") })
	res, err := c.Reload(context.Background(), control.ReloadRequest{Names: []shield.Name{"cc"}, Restart: true})
	if err != nil || !res.OK || len(res.Services) != 2 {
		t.Fatalf("reload --restart = %+v, %v, want cc on both nodes", res, err)
	}
	for _, r := range res.Services {
		if r.Result != "restarted" || r.To != 1 {
			t.Errorf("%+v, want restarted at generation 1", r)
		}
	}
	wantCall(t, c, `["hi"]`, "node-1:cc", "hi")
}

const greetRPC = "routes:\n  - { id: 1001, name: greet, dir: c2s, service: room, handler: hi }\n"

func TestARefusedRouteIsTriedAgainWhenItsHandlerComes(t *testing.T) {
	dir := newProject(t, 0)
	s, _ := serve(t, dir, 2)
	write(t, dir, "rpc.yaml", greetRPC)
	eventually(t, "rpc.yaml is refused", func() bool { return logHas(s, "rpc.yaml is refused") })
	write(t, dir, "room.lua", strings.Replace(roomLua, "return M", "function M.hi() end\nreturn M", 1))
	eventually(t, "the route is live on both nodes", func() bool {
		for _, n := range s.alive() {
			if n.RPCRoutes().ByID(1001) == nil {
				return false
			}
		}
		return true
	})
	if _, err := s.Node(context.Background(), control.NodeRequest{Node: "node-2", Action: control.NodeRestart}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.on("node-2"); err != nil || n.RPCRoutes().ByID(1001) == nil {
		t.Errorf("a restarted node has the routes of before: %v", err)
	}
}

func TestARestartedNodeShowsNothingOfItsFormerLife(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	write(t, dir, "room.lua", strings.Replace(roomLua, `"one"`, `"two"`, 1))
	reloads := func(node shield.NodeID) string {
		rows, err := s.Services()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Node == node && r.Name == "room" {
				return r.Reload
			}
		}
		return "no row"
	}
	eventually(t, "the save is shown", func() bool { return reloads("node-2") == "ok" })
	row, err := s.Node(context.Background(), control.NodeRequest{Node: "node-2", Action: control.NodeRestart})
	if err != nil || row.State != shield.Online {
		t.Fatalf("restart = %+v, %v, want it online", row, err)
	}
	if got := reloads("node-2"); got != "" {
		t.Errorf("RELOAD after a restart = %q, want nothing", got)
	}
	wantCall(t, c, `["two",1]`, "node-2:room", "ping")
}

func TestABrokenSaveThatIsTakenBackIsTold(t *testing.T) {
	dir := newProject(t, 0)
	s, _ := serve(t, dir, 2)
	write(t, dir, "room.lua", roomLua+")")
	eventually(t, "the save fails", func() bool { return logHas(s, "keeps serving") })
	write(t, dir, "room.lua", roomLua)
	eventually(t, "the way back is told", func() bool { return logHas(s, "restored: the files hold again what runs, room gen 1") })
}

func TestAKilledNodeIsNotOnline(t *testing.T) {
	dir := newProject(t, 0)
	s, _ := serve(t, dir, 2)
	row, err := s.Node(context.Background(), control.NodeRequest{Node: "node-2", Action: control.NodeKill})
	if err != nil || row.State != shield.Offline || !strings.Contains(row.Reason, "killed") {
		t.Errorf("kill = %+v, %v, want it offline: killed", row, err)
	}
	rows, err := s.Nodes("node-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Node == "node-2" && !strings.Contains(r.Reason, "killed") {
			t.Errorf("nodes shows %+v, want that it was killed", r)
		}
	}
	for _, r := range allRows(s) {
		if strings.Contains(r.Text, "can't be reached") && r.Node == "node-2" {
			t.Errorf("the killed node complains: %s", r.Text)
		}
	}
}

func allRows(s *Server) []shield.LogRow {
	rows, _, _ := s.cfg.Rows.Since(0, 1000)
	return rows
}
