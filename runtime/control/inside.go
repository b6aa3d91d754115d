package control

import (
	"net/http"
	"time"

	"shield/runtime/shield"
)

// Completion is what could stand at the end of a line.
type Completion struct {
	From  int      `json:"from"`  // the byte of the line where the words begin
	Words []string `json:"words"` // sorted
}

// Inspection is one service from inside. Times are in milliseconds.
type Inspection struct {
	Service      shield.Name         `json:"service"`
	Names        []shield.Name       `json:"names"`
	Node         shield.NodeID       `json:"node"`
	ID           shield.ServiceID    `json:"id"`
	State        shield.ServiceState `json:"state"`
	Generation   int                 `json:"generation"`
	Code         string              `json:"code"`
	Files        []string            `json:"files"`
	AgeMS        int64               `json:"age_ms"`
	Memory       int64               `json:"memory"` // bytes, an estimate
	Objects      int                 `json:"objects"`
	Mailbox      int                 `json:"mailbox"`
	MailboxAgeMS int64               `json:"mailbox_age_ms"` // of the oldest message in it, about
	InFlight     int                 `json:"in_flight"`      // handlers begun and not over
	Calls        int64               `json:"calls"`
	Errors       int64               `json:"errors"`
	Restarts     int                 `json:"restarts"`
	Reason       string              `json:"reason,omitempty"`
	Stuck        *StuckRow           `json:"stuck"` // null unless it lets nobody in
	Handlers     []HandlerRow        `json:"handlers"`
	Tables       []TableRow          `json:"tables"`
	Timers       []TimerRow          `json:"timers"`
	Waiting      []WaitRow           `json:"waiting"`
	Held         []HeldRow           `json:"held,omitempty"` // only if it was asked for
}

// StuckRow is the handler that lets nobody into its service.
type StuckRow struct {
	Method string `json:"method"`
	Kind   string `json:"kind"` // handler, timer, init, eval, ...
	ForMS  int64  `json:"for_ms"`
	Stack  string `json:"stack"` // "" when it can't be had: Go code does not return
}

// HandlerRow is what the turns of one method took, waits included.
type HandlerRow struct {
	Method string  `json:"method"`
	Count  int64   `json:"count"`
	Errors int64   `json:"errors"`
	MeanMS float64 `json:"mean_ms"`
	MaxMS  float64 `json:"max_ms"`
}

// TableRow is one of the heaviest tables of a service.
type TableRow struct {
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"` // with all that hangs on it
	Entries int    `json:"entries"`
}

// TimerRow is one timer.
type TimerRow struct {
	ID       uint64 `json:"id"`
	InMS     int64  `json:"in_ms"` // below zero when it is due
	EveryMS  int64  `json:"every_ms,omitempty"`
	Function string `json:"function"` // file:line
}

// HeldRow is something that a service keeps.
type HeldRow struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // field, local, session
	Text string `json:"text"`
}

// WaitRow is one handler that waits.
type WaitRow struct {
	Node    shield.NodeID    `json:"node"`
	Service string           `json:"service"`
	ID      shield.ServiceID `json:"id"`
	Method  string           `json:"method"`
	What    string           `json:"what"`             // shield.call, shield.sleep, ...
	Target  string           `json:"target,omitempty"` // as the script named it
	Calls   string           `json:"calls,omitempty"`  // the method it calls there
	To      string           `json:"to,omitempty"`     // the service that Target means, node#id
	ForMS   int64            `json:"for_ms"`
	Trace   shield.TraceID   `json:"trace,omitempty"`
	Stack   string           `json:"stack,omitempty"`
	Init    bool             `json:"init,omitempty"` // its service is in on_init and reads no messages
	// Ring numbers the rings of services that wait for each other, from 1; 0 is
	// none. Dead marks those that can never end.
	Ring int  `json:"ring,omitempty"`
	Dead bool `json:"dead,omitempty"`
}

// WhyRow says which code a service of one node runs, and why that.
type WhyRow struct {
	Service    shield.Name      `json:"service"`
	Node       shield.NodeID    `json:"node"`
	ID         shield.ServiceID `json:"id"`
	Generation int              `json:"generation"`
	Code       string           `json:"code"`
	Since      time.Time        `json:"since"`
	By         string           `json:"by"`    // start, save, reload, undo, restart
	Files      []string         `json:"files"` // whose change it was; of a start, all that it runs
	Mixed      bool             `json:"mixed"` // another node runs other code under this name
	History    []CodeStep       `json:"history"`
}

// CodeStep is one change of a service's code, or an attempt at one.
type CodeStep struct {
	Time       time.Time        `json:"time"`
	By         string           `json:"by"`
	ID         shield.ServiceID `json:"id"`
	Generation int              `json:"generation"` // afterwards
	Code       string           `json:"code"`
	Files      []string         `json:"files"`
	Failed     string           `json:"failed,omitempty"` // why the code of before stayed
}

