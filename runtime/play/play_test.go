package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"shield/runtime/shield"
	"shield/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testRoutes = shield.NewRPCTable([]shield.RPCRoute{
	{ID: 1001, Name: "auth.login", Dir: shield.ClientToServer},
	{ID: 1002, Name: "player.move", Dir: shield.ClientToServer},
	{ID: 1003, Name: "blob.put", Dir: shield.ClientToServer, Codec: "raw"},
	{ID: 1004, Name: "pack.put", Dir: shield.ClientToServer, Codec: "msgpack"},
	{ID: 1005, Name: "sleep", Dir: shield.ClientToServer},
	{ID: 2001, Name: "auth.login_ok", Dir: shield.ServerToClient},
	{ID: 2003, Name: "blob.got", Dir: shield.ServerToClient, Codec: "raw"},
	{ID: 2004, Name: "pack.got", Dir: shield.ServerToClient, Codec: "msgpack"},
})

// server is the far end of a client: it answers frames as the test says.
type server struct {
	ln     net.Listener
	format wire.Client
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
}

// answer is what a server does with one frame; it writes with push.
type answer func(push func(shield.RouteID, string), id shield.RouteID, body []byte) (goOn bool)

func listen(t *testing.T, a answer) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	format, err := wire.Client{}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{ln: ln, format: format}
	s.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.wg.Go(func() { defer conn.Close(); s.serve(conn, a) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *server) serve(conn io.ReadWriter, a answer) {
	push := func(id shield.RouteID, body string) {
		b, err := s.format.Append(nil, id, []byte(body))
		if err == nil {
			conn.Write(b)
		}
	}
	for {
		id, body, err := readFrame(conn, s.format)
		if err != nil || !a(push, id, body) {
			return
		}
	}
}

// echo answers a login and a few words that make a server do something.
func echo(push func(shield.RouteID, string), id shield.RouteID, body []byte) bool {
	switch id {
	case 1001:
		push(2001, string(body))
	case 1002:
		push(1, "kicked by a test")
		return false
	case 1003:
		push(2003, string(body))
	case 1004:
		push(2004, string(body))
	}
	return true
}

func config(s *server) Config { return Config{Address: s.ln.Addr().String(), Routes: testRoutes} }

// play runs lines and gives what the client told.
func play(t *testing.T, cfg Config, lines string, change func(*Script)) ([]string, error) {
	t.Helper()
	f := NewFeed()
	if err := f.ReadAll(strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	f.End(nil)
	var told []string
	s := &Script{Config: cfg, Lines: f, Expect: 2 * time.Second, Linger: 50 * time.Millisecond,
		Tell: func(e Event) {
			if e.Kind != EventOpen {
				told = append(told, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Kind, e.Name, e.Body, e.Text)))
			}
		}}
	if change != nil {
		change(s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.Run(ctx)
	for i := range told {
		told[i] = strings.Join(strings.Fields(told[i]), " ")
	}
	return told, err
}

func TestScripts(t *testing.T) {
	s := listen(t, echo)
	for _, tt := range []struct {
		name, lines string
		told        []string
		is          error  // what the error Is; nil with msg "" = none
		msg         string // a part of the error
	}{
		{"a send and its answer", `auth.login {"name": "ann"}`, []string{`push auth.login_ok {"name":"ann"}`}, nil, ""},
		{"expect takes a subset", "auth.login {\"name\":\"ann\",\"x\":[{\"a\":1,\"b\":2}]}\nexpect auth.login_ok {\"x\":[{\"b\":2}]}",
			[]string{`push auth.login_ok {"name":"ann","x":[{"a":1,"b":2}]}`}, nil, ""},
		{"expect passes over what does not fit", "auth.login 1\nauth.login 2\nexpect auth.login_ok 2", []string{"push auth.login_ok 1", "push auth.login_ok 2"}, nil, ""},
		{"expect goes in order", "auth.login 1\nauth.login 2\nexpect auth.login_ok 2\nexpect auth.login_ok 1",
			[]string{"push auth.login_ok 1", "push auth.login_ok 2"}, ErrExpect, "auth.login_ok 1 did not come within 100ms"},
		{"expect of another value", "auth.login {\"a\":[1,2]}\nexpect auth.login_ok {\"a\":[1]}", []string{`push auth.login_ok {"a":[1,2]}`}, ErrExpect, `it came as {"a":[1,2]}`},
		{"comments and blanks", "# hello\n\n#x\nauth.login", []string{"push auth.login_ok"}, nil, ""},
		{"by number", "1001 {\"a\":1}", []string{`push auth.login_ok {"a":1}`}, nil, ""},
		{"an unknown route", "auth.logn {}", nil, ErrLine, `rpc.yaml has no route "auth.logn" (did you mean "auth.login"?)`},
		{"a body that is no JSON", "auth.login {name:ann}", nil, ErrLine, `auth.login: encode_failed: the body "{name:ann}" is no JSON`},
		{"a route called like a word", "send sleep", nil, nil, ""},
		{"sleep", "auth.login 1\nsleep 30ms", []string{"push auth.login_ok 1"}, nil, ""},
		{"a bad sleep", "sleep soon", nil, ErrLine, "want a length of time"},
		{"the server's reason", "player.move {}", []string{"closed kicked by a test"}, nil, "closed: kicked by a test"},
		{"an expected end", "player.move {}\nexpect-close kicked by a test", []string{"closed kicked by a test"}, nil, ""},
		{"an end for another reason", "player.move {}\nexpect-close drain", []string{"closed kicked by a test"}, nil, "expect-close drain: closed: kicked by a test"},
		{"an end that does not come", "expect-close", nil, ErrExpect, "did not close"},
		{"reconnect after the end", "player.move {}\nexpect-close\nreconnect\nauth.login 1", []string{"closed kicked by a test", "push auth.login_ok 1"}, nil, ""},
		{"quit leaves at once", "auth.login 1\nexpect auth.login_ok\nquit\nnonsense", []string{"push auth.login_ok 1"}, nil, ""},
		{"raw bytes", `blob.put "a\u0000b"`, []string{`push blob.got "a\u0000b"`}, nil, ""},
		{"bytes that are no text", `blob.put {"$binary":"/w=="}`, []string{`push blob.got {"$binary":"/w=="}`}, nil, ""},
		{"msgpack", `pack.put {"list":[1,2,"x"],"on":true}`, []string{`push pack.got {"list":[1,2,"x"],"on":true}`}, nil, ""},
		{"digits are kept", `auth.login {"id":9007199254740993, "z":1, "a":2}`, []string{`push auth.login_ok {"id":9007199254740993,"z":1,"a":2}`}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told, err := play(t, config(s), tt.lines, func(s *Script) {
				if tt.is == ErrExpect {
					s.Expect = 100 * time.Millisecond
				}
			})
			if diff := cmp.Diff(tt.told, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.is != nil || tt.msg != "") || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("Run() = %v, want %v", err, tt.is)
			}
			if err != nil && !strings.Contains(err.Error(), tt.msg) {
				t.Errorf("Run() = %v, want it to hold %q", err, tt.msg)
			}
		})
	}
}

