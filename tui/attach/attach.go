// Package attach lets the console watch and steer a running project through its
// control API: a tui.Source and a tui.Commander over one client.
//
// A watch holds the one goroutine of the client's; it ends with Watch. Nothing
// else is started.
package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/repl"
	"shield/runtime/shield"
	"shield/tui"
)

// Server is a running project as the console sees it.
type Server struct {
	Dir string // where .load and .save of the REPL look for files

	c       *client.Client
	dev     atomic.Bool // it is `shield dev`, which can do more
	session string      // whose locals live on from one eval to the next
}

// New makes a Server of a client. The client stays the caller's to close.
func New(c *client.Client) *Server { return &Server{c: c, session: rand.Text()} }

var topics = []control.Topic{control.TopicNodes, control.TopicRoutes, control.TopicServices, control.TopicSessions,
	control.TopicLogs, control.TopicCalls}

// Watch implements tui.Source. It ends when the server goes; the console attaches
// again.
func (s *Server) Watch(ctx context.Context, emit func(tui.Event)) error {
	w := s.c.Watch(ctx, client.WatchRequest{Topics: topics, Tail: 500})
	defer w.Close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u, ok := <-w.C:
			switch {
			case !ok:
				return errors.New("the watch ended")
			case u.Link == client.LinkStale:
				return u.Err
			case u.Event != nil:
				s.event(u.Event, emit)
			}
		}
	}
}

func (s *Server) event(ev *control.Event, emit func(tui.Event)) {
	switch {
	case ev.Kind == control.EventSnapshot && ev.Snapshot != nil:
		s.dev.Store(ev.Snapshot.Project.Mode == control.ModeDev)
		emit(tui.Event{Seq: ev.Seq, Snapshot: s.snapshot(ev.Snapshot)})
	case ev.Kind == control.EventDelta && ev.Delta != nil:
		emit(tui.Event{Seq: ev.Seq, Delta: delta(ev.Delta)})
	case ev.Kind == control.EventLagged:
		emit(tui.Event{Lagged: true})
	case ev.Kind == control.EventFailed && ev.Error != nil:
		emit(tui.Event{Trouble: fmt.Sprintf("no news of the %s: %v", ev.Topic, ev.Error.Err())})
	}
}

func (s *Server) snapshot(in *control.Snapshot) *tui.Snapshot {
	out := &tui.Snapshot{
		App: in.Project.Name, Mode: string(in.Project.Mode), Version: in.Project.Version, Endpoint: s.endpoint(in.Project.Dir),
		Nodes: in.Nodes, Routes: in.Routes, Services: in.Services, Sessions: in.Sessions, Calls: in.Calls, Logs: in.Logs,
	}
	if !in.Project.Started.IsZero() {
		out.UptimeMS = max(time.Since(in.Project.Started).Milliseconds(), 0)
	}
	return out
}

// endpoint is where we are attached, as seen from the project.
func (s *Server) endpoint(dir string) string {
	e := s.c.Endpoint().String()
	if dir == "" {
		return e
	}
	return strings.Replace(e, dir+"/", "", 1)
}

func delta(in *control.Delta) *tui.Delta {
	out := &tui.Delta{Nodes: in.Nodes, Routes: in.Routes, Services: in.Services, Sessions: in.Sessions, Calls: in.Calls, Logs: in.Logs}
	switch in.Topic {
	case control.TopicNodes:
		out.GoneNodes = in.Gone
	case control.TopicRoutes:
		out.GoneRoutes = in.Gone
	case control.TopicServices:
		out.GoneServices = in.Gone
	case control.TopicSessions:
		out.GoneSessions = in.Gone
	case control.TopicLogs:
		out.LogsDropped = int64(in.Dropped)
	case control.TopicCalls:
		out.CallsDropped = int64(in.Dropped)
	}
	return out
}

// History asks for the epochs of one session.
func (s *Server) History(ctx context.Context, id shield.SessionID) ([]shield.EpochStep, error) {
	row, err := s.c.Session(ctx, id)
	return row.History, err
}

// Methods lists what may be called on a target.
func (s *Server) Methods(ctx context.Context, target string) ([]string, error) {
	return s.c.Methods(ctx, target)
}

// Attach begins a session with a service, for the REPL.
func (s *Server) Attach(ctx context.Context, target string) (tui.Talk, repl.Answer, error) {
	session, hello, err := repl.Attach(ctx, s.c, repl.Config{Target: target, Dir: s.Dir})
	if err != nil {
		return nil, hello, err
	}
	return session, hello, nil
}

// Verbs implements tui.Commander.
func (s *Server) Verbs() []string {
	verbs := []string{"call", "eval", "reload", "kick", "drain", "loglevel"}
	if s.dev.Load() {
		verbs = append(verbs, "stop", "kill", "restart", "freeze", "thaw")
	}
	return verbs
}

