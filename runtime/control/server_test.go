package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

func TestReadingOverTheSocket(t *testing.T) {
	_, sock := serve(t, three(), control.Access{})
	for _, tt := range []struct {
		path   string
		status int
		want   string // a part of the body
	}{
		{"/ops/project", 200, `"name":"arena","version":"0.1.0","mode":"dev","pid":4711`},
		{"/ops/nodes", 200, `[{"node":"node-1","state":"online","intent":"serving","epoch":"100","address":"127.0.0.1:9000","gateways":["tcp://127.0.0.1:7001"],`},
		{"/ops/nodes?from=node-2", 200, `"routes_version":5,"last_heartbeat_ms":120,"heartbeat_age_ms":120`},
		{"/ops/routes", 200, `[{"node":"node-1","name":"auth","service":1,"version":3},`},
		{"/ops/services?node=node-3", 200, `[{"name":"room.public","names":["room.public"],"node":"node-3","id":4,"state":"running","generation":1,"code":"a41f9c","mailbox":0,"calls":0,`},
		{"/ops/sessions", 200, `[{"session":"s-1","player":"ann","epoch":1,"target":"node-2:players","gateway":"node-1:main","state":"bound",`},
		{"/ops/sessions/s-1", 200, `{"session":"s-1"`},
		{"/ops/sessions/s-2", 404, `"session_closed","message":"no session \"s-2\" (did you mean \"s-1\"?); sessions: s-1"`},
		{"/ops/status", 200, `"cluster":{"connections":2,"reconnects":0,"tx_messages":0,"rx_messages":0,"tx_heartbeats":0,"rx_heartbeats":0,"nodes":[`},
		{"/ops/methods?target=node-2:room.public", 200, `["join","ping"]`},
		{"/ops/clock", 200, `[{"node":"node-1","time":"2026-05-01T12:00:00Z","shift_ms":0}`},
		{"/healthz", 200, `{"ok":true}`},
		{"/readyz", 200, `{"ok":true}`},
		{"/metrics", 200, `shield_node_state{node="node-2",state="online"} 1`},
		{"/metrics", 200, `shield_cluster_events_total{kind="connections",node="node-1"} 2`},
		{"/ops/nodes?from=nod-2", 404, `"code":"node_not_found","message":"from=nod-2: no such node in this process (did you mean \"node-2\"?); nodes: node-1 node-2 node-3","retryable":false`},
		{"/ops/nods", 404, `no such endpoint (did you mean /ops/nodes?)`},
		{"/ops/call", 404, `wrong method; reading is GET, acting is POST`},
		{"/ops/watch?topics=nodes,servces", 400, `unknown \"servces\" (did you mean \"services\"?)`},
		{"/ops/logs?level=inof", 400, `(did you mean \"info\"?)`},
		{"/ops/logs?tail=x", 400, `want a whole number`},
	} {
		status, body := curl(t, sock, "GET", tt.path, "")
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("GET %s = %d %s\nwant %d with %s", tt.path, status, body, tt.status, tt.want)
		}
		if strings.HasPrefix(tt.path, "/ops") && !json.Valid([]byte(body)) {
			t.Errorf("GET %s: the body is no JSON: %s", tt.path, body)
		}
	}
}

func TestHealthAndReadinessDiffer(t *testing.T) {
	h := three()
	c, _ := serve(t, h, control.Access{})
	h.Set(func(r *controltest.Rows) { r.Ready = shield.Errorf(shield.NodeOffline, "node-3 is offline") })
	if err := c.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy() = %v, want nil while the process works", err)
	}
	if err := c.Ready(t.Context()); !errors.Is(err, shield.NodeOffline) {
		t.Errorf("Ready() = %v, want node_offline", err)
	}
}

func TestWithoutATransportTheCountersAreAbsent(t *testing.T) {
	h := three()
	h.Set(func(r *controltest.Rows) { r.Status[0].Cluster.ClusterCounters = nil; r.Status[1].Cluster = nil })
	c, sock := serve(t, h, control.Access{})
	_, body := curl(t, sock, "GET", "/ops/status", "")
	if n := strings.Count(body, `"tx_messages"`); n != 1 {
		t.Errorf("%d nodes have counters, want only node-3: %s", n, body)
	}
	s, err := c.Status(t.Context())
	if err != nil || s.Nodes[0].Cluster.ClusterCounters != nil || s.Nodes[2].Cluster.Connections != 2 {
		t.Errorf("Status() = %+v, %v", s, err)
	}
}

