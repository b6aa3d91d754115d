package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/vt"
	"go.uber.org/goleak"

	"shield/runtime/shield"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal records what a program writes and replays it into a fresh emulator.
type terminal struct {
	mu     sync.Mutex
	raw    bytes.Buffer
	writes int
	w, h   int
}

func (s *terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.raw.Write(p)
}

func (s *terminal) String() string {
	s.mu.Lock()
	raw := bytes.Clone(s.raw.Bytes())
	s.mu.Unlock()
	em := vt.NewEmulator(s.w, s.h)
	_, _ = em.Write(bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))) // an emulator takes everything
	return em.String()
}

func (s *terminal) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// script is a source that does what a test says, step by step.
type script struct {
	steps chan func(emit func(Event)) error
}

func newScript() *script { return &script{steps: make(chan func(func(Event)) error)} }

func (s *script) Watch(ctx context.Context, emit func(Event)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case step := <-s.steps:
			if err := step(emit); err != nil {
				return err
			}
		}
	}
}

func (s *script) emit(evs ...Event) {
	s.steps <- func(emit func(Event)) error {
		for _, ev := range evs {
			emit(ev)
		}
		return nil
	}
}

func (s *script) fail(err error) { s.steps <- func(func(Event)) error { return err } }

// program runs the whole console in a bubble.
type program struct {
	t         *testing.T
	src       *script
	term      *terminal
	commander *poisoned
	cancel    context.CancelCauseFunc
	done      chan error
}

func start(t *testing.T, w, h int) *program {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &program{t: t, src: newScript(), term: &terminal{w: w, h: h}, commander: &poisoned{}, cancel: cancel, done: make(chan error, 1)}
	cfg := Config{Source: p.src, Commander: p.commander, Output: p.term, Profile: colorprofile.ASCII, Width: w, Height: h, Location: time.UTC, Environ: []string{"TERM=xterm-256color"}}
	go func() { p.done <- Run(ctx, cfg) }()
	return p
}

// settle lets the program draw.
func (p *program) settle(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	return p.term.String()
}

// end quits and waits for the last pending tick, which Bubble Tea cannot cancel.
func (p *program) end(cause error) error {
	p.cancel(cause)
	err := <-p.done
	time.Sleep(10 * time.Second)
	return err
}

func (p *program) wants(screen string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if !strings.Contains(screen, part) {
			p.t.Errorf("the screen lacks %q:\n%s", part, screen)
		}
	}
}

// TestProgramAttachesLosesAndFinds runs the console against a server that comes,
// skips an event, goes, and comes back.
func TestProgramAttachesLosesAndFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, 80, 24)
		p.wants(p.settle(300*time.Millisecond), "ATTACHING")
		p.src.emit(snap(1))
		p.wants(p.settle(300*time.Millisecond), "LIVE", "node-10  ✕ offline")

		n := arena().Nodes[1]
		n.State = shield.Suspect
		p.src.emit(delta(2, Delta{Nodes: []shield.NodeRow{n}}))
		p.wants(p.settle(300*time.Millisecond), "! suspect")

		p.src.emit(delta(4, Delta{})) // 3 is missing
		p.wants(p.settle(200*time.Millisecond), "RESYNC")
		p.src.emit(snap(9))
		p.wants(p.settle(3*time.Second), "LIVE")

		p.src.emit(Event{Lagged: true}, snap(20), delta(21, Delta{}))
		p.wants(p.settle(200*time.Millisecond), "RESYNC")
		p.wants(p.settle(3*time.Second), "LIVE")

		p.src.fail(errors.New("shield dev stopped (exit 0)"))
		p.wants(p.settle(4100*time.Millisecond), "STALE 4s", "shield dev stopped (exit 0)", "node-10")
		p.src.emit(snap(1))
		p.wants(p.settle(3*time.Second), "LIVE", "attached again")
		if err := p.end(nil); err != nil {
			t.Errorf("Run = %v after a quit", err)
		}
	})
}

