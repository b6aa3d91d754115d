package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a network in memory: what listens on it can be dialled, in virtual
// time too.
type pipes struct {
	mu   sync.Mutex
	conn chan net.Conn // nil = nobody listens
	done chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	conn, done := p.conn, p.done
	p.mu.Unlock()
	if conn == nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	}
	ours, theirs := net.Pipe()
	select {
	case conn <- theirs:
		return ours, nil
	case <-done:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is one time that somebody listens on pipes.
type listener struct {
	p    *pipes
	conn chan net.Conn
	done chan struct{}
	once sync.Once
}

func (p *pipes) listen() *listener {
	l := &listener{p: p, conn: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	p.conn, p.done = l.conn, l.done
	p.mu.Unlock()
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.p.mu.Lock()
		if l.p.conn == l.conn {
			l.p.conn = nil
		}
		l.p.mu.Unlock()
		close(l.done)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) client() *Client {
	c := New(Endpoint{Network: "unix", Address: "pipe"})
	c.http = &http.Client{Transport: &http.Transport{DialContext: p.dial}}
	return c
}

// serve runs a server until the function it returns is called.
func (p *pipes) serve(t *testing.T, h control.Host) (stop func()) {
	t.Helper()
	s := control.NewServer(control.Config{Host: h})
	done := make(chan error, 1)
	ln := p.listen()
	go func() { done <- s.Serve(ln, control.Access{}) }()
	return func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
}

func next(t *testing.T, w *Watch) Update {
	t.Helper()
	for {
		select {
		case u, ok := <-w.C:
			if !ok {
				t.Fatal("the watch ended")
			}
			if u.Event != nil && u.Event.Kind == control.EventAlive {
				continue
			}
			return u
		case <-time.After(time.Minute):
			t.Fatal("nothing came from the watch")
		}
	}
}

func wantLink(t *testing.T, w *Watch, want LinkState) Update {
	t.Helper()
	u := next(t, w)
	if u.Link != want {
		t.Fatalf("update = %+v (event %+v), want link %s", u, u.Event, want)
	}
	return u
}

func wantEvent(t *testing.T, w *Watch, want control.EventKind) *control.Event {
	t.Helper()
	u := next(t, w)
	if u.Event == nil || u.Event.Kind != want {
		t.Fatalf("update = %+v, want a %s", u, want)
	}
	return u.Event
}

func TestWatchAttachesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{}
		h := controltest.New(controltest.Three())
		c := p.client()
		w := c.Watch(t.Context(), WatchRequest{Topics: []control.Topic{control.TopicNodes}})
		if u := wantLink(t, w, LinkStale); !nothing(u.Err) {
			t.Errorf("stale: %v, want nothing to talk to", u.Err)
		}
		time.Sleep(3 * time.Second)
		stop := p.serve(t, h)
		wantLink(t, w, LinkUp)
		if ev := wantEvent(t, w, control.EventSnapshot); len(ev.Snapshot.Nodes) != 3 {
			t.Errorf("snapshot = %+v", ev.Snapshot)
		}
		h.Set(func(r *controltest.Rows) { r.Nodes[0].State = shield.Suspect }, control.TopicNodes)
		wantEvent(t, w, control.EventDelta)
		stop()
		wantLink(t, w, LinkStale)
		time.Sleep(10 * time.Second) // stays stale: said once
		stop = p.serve(t, h)
		wantLink(t, w, LinkUp)
		wantEvent(t, w, control.EventSnapshot)
		w.Close()
		w.Close()
		c.http.CloseIdleConnections()
		stop()
	})
}

func TestASilentServerIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{}
		ln := p.listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"kind":"snapshot","seq":0,"snapshot":{"project":{}}}` + "\n"))
			w.(http.Flusher).Flush()
			<-r.Context().Done() // frozen, but the socket is open
		})}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ln) }()
		c := p.client()
		w := c.Watch(t.Context(), WatchRequest{})
		wantLink(t, w, LinkUp)
		wantEvent(t, w, control.EventSnapshot)
		heard := time.Now()
		u := wantLink(t, w, LinkStale)
		if !errors.Is(u.Err, errSilent) || !u.Since.Equal(heard) || time.Since(heard) > silence+time.Second {
			t.Errorf("stale = %+v after %v", u, time.Since(heard))
		}
		w.Close()
		srv.Close()
		<-done
	})
}

// A server that hangs must not hang whoever asks it, and a call that takes long
// must not look like one.
func TestAHangingServerIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		healthy bool // it answers simple questions
		gaveUp  bool
		within  time.Duration
	}{{"it hangs", false, true, 25 * time.Second}, {"the call is slow", true, false, 62 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{}
				ln := p.listen()
				srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body) // else the server does not notice a client that leaves
					switch {
					case r.Method == "POST" && tt.healthy:
						time.Sleep(time.Minute)
					case !tt.healthy:
						<-r.Context().Done()
					}
					w.Write([]byte("{}"))
				})}
				done := make(chan error, 1)
				go func() { done <- srv.Serve(ln) }()
				c := p.client()
				for _, ask := range []func() error{
					func() error { _, err := c.Call(t.Context(), control.CallRequest{}); return err },
					func() error { _, err := c.Nodes(t.Context(), ""); return err },
					func() error {
						return c.Logs(t.Context(), LogRequest{Follow: !tt.healthy}, func(shield.LogRow) error { return nil })
					},
				} {
					start := time.Now()
					err := ask()
					if strings.Contains(fmt.Sprint(err), "cannot unmarshal object") {
						err = nil // {} is no list, but an answer
					}
					if got := nothing(err); got != tt.gaveUp || time.Since(start) > tt.within {
						t.Errorf("after %v: %v, want given up = %v", time.Since(start), err, tt.gaveUp)
					}
				}
				c.http.CloseIdleConnections()
				srv.Close()
				<-done
			})
		})
	}
}

// A reader that takes long over an event is the reader's affair: the link is up.
func TestASlowReaderDoesNotMakeTheLinkStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{}
		h := controltest.New(controltest.Three())
		stop := p.serve(t, h)
		c := p.client()
		w := c.Watch(t.Context(), WatchRequest{Topics: []control.Topic{control.TopicNodes}})
		wantLink(t, w, LinkUp)
		time.Sleep(20 * time.Second)
		h.Set(func(r *controltest.Rows) { r.Nodes[0].Epoch = 300 }, control.TopicNodes)
		var mine control.Snapshot
		lagged := false
		for mine.Nodes == nil || mine.Nodes[0].Epoch != 300 {
			u := next(t, w)
			if u.Link != "" {
				t.Fatalf("link %s: %v", u.Link, u.Err)
			}
			lagged = lagged || u.Event.Kind == control.EventLagged
			mine.Apply(*u.Event)
		}
		if !lagged {
			t.Error("the reader was not told that it lags")
		}
		w.Close()
		c.http.CloseIdleConnections()
		stop()
	})
}

func TestLogs(t *testing.T) {
	p := &pipes{}
	h := controltest.New(controltest.Three())
	stop := p.serve(t, h)
	c := p.client()
	for i, level := range []string{"debug", "info", "warn", "error", "info"} {
		h.Logs().Append(shield.LogRow{Level: level, Node: shield.NodeID("node-" + string(rune('1'+i%2))), Service: "auth", Text: level})
	}
	texts := func(r LogRequest) (all []string) {
		err := c.Logs(t.Context(), r, func(row shield.LogRow) error { all = append(all, row.Text); return nil })
		if err != nil {
			t.Errorf("Logs(%+v) = %v", r, err)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		req  LogRequest
		want []string
	}{
		{"all", LogRequest{}, []string{"debug", "info", "warn", "error", "info"}},
		{"a level", LogRequest{Level: "warn"}, []string{"warn", "error"}},
		{"the last that match", LogRequest{Level: "info", Tail: 2}, []string{"error", "info"}},
		{"a node", LogRequest{Node: "node-2"}, []string{"info", "error"}},
		{"a service", LogRequest{Service: "room"}, nil},
		{"none", LogRequest{Tail: -1}, nil},
	} {
		if diff := cmp.Diff(tt.want, texts(tt.req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	var got []string
	err := c.Logs(t.Context(), LogRequest{Tail: 1, Follow: true}, func(row shield.LogRow) error {
		got = append(got, row.Text)
		switch len(got) {
		case 1:
			go h.Logs().Append(shield.LogRow{Level: "info", Text: "later"})
		case 2:
			go stop()
		}
		return nil
	})
	if diff := cmp.Diff([]string{"info", "later"}, got); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	if !nothing(err) || !strings.Contains(err.Error(), "lost the server") {
		t.Errorf("Logs() after the server ended = %v", err)
	}
}

func TestParseEndpoint(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Endpoint
		ok   bool
	}{
		{"unix:/run/x.sock", Endpoint{Network: "unix", Address: "/run/x.sock"}, true},
		{"unix:.shield/control.sock", Endpoint{Network: "unix", Address: ".shield/control.sock"}, true},
		{"unix:///run/x.sock", Endpoint{Network: "unix", Address: "/run/x.sock"}, true},
		{"tcp://127.0.0.1:9999", Endpoint{Network: "tcp", Address: "127.0.0.1:9999"}, true},
		{"tcp://[::1]:9999", Endpoint{Network: "tcp", Address: "[::1]:9999"}, true},
		{"tcp://127.0.0.1", Endpoint{}, false},
		{"tcp://127.0.0.1:", Endpoint{}, false},
		{"unix:", Endpoint{}, false},
		{"http://x", Endpoint{}, false},
		{"", Endpoint{}, false},
	} {
		got, err := ParseEndpoint(tt.in)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ParseEndpoint(%q) = %+v, %v, want %+v, ok=%v", tt.in, got, err, tt.want, tt.ok)
		}
		if tt.ok {
			if again, err := ParseEndpoint(got.String()); err != nil || again != got {
				t.Errorf("ParseEndpoint(%q) = %+v, %v, want %+v", got, again, err, got)
			}
		}
	}
}

// nothing reports whether err says that there is nobody to talk to.
func nothing(err error) bool { return errors.As(err, new(*NothingError)) }

// A server of another release may answer {}: that is neither a success nor a
// failure with a reason, and whoever prints it reads the reason.
func TestAnAnswerSaysHowItEnded(t *testing.T) {
	failed := control.CallResult{Error: &control.Error{Code: shield.HandlerError}}
	for _, res := range []control.CallResult{{OK: true}, failed, {Incomplete: "'end' expected"}} {
		if err := told(res, nil); err != nil {
			t.Errorf("told(%+v) = %v", res, err)
		}
	}
	if err := told(control.CallResult{}, nil); err == nil || !strings.Contains(err.Error(), "neither yes nor why not") {
		t.Errorf("told() of nothing = %v", err)
	}
	if err := told(control.CallResult{}, net.ErrClosed); !errors.Is(err, net.ErrClosed) {
		t.Errorf("told() after %v = %v", net.ErrClosed, err)
	}
}

// FuzzReadEvents feeds the decoder of a watch with what a broken or hostile
// server might send: it must neither panic nor hand on an event without what
// its kind promises.
func FuzzReadEvents(f *testing.F) {
	f.Add([]byte(`{"kind":"snapshot","seq":0,"snapshot":{"project":{"name":"a"},"nodes":[{"node":"node-1","epoch":"5"}]}}` + "\n" +
		`{"kind":"delta","seq":1,"delta":{"topic":"nodes","notable":true,"nodes":[{"node":"node-2","epoch":null}],"gone":["node-1"]}}` + "\n" +
		`{"kind":"lagged","seq":1,"missed":3}` + "\n" + `{"kind":"alive","seq":1}` + "\n"))
	f.Add([]byte(`{"kind":"delta","seq":1}`))
	f.Add([]byte(`{"kind":"failed","topic":"nodes","error":{"code":"node_offline","message":"x"}}`))
	f.Add([]byte(`{"kind":"delta","delta":{"topic":"sessions","sessions":[{"session":"s-1"}],"gone":["",""]}}`))
	f.Add([]byte("[]\nnull\n{}\n\n"))
	f.Add([]byte(`{"kind":"snapshot","snapshot":{"nodes":[{"epoch":99}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s control.Snapshot
		err := readEvents(strings.NewReader(string(b)), func(ev control.Event) bool {
			if ev.Kind == control.EventDelta && ev.Delta == nil || ev.Kind == control.EventSnapshot && ev.Snapshot == nil ||
				ev.Kind == control.EventFailed && ev.Error.Err() == nil || !known(ev.Kind) {
				t.Errorf("event %+v", ev)
			}
			s.Apply(ev)
			return true
		})
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
