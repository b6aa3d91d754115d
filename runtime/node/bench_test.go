package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/config"
	"shield/runtime/node"
	"shield/runtime/shield"
	"shield/runtime/transport"
)

// The benchmarks of this package run the far side in a process of its own: the
// test binary itself, told by this variable to be a node or a TCP echo.
const roleVariable = "SHIELD_BENCH_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "node":
		serveBenchNode()
	case "crowd":
		serveCrowd()
	case "quic":
		serveBareQUIC()
	default:
		serveTCPEcho()
	}
}

const benchSecret = "0123456789abcdef0123456789abcdef"

var benchProject = map[string]string{
	"shield.yaml": `
app: { name: bench }
limits: { max_handler_ms: 3600000, call_timeout_ms: 60000 }
services:
  - { name: echo, script: echo.lua }
  - { name: caller, script: caller.lua }
gateways:
  - { name: json, nodes: [server], auth: echo, network: { tcp: "127.0.0.1:0", max_per_ip: 100000, rate: 0, send_queue: 4096, handshake_timeout_ms: 3600000, protocol: { body: { provider: json } } } }
  - { name: raw, nodes: [server], auth: echo, network: { tcp: "127.0.0.1:0", max_per_ip: 100000, rate: 0, send_queue: 4096, handshake_timeout_ms: 3600000, protocol: { body: { provider: raw } } } }
`,
	"rpc.yaml": `
routes:
  - { id: 1001, name: echo, dir: c2s, service: echo, handler: frame, auth: false }
  - { id: 2001, name: echoed, dir: s2c }
`,
	"echo.lua": `
local M = {}
local push = shield.client_rpc.echoed
function M.echo(ctx, v) return v end
function M.frame(ctx, client, body) push(client, body) end
return M
`,
	"caller.lua": `
local M = {}
local call = shield.call
local function loop(target, n, v)
  for i = 1, n do
    local ok, got = call(target, "echo", v)
    if not ok then error(tostring(got)) end
  end
end
-- n calls, shared by callers forks
function M.go(ctx, target, n, callers, v)
  if callers == 1 then return loop(target, n, v) end
  local left = callers
  for f = 1, callers do
    shield.fork(function() loop(target, n / callers, v) left = left - 1 end)
  end
  while left > 0 do shield.sleep(1) end
end
return M
`,
}

// benchNode runs a node of the bench project on loopback.
func benchNode(id shield.NodeID, peers ...string) (*node.Node, string, error) {
	dir, err := os.MkdirTemp("", "shield-bench-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	for name, text := range benchProject {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, "", err
		}
	}
	project, err := config.Load(config.Options{Dir: dir})
	if err != nil {
		return nil, "", err
	}
	conn, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr := conn.LocalAddr().String()
	n, err := node.New(node.Config{
		Project: project.ForNode(config.Node{ID: id, Listen: addr, Peers: peers, Token: benchSecret}),
		Files:   files(benchProject), Log: slog.New(slog.DiscardHandler), Conn: conn,
	})
	if err != nil {
		return nil, "", err
	}
	return n, addr, n.Start(context.Background())
}

// ballast is what cmd/shield holds on to for the sake of the garbage collector.
func ballast() []byte { return make([]byte, 16<<20) }

// serveBenchNode is the far side: it prints its addresses and serves until its
// standard input ends.
func serveBenchNode() {
	defer runtime.KeepAlive(ballast())
	n, addr, err := benchNode("server")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(addr)
	for _, g := range n.Gateways() {
		fmt.Println(strings.TrimPrefix(g.Addresses[0], "tcp://"))
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = n.Stop(context.Background()) // the process ends with it
}

// serveTCPEcho is the floor of a client's round trip.
func serveTCPEcho() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startFar starts the other process. It ends with the benchmark.
func startFar(b *testing.B, role string) (in io.Writer, out *bufio.Reader, pid int) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the other process (%s): %v", role, err)
		}
	})
	return stdin, bufio.NewReader(stdout), cmd.Process.Pid
}

// far starts the other process and reads lines addresses from it.
func far(b *testing.B, role string, lines int) []string {
	b.Helper()
	got, _ := farProcess(b, role, lines)
	return got
}

// farProcess is far for those who want to know the process.
func farProcess(b *testing.B, role string, lines int) (got []string, pid int) {
	b.Helper()
	_, out, pid := startFar(b, role)
	for range lines {
		line, err := out.ReadString('\n')
		if err != nil {
			b.Fatalf("the other process said nothing: %v", err)
		}
		got = append(got, strings.TrimSpace(line))
	}
	return got, pid
}

func reportPercentiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-us")
}

// BenchmarkGateway is a frame of 64 bytes through the gateway to a Lua handler
// and back, from another process; floor is a bare TCP echo of the same run.
func BenchmarkGateway(b *testing.B) {
	gates := far(b, "node", 3)
	floor := far(b, "echo", 1)[0]
	body := `{"b":"` + strings.Repeat("x", 48) + `"}` // 64 bytes with the header; a lone string would go back bare
	for _, tt := range []struct{ name, addr string }{{"floor", floor}, {"json", gates[1]}, {"raw", gates[2]}} {
		b.Run("roundtrip/"+tt.name, func(b *testing.B) { roundTrips(b, tt.addr, body) })
	}
	for _, tt := range []struct{ name, addr string }{{"json", gates[1]}, {"raw", gates[2]}} {
		b.Run("100x32/"+tt.name, func(b *testing.B) { inFlight(b, tt.addr, body, 100, 32) })
	}
}

func dialGate(b *testing.B, addr string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func roundTrips(b *testing.B, addr, body string) {
	c := dialGate(b, addr)
	out, err := format.Append(nil, 1001, []byte(body))
	if err != nil {
		b.Fatal(err)
	}
	in := make([]byte, len(out))
	times := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		t := time.Now()
		if _, err := c.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(t))
	}
	b.StopTimer()
	reportPercentiles(b, times)
}

// inFlight keeps window frames of each of clients under way.
func inFlight(b *testing.B, addr, body string, clients, window int) {
	frame, err := format.Append(nil, 1001, []byte(body))
	if err != nil {
		b.Fatal(err)
	}
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i] = dialGate(b, addr)
	}
	each := max(b.N/clients, window)
	var wg sync.WaitGroup
	b.ResetTimer()
	for _, c := range conns {
		wg.Go(func() {
			r := bufio.NewReaderSize(c, 64<<10)
			batch := make([]byte, 0, window*len(frame))
			sent, got, in := 0, 0, make([]byte, len(frame))
			for got < each {
				batch = batch[:0]
				for sent < each && sent-got < window {
					batch = append(batch, frame...)
					sent++
				}
				if len(batch) > 0 {
					if _, err := c.Write(batch); err != nil {
						b.Error(err)
						return
					}
				}
				for first := true; first || r.Buffered() >= len(frame); first = false {
					if _, err := io.ReadFull(r, in); err != nil {
						b.Error(err)
						return
					}
					got++
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(each*clients)/b.Elapsed().Seconds(), "frames/s")
}