// TestProgramShowsAnEpochFor3s is the flash on the whole program's own clock.
func TestProgramShowsAnEpochFor3s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, 140, 40)
		p.src.emit(snap(1))
		p.settle(300 * time.Millisecond)
		s := arena().Sessions[1]
		s.Epoch++
		p.src.emit(delta(2, Delta{Sessions: []shield.SessionRow{s}}))
		p.wants(p.settle(2500*time.Millisecond), "7->8")
		if screen := p.settle(1500 * time.Millisecond); strings.Contains(screen, "7->8") {
			t.Errorf("7->8 stays:\n%s", screen)
		}
		_ = p.end(nil)
	})
}

// TestProgramIsCalm: nothing changed, nothing is written; a flood is drawn at
// most ten times a second.
func TestProgramIsCalm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, 80, 24)
		still := arena()
		for i := range still.Nodes {
			still.Nodes[i].Uptime, still.Nodes[i].HeartbeatAge = 0, nil
		}
		p.src.emit(Event{Seq: 1, Snapshot: still})
		p.settle(10 * time.Second)
		before := p.term.count()
		p.settle(60 * time.Second)
		if n := p.term.count() - before; n > 0 {
			t.Errorf("%d writes in a minute in which nothing changed", n)
		}
		before = p.term.count()
		for i := range 1000 {
			n := still.Nodes[0]
			n.Sessions = i
			p.src.emit(delta(uint64(2+i), Delta{Nodes: []shield.NodeRow{n}}))
			time.Sleep(time.Millisecond)
		}
		p.settle(200 * time.Millisecond)
		if n := p.term.count() - before; n > 15 {
			t.Errorf("%d writes for a second of 1000 changes, want at most ten or so", n)
		}
		p.wants(p.term.String(), "999")
		_ = p.end(nil)
	})
}

func TestProgramEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, 80, 24)
		p.src.emit(snap(1))
		p.settle(300 * time.Millisecond)
		if err := p.end(ErrInterrupted); !errors.Is(err, ErrInterrupted) {
			t.Errorf("Run = %v, want ErrInterrupted", err)
		}
		if raw := p.term.raw.String(); !strings.Contains(raw[len(raw)-64:], "\x1b[?1049l") {
			t.Errorf("the alternate screen is still on: %q", raw[len(raw)-64:])
		}
	})
}

// TestProgramSurvivesPanics: a panic in the source or in the model ends the
// console in order, with the terminal restored.
func TestProgramSurvivesPanics(t *testing.T) {
	for _, where := range []string{"source", "model"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, 80, 24)
				p.src.emit(snap(1))
				p.settle(300 * time.Millisecond)
				if where == "source" {
					p.src.steps <- func(func(Event)) error { panic("boom in the source") }
				} else {
					p.commander.armed.Store(true)
					p.src.emit(Event{Seq: 2, Delta: &Delta{}})
				}
				err := <-p.done
				var crash *Crash
				if !errors.As(err, &crash) || len(crash.Stack) == 0 {
					t.Fatalf("Run = %v, want a crash with its stack", err)
				}
				if raw := p.term.raw.String(); !strings.Contains(raw[len(raw)-64:], "\x1b[?1049l") {
					t.Error("the alternate screen is still on")
				}
				p.cancel(nil)
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// poisoned is a commander that panics when asked what it can do, once armed:
// the model asks while it draws.
type poisoned struct {
	fakeCommander
	armed atomic.Bool
}

func (p *poisoned) Verbs() []string {
	if p.armed.Load() {
		panic("boom in the model")
	}
	return p.fakeCommander.Verbs()
}

func TestFeedRetriesAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		src := sourceFunc(func(ctx context.Context, emit func(Event)) error {
			tries++
			return fmt.Errorf("try %d", tries)
		})
		lost := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			newFeed(src, func(msg tea.Msg) {
				if _, ok := msg.(lostMsg); ok {
					lost++
				}
			}).run(ctx)
			close(done)
		}()
		time.Sleep(time.Minute)
		cancel()
		<-done
		if tries < 25 || tries > 40 || lost != tries {
			t.Errorf("%d tries and %d losses in a minute, want about one in two seconds", tries, lost)
		}
	})
}

type sourceFunc func(ctx context.Context, emit func(Event)) error

func (f sourceFunc) Watch(ctx context.Context, emit func(Event)) error { return f(ctx, emit) }
