package control

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"shield/runtime/shield"
)

// reads registers what only looks.
func (s *Server) reads(mux *http.ServeMux) {
	get(mux, "project", func(*http.Request) (Project, error) { return s.host.Project(), nil })
	get(mux, "status", s.status)
	get(mux, "nodes", func(r *http.Request) ([]shield.NodeRow, error) {
		from, err := s.view(r)
		if err != nil {
			return nil, err
		}
		rows, err := s.host.Nodes(from)
		SortNodes(rows)
		return some(rows), err
	})
	get(mux, "routes", func(r *http.Request) ([]shield.RouteRow, error) {
		from, err := s.view(r)
		if err != nil {
			return nil, err
		}
		rows, err := s.host.Routes(from)
		SortRoutes(rows)
		return some(rows), err
	})
	get(mux, "services", func(r *http.Request) ([]shield.ServiceRow, error) {
		node, err := s.node(r, "node")
		if err != nil {
			return nil, err
		}
		rows, err := s.host.Services()
		rows = slices.DeleteFunc(rows, func(r shield.ServiceRow) bool { return node != "" && r.Node != node })
		SortServices(rows)
		return some(rows), err
	})
	get(mux, "sessions", func(*http.Request) ([]shield.SessionRow, error) {
		rows, err := s.host.Sessions()
		SortSessions(rows)
		return some(rows), err
	})
	get(mux, "sessions/{id}", func(r *http.Request) (shield.SessionRow, error) {
		return s.session(shield.SessionID(r.PathValue("id")))
	})
	get(mux, "methods", s.methods)
	get(mux, "clock", func(*http.Request) ([]ClockRow, error) {
		rows, err := s.host.Clock()
		return some(rows), err
	})
}

func get[T any](mux *http.ServeMux, path string, ask func(*http.Request) (T, error)) {
	mux.HandleFunc("GET /ops/"+path, func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r)
		if err != nil {
			fail(w, err)
			return
		}
		writeJSON(w, http.StatusOK, v)
	})
}

// some makes the empty list [] in JSON, not null.
func some[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

func (s *Server) status(*http.Request) (Status, error) {
	nodes, err := s.host.Status()
	SortStatus(nodes)
	for i := range nodes {
		nodes[i].Gateway = some(nodes[i].Gateway)
		if nodes[i].Counters == nil {
			nodes[i].Counters = map[string]int64{}
		}
	}
	return Status{Project: s.host.Project(), Nodes: some(nodes)}, err
}

// view reads the parameter from: whose view, the first node's by default.
func (s *Server) view(r *http.Request) (shield.NodeID, error) {
	from, err := s.node(r, "from")
	if from == "" && err == nil {
		from = firstNode(s.host)
	}
	return from, err
}

// node reads a parameter that names one of our nodes.
func (s *Server) node(r *http.Request, param string) (shield.NodeID, error) {
	node := shield.NodeID(r.URL.Query().Get(param))
	ours := s.host.Project().Nodes
	if node == "" || slices.Contains(ours, node) {
		return node, nil
	}
	known := make([]string, len(ours))
	for i, n := range ours {
		known[i] = string(n)
	}
	e := MakeError(shield.Errorf(shield.NodeNotFound, "%s=%s: no such node in this process", param, node), shield.NodeNotFound)
	return "", withKnown(e, string(node), known, "nodes")
}

// minPrefix is how much of a session's id must be given: "s-" and four digits.
const minPrefix = 6

// session finds a session by its id, or by the beginning of it that log lines
// show, where no other begins alike.
func (s *Server) session(id shield.SessionID) (shield.SessionRow, error) {
	row, err := s.host.Session(id)
	if shield.CodeOf(err) != shield.SessionClosed {
		return row, err
	}
	rows, listErr := s.host.Sessions()
	if listErr != nil {
		return row, err
	}
	SortSessions(rows)
	known := make([]string, len(rows))
	var begins []shield.SessionRow
	for i, r := range rows {
		known[i] = string(r.Session)
		if len(id) >= minPrefix && strings.HasPrefix(known[i], string(id)) {
			begins = append(begins, r)
		}
	}
	if len(begins) == 1 {
		return s.host.Session(begins[0].Session)
	}
	return row, withKnown(MakeError(err, shield.SessionClosed), string(id), known, "sessions")
}

func (s *Server) methods(r *http.Request) ([]string, error) {
	node, name, bad := resolve(s.host, r.URL.Query().Get("target"))
	if bad != nil {
		return nil, bad
	}
	names, err := s.host.Methods(r.Context(), node, name)
	if err != nil {
		e := MakeError(err, shield.ServiceNotFound)
		explain(r.Context(), s.host, node, name, "", e)
		return nil, e.Err()
	}
	slices.Sort(names)
	return some(names), nil
}

// levels in rising order.
var levels = []string{"debug", "info", "warn", "error"}

// logFilter says which lines a reader wants.
type logFilter struct {
	level   int
	node    shield.NodeID
	service string
}

func parseLogFilter(level string, node shield.NodeID, service string) (logFilter, error) {
	f := logFilter{level: slices.Index(levels, cmp.Or(level, "debug")), node: node, service: service}
	if f.level < 0 {
		return f, badRequest("level", level, levels)
	}
	return f, nil
}

func (f logFilter) wants(r shield.LogRow) bool {
	return slices.Index(levels, r.Level) >= f.level && (f.node == "" || r.Node == f.node) && (f.service == "" || r.Service == f.service)
}

// logs sends the last lines that match, and with follow=1 all that come.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, err := parseLogFilter(q.Get("level"), shield.NodeID(q.Get("node")), q.Get("service"))
	if err != nil {
		fail(w, err)
		return
	}
	n, err := intParam(q.Get("tail"), "tail", 100)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := s.streaming(r)
	defer cancel()
	ring := s.host.Logs()
	out := newLineWriter(w)
	rows, pos := ring.Last(1 << 30)
	rows = slices.DeleteFunc(rows, func(r shield.LogRow) bool { return !f.wants(r) })
	for _, row := range rows[max(0, len(rows)-n):] {
		if out.write(row) != nil {
			return
		}
	}
	if out.send() != nil || q.Get("follow") != "1" {
		return
	}
	defer ring.Follow()()
	followLogs(ctx, ring, pos, f, out)
}

// followLogs ends when the reader or the server does.
func followLogs(ctx context.Context, ring *Ring[shield.LogRow], pos uint64, f logFilter, out *lineWriter) {
	for ring.Wait(ctx, pos) == nil {
		rows, next, dropped := ring.Since(pos, burst)
		pos = next
		if dropped > 0 && out.write(droppedLine(dropped)) != nil {
			return
		}
		for _, row := range rows {
			if f.wants(row) && out.write(row) != nil {
				return
			}
		}
		if out.send() != nil || !sleep(ctx, notableGap) {
			return
		}
	}
}

// droppedLine stands where lines are missing.
func droppedLine(n uint64) shield.LogRow {
	return shield.LogRow{Time: time.Now(), Level: "warn", Service: "control", Event: "dropped",
		Text:   "lines are missing here: this reader is too slow for them",
		Fields: map[string]any{"dropped": n}}
}

// send flushes, even an answer without a line, so that a reader knows at once
// that it is attached.
func (l *lineWriter) send() error {
	if err := l.buf.Flush(); err != nil {
		return err
	}
	l.spent = 0
	return l.ctl.Flush()
}

// auditTarget is what the audit says a request was about.
func auditTarget(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}
