package luavm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/metrics"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// Files is where scripts come from. Paths are slash-separated and relative to
// the project. A missing file's error must match fs.ErrNotExist.
type Files interface {
	ReadFile(path string) ([]byte, error)
}

// FS is what the io and os libraries of a script may touch, already confined
// to the allowed folders. A path outside them is an error that says so.
type FS interface {
	// OpenFile takes the modes of Lua's io.open: r, w, a, r+, w+, a+, with or without b.
	OpenFile(path, mode string) (File, error)
	Remove(path string) error
	Rename(from, to string) error
}

// File is one open file of a script.
type File interface {
	io.Reader
	io.Writer
	io.Seeker
	io.Closer
}

// Lib is a library that all VMs share: each value is a lua.LGFunction (or a
// func(*lua.LState) int), a lua.LValue, a nested Lib, or under the key Missing
// a Resolver for the keys that are not there.
type Lib map[string]any

// Missing is the key of a Lib's Resolver.
const Missing = ""

// Resolver answers for a key that a Lib does not hold. It runs in the VM that
// asks. In a scratch VM too: the functions it gives must then do nothing, which
// Inert tells them.
type Resolver func(L *lua.LState, key string) lua.LValue

// Config says how the VMs of a World are built. Zero values are defaults.
type Config struct {
	Files        Files
	ModulePath   string // "lib/?.lua;lib/?/init.lua;?.lua"
	MaxCallDepth int    // Lua frames of one stack; 200
	Log          *slog.Logger

	// Shield is the table that scripts see as shield: shared by all VMs and
	// read-only. In a scratch VM its functions do nothing, except those whose
	// dotted name is in Pure (a nested table's name stands for all it holds).
	Shield Lib
	Pure   []string

	AllowOS bool                             // os.getenv, remove, rename
	AllowIO bool                             // io.*
	FS      FS                               // used by both; nil = no file is reachable
	Getenv  func(name string) (string, bool) // os.getenv
	Print   func(L *lua.LState, line string) // print and io.write; nil goes to Log
	MakeErr func(*shield.Error) lua.LValue   // the Lua form of an Error; nil makes a string
	OnStuck func(vm *VM, err *RunError)      // a turn has ignored its abort for StuckAfter; told once, by the watcher, which must not be blocked

	StuckAfter time.Duration // 2 s
	Tick       time.Duration // how often running turns are looked at; 10 ms
	// Watch takes the watcher's place: it is handed the function that looks at
	// running turns once, for a caller whose world lives in virtual time but whose
	// limits shall hold in real time. look may be called from any one goroutine
	// until the world is closed. There is no OnStuck then, and memory is looked at
	// only while a turn runs.
	Watch func(look func(now time.Time))

	// Cover counts which lines run; see cover.go. nil costs nothing.
	Cover Cover
}

// World is everything that the VMs of one node share.
type World struct {
	cfg   Config
	libs  *libraries
	code  codeCache
	fresh freshSites

	mu        sync.Mutex
	hands     []*Hand          // every hand there is
	free      []*Hand          // LIFO, so that the warm one is used again
	lowFree   int              // the fewest free hands since trim
	idle      []*worker        // idle goroutines of coroutines, LIFO
	lowIdle   int              // the fewest of them since trim
	live      map[*worker]bool // all of them
	doomed    []*worker        // their coroutines are gone; see reap
	closed    bool
	collected time.Time // see mayCollect

	watch watcher
	wg    sync.WaitGroup
}

// NewWorld builds the shared part. Close it when no VM runs any more.
func NewWorld(cfg Config) (*World, error) {
	if cfg.ModulePath == "" {
		cfg.ModulePath = "lib/?.lua;lib/?/init.lua;?.lua"
	}
	if cfg.MaxCallDepth <= 0 {
		cfg.MaxCallDepth = 200
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.StuckAfter <= 0 {
		cfg.StuckAfter = 2 * time.Second
	}
	if cfg.Tick <= 0 {
		cfg.Tick = 10 * time.Millisecond
	}
	if err := checkLayout(); err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, live: map[*worker]bool{}}
	w.watch.heap = []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var err error
	if w.libs, err = newLibraries(w); err != nil {
		return nil, err
	}
	if cfg.Watch != nil {
		cfg.Watch(func(now time.Time) { w.lookAtTurns(now) })
		return w, nil
	}
	w.startWatcher()
	return w, nil
}

// Close ends the world's goroutines and waits for them until ctx ends. No VM
// may run during or after it. Closing twice is fine.
func (w *World) Close(ctx context.Context) error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	idle := w.idle
	w.idle = nil
	var suspended []*worker
	for k := range w.live {
		if k.suspended.Load() {
			suspended = append(suspended, k)
		}
	}
	w.mu.Unlock()
	if first {
		if w.cfg.Watch == nil {
			w.watch.stop()
		}
		for _, k := range idle {
			k.in <- orderEnd
		}
		for _, k := range suspended {
			w.end(k)
		}
	}
	done := make(chan struct{})
	go func() { w.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the Lua world: coroutines of a VM that is not closed still run: %w", ctx.Err())
	}
}

// Stats counts what a world holds, for counters and leak tests.
type Stats struct {
	Hands, IdleHands             int
	CoroutineGoroutines, Waiting int // all, and those without a coroutine
}

// Stats counts what w holds now.
func (w *World) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Stats{Hands: len(w.hands), IdleHands: len(w.free), CoroutineGoroutines: len(w.live), Waiting: len(w.idle)}
}
