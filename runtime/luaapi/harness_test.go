package luaapi_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripts are the files of a test's project.
type scripts map[string]string

func (s scripts) ReadFile(path string) ([]byte, error) {
	if text, ok := s[path]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// recorder keeps log lines for a test to look at.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }
func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", rec.Level, rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "" {
			return true
		}
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	r.mu.Lock()
	r.lines = append(r.lines, b.String())
	r.mu.Unlock()
	return nil
}

func (r *recorder) count(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

// node is a Runtime under test.
type node struct {
	*service.Runtime
	tb  testing.TB
	log *recorder
}

// newNode makes a Runtime that is stopped when the test ends.
func newNode(tb testing.TB, files scripts, edit func(*service.Config)) *node {
	tb.Helper()
	n := &node{tb: tb, log: &recorder{}}
	cfg := service.Config{Node: "node-1", Epoch: 7, Log: slog.New(n.log), Lua: luavm.Config{Files: files}, API: luaapi.New(), Dev: true}
	if edit != nil {
		edit(&cfg)
	}
	r, err := service.New(cfg)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	n.Runtime = r
	tb.Cleanup(n.stop)
	return n
}

// start makes a node and starts one service for each file that is not below
// lib/, under its base name, in the order of names.
func start(tb testing.TB, files scripts, edit func(*service.Config)) *node {
	tb.Helper()
	n := newNode(tb, files, edit)
	n.start(specs(files)...)
	return n
}

func specs(files scripts) []service.Spec {
	var all []service.Spec
	for path := range files {
		if strings.HasPrefix(path, "lib/") {
			continue
		}
		name := strings.TrimSuffix(path, ".lua")
		all = append(all, service.Spec{Name: shield.Name(name), Script: path, Instances: 1})
	}
	sortSpecs(all)
	return all
}

func sortSpecs(all []service.Spec) {
	for i := range all {
		for j := i; j > 0 && all[j].Name < all[j-1].Name; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
}

func (n *node) start(specs ...service.Spec) {
	n.tb.Helper()
	if err := n.Start(context.Background(), specs); err != nil {
		n.tb.Fatalf("Start: %v\n%s", err, n.log.text())
	}
}

func (n *node) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		n.tb.Errorf("Stop: %v", err)
	}
}

func payload(tb testing.TB, args ...any) value.Payload {
	p, err := value.PayloadOf(args...)
	if err != nil {
		tb.Fatalf("PayloadOf(%v): %v", args, err)
	}
	return p
}

// call calls "service method" and gives the values as JSON, or the error.
func (n *node) call(target, method string, args ...any) (string, error) {
	values, _, err := n.Call(context.Background(), service.CallRequest{Target: service.Target{Name: target}, Method: method, Args: payload(n.tb, args...)})
	if err != nil {
		return "", err
	}
	return string(values.AppendJSON(nil)), nil
}

// want calls and compares the values, as JSON.
func (n *node) want(want, target, method string, args ...any) {
	n.tb.Helper()
	got, err := n.call(target, method, args...)
	if err != nil {
		n.tb.Errorf("%s.%s(%v) = %v, want %s\n%s", target, method, args, err, want, n.log.text())
	} else if got != want {
		n.tb.Errorf("%s.%s(%v) = %s, want %s", target, method, args, got, want)
	}
}

// wantError calls and compares the code, and what the message must hold.
func (n *node) wantError(code shield.Code, part, target, method string, args ...any) {
	n.tb.Helper()
	got, err := n.call(target, method, args...)
	if err == nil {
		n.tb.Errorf("%s.%s(%v) = %s, want the error %s", target, method, args, got, code)
	} else if shield.CodeOf(err) != code || !strings.Contains(err.Error(), part) {
		n.tb.Errorf("%s.%s(%v) = %v, want %s with %q", target, method, args, err, code, part)
	}
}
