package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
	"shield/tui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers on a socket as a control server would; watch is what a watch
// sends, and then it hangs up.
func serve(t *testing.T, watch string, posts map[string]any) (*Server, *asked) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	got := &asked{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ops/watch", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, watch) })
	mux.HandleFunc("GET /ops/inspect", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"service":"room","node":"node-2","state":%q,"reason":"why not","generation":3}`, r.URL.Query().Get("target"))
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got.add(r.URL.Path + " " + string(body))
		if err := json.NewEncoder(w).Encode(posts[r.URL.Path]); err != nil {
			t.Error(err)
		}
	})
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	c := client.New(client.Endpoint{Network: "unix", Address: path})
	t.Cleanup(func() { c.Close(); srv.Close(); <-done })
	return New(c), got
}

type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) add(s string) { a.mu.Lock(); defer a.mu.Unlock(); a.all = append(a.all, s) }

func collect(t *testing.T, s *Server) (evs []tui.Event, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = s.Watch(ctx, func(ev tui.Event) { evs = append(evs, ev) })
	return evs, err
}

func TestWatchTranslates(t *testing.T) {
	s, _ := serve(t, strings.Join([]string{
		`{"kind":"snapshot","seq":7,"snapshot":{"project":{"name":"arena","mode":"dev"},"nodes":[{"node":"node-1","state":"online","epoch":"12"}]}}`,
		`{"kind":"alive","seq":7}`,
		`{"kind":"delta","seq":8,"delta":{"topic":"sessions","gone":["s-1"]}}`,
		`{"kind":"delta","seq":9,"delta":{"topic":"logs","dropped":3,"logs":[{"seq":5,"text":"hi"}]}}`,
		`{"kind":"news of the future","seq":9}`,
		`{"kind":"failed","seq":9,"topic":"routes","error":{"code":"node_offline","message":"node-1 is gone"}}`,
		`{"kind":"lagged","seq":9,"missed":40}`, ""}, "\n"), nil)
	evs, err := collect(t, s)
	if err == nil {
		t.Error("the end of the stream is no error")
	}
	for i := range evs {
		if evs[i].Snapshot != nil {
			evs[i].Snapshot.Endpoint = ""
		}
	}
	want := []tui.Event{
		{Seq: 7, Snapshot: &tui.Snapshot{App: "arena", Mode: "dev", Nodes: []shield.NodeRow{{Node: "node-1", State: shield.Online, Epoch: 12}}}},
		{Seq: 8, Delta: &tui.Delta{GoneSessions: []string{"s-1"}}},
		{Seq: 9, Delta: &tui.Delta{Logs: []shield.LogRow{{Seq: 5, Text: "hi"}}, LogsDropped: 3}},
		{Trouble: "no news of the routes: node_offline: node-1 is gone"},
		{Lagged: true},
	}
	if diff := cmp.Diff(want, evs); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := strings.Join(s.Verbs(), " "); got != "call eval reload kick drain loglevel stop kill restart freeze thaw" {
		t.Errorf("verbs of shield dev: %s", got)
	}
}

// TestWatchOfGarbage: a server that sends what is no event, or half a line, is a
// lost one.
func TestWatchOfGarbage(t *testing.T) {
	for _, body := range []string{"garbage\n", `{"kind":"snapshot","seq":1,"snapshot":{"nodes":[{"no`, "\x00\xff\n", `{"kind":"snapshot"}` + "\n", "[]\n", ""} {
		s, _ := serve(t, body, nil)
		evs, err := collect(t, s)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch of %q = %v", body, err)
		}
		if len(evs) != 0 {
			t.Errorf("Watch of %q gave %v", body, evs)
		}
	}
}

func TestDo(t *testing.T) {
	s, got := serve(t, "", map[string]any{
		"/ops/call": control.CallResult{OK: true, Values: []json.RawMessage{json.RawMessage(`"pong"`), json.RawMessage(`2`)}, Node: "node-2", Generation: 4, Code: "a41f9c", MS: 1.25},
		"/ops/eval": control.CallResult{Error: &control.Error{Code: shield.HandlerError, Message: "<eval>:1: boom", Detail: "stack traceback:\n\t<eval>:1"}},
		"/ops/kick": shield.SessionRow{Player: "ann"},
		"/ops/node": shield.NodeRow{Node: "node-2", State: shield.Offline, Intent: shield.Serving},
		"/ops/reload": control.ReloadResult{MS: 11, Services: []control.ReloadRow{{Service: "room", Node: "node-1", Result: "reloaded"},
			{Service: "room", Node: "node-3", Result: "failed", Error: &control.Error{Code: shield.ScriptLoadFailed, Message: "room.lua:12:7: '=' expected"}}}},
	})
	tests := []struct {
		line, request, want string
	}{
		{`call|node-2:room|ping|{"a":1}|hello|-5`, `/ops/call {"target":"node-2:room","method":"ping","args":[{"a":1},"hello",-5]}`, `"pong"  2  (1.2ms, node-2, g4 a41f9c)`},
		{"eval|room|return x.y", `/ops/eval {"target":"room","source":"return x.y","session":"SESSION","name":"repl"}`, "error: handler_error: <eval>:1: boom\nstack traceback:\n\t<eval>:1"},
		{"kick|s-1|be nice", `/ops/kick {"session":"s-1","reason":"be nice"}`, "kicked ann"},
		{"kill|node-2", `/ops/node {"node":"node-2","action":"kill"}`, "node-2 is offline"},
		{"freeze|node-2", `/ops/node {"node":"node-2","action":"freeze","for_ms":10000}`, "node-2 is offline"},
		{"freeze|node-2|soon", "", `error: freeze NODE FOR: "soon" is no duration like 10s`},
		{"reload|--restart|room", `/ops/reload {"names":["room"],"restart":true}`, "1 reloaded, 1 failed in 11ms\nroom on node-3: script_load_failed: room.lua:12:7: '=' expected"},
		{"call|room", "", "error: call wants 2 arguments, see :help call"},
		{"dance", "", "error: unknown verb dance"},
	}
	for _, tt := range tests {
		before := len(got.all)
		words := strings.Split(tt.line, "|")
		text, err := s.Do(t.Context(), words[0], words[1:])
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, text, tt.want)
		}
		request := ""
		if len(got.all) > before {
			request = strings.Replace(strings.TrimSpace(got.all[before]), s.session, "SESSION", 1)
		}
		if request != tt.request {
			t.Errorf("%s asked %s, want %s", tt.line, request, tt.request)
		}
	}
}

