package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"shield/devserver"
	"shield/devserver/logs"
	"shield/runtime/control"
)

// keyboard reads single keys while a server runs in the foreground of a
// terminal. Its zero value, or one that is not on, does nothing.
type keyboard struct {
	io  *IO
	srv *devserver.Server
	log *logs.Log
	on  bool

	once    sync.Once
	restore func()
}

// devKeys is what `h` prints.
const devKeys = `
  r  reload what changed, now
  p  pause or resume reloading
  o  how to open the console
  l  log level: debug, info, warn, error in turn
  c  clear the screen
  h  these keys
  q  quit

`

// start begins to read; quit is closed at `q`.
func (k *keyboard) start(ctx context.Context) (quit <-chan struct{}) {
	q := make(chan struct{})
	if !k.on {
		return q
	}
	restore, err := singleKeys(os.Stdin)
	if err != nil { // then keys come with Enter, which is still of use
		restore = func() {}
	}
	k.restore = restore
	// The read below can't be interrupted: the goroutine ends with the process,
	// which is about to happen when nobody reads its keys any more.
	go func() {
		defer func() {
			if r := recover(); r != nil {
				k.stop() // a shell that shows nothing that is typed would be the worse fault
				panic(r)
			}
		}()
		b := make([]byte, 1)
		for {
			if n, err := os.Stdin.Read(b); err != nil || n == 0 {
				return
			}
			if b[0] == 'q' {
				close(q)
				return
			}
			k.press(ctx, b[0])
		}
	}()
	return q
}

// stop gives the terminal back.
func (k *keyboard) stop() {
	k.once.Do(func() {
		if k.restore != nil {
			k.restore()
		}
	})
}

func (k *keyboard) press(ctx context.Context, key byte) {
	switch key {
	case 'r':
		res, err := k.srv.Reload(ctx, control.ReloadRequest{})
		switch {
		case err != nil:
			fmt.Fprintf(k.io.Out, "reload: %s\n", cleanLines(err.Error()))
		case len(res.Services) == 0:
			fmt.Fprintln(k.io.Out, "reload: no file changed")
		}
	case 'p':
		if k.srv.PauseReload() {
			fmt.Fprintln(k.io.Out, "reloading paused; p resumes it")
		} else {
			fmt.Fprintln(k.io.Out, "reloading again")
		}
	case 'o':
		fmt.Fprintln(k.io.Out, "in another terminal: shield console")
	case 'l':
		next := map[string]string{"debug": "info", "info": "warn", "warn": "error", "error": "debug"}[k.log.Level()]
		k.log.SetLevel(next, "", "")
		fmt.Fprintf(k.io.Out, "log level %s\n", next)
	case 'c':
		fmt.Fprint(k.io.Out, "\x1b[H\x1b[2J\x1b[3J")
	case 'h', '?':
		fmt.Fprint(k.io.Out, devKeys)
	}
}
