package control_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shield/runtime/control"
	"shield/runtime/control/client"
	"shield/runtime/control/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server for h on a real socket of a project in a new folder.
func serve(t *testing.T, h control.Host, a control.Access) (*client.Client, string) {
	t.Helper()
	dir := t.TempDir()
	sock, err := control.Listen(dir, control.DevName)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Config{Host: h})
	done := make(chan error, 1)
	go func() { done <- s.Serve(sock, a) }()
	c, err := client.Open(t.Context(), client.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	return c, sock.Path
}

// curl asks as any program would that knows nothing of the client.
func curl(t *testing.T, socket, method, path, body string, header ...string) (int, string) {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}

func three() *controltest.Host { return controltest.New(controltest.Three()) }
