package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"shield/runtime/shield"
)

// Words is what a line of a script may begin with, beside the name of a route.
var Words = []struct{ Word, Args, Meaning string }{
	{"NAME", "[JSON]", "send a frame on a route of rpc.yaml (or by its number)"},
	{"send", "NAME [JSON]", "the same, for a route that is called like one of these words"},
	{"expect", "NAME [JSON]", "wait for a push whose body has at least these fields"},
	{"expect-close", "[REASON]", "wait for the server to close the connection"},
	{"sleep", "DURATION", "do nothing for a while, as 100ms"},
	{"reconnect", "", "drop the connection and make a new one; reads rpc.yaml again"},
	{"routes", "", "list what can be sent and heard"},
	{"help", "", "list these words"},
	{"quit", "", "leave"},
}

// Event is one thing that happened to a client, in order.
type Event struct {
	Kind   string          `json:"event"` // open, push, closed, note, error, refused
	Client int             `json:"client,omitempty"`
	Name   string          `json:"name,omitempty"`
	ID     shield.RouteID  `json:"id,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Text   string          `json:"text,omitempty"` // the address, the reason, the words
	Local  string          `json:"-"`              // open: our own address, by which the gateway knows the session; "" = unknown
}

// The kinds of events.
const (
	EventOpen   = "open"
	EventPush   = "push"
	EventClosed = "closed"
	EventNote   = "note" // an answer to help or routes
	EventError  = "error"
	// EventRefused is a frame that the gateway dropped. No frame tells it: it
	// comes from whoever can read the gateway's log.
	EventRefused = "refused"
	// EventFailed is a frame that no handler dealt with: it threw, or there is
	// none. It comes from the log as well.
	EventFailed = "failed"
)

// Script drives one client from lines.
type Script struct {
	Config Config
	Number int           // which client of a crowd; {n} in a line stands for it
	Lines  *Feed         // where the lines come from
	Tell   func(Event)   // what happened; called from one goroutine
	Expect time.Duration // how long expect waits; 0 = 5 s
	Linger time.Duration // after the last line: how long without a push before leaving
	Lively bool          // a person types: a line that is wrong is told, not fatal
	// Routes reads the routes anew for a reconnect; nil = they stay as they were.
	Routes func() (*shield.RPCTable, error)

	conn *Conn
	// arrived holds pushes that were told already but that no expect has looked
	// at yet.
	arrived []Push
	gone    *Closed
}

// ErrExpect is what a push that did not come in time Is.
var ErrExpect = errors.New("expected in vain")

// ErrLine is what a line that can't be understood Is.
var ErrLine = errors.New("bad line")

// errQuit is how quit ends a script.
var errQuit = errors.New("quit")

const defaultExpect = 5 * time.Second

// Run connects, works through the lines and leaves. nil means that every line
// did what it should, a *Closed that the server ended it.
func (s *Script) Run(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	defer func() { s.conn.Close() }()
	for i := 0; ; i++ {
		line, err := s.next(ctx, i)
		if errors.Is(err, errEnd) {
			return s.linger(ctx)
		}
		if err == nil {
			err = s.do(ctx, line)
		}
		switch {
		case errors.Is(err, errQuit):
			return nil
		case err != nil && s.Lively && ctx.Err() == nil:
			s.tell(Event{Kind: EventError, Text: err.Error()})
		case err != nil:
			return err
		}
	}
}

func (s *Script) tell(e Event) {
	e.Client = s.Number
	s.Tell(e)
}

func (s *Script) open(ctx context.Context) error {
	conn, err := Dial(ctx, s.Config)
	if err != nil {
		return err
	}
	s.conn, s.gone, s.arrived = conn, nil, nil
	s.tell(Event{Kind: EventOpen, Text: s.Config.Address, Local: conn.Local()})
	return nil
}

// next waits for line i and tells of pushes meanwhile.
func (s *Script) next(ctx context.Context, i int) (string, error) {
	for {
		line, more, end := s.Lines.at(i)
		if more == nil {
			return line, end
		}
		if s.gone != nil { // lines may still say expect-close or reconnect
			select {
			case <-more:
				continue
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		select {
		case p, ok := <-s.conn.in:
			s.took(p, ok)
		case <-more:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// maxArrived bounds the pushes that no expect has looked at.
const maxArrived = 10_000

// took tells of a push, or of the end.
func (s *Script) took(p Push, ok bool) {
	if !ok {
		s.gone = &Closed{Err: s.conn.closed}
		errors.As(s.conn.closed, &s.gone)
		text := s.gone.Reason
		if text == "" {
			text = s.gone.Error()
		}
		s.tell(Event{Kind: EventClosed, Text: text})
		return
	}
	s.tell(Event{Kind: EventPush, Name: p.Name, ID: p.ID, Body: p.Body})
	s.arrived = append(s.arrived, p)
	if len(s.arrived) > maxArrived {
		s.arrived = s.arrived[1:]
	}
}

// do runs one line.
func (s *Script) do(ctx context.Context, line string) error {
	line = strings.TrimSpace(strings.ReplaceAll(line, "{n}", fmt.Sprint(max(s.Number, 1))))
	word, rest := cutWord(line)
	switch word {
	case "", "#":
		return nil
	case "expect":
		return s.expect(ctx, rest)
	case "expect-close":
		return s.expectClose(ctx, rest)
	case "sleep":
		return s.sleep(ctx, rest)
	case "reconnect":
		s.conn.Close()
		if s.Routes != nil {
			routes, err := s.Routes()
			if err != nil { // the old ones will do
				s.tell(Event{Kind: EventError, Text: "the routes stay as they were: " + err.Error()})
			} else {
				s.Config.Routes = routes
			}
		}
		err := s.open(ctx)
		if err != nil {
			s.gone = &Closed{Err: err}
		}
		return err
	case "help", "routes":
		s.tell(Event{Kind: EventNote, Text: s.note(word)})
		return nil
	case "quit":
		return errQuit
	case "send":
		word, rest = cutWord(rest)
	}
	if strings.HasPrefix(word, "#") {
		return nil
	}
	if s.gone != nil {
		return fmt.Errorf("%s was not sent: %w (reconnect makes a new connection)", word, s.gone)
	}
	err := s.conn.Send(word, []byte(rest))
	if code := shield.CodeOf(err); code == shield.RPCRouteNotFound || code == shield.EncodeFailed {
		return fmt.Errorf("%w: %w", ErrLine, err)
	}
	var lost *Closed
	if errors.As(err, &lost) {
		// The server's own word for it, if it said one, is in what it sent.
		return s.drainToEnd(ctx, lost)
	}
	return err
}

// cutWord takes the first word off a line.
func cutWord(line string) (word, rest string) {
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:])
	}
	return line, ""
}

// drainToEnd reads what a server that closed had still sent.
func (s *Script) drainToEnd(ctx context.Context, lost *Closed) error {
	for s.gone == nil {
		select {
		case p, ok := <-s.conn.in:
			s.took(p, ok)
		case <-time.After(time.Second):
			return lost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.gone
}

func (s *Script) note(word string) string {
	var b strings.Builder
	if word == "help" {
		for _, w := range Words {
			fmt.Fprintf(&b, "%-24s %s\n", strings.TrimSpace(w.Word+" "+w.Args), w.Meaning)
		}
		b.WriteString("a frame that the gateway refuses has no answer; shield logs --service gateway says why")
		return b.String()
	}
	for _, r := range s.Config.Routes.All() {
		way := "send"
		if r.Dir == shield.ServerToClient {
			way = "hear"
		}
		fmt.Fprintf(&b, "%s %5d %s\n", way, r.ID, r.Name)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (s *Script) expectTime() time.Duration {
	if s.Expect > 0 {
		return s.Expect
	}
	return defaultExpect
}

// expect takes pushes in the order they came until one fits.
func (s *Script) expect(ctx context.Context, rest string) error {
	name, text := cutWord(rest)
	var want any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			return fmt.Errorf("%w: expect %s: the body %s is no JSON", ErrLine, name, quoted([]byte(text)))
		}
	}
	if name == "" {
		return fmt.Errorf("%w: expect NAME [JSON]", ErrLine)
	}
	fits := func(p Push) bool {
		var have any
		_ = json.Unmarshal(orNull(p.Body), &have) // our own decode made it
		return p.Name == name && (text == "" || holds(have, want))
	}
	timeout := time.NewTimer(s.expectTime())
	defer timeout.Stop()
	instead := ""
	for {
		for i, p := range s.arrived {
			if fits(p) {
				s.arrived = s.arrived[i+1:]
				return nil
			}
			if p.Name == name {
				instead = fmt.Sprintf("; it came as %s", orNull(p.Body))
			}
		}
		s.arrived = nil
		if s.gone != nil {
			return fmt.Errorf("expect %s: %w", rest, s.gone)
		}
		select {
		case p, ok := <-s.conn.in:
			s.took(p, ok)
		case <-timeout.C:
			return fmt.Errorf("%w: %s did not come within %v%s", ErrExpect, rest, s.expectTime(), instead)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func orNull(b json.RawMessage) []byte {
	if len(b) == 0 {
		return []byte("null")
	}
	return b
}

func (s *Script) expectClose(ctx context.Context, reason string) error {
	timeout := time.NewTimer(s.expectTime())
	defer timeout.Stop()
	for s.gone == nil {
		select {
		case p, ok := <-s.conn.in:
			s.took(p, ok)
		case <-timeout.C:
			return fmt.Errorf("%w: the server did not close the connection within %v", ErrExpect, s.expectTime())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if reason != "" && s.gone.Reason != reason {
		return fmt.Errorf("expect-close %s: %w", reason, s.gone)
	}
	s.gone.expected = true
	return nil
}

// sleep tells of pushes meanwhile.
func (s *Script) sleep(ctx context.Context, length string) error {
	d, err := time.ParseDuration(length)
	if err != nil || d < 0 {
		return fmt.Errorf("%w: sleep %s: want a length of time such as 100ms", ErrLine, length)
	}
	end := time.NewTimer(d)
	defer end.Stop()
	return s.until(ctx, end.C, func() {})
}

// until tells of pushes until the channel has something.
func (s *Script) until(ctx context.Context, end <-chan time.Time, heard func()) error {
	for {
		in := s.conn.in
		if s.gone != nil {
			in = nil
		}
		select {
		case p, ok := <-in:
			s.took(p, ok)
			heard()
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// linger waits for the last answers once the lines are over.
func (s *Script) linger(ctx context.Context) error {
	end := time.NewTimer(s.Linger)
	defer end.Stop()
	if s.gone == nil {
		if err := s.until(ctx, end.C, func() {
			end.Reset(s.Linger)
			if s.gone != nil {
				end.Reset(0)
			}
		}); err != nil {
			return err
		}
	}
	if s.gone != nil && !s.gone.expected {
		return s.gone
	}
	return nil
}
