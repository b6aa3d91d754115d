package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"shield/runtime/control/client"
	"shield/runtime/play"
	"shield/runtime/shield"
)

// No frame tells a client that one of its own was dropped, or that its handler
// failed (docs/gateway.md). On the machine of whoever writes the game the log can
// be read, and it names the session: its lines are told like pushes.

// refusals are the sessions of one script, and what is told of them.
type refusals struct {
	controls []*client.Client
	tell     func(play.Event)

	mu   sync.Mutex
	mine map[string]bool // by session
}

// tellRefusals makes s tell of frames that the gateway refuses, where a control
// API can be reached; elsewhere it changes nothing. The caller runs stop when the
// script is over.
func tellRefusals(ctx context.Context, io *IO, s *play.Script) (stop func()) {
	r := &refusals{controls: controls(ctx, io), tell: s.Tell, mine: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, c := range r.controls {
		wg.Go(func() { r.follow(ctx, c) })
	}
	s.Tell = func(e play.Event) {
		if e.Kind == play.EventOpen {
			r.opened(ctx, e.Local)
		}
		r.tell(e)
	}
	return func() {
		cancel()
		wg.Wait()
		for _, c := range r.controls {
			c.Close()
		}
	}
}

// controls are the control APIs that can be reached from here, which may be none.
func controls(ctx context.Context, io *IO) []*client.Client {
	c, err := attach(ctx, io)
	var several *client.AmbiguousError
	switch {
	case err == nil:
		return []*client.Client{c}
	case !errors.As(err, &several):
		return nil
	}
	var all []*client.Client
	for _, e := range several.Endpoints {
		all = append(all, client.New(e))
	}
	return all
}

// findSession is how long a script waits to know its session before it goes on.
const findSession = time.Second

// opened finds the session of a new connection by its address.
func (r *refusals) opened(ctx context.Context, local string) {
	if local == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, findSession)
	defer cancel()
	for len(r.controls) > 0 && ctx.Err() == nil {
		for _, c := range r.controls {
			rows, err := c.Sessions(ctx)
			if err != nil {
				continue
			}
			for _, row := range rows {
				if row.Address == local {
					r.mu.Lock()
					r.mine[string(row.Session)] = true
					r.mu.Unlock()
					return
				}
			}
		}
		select { // the gateway may have accepted it only just now
		case <-ctx.Done():
		case <-time.After(findSession / 50):
		}
	}
}

// follow reads a log until ctx ends. Old lines of a session of ours are news to
// us: it began before the log was open.
func (r *refusals) follow(ctx context.Context, c *client.Client) {
	req := client.LogRequest{Tail: 100, Level: "warn", Follow: true}
	_ = c.Logs(ctx, req, func(row shield.LogRow) error { // it ends with the project, and then the connection says so
		switch {
		case !r.isMine(row):
		case row.Service != "gateway":
			r.tell(play.Event{Kind: play.EventFailed, Text: row.Service + ": " + row.Text})
		case strings.HasPrefix(row.Text, "frame "):
			r.tell(refusal(row))
		}
		return nil
	})
}

func (r *refusals) isMine(row shield.LogRow) bool {
	session, _ := row.Fields["session"].(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mine[session]
}

// refusal is a line of the gateway's log as an event of the client.
func refusal(row shield.LogRow) play.Event {
	e := play.Event{Kind: play.EventRefused, Text: row.Text}
	e.Name, _ = row.Fields["route"].(string)
	if cause, ok := row.Fields["err"]; ok {
		e.Text += fmt.Sprintf(": %v", cause)
	}
	if n, ok := row.Fields["suppressed"]; ok {
		e.Text += fmt.Sprintf(" (%v more since the last such line)", n)
	}
	return e
}
