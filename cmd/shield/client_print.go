package main

import (
	"context"
	"fmt"
	stdio "io"
	"strings"
	"sync"

	"shield/runtime/play"
	"shield/runtime/shield"
)

// events prints what happens to clients: pushes and closes are results, the
// rest is for people.
type events struct {
	io    *IO
	crowd bool
	out   stdio.Writer // where a terminal's own writer stands in; nil = io.Out
	mu    sync.Mutex   // refused frames come from another goroutine than the rest
}

func (p *events) tell(e play.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	io := p.io
	out := p.out
	if out == nil {
		out = io.Out
	}
	if io.JSON {
		if err := io.PrintJSON(e); err != nil {
			io.Warn("%v", err)
		}
		return
	}
	who := ""
	if p.crowd {
		who = fmt.Sprintf("[%d] ", e.Client)
	}
	switch e.Kind {
	case play.EventPush:
		body := ""
		if e.Body != nil {
			body = " " + clean(string(e.Body))
		}
		fmt.Fprintf(out, "%s%s%s\n", who, io.PaintOut(Cyan, clean(e.Name)), body)
	case play.EventClosed:
		fmt.Fprintf(out, "%s%s\n", who, io.PaintOut(Yellow, "closed "+clean(e.Text)))
	case play.EventNote:
		fmt.Fprintln(p.messages(), cleanLines(e.Text))
	case play.EventError, play.EventFailed:
		fmt.Fprintln(p.messages(), io.PaintErr(Red, clean(e.Text)))
	case play.EventRefused:
		fmt.Fprintln(p.messages(), io.PaintErr(Yellow, clean(e.Text)))
	case play.EventOpen:
		if !p.crowd {
			fmt.Fprintln(p.messages(), io.PaintErr(Faint, "connected to "+clean(e.Text)))
		}
	}
}

// messages is where words for a person go: the prompt, where there is one.
func (p *events) messages() stdio.Writer {
	if p.out != nil {
		return p.out
	}
	return p.io.Err
}

// playCrowd runs many clients and sums up.
func playCrowd(ctx context.Context, io *IO, f clientFlags, s play.Script) error {
	res := play.Crowd{Count: f.count, Script: s}.Run(ctx)
	fmt.Fprintf(io.Err, "%d clients: %d ok, %d failed\n", f.count, res.OK, len(res.Failed))
	return playedOut(res.Worst())
}

// completeRoute finishes the first word of a line at the tab key: a route that a
// client may send on, or a word of the client's own. After expect it is one that
// a client may hear.
func completeRoute(routes *shield.RPCTable) func(line string, pos int, key rune) (string, int, bool) {
	return func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' || pos != len(line) {
			return "", 0, false
		}
		before, word, dir := "", line, shield.ClientToServer
		if rest, ok := strings.CutPrefix(line, "expect "); ok {
			before, word, dir = "expect ", rest, shield.ServerToClient
		}
		var fits []string
		for _, r := range routes.All() {
			if r.Dir == dir && strings.HasPrefix(r.Name, word) {
				fits = append(fits, r.Name)
			}
		}
		for _, w := range play.Words[1:] {
			if before == "" && strings.HasPrefix(w.Word, word) {
				fits = append(fits, w.Word)
			}
		}
		if len(fits) == 0 {
			return "", 0, false
		}
		line = before + shared(fits)
		if len(fits) == 1 {
			line += " "
		}
		return line, len(line), true
	}
}

// shared is what all words begin with.
func shared(words []string) string {
	s := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// playByHand gives a person a prompt. The terminal is in raw mode all the time,
// so that a push does not tear the line that is being typed.
func playByHand(ctx context.Context, io *IO, s play.Script, feed *play.Feed) error {
	p, err := newPrompt(ctx, io, nil, completeRoute(s.Config.Routes))
	if err != nil {
		return err
	}
	restore, err := p.Raw()
	if err != nil {
		return err
	}
	defer restore()
	p.screen.SetPrompt("> ")
	out := &events{io: io, out: p.screen}
	s.Tell, s.Lively = out.tell, true
	s.Linger = 0
	defer tellRefusals(ctx, io, &s)()
	var typing sync.WaitGroup
	typing.Go(func() {
		for {
			p.Fit()
			line, err := p.screen.ReadLine()
			if err != nil || p.broken {
				feed.End(nil) // Ctrl-D, or Ctrl-C
				return
			}
			feed.Add(line)
		}
	})
	defer p.in.Leave(&typing)
	return playedOut(s.Run(ctx))
}