// Lines from editors and tables have tabs where people type blanks.
func TestTabsSeparateWords(t *testing.T) {
	told, err := play(t, config(listen(t, echo)), "auth.login\t{\"a\":1}\nexpect\tauth.login_ok\t{\"a\":1}\nsend\tauth.login \t 7\nexpect auth.login_ok 7\nquit", nil)
	if diff := cmp.Diff([]string{`push auth.login_ok {"a":1}`, "push auth.login_ok 7"}, told); diff != "" || err != nil {
		t.Errorf("told (-want +got):\n%s%v", diff, err)
	}
}

func TestTheWorstOfACrowdIsTheSameEachTime(t *testing.T) {
	r := Result{Failed: map[int]error{}}
	for n := 1; n <= 20; n++ {
		r.Failed[n] = fmt.Errorf("client %d", n)
	}
	if got := r.Worst(); got.Error() != "client 1" {
		t.Errorf("Worst() = %v, want the first", got)
	}
	r.Failed[9] = fmt.Errorf("%w: nine", ErrLine)
	r.Failed[12] = fmt.Errorf("%w: twelve", ErrLine)
	if got := r.Worst(); !strings.HasSuffix(got.Error(), "nine") {
		t.Errorf("Worst() = %v, want the first bad line", got)
	}
}