func TestCallFindsItsTarget(t *testing.T) {
	h := three()
	c, _ := serve(t, h, control.Access{})
	for _, tt := range []struct {
		name, target, method string
		node                 shield.NodeID
		code                 shield.Code
		msg                  string
	}{
		{"a qualified target", "node-3:room.public", "ping", "node-3", "", ""},
		{"the first node's own", "auth", "login", "node-1", "", ""},
		{"several nodes, not the first", "room.public", "ping", "", shield.InvalidTarget,
			`2 nodes publish "room.public" and the first node does not; say which: node-2:room.public node-3:room.public`},
		{"nobody's name", "room.pubilc", "ping", "", shield.ServiceNotFound,
			`no node publishes "room.pubilc" (did you mean "room.public"?); names: auth players room.public`},
		{"no name", "node-2:", "ping", "", shield.InvalidTarget, `target "node-2:": a name must not be empty`},
		{"too many colons", "a:b:c", "ping", "", shield.InvalidTarget, `target "a:b:c": name "b:c": only letters`},
		{"an unknown node", "nod-2:room.public", "ping", "nod-2", shield.NodeNotFound,
			`no node "nod-2" (did you mean "node-2"?); nodes: node-1 node-2 node-3`},
		{"another node has it", "node-1:room.public", "ping", "node-1", shield.ServiceNotFound,
			`node-1 does not publish "room.public"; it is on node-2 node-3: node-2:room.public node-3:room.public`},
		{"an unknown method", "node-2:room.public", "pong", "node-2", shield.MethodNotFound,
			`room.public has no method "pong" (did you mean "ping"?); methods: ping join`},
		{"a hook", "node-2:room.public", "on_init", "", shield.InvalidMethod, `method "on_init"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := c.Call(t.Context(), control.CallRequest{Target: tt.target, Method: tt.method, Args: []json.RawMessage{json.RawMessage(`{"a":1}`)}})
			if err != nil {
				t.Fatal(err)
			}
			if res.Node != tt.node {
				t.Errorf("node = %q, want %q", res.Node, tt.node)
			}
			if tt.code == "" {
				if !res.OK || len(res.Values) != 1 || string(res.Values[0]) != `{"a":1}` {
					t.Errorf("Call(%s, %s) = %+v, want its argument back", tt.target, tt.method, res)
				}
				return
			}
			if res.OK || res.Error == nil || res.Error.Code != tt.code || !strings.Contains(res.Error.Message, tt.msg) {
				t.Errorf("Call(%s, %s) = %+v, want %s: %s", tt.target, tt.method, res.Error, tt.code, tt.msg)
			}
		})
	}
}

func TestTheOnlyNodeThatPublishesANameTakesTheCall(t *testing.T) {
	h := three()
	h.Set(func(r *controltest.Rows) { r.Methods["node-2:players"] = []string{"find"} })
	c, _ := serve(t, h, control.Access{})
	res, err := c.Call(t.Context(), control.CallRequest{Target: "players", Method: "find"})
	if err != nil || !res.OK || res.Node != "node-2" {
		t.Errorf("Call(players) = %+v, %v, want ok on node-2", res, err)
	}
}

func TestCallResultShapes(t *testing.T) {
	h := three()
	_, sock := serve(t, h, control.Access{Eval: true})
	h.Set(func(r *controltest.Rows) {
		r.Call = func(_ context.Context, c control.Call) control.CallResult {
			if string(c.Args[0]) == `"slow"` {
				return control.CallResult{Error: control.MakeError(shield.Errorf(shield.Timeout, "no reply within 5s"), ""), MS: 5000}
			}
			return control.CallResult{OK: true, Generation: 3, Code: "a41f9c", MS: 0.25, Trace: 0xabc}
		}
	})
	for _, tt := range []struct{ path, body, want string }{
		{"/ops/call", `{"target":"node-2:room.public","method":"ping","args":["x"]}`,
			`{"ok":true,"values":[],"node":"node-2","service":"room.public","generation":3,"code":"a41f9c","ms":0.25,"trace":"0000000000000abc"}`},
		{"/ops/call", `{"target":"node-2:room.public","method":"ping","args":["slow"]}`,
			`{"ok":false,"error":{"code":"timeout","message":"no reply within 5s","retryable":true,"detail":null},"node":"node-2","service":"room.public","ms":5000}`},
		{"/ops/call", `{"target":"node-2:room.public","methud":"ping"}`,
			`{"ok":false,"error":{"code":"decode_error","message":"/ops/call: the body is not what it should be: json: unknown field \"methud\"","retryable":false,"detail":null}}`},
		{"/ops/call", ``, `{"ok":false,"error":{"code":"decode_error","message":"/ops/call: the body is empty: send a JSON object","retryable":false,"detail":null}}`},
		{"/ops/eval", `{"target":"auth","source":"1+1"}`,
			`{"ok":true,"values":["1+1"],"node":"node-1","service":"auth","generation":1,"code":"a41f9c","ms":`},
		{"/ops/faults", `{}`, `{"ok":false,"error":{"code":"module_unavailable","message":"this server injects no faults","retryable":false,"detail":null}}`},
	} {
		_, body := curl(t, sock, "POST", tt.path, tt.body)
		if !strings.HasPrefix(body, tt.want) {
			t.Errorf("POST %s %s = %s\nwant %s", tt.path, tt.body, body, tt.want)
		}
	}
}

// What a service returned must never make the answer itself unreadable.
func TestAReplyThatIsNoJSONIsAnError(t *testing.T) {
	h := three()
	h.Set(func(r *controltest.Rows) {
		r.Call = func(context.Context, control.Call) control.CallResult {
			return control.CallResult{OK: true, Values: []json.RawMessage{json.RawMessage(`{"a":`)}}
		}
	})
	c, _ := serve(t, h, control.Access{})
	res, err := c.Call(t.Context(), control.CallRequest{Target: "auth", Method: "login"})
	if err != nil || res.OK || res.Error.Code != shield.EncodeFailed {
		t.Errorf("Call() = %+v, %v, want encode_failed", res, err)
	}
}

// A script may put anything into an error's detail; it must not cost the answer.
func TestADetailThatIsNoJSONIsText(t *testing.T) {
	h := three()
	h.Set(func(r *controltest.Rows) {
		r.Call = func(context.Context, control.Call) control.CallResult {
			return control.CallResult{Error: control.MakeError(&shield.Error{Code: shield.HandlerError, Message: "m", Detail: []any{math.NaN()}}, "")}
		}
	})
	c, _ := serve(t, h, control.Access{})
	res, err := c.Call(t.Context(), control.CallRequest{Target: "auth", Method: "login"})
	if err != nil || res.Error == nil || res.Error.Message != "m" || res.Error.Detail != "[NaN]" {
		t.Errorf("Call() = %+v (%+v), %v, want the error with its detail as text", res, res.Error, err)
	}
}

// An answer that can't be written is an error, not an empty 200.
func TestAnAnswerThatIsNoJSONIsAnError(t *testing.T) {
	h := three()
	h.Set(func(r *controltest.Rows) {
		r.Status = []control.NodeStatus{{NodeRow: shield.NodeRow{LossPercent: math.NaN()}}}
	})
	_, sock := serve(t, h, control.Access{})
	if code, body := curl(t, sock, "GET", "/ops/status", ""); code != 500 || !strings.Contains(body, string(shield.EncodeFailed)) {
		t.Errorf("GET /ops/status = %d %s, want encode_failed", code, body)
	}
}

// Times from outside must not overflow into the past.
func TestTimesAreBounded(t *testing.T) {
	h := three()
	c, _ := serve(t, h, control.Access{})
	var timeout time.Duration
	h.Set(func(r *controltest.Rows) {
		r.Call = func(_ context.Context, c control.Call) control.CallResult {
			timeout = c.Timeout
			return control.CallResult{OK: true}
		}
	})
	if _, err := c.Call(t.Context(), control.CallRequest{Target: "auth", Method: "login", Timeout: math.MaxInt64}); err != nil || timeout != control.MaxShift {
		t.Errorf("the longest time-out came as %v, %v, want %v", timeout, err, control.MaxShift)
	}
	for _, shift := range []int64{math.MaxInt64, math.MinInt64, control.MaxShift.Milliseconds() + 1} {
		if _, err := c.SetClock(t.Context(), control.ClockRequest{Shift: shift}); !errors.Is(err, shield.DecodeError) {
			t.Errorf("SetClock(%d ms) = %v, want a refusal", shift, err)
		}
	}
}

func TestWritesReachTheHostAndTheAudit(t *testing.T) {
	h := three()
	var log bytes.Buffer
	s := control.NewServer(control.Config{Host: h, Log: slog.New(slog.NewTextHandler(&log, nil))})
	dir := t.TempDir()
	sock, err := control.Listen(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(sock, control.Access{}) }()
	c := client.New(client.Endpoint{Network: "unix", Address: sock.Path})
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = c.Reload(ctx, control.ReloadRequest{Names: []shield.Name{"auth"}, Restart: true})
	check("reload", err)
	row, err := c.Drain(ctx, control.DrainRequest{Node: "node-2"})
	check("drain", err)
	if row.Intent != shield.Draining {
		t.Errorf("Drain() = %+v, want a draining node", row)
	}
	_, err = c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeKill})
	check("node", err)
	_, err = c.Kick(ctx, control.KickRequest{Session: "s-1", Reason: "cheating"})
	check("kick", err)
	check("loglevel", c.SetLogLevel(ctx, control.LogLevelRequest{Level: "debug"}))
	clock, err := c.SetClock(ctx, control.ClockRequest{Shift: -3600_000})
	check("clock", err)
	if len(clock) != 3 || clock[0].Shift != -3600_000 {
		t.Errorf("SetClock() = %+v", clock)
	}
	for _, refused := range []struct {
		what string
		err  error
		code shield.Code
	}{
		{"freeze without an end", second(c.Node(ctx, control.NodeRequest{Node: "node-2", Action: control.NodeFreeze})), shield.DecodeError},
		{"an unknown action", second(c.Node(ctx, control.NodeRequest{Node: "node-2", Action: "explode"})), shield.DecodeError},
		{"restart of everything", second(c.Reload(ctx, control.ReloadRequest{Restart: true})), shield.DecodeError},
		{"an unknown node", second(c.Drain(ctx, control.DrainRequest{Node: "node-9"})), shield.NodeNotFound},
		{"an unknown session", second(c.Kick(ctx, control.KickRequest{Session: "s-9"})), shield.SessionClosed},
		{"an unknown level", c.SetLogLevel(ctx, control.LogLevelRequest{Level: "loud"}), shield.DecodeError},
		{"eval switched off", second(c.Eval(ctx, control.EvalRequest{Target: "auth", Source: "1"})), shield.PermissionDenied},
	} {
		if !errors.Is(refused.err, refused.code) {
			t.Errorf("%s: %v, want %s", refused.what, refused.err, refused.code)
		}
	}
	c.Close()
	check("close", s.Close(ctx))
	check("serve", <-done)
	want := []any{
		control.ReloadRequest{Names: []shield.Name{"auth"}, Restart: true}, control.DrainRequest{Node: "node-2"},
		control.NodeRequest{Node: "node-2", Action: control.NodeKill}, control.KickRequest{Session: "s-1", Reason: "cheating"},
		control.LogLevelRequest{Level: "debug"}, control.ClockRequest{Shift: -3600_000}, control.DrainRequest{Node: "node-9"},
	}
	if diff := cmp.Diff(want, h.Requests()); diff != "" {
		t.Errorf("the host was asked (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		`msg="kick s-1 cheating by unix: ok" service=control event=audit op=kick about="s-1 cheating" from=unix result=ok`,
		`msg="clock -1h0m0s by unix: ok" service=control event=audit op=clock about=-1h0m0s from=unix result=ok`,
		`msg="eval auth 1 by unix: permission_denied" service=control event=audit op=eval about="auth 1" from=unix result=permission_denied`,
		`msg="node kill node-2 by unix: ok" service=control event=audit op=node about="kill node-2" from=unix result=ok`,
	} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, &log)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestAPortNeedsItsToken(t *testing.T) {
	s := control.NewServer(control.Config{Host: three()})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln, control.Access{}); err == nil || !strings.Contains(err.Error(), "needs a token") {
		t.Errorf("Serve(tcp, no token) = %v, want a refusal", err)
	}
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln, control.Access{Token: "s3cret", Audit: true}) }()
	for _, tt := range []struct {
		token string
		ok    bool
	}{{"", false}, {"wrong", false}, {"s3crets", false}, {"s3cret", true}} {
		c, err := client.Open(t.Context(), client.Options{Endpoint: "tcp://" + ln.Addr().String(), Token: tt.token})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Project(t.Context())
		if tt.ok && err != nil || !tt.ok && !errors.Is(err, shield.PermissionDenied) {
			t.Errorf("token %q: %v, want ok=%v", tt.token, err, tt.ok)
		}
		if err := c.Healthy(t.Context()); (err == nil) != tt.ok {
			t.Errorf("token %q: healthz: %v, want ok=%v", tt.token, err, tt.ok)
		}
		c.Close()
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve() = %v", err)
	}
}

// A person who interrupts a call must not leave it running.
func TestAClientThatLeavesCancelsItsCall(t *testing.T) {
	h := three()
	cancelled := make(chan struct{})
	started := make(chan struct{})
	h.Set(func(r *controltest.Rows) {
		r.Call = func(ctx context.Context, _ control.Call) control.CallResult {
			close(started)
			<-ctx.Done()
			close(cancelled)
			return control.CallResult{Error: control.MakeError(ctx.Err(), shield.Timeout)}
		}
	})
	c, _ := serve(t, h, control.Access{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := c.Call(ctx, control.CallRequest{Target: "auth", Method: "login"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Call() = %v, want context.Canceled", err)
	}
	select {
	case <-cancelled:
	case <-time.After(5 * time.Second): // real time: the test is of a real socket
		t.Error("the host's context did not end")
	}
}

// A drain asked for over the API ends the server that has to answer it.
func TestCloseLetsRequestsFinishAndEndsWatches(t *testing.T) {
	h := three()
	sock, err := control.Listen(t.TempDir(), control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Config{Host: h})
	done := make(chan error, 1)
	go func() { done <- s.Serve(sock, control.Access{}) }()
	c := client.New(client.Endpoint{Network: "unix", Address: sock.Path})
	defer c.Close()
	w := c.Watch(t.Context(), client.WatchRequest{})
	defer w.Close()
	for u := range w.C {
		if u.Event != nil {
			break // the watch is on
		}
	}
	closed := make(chan error, 1)
	h.Set(func(r *controltest.Rows) {
		r.Call = func(ctx context.Context, _ control.Call) control.CallResult {
			go func() { closed <- s.Close(context.Background()) }()
			for u := range w.C {
				if u.Link == client.LinkStale {
					break // the watch was ended, this call was not
				}
			}
			if ctx.Err() != nil {
				return control.CallResult{Error: control.MakeError(ctx.Err(), shield.Timeout)}
			}
			return control.CallResult{OK: true}
		}
	})
	res, err := c.Call(t.Context(), control.CallRequest{Target: "auth", Method: "login"})
	if err != nil || !res.OK {
		t.Errorf("Call() = %+v, %v, want ok", res, err)
	}
	if err := errors.Join(<-closed, <-done); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// FuzzRequests sends what a confused tool or a stranger might: every answer has
// to be JSON with a code that says what is wrong.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/ops/nodes?from=node-1", "")
	f.Add("GET", "/ops/watch?topics=nodes,x&rows=services/a,b&tail=-1", "")
	f.Add("GET", "/ops/logs?level=x&tail=9999999999999999999", "")
	f.Add("POST", "/ops/call", `{"target":"a:b:c","method":"on_x","args":[1,{}]}`)
	f.Add("POST", "/ops/eval", "{\"target\":\"auth\",\"source\":\"\xff\"}")
	f.Add("POST", "/ops/node", `{"node":"node-1","action":"freeze","for_ms":-1}`)
	f.Add("POST", "/ops/reload", `{"names":[""],"restart":true,"undo":true}`)
	f.Add("POST", "/ops/clock", `{"shift_ms":9223372036854775807}{}`)
	handler := control.NewServer(control.Config{Host: three()}).Handler(control.Access{Eval: true})
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if strings.HasPrefix(path, "/ops/watch") || strings.Contains(path, "follow=1") {
			return // answers that don't end
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, strings.NewReader(body))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		switch {
		case w.Code/100 == 3: // the mux cleans paths
		case w.Code/100 == 2 && (req.URL.Path == "/metrics" || req.URL.Path == "/ops/logs"), req.Method == "HEAD":
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %q %q = %d %q, no JSON", method, path, body, w.Code, w.Body)
		case w.Code/100 != 2:
			var e control.ErrorBody
			if json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Error.Code == "" || e.Error.Message == "" {
				t.Errorf("%s %q %q = %d %s, want a code and words", method, path, body, w.Code, w.Body)
			}
		}
	})
}

func TestTwoServersInOneProcess(t *testing.T) {
	_, a := serve(t, three(), control.Access{})
	_, b := serve(t, three(), control.Access{})
	for _, sock := range []string{a, b} {
		if status, body := curl(t, sock, "GET", "/metrics", ""); status != 200 || !strings.Contains(body, "shield_services") {
			t.Errorf("GET /metrics = %d %s", status, body)
		}
	}
}
