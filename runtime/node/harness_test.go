package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/internal/sim"
	"shield/runtime/config"
	"shield/runtime/node"
	"shield/runtime/shield"
	"shield/runtime/wire"
)

// project is what every test's nodes run: a login, a player service on node-2,
// and something to watch them with.
var project = map[string]string{
	"shield.yaml": `
app: { name: test }
services:
  - { name: auth, script: auth.lua, nodes: [node-1] }
  - { name: player, script: player.lua, nodes: [node-2] }
  - { name: echo, script: echo.lua }
gateways:
  - { name: main, nodes: [node-1], auth: auth, network: { tcp: "10.0.0.1:7001", protocol: { body: { provider: json } } } }
`,
	"rpc.yaml": `
routes:
  - { id: 1001, name: login, dir: c2s, service: auth, handler: login, auth: false }
  - { id: 1002, name: move, dir: c2s, service: player, handler: move }
  - { id: 1003, name: leave, dir: c2s, service: player, handler: leave }
  - { id: 2001, name: welcome, dir: s2c }
  - { id: 2002, name: moved, dir: s2c }
`,
	"auth.lua": `
local M = {}
function M.login(ctx, client, req)
  local player, err = shield.cluster.query("node-2", "player")
  if not player then error(tostring(err)) end
  local ref, err = shield.client.bind(client, player, req.name)
  if not ref then error(tostring(err)) end
  shield.client_rpc.welcome(ref, { name = req.name })
end
return M
`,
	"player.lua": `
local M = {}
local moved = shield.client_rpc.moved -- at the top level, as scripts do
local seen = {}
local refs = {}
function M.on_client_bound(client) seen[#seen+1] = "bound " .. client:player_id() refs[client:player_id()] = client:ref() end
function M.on_client_unbound(client, reason) seen[#seen+1] = "unbound " .. client:player_id() .. " " .. reason end
function M.on_client_disconnected(client, reason) seen[#seen+1] = "disconnected " .. client:player_id() .. " " .. reason end
function M.move(ctx, client, req) moved(client, { x = req.x + 1 }) end
function M.leave(ctx, client) shield.client.close(client, "bye") end
function M.seen(ctx) return shield.array(seen) end
function M.kick(ctx, player) return shield.client.close(refs[player], "kicked by a friend") end
function M.die(ctx) shield.exit("done") end
return M
`,
	"echo.lua": `
local M = {}
function M.echo(ctx, ...) return ... end
function M.far(ctx, target, ...) return shield.call(target, "echo", ...) end
function M.slow(ctx, ms) shield.sleep(ms) return "slept" end
return M
`,
}

// files are scripts in memory.
type files map[string]string

func (f files) ReadFile(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

// world is a few nodes on a simulated network, inside one synctest bubble.
type world struct {
	t       testing.TB
	net     *sim.Network
	project *config.Config
	scripts files
	names   int // that some nodes publish
	nodes   map[shield.NodeID]*node.Node
	gates   map[shield.NodeID]*sim.Listener
	logs    *logBuffer
	change  func(*config.Config) // of one node; nil = nothing
}

// loadProject must be called outside of a bubble: it works with real files.
func loadProject(t testing.TB, count int) *config.Config { return loadFiles(t, project, count) }

// loadFiles is loadProject for another project.
func loadFiles(t testing.TB, project map[string]string, count int) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range project {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Options{Dir: dir, Dev: true, Nodes: count})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inWorld runs a test on nodes of the project that know each other, in virtual
// time.
func inWorld(t *testing.T, nodes int, test func(t *testing.T, w *world)) {
	t.Helper()
	onNodes(t, project, nodes, projectNames, test)
}

// onNodes is inWorld for another project; names is what newWorldOf can't know.
func onNodes(t *testing.T, files map[string]string, nodes, names int, test func(t *testing.T, w *world)) {
	t.Helper()
	c := loadFiles(t, files, nodes)
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, c, files, 1)
		w.names = names
		defer w.stop()
		w.start(nodes)
		test(t, w)
	})
}

const projectNames = 2 // auth and player; everybody has an echo

func newWorld(t testing.TB, c *config.Config) *world {
	w := newWorldOf(t, c, project, 1)
	w.names = projectNames
	return w
}

// newWorldOf is a world of another project; seed decides what its network does.
func newWorldOf(t testing.TB, c *config.Config, scripts map[string]string, seed uint64) *world {
	return &world{t: t, net: sim.New(seed, time.Millisecond), project: c, scripts: scripts, logs: &logBuffer{},
		nodes: map[shield.NodeID]*node.Node{}, gates: map[shield.NodeID]*sim.Listener{}}
}

func addrOf(i int) string { return fmt.Sprintf("10.0.0.%d:9000", i) }

