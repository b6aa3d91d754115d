package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this test binary as shield.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"shield": func() { os.Exit(run(context.Background(), os.Args[1:], osIO())) },
	})
}

// TestScripts runs testdata/script/*.txtar against the real program.
// SHIELD_UPDATE=1 rewrites what `cmp` compares.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("SHIELD_UPDATE") == "1",
		Setup: func(env *testscript.Env) error {
			// Nothing of the developer's own machine may change an outcome.
			for _, name := range []string{"SHIELD_ENDPOINT", "NO_COLOR", "CLICOLOR_FORCE"} {
				env.Setenv(name, "")
			}
			env.Setenv("TERM", "xterm")
			env.Setenv("LC_ALL", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitfor":  scriptWaitFor,
			"edit":     scriptEdit,
			"port":     scriptPort,
			"contains": scriptContains,
		},
	})
}

// scriptWaitFor waits until a file matches: waitfor REGEXP FILE [SECONDS]. It is how a
// script waits for a program in the background:
//
//	exec sh -c 'exec shield dev >dev.out 2>&1' &dev&
//	waitfor 'ready in' dev.out
func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: waitfor REGEXP FILE [SECONDS]")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	limit := 20 * time.Second
	if len(args) == 3 {
		limit, err = time.ParseDuration(args[2] + "s")
		ts.Check(err)
	}
	path := ts.MkAbs(args[1])
	for deadline := time.Now().Add(limit); ; {
		text, err := os.ReadFile(path)
		if err == nil && re.Match(text) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not match %q within %v; it holds:\n%s", args[1], args[0], limit, text)
		}
		time.Sleep(5 * time.Millisecond) // another process writes the file
	}
}

// scriptEdit replaces a text in a file the way editors save: it writes a new file and
// renames it over the old one. edit FILE OLD NEW
func scriptEdit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	if n := strings.Count(string(text), args[1]); n != 1 {
		ts.Fatalf("%s holds %q %d times, want once", args[0], args[1], n)
	}
	tmp := path + ".tmp"
	ts.Check(os.WriteFile(tmp, []byte(strings.Replace(string(text), args[1], args[2], 1)), 0o644))
	ts.Check(os.Rename(tmp, path))
}

// scriptPort puts a TCP and UDP port that was free a moment ago into a variable: port
// NAME. Only for addresses that must be known before the program starts; the
// program itself takes port 0 everywhere.
func scriptPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port NAME")
	}
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		p := l.Addr().(*net.TCPAddr).Port
		u, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", p))
		ts.Check(l.Close())
		if err == nil {
			ts.Check(u.Close())
			ts.Setenv(args[0], fmt.Sprint(p))
			return
		}
	}
	ts.Fatalf("no port is free for both TCP and UDP")
}

// scriptContains compares literally, where stdout and grep take regular expressions:
// contains FILE TEXT. FILE may be stdout or stderr.
func scriptContains(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: contains FILE TEXT")
	}
	if text := ts.ReadFile(args[0]); strings.Contains(text, args[1]) == neg {
		ts.Fatalf("%s holds %q: %v, want %v; it holds:\n%s", args[0], args[1], neg, !neg, text)
	}
}
