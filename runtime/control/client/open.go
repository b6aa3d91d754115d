package client

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"shield/runtime/control"
)

// Options say where to look for a server.
type Options struct {
	Endpoint string // --endpoint or SHIELD_ENDPOINT; wins over Dir
	Token    string // SHIELD_CONTROL_TOKEN; for tcp endpoints
	Dir      string // where a search for the project begins
}

// Open finds the endpoint and makes a client for it. It takes the socket of
// `shield dev`, else the only one of a `shield run` that answers. The error is a
// *NothingError, an *AmbiguousError or one about Options.
func Open(ctx context.Context, o Options) (*Client, error) {
	if o.Endpoint != "" {
		e, err := ParseEndpoint(o.Endpoint)
		if err != nil {
			return nil, err
		}
		if e.Network == "tcp" {
			e.Token = o.Token
			return New(e), nil
		}
		if !filepath.IsAbs(e.Address) {
			e.Address = filepath.Join(o.Dir, e.Address)
		}
		e.Address = control.RealSocket(e.Address)
		return New(e), nil
	}
	e, err := search(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	return New(e), nil
}

// AmbiguousError says that several nodes of `shield run` answer.
type AmbiguousError struct{ Endpoints []Endpoint }

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes run here; say which:", len(e.Endpoints))
	for _, ep := range e.Endpoints {
		fmt.Fprintf(&b, "\n  --endpoint %s", ep)
	}
	return b.String()
}

func search(ctx context.Context, from string) (Endpoint, error) {
	dir, ok := control.FindProject(from)
	if !ok {
		return Endpoint{}, &NothingError{Dir: absolute(from), Tried: []string{"shield.yaml", control.StateDir + "/"}}
	}
	nothing := &NothingError{Dir: dir}
	var alive []Endpoint
	for _, s := range control.Sockets(dir) {
		nothing.Tried = append(nothing.Tried, shorten(dir, s.File))
		if err := knock(ctx, s.Path); err != nil {
			nothing.Stale = true
			continue
		}
		alive = append(alive, Endpoint{Network: "unix", Address: s.Path})
		if s.Name == control.DevName {
			return alive[0], nil
		}
	}
	switch len(alive) {
	case 1:
		return alive[0], nil
	case 0:
		if len(nothing.Tried) == 0 {
			nothing.Tried = []string{control.StateDir + "/" + control.DevName + ".sock", control.StateDir + "/NODE.sock"}
		}
		return Endpoint{}, nothing
	}
	return Endpoint{}, &AmbiguousError{Endpoints: alive}
}

// knock sees whether anybody listens.
func knock(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return conn.Close()
}

func shorten(dir, file string) string {
	if rel, err := filepath.Rel(dir, file); err == nil {
		return rel
	}
	return file
}

func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}
