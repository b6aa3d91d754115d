package devserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/node"
	"shield/runtime/shield"
)

// member is one node of this process: what it takes to start it, and the node
// while it runs. A dev node can be stopped and started again on its address.
type member struct {
	server  *Server
	id      shield.NodeID
	project *config.Config
	addr    string // of its UDP socket; "" without a cluster

	mu    sync.Mutex // never held while a node is asked: rows are read under it
	conn  net.PacketConn
	node  *node.Node // the last one, also after it ended
	alive bool
	over  *node.Node     // the last one that was told to end
	ended string         // how it ended, while it does not run; "" before its first start
	watch sync.WaitGroup // the goroutine that waits for node.Failed
}

// bind takes the UDP socket.
func (m *member) bind(address string) error {
	conn, err := net.ListenPacket("udp", wildcard(address))
	if err != nil {
		return bindError("udp", address, "cluster.listen", err)
	}
	m.conn, m.addr = conn, conn.LocalAddr().String()
	return nil
}

func wildcard(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "*" {
		return ":" + port
	}
	return address
}

// open makes the node and binds its gateways.
func (m *member) open() error {
	s := m.server
	cfg := node.Config{
		Project: m.project,
		Files:   s.reload.files(),
		FS:      scriptFolders(m.project),
		Log:     s.cfg.Log.Logger(m.id),
		Conn:    m.conn,
		Listen:  listenTCP,
		Dev:     s.cfg.Mode == control.ModeDev,
		Changed: s.nodeChanged,
		Getenv:  os.LookupEnv,
		Call:    func(row shield.CallRow) { s.calls.Append(row) },
		Calls:   s.calls.Watched,
	}
	if m.conn != nil {
		cfg.Epochs = node.EpochFile(s.stateFile(string(m.id) + ".epoch"))
	}
	n, err := node.New(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.node = n
	return nil
}

func listenTCP(network, address string) (net.Listener, error) {
	ln, err := net.Listen(network, wildcard(address))
	if err != nil {
		return nil, bindError(network, address, "gateways.network", err)
	}
	return ln, nil
}

// start starts the node that open made. Its services may take long; who ends the
// node meanwhile makes this fail.
func (m *member) start(ctx context.Context) error {
	m.mu.Lock()
	n := m.node
	m.mu.Unlock()
	if err := n.Start(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.server.noteStarts(n)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over == n {
		return shield.Errorf(shield.RuntimeStopping, "%s was %s while it started", m.id, m.ended)
	}
	m.alive, m.ended = true, ""
	if failed := n.Failed(); failed != nil {
		m.watch.Go(func() {
			<-failed
			if err := n.Err(); err != nil {
				m.server.fail(fmt.Errorf("%s: %w", m.id, err))
			}
		})
	}
	return nil
}

// takeServices makes the services of a saved shield.yaml those of the next start.
func (m *member) takeServices(p *config.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.project.Clone()
	next.Services, next.Limits = p.Services, p.Limits
	m.project = next
}

// takeRoutes makes routes those of the next start.
func (m *member) takeRoutes(routes []config.Route) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.project.Clone()
	next.RPC = routes
	m.project = next
}

// endedAs tells how the node ended; "" while it runs.
func (m *member) endedAs() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// running gives the node while it runs.
func (m *member) running() (*node.Node, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node, m.alive
}

func (m *member) drain(ctx context.Context) error {
	n, ok := m.running()
	if !ok {
		return nil
	}
	if err := n.Drain(ctx); err != nil {
		return fmt.Errorf("drain %s: %w", m.id, err)
	}
	return nil
}

// stop ends the node; nil when it does not run.
func (m *member) stop(ctx context.Context) error {
	return m.end("stopped", func(n *node.Node) error { return n.Stop(ctx) })
}

// kill ends the node as a crash would be seen from outside.
func (m *member) kill() error { return m.end("killed", (*node.Node).Kill) }

func (m *member) end(as string, how func(*node.Node) error) error {
	m.mu.Lock()
	n := m.node
	was := n != nil && m.over != n
	if was {
		m.alive, m.over, m.ended = false, n, as
	}
	m.mu.Unlock()
	if !was {
		return nil
	}
	err := how(n)
	m.watch.Wait()
	if err != nil {
		return fmt.Errorf("stop %s: %w", m.id, err)
	}
	return nil
}

// restart ends the node, which may take stop, and starts a new one on its
// address. Of several restarts at once each ends the one before.
func (m *member) restart(ctx context.Context, stop time.Duration) error {
	if err := m.gone(ctx, stop); err != nil {
		return err
	}
	// A change of the files waits: one that came between would pass over a node
	// that does not run yet, and the node would keep what was before.
	m.server.reload.round.Lock()
	defer m.server.reload.round.Unlock()
	if err := m.gone(ctx, stop); err != nil { // somebody else may have started it meanwhile
		return err
	}
	m.mu.Lock()
	var err error
	if m.addr != "" {
		err = m.bind(m.addr)
	}
	if err == nil {
		err = m.open()
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.server.reload.forget(m.id)
	return m.start(ctx)
}

// gone ends the node, where it runs, and waits until it has ended also where
// somebody else is ending it.
func (m *member) gone(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := m.stop(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	old := m.node
	m.mu.Unlock()
	_ = old.Stop(ctx) // whoever began it hears its error; a second one only waits
	return nil
}

// close frees what a node that never started holds.
func (m *member) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node == nil {
		if m.conn != nil {
			m.conn.Close()
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := m.node.Stop(ctx); err != nil { // does nothing where it was stopped before
		m.server.log.Warn("a node did not end in time", "service", "node", "node", string(m.id), "err", err)
	}
}
