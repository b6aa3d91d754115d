package testrun

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Options are what `shield test` was asked for.
type Options struct {
	Dir     string        // of the project
	Files   []string      // relative to Dir, with slashes: files or folders; nil = tests/
	Run     string        // a regular expression over the names of tests
	Seeds   []uint64      // nil = 1
	Timeout time.Duration // real time for each file; 0 = 60 s
	Cover   bool
	LCOV    string // where an lcov file is written; "" = nowhere
	Level   string // of the log that a failing test shows; "" = info
	Environ []string
	// Command starts a child: our own binary and the verb that calls Child.
	Command []string
	Path    string // of the binary; "" = Command[0]
	// Tell hears of everything, from one goroutine at a time.
	Tell func(*Event)
}

// ErrNoTests is a project without a test file.
var ErrNoTests = errors.New("no test files")

// ErrNoMatch is a run whose expression no test answers to.
var ErrNoMatch = errors.New("no test matches")

// DefaultTimeout is the real time that a file has.
const DefaultTimeout = time.Minute

// Run runs the tests and gives the last event, EventEnd. Its error is about the
// run itself, not about a test.
func Run(ctx context.Context, o Options) (*Event, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if len(o.Seeds) == 0 {
		o.Seeds = []uint64{1}
	}
	files, err := find(o.Dir, o.Files)
	if err != nil {
		return nil, err
	}
	p := &parent{o: o, began: time.Now(), hits: map[string]map[int]int{}, end: Event{Event: EventEnd, Result: Pass}}
	p.all(ctx, files)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if p.end.Errors == 0 && o.Run != "" && p.end.Passed+p.end.Failed+p.end.Pending == 0 {
		return nil, fmt.Errorf("%w --run %q: the full name of a test is those of its describe blocks and its own, with blanks between", ErrNoMatch, o.Run)
	}
	if err := p.coverage(); err != nil {
		return nil, err
	}
	switch {
	case p.end.Errors > 0:
		p.end.Result = Error
	case p.end.Failed > 0:
		p.end.Result = Fail
	}
	p.end.MS = ms(p.began)
	o.Tell(&p.end)
	return &p.end, nil
}

