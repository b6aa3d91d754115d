package gateway

import (
	"io"
	"runtime"
	"testing"

	"shield/runtime/session"
)

// Whatever a client sends, the session ends with its connection and the oracle
// has nothing to say.
func FuzzClientBytes(f *testing.F) {
	for _, s := range []string{
		"\x00\x00\x00\x64\x00\x00\x00\x02{}",
		"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01x",
		"\x00\x00\x00\x65\x00\x00\x00\x01x\x00\x00\x03\xe7\x00\x00\x00\x00",
		"\x00\x00\x00\x64\xff\xff\xff\xff",
		"\x00\x00\x00\x64\x00\x00\x10\x00half",
		"GET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	pipes := newPipes()
	router := &fakeRouter{auth: authSvc, heard: make(chan struct{})}
	g, err := New(Config{ID: "n1:main", Auth: "auth", Listeners: []Listener{{Transport: TCP, Net: pipes}}, Routes: testRoutes(),
		Protocol: Protocol{Provider: "json"}, Router: router, Limits: Limits{Rate: -1, CloseTimeout: 1},
		Oracle: session.NewOracle(func(breach string) { panic(breach) })})
	if err != nil {
		f.Fatal(err)
	}
	if err := g.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := g.Close(f.Context()); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := pipes.Dial()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, conn) // whatever the gateway answers
		}()
		_, _ = conn.Write(b) // it may be closed in the middle, and rightly so
		conn.Close()
		<-done
		waitEmpty(g)
		router.mu.Lock()
		router.events = nil
		router.mu.Unlock()
	})
}

// waitEmpty waits for the slots: a connection gives its own back at its very
// end.
func waitEmpty(g *Gateway) {
	for {
		g.slots.mu.Lock()
		n := len(g.slots.conns)
		g.slots.mu.Unlock()
		if n == 0 {
			return
		}
		runtime.Gosched()
	}
}
