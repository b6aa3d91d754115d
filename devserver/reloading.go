package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shield/devserver/check"
	"shield/devserver/reload"
	"shield/devserver/watch"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/luavm"
	"shield/runtime/shield"
)

// reloading keeps the running code in step with the files: the watcher tells
// what changed, the reloader swaps code, rpc.yaml becomes new routes, and
// shield.yaml is compared with what runs.
type reloading struct {
	s       *Server
	watcher *watch.Watcher // nil when nothing is watched
	code    *reload.Reloader

	looks sync.Mutex      // one look at a time where nothing is watched; guards disk
	disk  *watch.Snapshot // what that look read

	round sync.Mutex // one change at a time; guards what follows
	yaml  refusal    // of shield.yaml
	rpc   refusal    // of rpc.yaml
	names check.Names

	mu     sync.Mutex
	is     *config.Config // what runs
	paused bool
	last   map[serviceKey]reloaded

	history history
}

type serviceKey struct {
	node shield.NodeID
	id   shield.ServiceID
}

// reloaded is how the last reload of a service went.
type reloaded struct {
	how string
	at  time.Time
}

// newReloading reads the project's files; nodes load their scripts from it.
func newReloading(s *Server) (*reloading, error) {
	r := &reloading{s: s, is: s.cfg.Project, last: map[serviceKey]reloaded{}}
	w, err := watch.New(r.watchConfig())
	if err != nil {
		return nil, fmt.Errorf("watch the project: %w", err)
	}
	r.disk = w.Snapshot()
	if s.cfg.Watch {
		r.watcher = w
	} else if err := w.Close(); err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	r.code = reload.New(reload.Config{Nodes: r.nodes, Files: s.files, Log: s.log}, r.disk)
	r.yaml.file, r.rpc.file = config.FileName, config.RPCFileName
	return r, nil
}

func (r *reloading) watchConfig() watch.Config {
	return watch.Config{
		Root: r.s.cfg.Project.Dir, Check: reload.Whole, Log: r.s.log.With("service", "reload"),
		OnChange: func(set watch.ChangeSet) { r.change(context.Background(), set) },
	}
}

// start begins to watch.
func (r *reloading) start() {
	if r.watcher != nil {
		r.watcher.Start()
	}
}

// close ends watching and waits for a reload that runs.
func (r *reloading) close() error {
	if r.watcher == nil {
		return nil
	}
	return r.watcher.Close()
}

// files is where nodes load scripts from: the last contents that worked.
func (r *reloading) files() luavm.Files { return r.code }

func (r *reloading) nodes() []reload.Node {
	var all []reload.Node
	for _, n := range r.s.alive() {
		all = append(all, reload.Node{ID: n.ID(), Runtime: n.Runtime()})
	}
	return all
}

// change brings everything up to what the files hold: first the code that runs,
// then shield.yaml, which may start services whose scripts came with it, then
// rpc.yaml, which needs the handlers of both. A file that was refused is tried
// again with every change: what it lacked may be there now.
func (r *reloading) change(ctx context.Context, set watch.ChangeSet) []reload.Result {
	r.round.Lock()
	defer r.round.Unlock()
	r.code.See(set.Snapshot)
	var code []watch.Change
	yaml, rpc := false, false
	for _, c := range set.Changes {
		switch c.Path {
		case config.RPCFileName:
			rpc = true
		case config.FileName:
			yaml = true
		default:
			code = append(code, c)
		}
	}
	var results []reload.Result
	if len(code) > 0 {
		set.Changes = code
		results = r.code.Change(ctx, set)
		r.note(results, "save")
		r.warnOfNames(set)
	}
	r.settings(set.Snapshot, yaml, rpc)
	return results
}

// again tries what was refused once more, for a person who asks, and gives a row
// for each such file.
func (r *reloading) again(disk *watch.Snapshot) []control.ReloadRow {
	r.round.Lock()
	defer r.round.Unlock()
	yaml, rpc := r.yaml.refused(), r.rpc.refused()
	r.settings(disk, false, false)
	var rows []control.ReloadRow
	for _, f := range []struct {
		was bool
		*refusal
	}{{yaml, &r.yaml}, {rpc, &r.rpc}} {
		if !f.was {
			continue
		}
		row := control.ReloadRow{Service: shield.Name(f.file), Result: reload.Reloaded}
		if f.refused() {
			row.Result = reload.Refusal
			row.Error = &control.Error{Code: shield.ScriptLoadFailed, Message: f.text}
		}
		rows = append(rows, row)
	}
	return rows
}