func TestAttach(t *testing.T) {
	s, got := serve(t, "", map[string]any{"/ops/eval": control.CallResult{OK: true, Values: []json.RawMessage{}, Text: []string{"7"}}})
	talk, hello, err := s.Attach(t.Context(), "running")
	if err != nil || len(hello.Blocks) == 0 || talk.Prompt() != "node-2:running:3> " {
		t.Fatalf("Attach() = %v, %+v, %v", talk, hello, err)
	}
	said := ""
	if err := talk.Line(t.Context(), "#M", func(a repl.Answer) { said += a.Blocks[0].Text }); err != nil || said != "7" {
		t.Errorf("the line came to %q, %v", said, err)
	}
	if len(got.all) != 1 || !strings.Contains(got.all[0], `"source":"#M"`) {
		t.Errorf("asked %q", got.all)
	}
	if talk, _, err := s.Attach(t.Context(), "failed"); err == nil || talk != nil {
		t.Errorf("attached to a failed service: %v, %v", talk, err)
	}
}

// What a delta calls a row that is gone must be what the console calls it.
func TestTheKeysOfRowsAreTheServers(t *testing.T) {
	node, placeholder := shield.NodeRow{Node: "node-1", Address: "127.0.0.1:1"}, shield.NodeRow{Address: "127.0.0.1:1"}
	route := shield.RouteRow{Node: "node-1", Name: "room.public"}
	service := shield.ServiceRow{Node: "node-1", ID: 7}
	session := shield.SessionRow{Session: "s-1"}
	want := []string{control.NodeKey(node), control.NodeKey(placeholder), control.RouteKey(route), control.ServiceKey(service), control.SessionKey(session)}
	got := []string{tui.NodeKey(&node), tui.NodeKey(&placeholder), tui.RouteKey(&route), tui.ServiceKey(&service), tui.SessionKey(&session)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-server +console):\n%s", diff)
	}
}
