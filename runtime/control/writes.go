package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"shield/runtime/shield"
)

// writes registers what acts. Every one of them is audited, refused ones too.
func (s *Server) writes(mux *http.ServeMux, a Access) {
	post(s, mux, a, "call", s.call)
	post(s, mux, a, "eval", func(ctx context.Context, r EvalRequest) (CallResult, string, error) {
		if !a.Eval {
			return CallResult{}, evalAbout(r), evalOff()
		}
		return s.eval(ctx, r)
	})
	post(s, mux, a, "reload", s.reload)
	post(s, mux, a, "drain", s.drain)
	post(s, mux, a, "node", s.nodeAction)
	post(s, mux, a, "kick", s.kick)
	post(s, mux, a, "loglevel", s.logLevel)
	post(s, mux, a, "clock", s.clock)
	mux.HandleFunc("POST /ops/faults", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, shield.Errorf(shield.ModuleUnavailable, "this server injects no faults"))
	})
}

// post registers one action: do gives its answer, and what the audit says of it.
func post[Req, Res any](s *Server, mux *http.ServeMux, a Access, name string, do func(context.Context, Req) (Res, string, error)) {
	mux.HandleFunc("POST /ops/"+name, func(w http.ResponseWriter, r *http.Request) {
		var req Req
		var res Res
		var about string
		err := decode(w, r, &req)
		if err == nil {
			res, about, err = do(r.Context(), req)
		}
		s.audit(r, a, name, about, outcome(res, err))
		if err != nil {
			fail(w, err)
			return
		}
		writeJSON(w, http.StatusOK, res)
	})
}

// outcome is the error of an action, also of one whose answer carries it.
func outcome(res any, err error) error {
	if err != nil {
		return err
	}
	switch r := res.(type) {
	case CallResult:
		if r.Error != nil {
			return r.Error.Err()
		}
	case ReloadResult:
		for _, row := range r.Services {
			if row.Error != nil {
				return row.Error.Err()
			}
		}
	}
	return nil
}

// audit writes who did what. Calls from the developer's own socket are too many
// for level info.
func (s *Server) audit(r *http.Request, a Access, op, about string, err error) {
	level := slog.LevelInfo
	if op == "call" && !a.Audit {
		level = slog.LevelDebug
	}
	from := "unix"
	if a.Token != "" {
		from = r.RemoteAddr
	}
	result := "ok"
	if err != nil {
		result = string(shield.AsError(err, shield.HandlerError).Code)
	}
	s.log.LogAttrs(r.Context(), level, strings.TrimSpace(op+" "+about)+" by "+from+": "+result, slog.String("service", "control"), slog.String("event", "audit"),
		slog.String("op", op), slog.String("about", about), slog.String("from", from), slog.String("result", result))
}

func (s *Server) call(ctx context.Context, r CallRequest) (CallResult, string, error) {
	about := auditTarget(r.Target, r.Method)
	if r.Method == "" || strings.HasPrefix(r.Method, "on_") {
		return failed(shield.Errorf(shield.InvalidMethod, "method %q: want the name of a function of the service's module that is no hook", r.Method)), about, nil
	}
	return s.perform(ctx, r.Target, r.Method, func(node shield.NodeID, name shield.Name) CallResult {
		return s.host.Call(ctx, Call{Node: node, Service: name, Method: r.Method, Args: r.Args, Timeout: millis(r.Timeout)})
	}), about, nil
}

func (s *Server) eval(ctx context.Context, r EvalRequest) (CallResult, string, error) {
	return s.perform(ctx, r.Target, "", func(node shield.NodeID, name shield.Name) CallResult {
		return s.host.Eval(ctx, Eval{Node: node, Service: name, Source: r.Source, Timeout: millis(r.Timeout),
			Session: r.Session, Name: r.Name, Budget: millis(r.Budget), ReadOnly: r.ReadOnly})
	}), evalAbout(r), nil
}

// evalAbout has the beginning of the Lua: whoever reads the audit wants to know
// what was run.
func evalAbout(r EvalRequest) string {
	return auditTarget(r.Target, strings.ToValidUTF8(r.Source[:min(len(r.Source), 200)], ""))
}

// perform finds the target, asks the host and completes its answer.
func (s *Server) perform(ctx context.Context, target, method string, do func(shield.NodeID, shield.Name) CallResult) CallResult {
	node, name, bad := resolve(s.host, target)
	if bad != nil {
		return failed(bad)
	}
	start := time.Now()
	res := do(node, name)
	if res.MS == 0 {
		res.MS = float64(time.Since(start).Microseconds()) / 1000
	}
	if res.Node == "" {
		res.Node = node
	}
	if res.Service == "" {
		res.Service = name
	}
	if res.OK {
		res.Values = some(res.Values)
		for i, v := range res.Values {
			if !json.Valid(v) {
				return failed(shield.Errorf(shield.EncodeFailed, "value %d of the reply is no JSON", i+1))
			}
		}
		return res
	}
	explain(ctx, s.host, node, name, method, res.Error)
	return res
}

