package luaapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/service"
	"shield/runtime/shield"
)

const typedScript = `
local M = { gold = 3, players = { ann = { hp = 5 } } }
local count = 7
secret = "global"
local Box = {}
Box.__index = Box
function Box:open() return "opened" end
M.box = setmetatable({ lid = true }, Box)
function M.inc() count = count + 1 return count end
function M.count() return count end
function M.home() return shield.self() end
function M.spin() while true do end end
function M.slow() shield.sleep(60000) end
function M.nap(ctx, ms) shield.sleep(ms) return "rested" end
function M.fails() error("no") end
return M`

// typed is a session with one service.
type typed struct {
	*node
	session string
	edit    func(*service.EvalRequest)
}

func typing(t *testing.T) *typed {
	t.Helper()
	n := start(t, scripts{"a.lua": typedScript}, nil)
	return &typed{node: n, session: "s1"}
}

func (s *typed) eval(line string) (*service.Evaluated, error) {
	req := service.EvalRequest{Target: service.Target{Name: "a"}, Source: line, Name: "repl", Session: s.session, Timeout: 5 * time.Second}
	if s.edit != nil {
		s.edit(&req)
	}
	ev, _, err := s.Eval(context.Background(), req)
	return ev, err
}

// say runs a line and gives what a person would see of it.
func (s *typed) say(line string) string {
	ev, err := s.eval(line)
	if err != nil {
		return ev.Output + "error " + string(shield.CodeOf(err))
	}
	if ev.Incomplete != "" {
		return "..."
	}
	return ev.Output + strings.Join(ev.Text, " ")
}

func (s *typed) wants(line, want string) {
	s.tb.Helper()
	if got := s.say(line); got != want {
		s.tb.Errorf("%s = %q, want %q", line, got, want)
	}
}

func TestLinesShareTheirLocals(t *testing.T) {
	s := typing(t)
	for _, tt := range []struct{ line, want string }{
		{"local n = 5", ""}, {"n * 2", "10"}, {"_", "10"},
		{"local function bump() n = n + 1 return n end", ""}, {"bump(), bump()", "6 7"}, {"n", "7"},
		{"_G.n", "nil"},                     // not a global of the service
		{"x = 1", ""}, {"x, _G.x", "1 nil"}, // a new name is ours too
		{"secret = 'changed'", ""}, {"_G.secret", `"changed"`}, // one that exists is the service's
		{"local secret", ""}, {"secret", "nil"}, {"_G.secret", `"changed"`},
		{"count", "7"}, {"count = 20", ""}, {"M.inc()", "21"}, // a local of the file
		{"local count = 1 return count", "1"}, {"M.count()", "21"},
		{"local a, b = 1", ""}, {"a, b", "1 nil"},
		{"for i = 1, 2 do local n = i end return n", "7"},
		{"for i = 1, 2 do", "..."}, {"M.gold +", "..."}, {"f(", "..."}, {"[[x", "..."}, {"--[[ x", "..."},
		{"x = = 1", "error script_load_failed"}, {`"x`, "error script_load_failed"},
		{"= 1 + 1", "2"}, {"", ""},
		{"print('a', 1) print('b') return 3", "a\t1\nb\n3"},
		{"print('then') error('no')", "then\nerror handler_error"},
		{"M.box:open()", `"opened"`},
		{"shield.self()", "<handle node-1#1>"},
	} {
		s.wants(tt.line, tt.want)
	}
	if ev, err := s.eval("1"); err != nil || ev.Began {
		t.Errorf("Began = %v, %v in a session that has run lines", ev.Began, err)
	}
	s.session = "s2"
	s.wants("n", "nil")
}

func TestEvalOfWhatIsNoJSON(t *testing.T) {
	s := typing(t)
	ev, err := s.eval("local t = {} t.t = t return print, t, 1, coroutine.create(print)")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"<function: built in>", "{t = <cycle>}", "1"}; !slices.Equal(ev.Text[:3], want) {
		t.Errorf("Text = %q, want %q", ev.Text, want)
	}
	if want := []bool{false, false, true, false}; !slices.Equal(ev.Plain, want) {
		t.Errorf("Plain = %v, want %v", ev.Plain, want)
	}
}

