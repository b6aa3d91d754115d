package devserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/shield"
)

// why gives "node generation by files" of each row, and what the history says.
func why(t *testing.T, c *client.Client) (now, history []string) {
	t.Helper()
	rows, err := c.Why(context.Background(), "room")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Since.IsZero() || time.Since(r.Since) > time.Minute || r.Mixed {
			t.Errorf("%+v", r)
		}
		now = append(now, string(r.Node)+" "+r.By+" "+strings.Join(r.Files, ","))
	}
	for _, s := range rows[0].History {
		line := s.By + " " + strings.Join(s.Files, ",")
		if s.Failed != "" {
			line += " failed"
		}
		if s.Code == "" {
			t.Errorf("a step without its code: %+v", s)
		}
		history = append(history, line)
	}
	return now, history
}

func TestWhyRemembersHowTheCodeCameToBe(t *testing.T) {
	dir := newProject(t, 0)
	s, c := serve(t, dir, 2)
	ctx := context.Background()
	wantWhy := func(now, history string) {
		t.Helper()
		n, h := why(t, c)
		if got := strings.Join(n, "; "); got != now {
			t.Errorf("why = %s, want %s", got, now)
		}
		if got := strings.Join(h, "; "); got != history {
			t.Errorf("history = %s, want %s", got, history)
		}
	}
	wantWhy("node-1 start room.lua; node-2 start room.lua", "start room.lua")

	write(t, dir, "room.lua", strings.Replace(roomLua, "one", "two", 1))
	waitCode(t, c, 2)
	wantWhy("node-1 save room.lua; node-2 save room.lua", "start room.lua; save room.lua")

	if _, err := s.Reload(ctx, control.ReloadRequest{Undo: true}); err != nil {
		t.Fatal(err)
	}
	wantWhy("node-1 undo room.lua; node-2 undo room.lua", "start room.lua; save room.lua; undo room.lua")

	if _, err := s.Reload(ctx, control.ReloadRequest{Restart: true, Names: []shield.Name{"room"}}); err != nil {
		t.Fatal(err)
	}
	wantWhy("node-1 restart room.lua; node-2 restart room.lua", "start room.lua; save room.lua; undo room.lua; restart room.lua")

	write(t, dir, "room.lua", strings.Replace(roomLua, "return M", "return M +", 1))
	eventually(t, "the broken save is noted", func() bool {
		_, h := why(t, c)
		return len(h) == 5
	})
	wantWhy("node-1 restart room.lua; node-2 restart room.lua", "start room.lua; save room.lua; undo room.lua; restart room.lua; save room.lua failed")
}

// waitCode waits until every node runs that generation.
func waitCode(t *testing.T, c *client.Client, generation int) {
	t.Helper()
	eventually(t, fmt.Sprintf("generation %d of room on every node", generation), func() bool {
		rows, err := c.Why(context.Background(), "room")
		if err != nil {
			t.Fatal(err)
		}
		return len(rows) > 0 && !slices.ContainsFunc(rows, func(r control.WhyRow) bool { return r.Generation != generation })
	})
}

func TestASessionOutlivesAReload(t *testing.T) {
	dir := newProject(t, 0)
	_, c := serve(t, dir, 1)
	eval := func(line string) control.CallResult {
		t.Helper()
		res, err := c.Eval(context.Background(), control.EvalRequest{Target: "room", Source: line, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	eval("local mine, ping = 41, M.ping")
	eval("n = 10") // a local of the file
	write(t, dir, "room.lua", strings.Replace(roomLua, "one", "two", 1))
	waitCode(t, c, 2)
	res := eval("mine + 1, ping()")
	if got := strings.Join(res.Text, " "); got != `42 "two" 11` || res.Generation != 2 || res.Began {
		t.Errorf("after the reload: %s, %+v", got, res)
	}
	if res := eval("n = n + 1 return n"); strings.Join(res.Text, " ") != "12" {
		t.Errorf("the file's local is no longer reached: %+v", res)
	}
	if res := eval("print"); !res.OK || string(res.Values[0]) != "null" || res.Text[0] != "<function: built in>" {
		t.Errorf("a function came as %+v", res)
	}
}