func TestAPersonMayMistype(t *testing.T) {
	s := listen(t, echo)
	told, err := play(t, config(s), "auth.logn\nsleep x\nhelp\nroutes\nauth.login 1\nexpect auth.login_ok\nplayer.move\nexpect-close", func(s *Script) { s.Lively = true })
	var kinds []string
	for _, line := range told {
		kinds = append(kinds, strings.Fields(line)[0])
	}
	if err != nil || !slices.Equal(kinds, []string{"error", "error", "note", "note", "push", "closed"}) {
		t.Errorf("told %q, %v", told, err)
	}
}

func TestServersThatBreakTheProtocol(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		msg  string
	}{
		{"a frame that is too long", []byte{0, 0, 7, 209, 0xff, 0xff, 0xff, 0xff}, "frame on route 2001: the frame is longer than max_frame_size"},
		{"an end inside a header", []byte{0, 0}, "it ended inside a frame"},
		{"an end inside a body", []byte{0, 0, 7, 209, 0, 0, 0, 9, 'x'}, "it ended inside a frame"},
		{"an end without a word", nil, "closed without a reason"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			format, _ := wire.Client{}.Normal()
			c := start(ours, Config{Format: format, Routes: testRoutes})
			go func() { theirs.Write(tt.raw); theirs.Close() }()
			_, err := c.Recv(t.Context())
			var closed *Closed
			if !errors.As(err, &closed) || !strings.Contains(err.Error(), tt.msg) {
				t.Errorf("Recv() = %v, want %q", err, tt.msg)
			}
			c.Close()
			c.Close()
		})
	}
}

func TestPingsAreAnswered(t *testing.T) {
	ours, theirs := net.Pipe()
	format, _ := wire.Client{}.Normal()
	c := start(ours, Config{Format: format})
	defer c.Close()
	b, _ := format.Append(nil, shield.RoutePing, []byte("hi"))
	go theirs.Write(b)
	id, body, err := readFrame(theirs, format)
	if err != nil || id != shield.RoutePong || string(body) != "hi" {
		t.Errorf("answer = %d %q, %v, want pong hi", id, body, err)
	}
}

func TestWebSocket(t *testing.T) {
	format, _ := wire.Client{}.Normal()
	s := &server{format: format}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		s.serve(websocket.NetConn(context.Background(), ws, websocket.MessageBinary), echo)
		ws.Close(websocket.StatusNormalClosure, "kicked by a test")
	}))
	defer srv.Close()
	cfg := Config{Address: "ws" + strings.TrimPrefix(srv.URL, "http") + "/play", Routes: testRoutes}
	told, err := play(t, cfg, "auth.login {\"a\":1}\nexpect auth.login_ok\nplayer.move\nexpect-close kicked by a test", nil)
	if diff := cmp.Diff([]string{`push auth.login_ok {"a":1}`, "closed kicked by a test"}, told); diff != "" || err != nil {
		t.Errorf("told (-want +got):\n%s%v", diff, err)
	}
}

// TestLocal wants the address that the server sees, through a WebSocket too: the
// control API knows a session by it.
func TestLocal(t *testing.T) {
	seen := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		seen <- r.RemoteAddr
		ws.CloseNow()
	}))
	defer web.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			seen <- conn.RemoteAddr().String()
			conn.Close()
		}
	}()
	for _, address := range []string{"tcp://" + ln.Addr().String(), "ws" + strings.TrimPrefix(web.URL, "http") + "/play"} {
		conn, err := Dial(t.Context(), Config{Address: address, Routes: testRoutes})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := conn.Local(), <-seen; got != want {
			t.Errorf("%s: Local = %q, the server sees %q", address, got, want)
		}
		conn.Close()
	}
}