// inside registers what looks into services. What would show their state needs
// the right to eval.
func (s *Server) inside(mux *http.ServeMux, a Access) {
	get(mux, "complete", func(r *http.Request) (Completion, error) {
		q := r.URL.Query()
		if !a.Eval {
			return Completion{}, evalOff()
		}
		node, name, bad := resolve(s.host, q.Get("target"))
		if bad != nil {
			return Completion{}, bad
		}
		c, err := s.host.Complete(r.Context(), Complete{Node: node, Service: name, Session: q.Get("session"), Line: q.Get("line")})
		c.Words = some(c.Words)
		return c, err
	})
	get(mux, "inspect", func(r *http.Request) (Inspection, error) { return s.inspect(r, a) })
	get(mux, "waits", func(r *http.Request) ([]WaitRow, error) {
		rows, err := s.host.Waits(r.Context())
		markRings(rows)
		return some(rows), err
	})
	get(mux, "why", s.why)
}

func evalOff() error {
	return shield.Errorf(shield.PermissionDenied,
		"eval is switched off here, it runs any Lua: set control.allow_eval in shield.yaml, or use the socket of `shield dev`")
}

func (s *Server) inspect(r *http.Request, a Access) (in Inspection, err error) {
	q := r.URL.Query()
	req := Inspect{State: q.Get("state") == "1", Session: q.Get("session")}
	if req.State && !a.Eval {
		return in, evalOff()
	}
	var bad *shield.Error
	if req.Node, req.Service, bad = resolve(s.host, q.Get("target")); bad != nil {
		return in, bad
	}
	in, err = s.host.Inspect(r.Context(), req)
	if err != nil {
		e := MakeError(err, shield.ServiceNotFound)
		explain(r.Context(), s.host, req.Node, req.Service, "", e)
		return in, e.Err()
	}
	in.Names, in.Files, in.Handlers, in.Tables = some(in.Names), some(in.Files), some(in.Handlers), some(in.Tables)
	in.Timers, in.Waiting = some(in.Timers), some(in.Waiting)
	return in, nil
}

func (s *Server) why(r *http.Request) ([]WhyRow, error) {
	name := shield.Name(r.URL.Query().Get("service"))
	if _, plain, qualified := shield.SplitTarget(string(name)); qualified {
		name = plain
	}
	rows, err := s.host.Why(name)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 || name == "" {
		markMixed(rows)
		return some(rows), nil
	}
	routes, err := s.host.Routes(firstNode(s.host))
	if err != nil {
		return nil, err
	}
	return nil, withNames(shield.Errorf(shield.ServiceNotFound, "no node of this process has a service %q", string(name)), name, routes, "")
}

// markMixed marks the rows of a name whose nodes do not all run the same code.
func markMixed(rows []WhyRow) {
	code := map[shield.Name]string{}
	mixed := map[shield.Name]bool{}
	for _, r := range rows {
		if c, ok := code[r.Service]; ok && c != r.Code {
			mixed[r.Service] = true
		}
		code[r.Service] = r.Code
	}
	for i := range rows {
		rows[i].Mixed = mixed[rows[i].Service]
		rows[i].Files, rows[i].History = some(rows[i].Files), some(rows[i].History)
	}
}

// markRings finds the services that wait for each other in a ring; rings that
// share a service count as one. A waiting handler keeps no message out of its
// service, so a ring by itself may well end; one of services that are all in
// on_init can't.
func markRings(rows []WaitRow) {
	home := func(r WaitRow) string { return shield.Handle{Node: r.Node, ID: r.ID}.String() }
	to := map[string][]int{} // by service, the rows of its calls
	for i, r := range rows {
		if r.To != "" {
			to[home(r)] = append(to[home(r)], i)
		}
	}
	ringOf := map[string]int{} // by service
	last := 0
	for i := range rows {
		if rows[i].To == "" {
			continue
		}
		path := findBack(rows, to, i, home(rows[i]))
		if path == nil {
			continue
		}
		ring := 0
		for _, j := range path {
			ring = max(ring, ringOf[home(rows[j])])
		}
		if ring == 0 {
			last++
			ring = last
		}
		for _, j := range path {
			ringOf[home(rows[j])], rows[j].Ring = ring, ring
		}
	}
	alive := map[int]bool{}
	for _, r := range rows {
		alive[r.Ring] = alive[r.Ring] || !r.Init
	}
	for i := range rows {
		rows[i].Dead = rows[i].Ring > 0 && !alive[rows[i].Ring]
	}
}

// findBack looks for the shortest way along calls from row i back to home.
func findBack(rows []WaitRow, to map[string][]int, i int, home string) []int {
	from := map[int]int{i: -1}
	for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if rows[at].To == home {
			var path []int
			for ; at >= 0; at = from[at] {
				path = append(path, at)
			}
			return path
		}
		for _, next := range to[rows[at].To] {
			if _, seen := from[next]; !seen {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}
