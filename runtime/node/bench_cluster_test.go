package node_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shield/internal/floor"
	"shield/runtime/node"
	"shield/runtime/service"
	"shield/runtime/transport"
	"shield/runtime/value"
)

// serveBareQUIC is the floor of a call between two processes.
func serveBareQUIC() {
	conn, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := floor.Serve(conn)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = s.Close() // the process ends with it
}

// bareQUIC connects to one.
func bareQUIC(b *testing.B) (c *floor.Client, pid int) {
	b.Helper()
	lines, pid := farProcess(b, "quic", 1)
	addr, err := net.ResolveUDPAddr("udp", lines[0])
	if err != nil {
		b.Fatal(err)
	}
	conn, err := transport.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	c, err = floor.Dial(b.Context(), conn, addr, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c, pid
}

// farNode starts a node in another process and one here that sees it.
func farNode(b *testing.B) (n *node.Node, pid int) {
	b.Helper()
	held := ballast()
	b.Cleanup(func() { runtime.KeepAlive(held) })
	lines, pid := farProcess(b, "node", 3)
	n, _, err := benchNode("client", lines[0])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Stop(context.Background()) })
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := callFar(n, "server:echo", "echo", 1); err == nil {
			return n, pid
		} else if time.Now().After(end) {
			b.Fatal(err)
		}
	}
}

var (
	kilobyte = strings.Repeat("x", 1024)
	record   = map[string]any{"uid": 1001, "x": 1.5, "y": 2.5, "name": "alice"}
)

// BenchmarkRemoteCall is Lua calling Lua in another process, beside a bare
// quic-go echo in another process. Bodies are as long as a call's envelope. One
// run holds both; compare only within it. cpu-us/op is of both processes.
func BenchmarkRemoteCall(b *testing.B) {
	n, nodePID := farNode(b)
	bare, barePID := bareQUIC(b)
	for _, tt := range []struct {
		name    string
		callers int
		v       any
		size    int // of the bare echo's body
	}{
		{"sequential/integer", 1, 7, 40},
		{"sequential/1KB", 1, kilobyte, 1064},
		{"64callers/record", 64, record, 80},
	} {
		b.Run("bare/"+tt.name, func(b *testing.B) {
			body := make([]byte, tt.size)
			measureCalls(b, barePID, tt.callers, func(each int) error {
				var wg sync.WaitGroup
				for caller := range tt.callers {
					wg.Go(func() {
						for range each {
							bare.Echo(caller, body)
						}
					})
				}
				wg.Wait()
				return nil
			})
		})
		b.Run("lua/"+tt.name, func(b *testing.B) {
			measureCalls(b, nodePID, tt.callers, func(each int) error {
				return callFar(n, "caller", "go", "server:echo", each*tt.callers, tt.callers, tt.v)
			})
		})
	}
}

// BenchmarkRemotePercentiles makes the calls one by one from Go: Lua's clock
// counts milliseconds.
func BenchmarkRemotePercentiles(b *testing.B) {
	n, _ := farNode(b)
	bare, _ := bareQUIC(b)
	for _, tt := range []struct {
		name string
		v    any
		size int
	}{{"integer", 7, 40}, {"1KB", kilobyte, 1064}} {
		body := make([]byte, tt.size)
		b.Run("bare/"+tt.name, func(b *testing.B) {
			timeEach(b, func() error { bare.Echo(0, body); return nil })
		})
		b.Run("lua/"+tt.name, func(b *testing.B) {
			timeEach(b, func() error { return callFar(n, "server:echo", "echo", tt.v) })
		})
	}
}

// measureCalls reports the rate of b.N calls by callers, and what they cost this
// process and pid.
func measureCalls(b *testing.B, pid, callers int, calls func(each int) error) {
	each := max(b.N/callers, 1)
	b.ReportAllocs()
	before := processorTime(os.Getpid()) + processorTime(pid)
	b.ResetTimer()
	if err := calls(each); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	n := float64(each * callers)
	b.ReportMetric(n/b.Elapsed().Seconds(), "calls/s")
	if used := processorTime(os.Getpid()) + processorTime(pid) - before; used > 0 {
		b.ReportMetric(used.Seconds()*1e6/n, "cpu-us/op")
	}
}

// timeEach reports the percentiles of b.N calls.
func timeEach(b *testing.B, call func() error) {
	times := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		t := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(t))
	}
	b.StopTimer()
	reportPercentiles(b, times)
}

// processorTime is what a process has used so far, in steps of 10 ms; 0 where
// there is no /proc.
func processorTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(stat, []byte(") ")) // the name before it may hold spaces
	fields := strings.Fields(string(after))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)   // what is no number
	system, _ := strconv.ParseInt(fields[12], 10, 64) // counts for nothing
	return time.Duration(user+system) * 10 * time.Millisecond
}

func callFar(n *node.Node, target, method string, args ...any) error {
	p, err := value.PayloadOf(args...)
	if err != nil {
		return err
	}
	_, _, err = n.Runtime().Call(context.Background(), service.CallRequest{
		Target: service.Target{Name: target}, Method: method, Args: p, Timeout: time.Hour,
	})
	return err
}