func TestWhatALinePrintsIsBounded(t *testing.T) {
	s := typing(t)
	ev, err := s.eval(`for i = 1, 3000 do print(("x"):rep(1000)) end return ("y"):rep(1000000), unpack({}, 1, 300)`)
	if err != nil {
		t.Fatal(err)
	}
	if len(ev.Output) > 70<<10 || !strings.Contains(ev.Output, "more bytes were printed") {
		t.Errorf("%d bytes of output, ending with %q", len(ev.Output), ev.Output[len(ev.Output)-60:])
	}
	if len(ev.Text[0]) > 70<<10 || !strings.Contains(ev.Text[0], "(1000000 bytes)") {
		t.Errorf("a long string came as %d bytes", len(ev.Text[0]))
	}
	if len(ev.Text) != 100 || ev.Hint != "201 more values are not shown" {
		t.Errorf("%d values, hint %q", len(ev.Text), ev.Hint)
	}
	if n := s.log.count("xxx"); n > 70 {
		t.Errorf("%d of the lines went to the log", n)
	}
}

func TestHintsNameWhatIsThere(t *testing.T) {
	s := typing(t)
	for _, tt := range []struct{ line, want string }{
		{"M.plyers.ann", "M.plyers is nil (did you mean M.players?)"},
		{"M.players.bob.hp", "M.players.bob is nil; M.players has one entry (key ann)"},
		{"M.players.ann.hpp", "M.players.ann.hpp is nil (did you mean M.players.ann.hp?)"},
		{"M.incc()", "M.incc is nil (did you mean M.inc?)"},
		{"M.box:opne()", "M.box.opne is nil (did you mean M.box.open?)"},
		{"cuont", "cuont is nil (did you mean count?)"},
		{"inc()", "inc is nil (did you mean M.inc?)"},
		{"qqqqqqqqq.x", "nothing is called qqqqqqqqq"},
		{"M.players[7].x", "M.players[7] is nil; M.players has one entry (key ann)"},
		{"for k in pairs(M) do k = k.zz.y end", ""}, // a name of its own
		{"M.gold", ""},
	} {
		if ev, _ := s.eval(tt.line); ev.Hint != tt.want {
			t.Errorf("%s: hint %q, want %q", tt.line, ev.Hint, tt.want)
		}
	}
}

func TestALineThatDoesNotEnd(t *testing.T) {
	s := typing(t)
	s.edit = func(r *service.EvalRequest) { r.Budget = 30 * time.Millisecond }
	_, err := s.eval("M.spin()")
	var se *shield.Error
	if !errors.As(err, &se) || se.Code != shield.HandlerTimeout || !strings.Contains(se.Message, "budget of 30 ms") {
		t.Fatalf("spinning = %v", err)
	}
	if stack, _ := se.Detail.(string); !strings.Contains(stack, "a.lua:12") {
		t.Errorf("the stack is %q", stack)
	}
	s.edit = func(r *service.EvalRequest) { r.Timeout = 50 * time.Millisecond }
	_, err = s.eval("print('going') M.slow()")
	if !errors.As(err, &se) || se.Code != shield.Timeout {
		t.Fatalf("waiting = %v", err)
	}
	if stack, _ := se.Detail.(string); !strings.Contains(stack, "'sleep'") || !strings.Contains(stack, "a.lua:13") {
		t.Errorf("the stack is %q", stack)
	}
	s.edit = nil
	// The turn was given up: nothing of it waits any more.
	if rows := s.Waits(context.Background()); len(rows) != 0 {
		t.Errorf("still waiting: %+v", rows)
	}
	s.want("[8]", "a", "inc")
}