// settings takes in shield.yaml and rpc.yaml, each if it was saved or is waiting
// for something to change.
func (r *reloading) settings(disk *watch.Snapshot, yaml, rpc bool) {
	if yaml || r.yaml.refused() {
		r.yaml.settle(r.s.log, yaml, r.saved(yaml))
	}
	if rpc || r.rpc.refused() {
		r.rpc.settle(r.s.log, rpc, r.routes(disk))
	}
}

// refusal is a file whose content could not be made live.
type refusal struct {
	file string
	text string // why; "" = it is live
}

func (f *refusal) refused() bool { return f.text != "" }

// settle remembers how taking the file in went, and tells it once: saved is
// whether the file itself was just saved.
func (f *refusal) settle(log *slog.Logger, saved bool, err error) {
	was := f.text
	f.text = ""
	if err == nil {
		return
	}
	f.text = strings.TrimRight(problemText(err), "\n")
	tail := " is refused; what runs stays as it is, and it is tried again with the next save"
	if part := (partly{}); errors.As(err, &part) {
		tail = " is live but for that; it is tried again with the next save"
	}
	if saved || f.text != was {
		log.Error(f.text+"\n"+f.file+tail, "service", "reload", "event", "reload")
	}
}

// partly is the error of a file that was taken in, but for what it says.
type partly struct{ error }

func (p partly) Unwrap() error { return p.error }

// routes swaps in a new rpc.yaml, on all nodes or on none.
func (r *reloading) routes(disk *watch.Snapshot) error {
	f := disk.File(config.RPCFileName)
	if f == nil {
		return errors.New("rpc.yaml is gone")
	}
	routes, err := config.ParseRPC(config.RPCFileName, f.Content, r.project())
	if err == nil {
		err = r.swapRoutes(routes)
	}
	if err != nil {
		return err
	}
	for _, m := range r.s.members {
		m.takeRoutes(routes)
	}
	r.s.log.Info(fmt.Sprintf("rpc.yaml: %d routes are live on %d nodes", len(routes), len(r.s.alive())), "service", "reload", "event", "reload")
	return nil
}

func (r *reloading) swapRoutes(routes []config.Route) error {
	nodes := r.s.alive()
	for _, n := range nodes {
		if err := n.CheckHandlers(routes); err != nil {
			return err
		}
	}
	plain := make([]shield.RPCRoute, 0, len(routes))
	for _, rt := range routes {
		plain = append(plain, rt.RPCRoute)
	}
	table := shield.NewRPCTable(plain)
	for i, n := range nodes {
		old := n.RPCRoutes()
		if err := n.SetRoutes(table); err != nil {
			for _, back := range nodes[:i] {
				err = errors.Join(err, back.SetRoutes(old))
			}
			return err
		}
	}
	return nil
}

