package testrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shield/runtime/config"
)

// The exit codes of a child.
const (
	childDone  = 0
	childFatal = 3 // it could not end in good order
)

// Child runs one file, as the Spec on standard input says, and ends the process.
// It is called by a hidden verb of our own binary and by nobody else: package
// testing, which a synctest bubble needs, reads os.Args and standard output for
// itself.
func Child() {
	results := os.Stdout
	os.Stdout = os.Stderr
	var spec Spec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		fmt.Fprintln(os.Stderr, "shield test: a child was started without its orders:", err)
		os.Exit(childFatal)
	}
	os.Args = os.Args[:1]
	// One processor: what two goroutines do in one turn comes in one order.
	runtime.GOMAXPROCS(1)
	out := &emitter{w: results}
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{{Name: spec.File, F: func(t *testing.T) {
		g := newGuard(&spec, out)
		go g.run() // outside of the bubble, where time is real
		synctest.Test(t, func(*testing.T) {
			runSpec(&spec, out, g)
			os.Exit(childDone) // what still runs in the bubble ends with it
		})
	}}}, nil, nil)
}

// emitter writes events as lines. It is used from inside the bubble and from
// the guard.
type emitter struct {
	mu sync.Mutex
	w  io.Writer
}

func (e *emitter) emit(ev *Event) {
	line, err := json.Marshal(ev)
	if err != nil { // texts and numbers always encode, but for a NaN
		line, _ = json.Marshal(&Event{Event: EventFileEnd, Result: Error, Failure: &Failure{Message: err.Error()}})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.w.Write(append(line, '\n')) // a parent that is gone needs no answer
}

// runSpec is a child's work inside the bubble.
func runSpec(spec *Spec, out *emitter, g *guard) {
	began := time.Now()
	end := &Event{Event: EventFileEnd, File: spec.File, Seed: spec.Seed, Result: Error}
	r, err := newRunner(spec, out, g)
	if err != nil {
		end.Errors, end.Failure = 1, configFailure(err)
		out.emit(end)
		return
	}
	done := make(chan struct{})
	go r.turns.Run(done)
	defer close(done)
	g.turns.Store(r.turns)
	failure := r.runFile()
	if failure == nil {
		failure = r.close()
	}
	end.Passed, end.Failed, end.Pending = r.passed, r.failed, r.pending
	end.VirtualMS, end.Turns, end.Schedule = virtual(began), r.turns.Count(), r.turns.Schedule()
	switch {
	case failure != nil:
		end.Errors, end.Failure = 1, failure
	case r.failed > 0:
		end.Result = Fail
	default:
		end.Result = Pass
	}
	if r.hits != nil {
		out.emit(&Event{Event: eventHits, File: spec.File, Seed: spec.Seed, Hits: r.hits.all()})
	}
	out.emit(end)
}

// close ends what the file has left running: on_shutdown and on_exit run, and a
// node that does not end in time is a failure of the file.
func (r *runner) close() (f *Failure) {
	r.hangUpAll()
	if err := r.world.end(); err != nil {
		f = &Failure{Message: "the cluster did not end: " + err.Error()}
	}
	return f
}

func configFailure(err error) *Failure {
	f := &Failure{Message: err.Error(), Load: true}
	var ps config.Problems
	if errors.As(err, &ps) && len(ps) > 0 {
		f.File, f.Line = ps[0].File, ps[0].Line
	}
	return f
}

// newRunner makes what a file needs. It must be called inside the bubble.
func newRunner(spec *Spec, out *emitter, g *guard) (*runner, error) {
	root, err := os.OpenRoot(spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the project's folder: %w", err)
	}
	files := rootFiles{root}
	project, err := config.Load(config.Options{Dir: spec.Dir, Environ: spec.Environ, Dev: true})
	if err != nil {
		return nil, err
	}
	r := &runner{spec: spec, out: out, guard: g, files: files, turns: NewTurns(spec.Seed)}
	r.turns.halt = &g.over
	if spec.Run != "" {
		if r.filter, err = regexp.Compile(spec.Run); err != nil {
			return nil, err
		}
	}
	r.book = newLogbook(r.turns, or(spec.Level, "info"))
	r.world = &world{spec: spec, turns: r.turns, book: r.book, guard: g, files: files}
	if spec.Cover {
		r.hits = newHits()
		r.world.cover = r.hits.cover
	}
	return r, r.open(project.Lua.ModulePath, r.world.cover)
}

// rootFiles reads scripts below the project's folder and nowhere else.
type rootFiles struct{ root *os.Root }

// ReadFile reads one file by its slash-separated path.
func (f rootFiles) ReadFile(path string) ([]byte, error) {
	return f.root.ReadFile(filepath.FromSlash(path))
}