func TestALineThatEndsTheService(t *testing.T) {
	s := typing(t)
	ev, err := s.eval("shield.exit('enough') return 1")
	if err != nil || ev.Ended != "enough" || ev.Text[0] != "1" {
		t.Errorf("exit = %+v, %v", ev, err)
	}
	if got := s.say("1"); got != "error service_not_found" && got != "error service_dead" {
		t.Errorf("the line after = %s", got)
	}
}

func TestReadOnlyRunsNothing(t *testing.T) {
	s := typing(t)
	s.edit = func(r *service.EvalRequest) { r.ReadOnly = true }
	for _, tt := range []struct{ line, want string }{
		{"M.gold", "3"}, {"count + 1", "8"}, {"M.players.ann.hp == 5 and 'five'", `"five"`}, {"#secret", "6"},
		{"count(M.players)", "1"}, {"keys(M.players)", `{"ann"}`}, {"type(M.inc)", `"function"`}, {"{1, a = -2 ^ 2}", "{1, a = -4}"},
		{"'a' .. 1 .. 'b'", `"a1b"`}, {"not M.nothing, 7 % 3, 0x10", "true 1 16"}, {"M.box.open", "<function: a.lua:7>"}, {"1 < 2, 'a' >= 'b'", "true false"},
		{"M.inc()", "error permission_denied"}, {"x = 1", "error permission_denied"}, {"local x", "error permission_denied"},
		{"function() end", "error permission_denied"}, {"M.box:open()", "error permission_denied"}, {"print(1)", "error permission_denied"},
		{"M.nothing.x", "error handler_error"}, {"1 + {}", "error handler_error"}, {"{} < 1", "error handler_error"},
	} {
		s.wants(tt.line, tt.want)
	}
	s.edit = nil
	s.want("[8]", "a", "inc") // count is where it was
}