// make builds node-i, not started.
func (w *world) make(i, count int) *node.Node {
	w.t.Helper()
	id := shield.NodeID(fmt.Sprintf("node-%d", i))
	var peers []string
	for p := range count {
		if p+1 != i {
			peers = append(peers, addrOf(p+1))
		}
	}
	conn, err := w.net.Listen(addrOf(i))
	if err != nil {
		w.t.Fatal(err)
	}
	mine := w.project.ForNode(config.Node{ID: id, Listen: addrOf(i), Peers: peers, Token: "0123456789abcdef"})
	if w.change != nil {
		w.change(mine)
	}
	n, err := node.New(node.Config{
		Project: mine,
		Files:   w.scripts,
		Log:     slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Conn:    conn,
		Dev:     true,
		Listen: func(string, string) (net.Listener, error) {
			l := sim.NewListener(net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(i)), Port: 7001})
			w.gates[id] = l
			return l, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[id] = n
	return n
}

// start builds and starts count nodes and waits until they know each other's
// names.
func (w *world) start(count int) {
	w.t.Helper()
	var wg sync.WaitGroup
	for i := range count {
		n := w.make(i+1, count)
		wg.Go(func() {
			if err := n.Start(context.Background()); err != nil {
				w.t.Errorf("start %s: %v", n.ID(), err)
			}
		})
	}
	wg.Wait()
	w.eventually("every node sees every name", func() bool {
		for _, n := range w.nodes {
			if len(n.Routes()) != w.names+w.everywhere()*count {
				return false
			}
		}
		return true
	})
}

// everywhere counts the services that every node runs.
func (w *world) everywhere() (count int) {
	for _, s := range w.project.Services {
		if len(s.Nodes) == 0 && s.Instances > 0 {
			count++
		}
	}
	return count
}

// stop ends everything, as a test's last act, and asks the oracle.
func (w *world) stop() {
	w.t.Helper()
	if log := w.logs.String(); strings.Contains(log, "event=breach") {
		w.t.Errorf("the oracle saw a promise broken")
	}
	for _, n := range w.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := n.Stop(ctx); err != nil {
			w.t.Errorf("stop %s: %v", n.ID(), err)
		}
		cancel()
	}
	w.net.Close()
	if w.t.Failed() {
		w.t.Logf("log:\n%s", w.logs)
	}
}

// eventually waits in virtual time.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for range 30_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond) // inside a synctest bubble
	}
	w.t.Fatalf("never: %s\nlog:\n%s", what, w.logs)
}

// call calls a service as a tool does and gives the values as JSON.
func (w *world) call(on shield.NodeID, target, method string, args ...any) (string, error) {
	w.t.Helper()
	values, err := w.nodes[on].Call(context.Background(), target, method, args...)
	if err != nil {
		return "", err
	}
	return string(values.AppendJSON(nil)), nil
}

// player is a game client.
type player struct {
	w      *world
	conn   net.Conn
	frames chan frame
}

type frame struct {
	route shield.RouteID
	body  string
}

var format = func() wire.Client {
	c, err := wire.Client{}.Normal()
	if err != nil {
		panic(err)
	}
	return c
}()

func (w *world) connect() *player { return w.connectTo("node-1") }

// connectTo connects to the gateway of a node.
func (w *world) connectTo(gate shield.NodeID) *player {
	w.t.Helper()
	c, err := w.gates[gate].Dial()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &player{w: w, conn: c, frames: make(chan frame, 100)}
	go p.read()
	return p
}

func (p *player) read() {
	defer close(p.frames)
	for {
		header := make([]byte, format.Header())
		if _, err := io.ReadFull(p.conn, header); err != nil {
			return
		}
		route, n, err := format.ParseHeader(header)
		if err != nil {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(p.conn, body); err != nil {
			return
		}
		p.frames <- frame{route, string(body)}
	}
}

func (p *player) send(route shield.RouteID, body any) {
	p.w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		p.w.t.Fatal(err)
	}
	b, err = format.Append(nil, route, b)
	if err != nil {
		p.w.t.Fatal(err)
	}
	if _, err := p.conn.Write(b); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		p.w.t.Fatal(err)
	}
}

// want waits for the next frame.
func (p *player) want(route shield.RouteID, body string) {
	p.w.t.Helper()
	select {
	case f, ok := <-p.frames:
		if !ok || f.route != route || f.body != body {
			p.w.t.Fatalf("client got %+v (connected: %v), want route %d %s\nlog:\n%s", f, ok, route, body, p.w.logs)
		}
	case <-time.After(20 * time.Second): // virtual
		p.w.t.Fatalf("client got nothing, want route %d %s\nlog:\n%s", route, body, p.w.logs)
	}
}

func (p *player) login(name string) {
	p.w.t.Helper()
	p.send(1001, map[string]string{"name": name})
	p.want(2001, `{"name":"`+name+`"}`)
}

// logBuffer keeps the log for a test that fails.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