func TestCrowd(t *testing.T) {
	s := listen(t, echo)
	f := NewFeed()
	go func() {
		f.Add(`auth.login {"name":"bot-{n}"}`)
		f.Add(`expect auth.login_ok {"name":"bot-{n}"}`)
		f.End(nil)
	}()
	pushes := map[int]string{}
	res := Crowd{Count: 50, Dials: 8, Script: Script{Config: config(s), Lines: f, Tell: func(e Event) {
		if e.Kind == EventPush {
			pushes[e.Client] = string(e.Body)
		}
	}}}.Run(t.Context())
	if res.OK != 50 || len(res.Failed) != 0 || pushes[7] != `{"name":"bot-7"}` || len(pushes) != 50 {
		t.Errorf("result = %+v, %d pushes, 7 got %s", res, len(pushes), pushes[7])
	}
}

func TestACrowdThatCanNotConnectFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	f := NewFeed()
	f.End(nil)
	res := Crowd{Count: 40, Script: Script{Config: Config{Address: addr}, Lines: f, Tell: func(Event) {}}}.Run(t.Context())
	if res.OK != 0 || len(res.Failed) != 40 || res.Worst() == nil {
		t.Errorf("result = %+v", res)
	}
}

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"127.0.0.1:7001", "tcp://127.0.0.1:7001"}, {"[::1]:7001", "tcp://[::1]:7001"}, {"tcp://h:1", "tcp://h:1"}, {"tls://h:1", "tls://h:1"},
		{"ws://h:1/a", "ws://h:1/a"}, {"wss://h:1", "wss://h:1"}, {"wss://h/play", "wss://h/play"}, {"ws://[::1]", "ws://[::1]"},
		{"ws:///play", ""}, {"wss://", ""}, {"ws://:7001", ""}, {"tls://h/", ""}, {"h", ""}, {"tcp://h", ""}, {"tcp://h:1/x", ""}, {"http://h:1", ""}, {"", ""}, {"h:", ""},
	} {
		u, err := ParseAddress(tt.in)
		if got := fmt.Sprint(u); (err == nil) != (tt.want != "") || err == nil && got != tt.want {
			t.Errorf("ParseAddress(%q) = %v, %v, want %q", tt.in, u, err, tt.want)
		}
	}
}

// FuzzServer lets a hostile server say anything: the client must neither panic
// nor take memory for lengths that were only claimed, and what it hands on must
// be JSON.
func FuzzServer(f *testing.F) {
	f.Add([]byte{0, 0, 7, 209, 0, 0, 0, 2, '{', '}'}, 0)
	f.Add([]byte{0, 0, 7, 211, 0, 0, 0, 1, 0xff, 0, 0, 0, 1, 0, 0, 0, 0}, 0)
	f.Add([]byte{0, 0, 7, 212, 0, 0, 0, 3, 0x81, 0xa1, 'a'}, 0)
	f.Add([]byte{0xd1, 7, 2, 0, '1', '2'}, 1)
	f.Fuzz(func(t *testing.T, b []byte, shape int) {
		format := wire.Client{}
		if shape%2 == 1 {
			format = wire.Client{RouteIDBytes: 2, LengthBytes: 2, LittleEndian: true}
		}
		format, err := format.Normal()
		if err != nil {
			t.Fatal(err)
		}
		c := &Conn{cfg: Config{Format: format, Routes: testRoutes}}
		for r := bytes.NewReader(b); ; {
			id, body, err := readFrame(r, format)
			if err != nil {
				return
			}
			if p := c.push(id, body); p.Body != nil && !json.Valid(p.Body) {
				t.Fatalf("body of %q = %q: no JSON", p.Name, p.Body)
			}
		}
	})
}