func failed(err *shield.Error) CallResult { return CallResult{Error: MakeError(err, err.Code)} }

// MaxShift is how far a business clock may be moved. Other times that come from
// outside are cut to it: what is added to a clock must not overflow.
const MaxShift = 100 * 365 * 24 * time.Hour

func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), MaxShift.Milliseconds())) * time.Millisecond
}

func (s *Server) reload(ctx context.Context, r ReloadRequest) (ReloadResult, string, error) {
	about := "all"
	if len(r.Names) > 0 {
		about = fmt.Sprint(r.Names)
	}
	switch {
	case r.Restart && r.Undo:
		return ReloadResult{}, about, shield.Errorf(shield.DecodeError, "reload: restart and undo exclude each other")
	case r.Restart && len(r.Names) == 0:
		return ReloadResult{}, about, shield.Errorf(shield.DecodeError, "reload: restart needs the names of services: it ends their state")
	case r.Restart:
		about = "restart " + about
	case r.Undo:
		about = "undo " + about
	}
	res, err := s.host.Reload(ctx, r)
	res.Services = some(res.Services)
	return res, about, err
}

func (s *Server) drain(ctx context.Context, r DrainRequest) (shield.NodeRow, string, error) {
	row, err := s.host.Drain(ctx, r)
	return row, string(r.Node), s.nodeError(r.Node, err)
}

func (s *Server) nodeAction(ctx context.Context, r NodeRequest) (shield.NodeRow, string, error) {
	about := auditTarget(string(r.Action), string(r.Node))
	actions := []NodeAction{NodeStop, NodeKill, NodeRestart, NodeFreeze, NodeThaw}
	if !slices.Contains(actions, r.Action) {
		return shield.NodeRow{}, about, badRequest("action", string(r.Action), []string{"stop", "kill", "restart", "freeze", "thaw"})
	}
	if r.Action == NodeFreeze && r.For <= 0 {
		return shield.NodeRow{}, about, shield.Errorf(shield.DecodeError, "freeze: for_ms says when it ends, every fault has an end")
	}
	row, err := s.host.Node(ctx, r)
	return row, about, s.nodeError(r.Node, err)
}

// nodeError adds to node_not_found which nodes there are.
func (s *Server) nodeError(node shield.NodeID, err error) error {
	if shield.CodeOf(err) != shield.NodeNotFound {
		return err
	}
	known := knownNodes(s.host)
	if slices.Contains(known, string(node)) { // of the cluster, but not the host's
		return shield.Errorf(shield.NodeNotFound, "%s runs in another process than the one that was asked: ask that one, with --endpoint unix:.shield/%s.sock on its machine", node, node)
	}
	return withKnown(MakeError(err, shield.NodeNotFound), string(node), known, "nodes")
}

func (s *Server) kick(ctx context.Context, r KickRequest) (shield.SessionRow, string, error) {
	about := auditTarget(string(r.Session), r.Reason)
	row, err := s.session(r.Session)
	if err != nil {
		return row, about, err
	}
	r.Session = row.Session
	return row, about, s.host.Kick(ctx, r)
}

// LogLevel is the answer to a LogLevelRequest.
type LogLevel struct {
	OK    bool   `json:"ok"`
	Level string `json:"level"`
}

func (s *Server) logLevel(_ context.Context, r LogLevelRequest) (LogLevel, string, error) {
	about := auditTarget(r.Level, string(r.Node), r.Service)
	if !slices.Contains(levels, r.Level) {
		return LogLevel{}, about, badRequest("level", r.Level, levels)
	}
	if err := s.host.SetLogLevel(r); err != nil {
		return LogLevel{}, about, s.nodeError(r.Node, err)
	}
	return LogLevel{OK: true, Level: r.Level}, about, nil
}

func (s *Server) clock(_ context.Context, r ClockRequest) ([]ClockRow, string, error) {
	about := string(r.Node)
	if r.Reset {
		about = auditTarget(about, "reset")
	}
	if r.Shift > MaxShift.Milliseconds() || r.Shift < -MaxShift.Milliseconds() {
		return nil, about, shield.Errorf(shield.DecodeError, "shift_ms=%d: a clock can be moved by a hundred years at most", r.Shift)
	}
	if r.Shift != 0 {
		about = auditTarget(about, (time.Duration(r.Shift) * time.Millisecond).String())
	}
	if err := s.host.SetClock(r); err != nil {
		return nil, about, s.nodeError(r.Node, err)
	}
	rows, err := s.host.Clock()
	return some(rows), about, err
}