// Do implements tui.Commander.
func (s *Server) Do(ctx context.Context, verb string, args []string) (string, error) {
	if len(args) < needs[verb] {
		return "", fmt.Errorf("%s wants %d arguments, see :help %s", verb, needs[verb], verb)
	}
	switch verb {
	case "call":
		res, err := s.c.Call(ctx, control.CallRequest{Target: args[0], Method: args[1], Args: client.Args(args[2:])})
		return answer(res, err, true)
	case "eval":
		res, err := s.c.Eval(ctx, control.EvalRequest{Target: args[0], Source: strings.Join(args[1:], " "), Name: "repl", Session: s.session})
		return answer(res, err, false)
	case "reload":
		return s.reload(ctx, args)
	case "kick":
		row, err := s.c.Kick(ctx, control.KickRequest{Session: shield.SessionID(args[0]), Reason: strings.Join(args[1:], " ")})
		return strings.TrimSpace("kicked " + row.Player), err
	case "drain":
		row, err := s.c.Drain(ctx, control.DrainRequest{Node: shield.NodeID(args[0])})
		return nodeLine(row), err
	case "loglevel":
		r := control.LogLevelRequest{Level: args[0]}
		if len(args) > 1 {
			r.Node = shield.NodeID(args[1])
		}
		return "log level is " + args[0], s.c.SetLogLevel(ctx, r)
	case "stop", "kill", "restart", "freeze", "thaw":
		return s.node(ctx, control.NodeAction(verb), args)
	}
	return "", fmt.Errorf("unknown verb %s", verb)
}

// needs is how many arguments a verb can't do without.
var needs = map[string]int{"call": 2, "eval": 2, "kick": 1, "drain": 1, "loglevel": 1, "stop": 1, "kill": 1, "restart": 1, "freeze": 1, "thaw": 1}

// defaultFreeze is when a freeze ends by itself; a fault without an end would
// be a trap.
const defaultFreeze = 10 * time.Second

func (s *Server) node(ctx context.Context, action control.NodeAction, args []string) (string, error) {
	r := control.NodeRequest{Node: shield.NodeID(args[0]), Action: action}
	if action == control.NodeFreeze {
		d := defaultFreeze
		if len(args) > 1 {
			var err error
			if d, err = time.ParseDuration(args[1]); err != nil {
				return "", fmt.Errorf("freeze NODE FOR: %q is no duration like 10s", args[1])
			}
		}
		r.For = d.Milliseconds()
	}
	row, err := s.c.Node(ctx, r)
	return nodeLine(row), err
}

func nodeLine(row shield.NodeRow) string {
	if row.State != shield.Online {
		return fmt.Sprintf("%s is %s", row.Node, row.State) // what it meant to do says nothing any more
	}
	return fmt.Sprintf("%s is %s, %s", row.Node, row.State, row.Intent)
}

func (s *Server) reload(ctx context.Context, args []string) (string, error) {
	var r control.ReloadRequest
	for _, a := range args {
		switch a {
		case "--restart":
			r.Restart = true
		case "--undo":
			r.Undo = true
		default:
			r.Names = append(r.Names, shield.Name(a))
		}
	}
	res, err := s.c.Reload(ctx, r)
	if err != nil {
		return "", err
	}
	return repl.ReloadText(res), nil
}

// answer is how a call or an eval ended, as text. With lens it says which code
// answered and how long it took.
func answer(res control.CallResult, err error, lens bool) (string, error) {
	if err != nil {
		return "", err
	}
	switch {
	case res.Incomplete != "":
		return "", fmt.Errorf("the Lua is not complete: %s", res.Incomplete)
	case !res.OK:
		text := errorText(res.Error)
		if res.Hint != "" {
			text += "\n" + res.Hint
		}
		return "", errors.New(res.Output + text)
	}
	values := make([]string, len(res.Values))
	for i, v := range res.Values {
		values[i] = string(v)
		if i < len(res.Text) {
			values[i] = res.Text[i]
		}
	}
	text := res.Output + strings.Join(values, "  ")
	for _, more := range []string{res.Hint, endedText(res.Ended)} {
		if more != "" {
			text = strings.TrimRight(text, "\n") + "\n" + more
		}
	}
	if !lens {
		return text, nil
	}
	return strings.TrimSpace(fmt.Sprintf("%s  (%.1fms, %s, g%d %s)", text, res.MS, res.Node, res.Generation, res.Code)), nil
}

func endedText(reason string) string {
	if reason == "" {
		return ""
	}
	return "the line has ended the service: " + reason
}

// errorText is an error with its traceback, where there is one.
func errorText(e *control.Error) string {
	text := string(e.Code)
	if e.Message != "" {
		text += ": " + e.Message
	}
	if trace, ok := e.Detail.(string); ok && trace != "" {
		text += "\n" + trace
	}
	return text
}
