package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// wait is a row of service from#id that waits for to.
func wait(from shield.NodeID, id shield.ServiceID, to string, init bool) control.WaitRow {
	return control.WaitRow{Node: from, ID: id, Service: "s", What: "shield.call", To: to, Init: init}
}

func TestRingsAreMarked(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []control.WaitRow
		want string // ring of each row, with ! where it can't end
	}{
		{"nothing", nil, ""},
		{"a chain", []control.WaitRow{wait("a", 1, "a#2", false), wait("a", 2, "b#1", false), {Node: "b", ID: 1, What: "shield.sleep"}}, "0 0 0"},
		{"two across nodes", []control.WaitRow{wait("a", 1, "b#1", false), wait("b", 1, "a#1", false)}, "1 1"},
		{"who waits for a ring is not in it", []control.WaitRow{wait("c", 9, "a#1", false), wait("a", 1, "b#1", false), wait("b", 1, "a#1", false)}, "0 1 1"},
		{"itself", []control.WaitRow{wait("a", 1, "a#1", false)}, "1"},
		{"all in on_init", []control.WaitRow{wait("a", 1, "a#2", true), wait("a", 2, "a#1", true)}, "1! 1!"},
		{"one of them runs", []control.WaitRow{wait("a", 1, "a#2", true), wait("a", 2, "a#1", false)}, "1 1"},
		{"two apart", []control.WaitRow{wait("a", 1, "a#2", true), wait("b", 1, "b#2", false), wait("a", 2, "a#1", true), wait("b", 2, "b#1", false)}, "1! 2 1! 2"},
		{"two that share a service", []control.WaitRow{wait("a", 1, "a#2", false), wait("a", 2, "a#1", false), wait("a", 1, "a#3", false), wait("a", 3, "a#1", false)}, "1 1 1 1"},
	} {
		c, _ := serve(t, controltest.New(controltest.Rows{Waits: tt.rows}), control.Access{})
		rows, err := c.Waits(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			s := fmt.Sprint(r.Ring)
			if r.Dead {
				s += "!"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: rings %s, want %s", tt.name, s, tt.want)
		}
	}
}

func TestWhyMarksMixedVersions(t *testing.T) {
	rows := controltest.Three()
	rows.Why = []control.WhyRow{
		{Service: "room.public", Node: "node-2", Code: "aaa", By: "save", Since: time.Now()},
		{Service: "room.public", Node: "node-3", Code: "bbb", By: "start"},
		{Service: "auth", Node: "node-1", Code: "ccc"},
	}
	_, sock := serve(t, controltest.New(rows), control.Access{})
	for _, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{"/ops/why?service=room.public", 200, `"by":"save","files":[],"mixed":true,"history":[]}`},
		{"/ops/why?service=node-2:auth", 200, `[{"service":"auth"`},
		{"/ops/why?service=auth", 200, `"mixed":false`},
		{"/ops/why?service=atuh", 404, `(did you mean \"auth\"?)`},
	} {
		status, body := curl(t, sock, "GET", tt.path, "")
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("GET %s = %d %s\nwant %d with %s", tt.path, status, body, tt.status, tt.want)
		}
	}
}

// What shows a service's state needs the right to eval; how it does not.
func TestStateNeedsTheRightToEval(t *testing.T) {
	rows := controltest.Three()
	rows.Inspect = func(r control.Inspect) (control.Inspection, error) {
		if r.Service != "auth" {
			return control.Inspection{}, shield.Errorf(shield.ServiceNotFound, "%s publishes no %q", r.Node, r.Service)
		}
		in := control.Inspection{Service: r.Service, Node: r.Node}
		if r.State {
			in.Held = []control.HeldRow{{Name: "M.secret", Kind: "field", Text: r.Session}}
		}
		return in, nil
	}
	rows.Complete = func(c control.Complete) (control.Completion, error) {
		return control.Completion{From: 1, Words: []string{string(c.Service) + c.Session + c.Line}}, nil
	}
	for _, tt := range []struct {
		path   string
		eval   bool
		status int
		want   string
	}{
		{"/ops/inspect?target=auth", false, 200, `"service":"auth"`},
		{"/ops/inspect?target=auth", false, 200, `"stuck":null,"handlers":[],"tables":[],"timers":[],"waiting":[]`},
		{"/ops/inspect?target=auth&state=1", false, 403, "eval is switched off"},
		{"/ops/inspect?target=auth&state=1&session=s", true, 200, `"held":[{"name":"M.secret","kind":"field","text":"s"}]`},
		{"/ops/inspect?target=node-2:rom.public", true, 404, `(did you mean \"room.public\"?)`},
		{"/ops/complete?target=auth&line=x", false, 403, "eval is switched off"},
		{"/ops/complete?target=auth&session=s&line=a%2Bb", true, 200, `{"from":1,"words":["authsa+b"]}`},
		{"/ops/complete?target=nobody&line=x", true, 404, "service_not_found"},
	} {
		_, sock := serve(t, controltest.New(rows), control.Access{Eval: tt.eval})
		status, body := curl(t, sock, "GET", tt.path, "")
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("GET %s (eval %v) = %d %s\nwant %d with %s", tt.path, tt.eval, status, body, tt.status, tt.want)
		}
	}
}
