package devserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"shield/devserver/logs"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/shield"
)

// Config is what a Server is made of.
type Config struct {
	Project *config.Config
	Mode    control.Mode
	Nodes   int // ModeDev: how many; 0 = dev.nodes
	Version string
	Environ []string // what shield.yaml may read
	Log     *logs.Log
	Rows    *control.Ring[shield.LogRow] // where Log's rows go
	Watch   bool                         // reload what is saved
}

// joinTimeout bounds how long a start waits for the nodes to see each other.
const joinTimeout = 10 * time.Second

// Server is the nodes of one project in this process. Use New.
type Server struct {
	control.Notifier // tells the control API's watchers
	cfg              Config
	name             string // of the lock and the socket
	log              *slog.Logger
	files            *dirFiles
	lock             *control.Lock
	calls            *control.Ring[shield.CallRow]
	members          []*member
	started          time.Time
	headroom         []byte        // see the constant
	nodesChanged     chan struct{} // capacity 1

	api    *control.Server
	socket *control.Socket
	serve  errgroup.Group // the control server's listeners
	reload *reloading

	failed   chan struct{} // closed when a node can't go on
	failOnce sync.Once
	failErr  error

	stopOnce sync.Once
	stopErr  error
}

// New takes the project's lock and binds every port. Nothing runs yet; call
// Stop whatever happens next.
func New(cfg Config) (_ *Server, err error) {
	s := &Server{
		cfg:          cfg,
		name:         control.DevName,
		log:          cfg.Log.Logger(""),
		calls:        control.NewRing[shield.CallRow](1000, nil),
		nodesChanged: make(chan struct{}, 1),
		failed:       make(chan struct{}),
		headroom:     make([]byte, headroom),
	}
	if cfg.Mode == control.ModeRun {
		s.name = string(shield.LocalNode)
		if id := cfg.Project.Cluster.NodeID; id != "" {
			s.name = string(id)
		}
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.lock, err = control.TakeLock(cfg.Project.Dir, s.name); err != nil {
		return nil, err
	}
	if s.files, err = openFiles(cfg.Project.Dir); err != nil {
		return nil, fmt.Errorf("open the project's folder: %w", err)
	}
	if s.reload, err = newReloading(s); err != nil {
		return nil, err
	}
	if err := s.makeMembers(); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		if err := m.open(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// makeMembers decides which nodes there are and binds their sockets, so that
// each can be told the others' addresses.
func (s *Server) makeMembers() error {
	if s.cfg.Mode == control.ModeRun {
		m := &member{server: s, project: s.cfg.Project, id: shield.NodeID(s.name)}
		s.members = []*member{m}
		if s.cfg.Project.Cluster.NodeID == "" {
			return nil
		}
		return m.bind(s.cfg.Project.Cluster.Listen)
	}
	n := s.cfg.Nodes
	if n == 0 {
		n = s.cfg.Project.Dev.Nodes
	}
	token, err := freshToken()
	if err != nil {
		return err
	}
	for i := range n {
		m := &member{server: s, id: shield.NodeID(fmt.Sprintf("node-%d", i+1))}
		s.members = append(s.members, m)
		if err := m.bind("127.0.0.1:0"); err != nil {
			return err
		}
	}
	for _, m := range s.members {
		var peers []string
		for _, p := range s.members {
			if p != m {
				peers = append(peers, p.addr)
			}
		}
		m.project = s.cfg.Project.ForNode(config.Node{ID: m.id, Listen: m.addr, Peers: peers, Token: token})
	}
	return nil
}

func freshToken() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make the dev cluster's key: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// Start starts the nodes, waits until they are all online to each other, and
// opens the control socket. On failure it stops everything.
func (s *Server) Start(ctx context.Context) (err error) {
	s.started = time.Now()
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			err = errors.Join(err, s.Stop(stop))
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	for _, m := range s.members {
		g.Go(func() error { return m.start(gctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if s.cfg.Mode == control.ModeDev {
		if err := s.waitOnline(ctx); err != nil {
			return err
		}
	}
	s.reload.start()
	return s.openControl()
}

// waitOnline returns when every node sees every other online.
func (s *Server) waitOnline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for {
		missing := s.offline()
		if missing == "" {
			return nil
		}
		select {
		case <-s.nodesChanged:
		case <-ctx.Done():
			return fmt.Errorf("the nodes did not find each other within %v: %s\n  UDP on 127.0.0.1 may be blocked; see `shield doctor`", joinTimeout, missing)
		}
	}
}

// offline says who does not see whom; "" when all do.
func (s *Server) offline() string {
	for _, m := range s.members {
		online := map[shield.NodeID]bool{}
		for _, row := range m.node.Nodes() {
			online[row.Node] = row.State == shield.Online
		}
		for _, other := range s.members {
			if !online[other.id] {
				return fmt.Sprintf("%s does not see %s", m.id, other.id)
			}
		}
	}
	return ""
}

func (s *Server) openControl() error {
	var err error
	if s.socket, err = control.Listen(s.cfg.Project.Dir, s.name); err != nil {
		return err
	}
	for _, note := range s.socket.Notes {
		s.log.Warn(note, "service", "control")
	}
	if err := s.lock.Say(s.socket.Path); err != nil {
		return err
	}
	s.api = control.NewServer(control.Config{Host: s, Log: s.log.With("service", "control")})
	dev := s.cfg.Mode == control.ModeDev
	c := s.cfg.Project.Control
	s.serve.Go(func() error {
		return s.api.Serve(s.socket, control.Access{Eval: dev || c.AllowEval, Audit: !dev})
	})
	if c.Listen == "" {
		return nil
	}
	address := strings.TrimPrefix(c.Listen, "tcp://")
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return bindError("tcp", address, "control.listen", err)
	}
	s.serve.Go(func() error {
		return s.api.Serve(ln, control.Access{Token: c.Token, Eval: c.AllowEval, Audit: true})
	})
	return nil
}

// Failed is closed when a node can't go on; Err then says why.
func (s *Server) Failed() <-chan struct{} { return s.failed }

// Err says why Failed is closed.
func (s *Server) Err() error { return s.failErr }

func (s *Server) fail(err error) {
	s.failOnce.Do(func() {
		s.failErr = err
		close(s.failed)
	})
}

// DrainAll takes every node out of routing and lets its services finish, as long
// as ctx lasts.
func (s *Server) DrainAll(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.members))
	for i, m := range s.members {
		wg.Go(func() { errs[i] = m.drain(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Stop ends everything and removes the socket and the lock. It waits as long as
// ctx lasts, and may be called at any moment and more than once.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Server) stop(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.members)+1)
	for i, m := range s.members {
		wg.Go(func() { errs[i] = m.stop(ctx) })
	}
	// Beside them: a change of the files may be waiting for a node that starts.
	wg.Go(func() { errs[len(s.members)] = s.reload.close() })
	wg.Wait()
	if s.api != nil {
		errs = append(errs, s.api.Close(ctx), s.serve.Wait())
	}
	s.release()
	return errors.Join(errs...)
}

// release gives back what New took.
func (s *Server) release() {
	for _, m := range s.members {
		m.close()
	}
	if s.socket != nil {
		s.socket.Close() // closed by the control server already; removes the file
	}
	if s.reload != nil {
		s.reload.close() // for a server that never started
	}
	if s.files != nil {
		s.files.Close()
	}
	if s.lock != nil {
		if err := s.lock.Close(); err != nil {
			s.log.Warn("the lock could not be removed", "service", "control", "err", err)
		}
		s.lock = nil
	}
}

// Banner says what serves now. keys: whether single keys are read.
func (s *Server) Banner(keys bool) Banner {
	b := Banner{
		Version: s.cfg.Version,
		Project: s.cfg.Project.App.Name,
		Ready:   time.Since(s.started),
		Control: s.controlPath(),
		Keys:    keys,
	}
	for _, m := range s.members {
		b.Nodes = append(b.Nodes, string(m.id))
		for _, g := range m.node.Gateways() {
			b.Gateways = append(b.Gateways, g.Addresses...)
		}
	}
	for _, svc := range s.cfg.Project.Services {
		if svc.Instances > 0 {
			b.Services = append(b.Services, string(svc.Name))
		}
		if b.Try == "" && svc.Instances == 1 && s.answersPing(svc.Name) {
			b.Try = string(svc.Name) + " ping"
		}
	}
	if s.cfg.Mode == control.ModeRun { // other nodes may run here, and a verb must know which is meant
		b.Control = "export SHIELD_ENDPOINT=unix:" + b.Control + "   (if several run)"
	}
	if s.cfg.Watch {
		b.Watching = []string{"services/", "lib/", "*.yaml"}
	}
	return b
}

// controlPath is the socket's path, relative to the working folder where that
// is shorter.
func (s *Server) controlPath() string {
	path := s.socket.Path
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
			path = rel
		}
	}
	return path
}