func ms(since time.Time) float64 {
	return float64(time.Since(since).Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// find lists the test files, sorted.
func find(dir string, asked []string) ([]string, error) {
	root := os.DirFS(dir)
	given := len(asked) > 0
	if !given {
		asked = []string{"tests"}
	}
	var files []string
	for _, name := range asked {
		st, err := fs.Stat(root, path.Clean(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && !given:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%w: the project has no %s", ErrNoTests, name)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case !st.IsDir():
			files = append(files, path.Clean(name))
			continue
		}
		err = fs.WalkDir(root, path.Clean(name), func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && isTestFile(p) {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: there is nothing like %s/rooms_test.lua", ErrNoTests, strings.TrimSuffix(asked[0], "/"))
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// parent runs the children and hands on what they say.
type parent struct {
	o     Options
	began time.Time

	end  Event // of Run's goroutine, like hits
	hits map[string]map[int]int
}

// job is one file with one seed; its events come out as if jobs ran one after
// another.
type job struct {
	file   string
	seed   uint64
	events chan *Event // closed when the job is done
}

// queued is how many events of a job wait while earlier jobs are told; its child
// waits then.
const queued = 4096

// all runs every file with every seed, several at a time.
func (p *parent) all(ctx context.Context, files []string) {
	var jobs []*job
	for _, seed := range p.o.Seeds {
		for _, f := range files {
			jobs = append(jobs, &job{file: f, seed: seed, events: make(chan *Event, queued)})
		}
	}
	next := make(chan *job)
	var workers sync.WaitGroup
	for range min(max(1, runtime.NumCPU()), len(jobs)) {
		workers.Go(func() {
			for j := range next {
				p.run(ctx, j)
				close(j.events)
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for _, j := range jobs {
			select {
			case next <- j:
			case <-ctx.Done():
				return
			}
		}
	})
	for _, j := range jobs {
		p.tell(ctx, j)
	}
	workers.Wait()
}

// tell hands on what a job says and counts it, until it is done.
func (p *parent) tell(ctx context.Context, j *job) {
	for {
		select {
		case e, ok := <-j.events:
			if !ok {
				return
			}
			p.count(e)
		case <-ctx.Done():
			return
		}
	}
}

func (p *parent) count(e *Event) {
	switch e.Event {
	case eventHits:
		merge(p.hits, e.Hits)
		return
	case EventFileEnd:
		p.end.Passed += e.Passed
		p.end.Failed += e.Failed
		p.end.Pending += e.Pending
		p.end.Errors += e.Errors
		p.end.VirtualMS += e.VirtualMS
		p.end.Turns += e.Turns
		if e.Failure != nil && e.Failure.Load {
			p.end.Failure = &Failure{Message: "a file could not be loaded", Load: true}
		}
	}
	p.o.Tell(e)
}

// say hands an event to whoever tells, unless the whole run is called off.
func (j *job) say(ctx context.Context, e *Event) {
	select {
	case j.events <- e:
	case <-ctx.Done():
	}
}

// again is the command that repeats a failure.
func (p *parent) again(j *job, e *Event) string {
	file := j.file
	if strings.ContainsFunc(file, func(r rune) bool {
		return !strings.ContainsRune("_./-", r) && !unicode.In(r, unicode.Letter, unicode.Digit)
	}) {
		file = quote(file)
	}
	cmd := fmt.Sprintf("shield test %s --seed %d", file, j.seed)
	if e.Event == EventTest {
		cmd += " --run " + quote("^"+regexp.QuoteMeta(e.Name)+"$")
	}
	return cmd
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// childGrace is how long a child may outlive its own guard.
const childGrace = graceAfterLimit + 4*time.Second

// run runs one child and collects what it says.
func (p *parent) run(ctx context.Context, j *job) {
	began := time.Now()
	j.say(ctx, &Event{Event: EventFile, File: j.file, Seed: j.seed})
	spec, err := json.Marshal(&Spec{Dir: p.o.Dir, File: j.file, Seed: j.seed, Run: p.o.Run, Timeout: p.o.Timeout.Milliseconds(),
		Cover: p.o.Cover, Level: p.o.Level, Environ: p.o.Environ})
	if err == nil {
		err = p.child(ctx, j, spec, began)
	}
	if err != nil && ctx.Err() == nil {
		j.say(ctx, &Event{Event: EventFileEnd, File: j.file, Seed: j.seed, Result: Error, Errors: 1, MS: ms(began),
			Failure: &Failure{Message: err.Error()}, Again: p.again(j, &Event{})})
	}
}

func (p *parent) child(ctx context.Context, j *job, spec []byte, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout+childGrace)
	defer cancel()
	cmd := exec.CommandContext(ctx, or(p.o.Path, p.o.Command[0]), p.o.Command[1:]...)
	cmd.Args[0] = p.o.Command[0]
	cmd.Dir, cmd.Stdin = p.o.Dir, bytes.NewReader(spec)
	cmd.Env = append(slices.Clone(p.o.Environ), "TZ=UTC") // a test must not depend on where it runs
	stderr := &tail{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start a child for %s: %w", j.file, err)
	}
	ended := p.read(ctx, j, bufio.NewReader(out), began)
	err = cmd.Wait()
	switch {
	case ended:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not done within %v of real time (--timeout), and its process had to be killed", p.o.Timeout)
	default:
		return fmt.Errorf("its process ended before the file did (%w)\n%s", orExit(err), stderr)
	}
}

func orExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// read takes a child's events until its output ends, and reports whether the
// last one was there.
func (p *parent) read(ctx context.Context, j *job, r *bufio.Reader, began time.Time) (ended bool) {
	test, name := began, ""
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			e := new(Event)
			if json.Unmarshal(line, e) != nil {
				continue // not ours: a library that prints
			}
			switch e.Event {
			case EventBegin:
				test, name = time.Now(), e.Name
			case EventTest:
				e.MS = ms(test)
				switch {
				case e.Result != Fail:
				case e.Name == name:
					e.Again = p.again(j, e)
				default: // a teardown, which --run can't ask for
					e.Again = p.again(j, &Event{})
				}
			case EventFileEnd:
				e.MS = ms(began)
				if e.Result == Error {
					e.Again = p.again(j, e)
				}
				ended = true
			}
			j.say(ctx, e)
		}
		if err != nil {
			return ended
		}
	}
}

// tail keeps the beginning of what a child says in its last words.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const maxTail = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := maxTail - t.b.Len(); left > 0 {
		t.b.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.b.String())
}

// coverage tells what ran, and writes the lcov file.
func (p *parent) coverage() error {
	if !p.o.Cover {
		return nil
	}
	p.o.Tell(&Event{Event: EventCoverage, Coverage: coverage(p.hits)})
	if p.o.LCOV == "" {
		return nil
	}
	f, err := os.Create(p.o.LCOV)
	if err != nil {
		return fmt.Errorf("write the lcov file: %w", err)
	}
	err = writeLCOV(f, p.hits)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the lcov file %s: %w", filepath.Base(p.o.LCOV), err)
	}
	return nil
}