// problemText writes problems one a line.
func problemText(err error) string {
	var ps config.Problems
	if !errors.As(err, &ps) {
		return err.Error()
	}
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// note remembers how each service's reload went, for its row and its history.
func (r *reloading) note(results []reload.Result, by string) {
	if len(results) == 0 {
		return
	}
	r.history.add(results, by)
	r.mu.Lock()
	for _, res := range results {
		how := "ok"
		switch res.Outcome {
		case reload.Unchanged:
			continue
		case reload.Failed, reload.Refusal, reload.HeldBack:
			how = res.Outcome
			if res.Err != nil {
				how += ": " + firstLine(res.Err.Error())
			}
		case reload.Undone, reload.Restarted, reload.Started:
			how = res.Outcome
		}
		r.last[serviceKey{res.Node, res.ID}] = reloaded{how, time.Now()}
	}
	r.mu.Unlock()
	r.s.Changed(control.TopicServices)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// forget drops what a node's former life left: the new one counts its services
// from 1 again.
func (r *reloading) forget(id shield.NodeID) {
	r.mu.Lock()
	maps.DeleteFunc(r.last, func(k serviceKey, _ reloaded) bool { return k.node == id })
	r.mu.Unlock()
	r.history.forget(id)
}

// mark completes rows with how their last reload went.
func (r *reloading) mark(rows []shield.ServiceRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rows {
		if l, ok := r.last[serviceKey{rows[i].Node, rows[i].ID}]; ok {
			rows[i].Reload, rows[i].ReloadTime = l.how, &l.at
		}
	}
}

// PauseReload stops or resumes reloading what is saved, and says whether it is
// paused now.
func (s *Server) PauseReload() bool {
	r := s.reload
	if r.watcher == nil {
		return true
	}
	r.mu.Lock()
	r.paused = !r.paused
	paused := r.paused
	r.mu.Unlock()
	r.watcher.Pause(paused)
	return paused
}

// Reload looks at the files now.
func (s *Server) Reload(ctx context.Context, req control.ReloadRequest) (control.ReloadResult, error) {
	began := time.Now()
	if err := s.knownServices(req.Names); err != nil {
		return control.ReloadResult{}, err
	}
	var results []reload.Result
	switch {
	case req.Undo:
		results = s.reload.code.Undo(ctx, req.Names...)
	case req.Restart:
		if len(req.Names) == 0 {
			return control.ReloadResult{}, shield.Errorf(shield.InvalidName, "reload --restart: name the services to start afresh")
		}
		results = s.reload.code.Restart(ctx, req.Names...)
	default:
		var err error
		if results, err = s.reload.look(ctx, req.Names); err != nil {
			return control.ReloadResult{}, err
		}
	}
	s.reload.note(results, "reload")
	out := control.ReloadResult{OK: true, Services: []control.ReloadRow{}}
	for _, r := range results {
		row := control.ReloadRow{Service: r.Service, Node: r.Node, ID: r.ID, Result: r.Outcome, From: r.From, To: r.To,
			Code: r.Code, MS: millis(r.Took), Warnings: r.Warnings, Lost: r.Lost}
		if r.Err != nil {
			out.OK = false
			row.Error = control.MakeError(r.Err, shield.ScriptLoadFailed)
			row.Error.Message = reload.Explain(r)
		}
		out.Services = append(out.Services, row)
	}
	if !req.Undo && !req.Restart {
		rows := s.reload.again(s.reload.snapshot())
		for _, row := range rows {
			out.OK = out.OK && row.Error == nil
		}
		out.Services = append(out.Services, rows...)
	}
	out.MS = millis(time.Since(began))
	return out, nil
}

// snapshot is what the files held when they were last read.
func (r *reloading) snapshot() *watch.Snapshot {
	if r.watcher != nil {
		return r.watcher.Snapshot()
	}
	r.looks.Lock()
	defer r.looks.Unlock()
	return r.disk
}

// look reads the files and reloads what differs.
func (r *reloading) look(ctx context.Context, names []shield.Name) ([]reload.Result, error) {
	if r.watcher != nil {
		if err := r.watcher.Look(ctx); err != nil {
			return nil, err
		}
		return r.code.Reload(ctx, names...), nil
	}
	r.looks.Lock()
	defer r.looks.Unlock()
	w, err := watch.New(r.watchConfig())
	if err != nil {
		return nil, fmt.Errorf("read the project: %w", err)
	}
	defer w.Close()
	set := watch.ChangeSet{Snapshot: w.Snapshot(), Changes: r.disk.Diff(w.Snapshot()), Time: time.Now()}
	r.disk = w.Snapshot()
	if results := r.change(ctx, set); results != nil {
		return results, nil
	}
	return r.code.Reload(ctx, names...), nil
}

func (s *Server) knownServices(names []shield.Name) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	for _, n := range s.alive() {
		for _, row := range n.Services() {
			known = append(known, string(row.Name), row.Module)
			for _, name := range row.Names {
				known = append(known, string(name))
			}
		}
		for _, d := range n.Runtime().Down() {
			known = append(known, string(d.Name), string(d.Module))
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, name := range names {
		if slices.Contains(known, string(name)) {
			continue
		}
		if near := shield.Nearest(string(name), known); near != "" {
			return shield.Errorf(shield.ServiceNotFound, "no service %q runs here (did you mean %q?)", name, near)
		}
		return shield.Errorf(shield.ServiceNotFound, "no service %q runs here; see `shield services`", name)
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// answersPing reports whether a service of the first node has a method ping,
// for the banner's example.
func (s *Server) answersPing(name shield.Name) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	methods, err := s.members[0].node.Runtime().Methods(ctx, name)
	return err == nil && slices.Contains(methods, "ping")
}

// stateFile is a file of the project's state folder.
func (s *Server) stateFile(name string) string {
	return filepath.Join(s.cfg.Project.Dir, control.StateDir, name)
}