func TestLocalsSurviveASwap(t *testing.T) {
	s := typing(t)
	s.wants("local n = 5", "")
	s.wants("local f = M.inc", "")
	seen := 0
	err := s.Swap(context.Background(), 1, func(w *service.Swapping) error {
		w.Functions(func(fn *lua.LFunction) *lua.LFunction { seen++; return fn })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wants("n, f()", "5 8")
	if seen == 0 {
		t.Error("the swap did not see the function that the session holds")
	}
}

func TestComplete(t *testing.T) {
	s := typing(t)
	s.wants("local mine = {deep = {here = 1}}", "")
	for _, tt := range []struct {
		line string
		from int
		want string
	}{
		{"mi", 0, "mine"}, {"cou", 0, "count"}, {"sec", 0, "secret"}, {"1 + mine.deep.h", 14, "here"}, {"M.pl", 2, "players"},
		{"M.players.ann.", 14, "hp"}, {`M["players"].`, 13, "ann"}, {"M.box:", 6, "open"}, {"shield.cl", 7, "client client_rpc cluster"},
		{"shield.cluster.node_", 15, "node_epoch node_id"}, {`shield.call("`, 13, "a"}, {`shield.call("a", "sp`, 18, "spin"},
		{"string.gs", 7, "gsub"}, {"nothing.x", 8, ""}, {"whi", 0, "while"}, {"M.gold:", 7, ""}, {"x..co", 3, "collectgarbage coroutine count"},
	} {
		from, words, err := s.Complete(context.Background(), service.Target{Name: "a"}, s.session, tt.line)
		if got := strings.Join(words, " "); err != nil || from != tt.from || got != tt.want {
			t.Errorf("Complete(%q) = %d %q, %v, want %d %q", tt.line, from, got, err, tt.from, tt.want)
		}
	}
}

func TestInspect(t *testing.T) {
	s := typing(t)
	s.wants("local mine = 1", "")
	s.wants("local mark = shield.timer(50000, M.inc)", "")
	for range 3 {
		s.want("[\"rested\"]", "a", "nap", 1)
	}
	s.wantError(shield.HandlerError, "no", "a", "fails")
	s.wantError(shield.MethodNotFound, "", "a", "nosuch")
	in, err := s.Runtime.Inspect(context.Background(), service.InspectRequest{Target: service.Target{Name: "a"}, State: true, Session: s.session})
	if err != nil {
		t.Fatal(err)
	}
	if in.Stuck != nil || in.Mailbox != 0 || in.Memory == 0 || in.Objects == 0 || len(in.Files) != 1 || in.Files[0] != "a.lua" {
		t.Errorf("%+v", in)
	}
	if len(in.Timers) != 1 || in.Timers[0].Function != "a.lua:9" || in.Timers[0].Every != 50*time.Second {
		t.Errorf("timers %+v", in.Timers)
	}
	handled := map[string]service.Handled{}
	for _, h := range in.Handled {
		handled[h.Method] = h
	}
	if h := handled["nap"]; h.Count != 3 || h.Mean < time.Millisecond || h.Longest < h.Mean {
		t.Errorf("nap took %+v", h)
	}
	if h := handled["fails"]; h.Count != 1 || h.Errors != 1 {
		t.Errorf("fails took %+v", h)
	}
	if _, ok := handled["nosuch"]; ok {
		t.Error("a method that is not there was counted")
	}
	held := map[string]string{}
	for _, h := range in.State {
		held[h.Kind+" "+h.Name] = h.Text
	}
	for key, want := range map[string]string{"field M.gold": "3", "local count": "7", "session mine": "1", "field M.players": "{ann = {hp = 5}}"} {
		if held[key] != want {
			t.Errorf("%s = %q, want %q; all: %v", key, held[key], want, held)
		}
	}
	if len(in.Tables) == 0 || in.Tables[0].Path != "M" {
		t.Errorf("tables %+v", in.Tables)
	}
}

func TestInspectAStuckService(t *testing.T) {
	s := typing(t)
	done := make(chan error, 2)
	go func() { _, err := s.call("a", "spin"); done <- err }()
	for { // until it spins; the watcher's clock is a real one
		in, err := s.Runtime.Inspect(context.Background(), service.InspectRequest{Target: service.Target{Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		if in.Stuck == nil {
			continue
		}
		if in.Stuck.Method != "spin" || in.Stuck.For < 300*time.Millisecond || !strings.Contains(in.Stuck.Stack, "a.lua:12: in handler 'spin'") {
			t.Errorf("stuck: %+v", in.Stuck)
		}
		break
	}
	go func() { _, err := s.call("a", "count"); done <- err }()
	time.Sleep(30 * time.Millisecond) // the message grows old in real time
	in, err := s.Runtime.Inspect(context.Background(), service.InspectRequest{Target: service.Target{Name: "a"}})
	if err != nil || in.Mailbox < 1 || in.MailboxAge < 30*time.Millisecond || in.MailboxAge > 5*time.Second {
		t.Errorf("mailbox %d for %v, %v", in.Mailbox, in.MailboxAge, err)
	}
	for range 2 {
		<-done
	}
}

func TestWaitsSayForWhom(t *testing.T) { synctest.Test(t, testWaitsSayForWhom) }

func testWaitsSayForWhom(t *testing.T) {
	n := start(t, scripts{
		"a.lua": `local M = {} function M.go() return shield.call("b", "nap") end return M`,
		"b.lua": `local M = {} function M.nap() shield.sleep(400) return 1 end return M`,
	}, nil)
	done := make(chan error, 1)
	go func() { _, err := n.call("a", "go"); done <- err }()
	synctest.Wait() // until both wait
	rows := n.Waits(context.Background())
	if len(rows) != 2 {
		t.Fatalf("%+v, want two", rows)
	}
	if rows[0].Name != "a" || rows[0].To.ID != 2 || rows[0].To.Node != "node-1" || rows[0].Calls != "nap" || !strings.Contains(rows[0].Stack, "a.lua:1") {
		t.Errorf("%+v", rows[0])
	}
	if rows[1].Name != "b" || !rows[1].To.IsZero() {
		t.Errorf("%+v", rows[1])
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
