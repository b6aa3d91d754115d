package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// Client speaks to one endpoint. Its methods may be used from many goroutines.
type Client struct {
	endpoint Endpoint
	http     *http.Client
}

// New makes a client for e without connecting.
func New(e Endpoint) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, e.Network, e.Address)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     10 * time.Second,
	}
	return &Client{endpoint: e, http: &http.Client{Transport: transport}}
}

// dialTimeout bounds how long a host that does not answer is waited for.
const dialTimeout = 2 * time.Second

// Endpoint is where c talks to.
func (c *Client) Endpoint() Endpoint { return c.endpoint }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Project asks who answers.
func (c *Client) Project(ctx context.Context) (p control.Project, err error) {
	return p, c.get(ctx, "/ops/project", nil, &p)
}

// Status gives every node of the server with its counters.
func (c *Client) Status(ctx context.Context) (s control.Status, err error) {
	return s, c.get(ctx, "/ops/status", nil, &s)
}

// Nodes gives the rows as from sees them; "" is the first node.
func (c *Client) Nodes(ctx context.Context, from shield.NodeID) (rows []shield.NodeRow, err error) {
	return rows, c.get(ctx, "/ops/nodes", query("from", string(from)), &rows)
}

// Routes gives what every node of the server knows of names, or one node.
func (c *Client) Routes(ctx context.Context, from shield.NodeID) (rows []shield.RouteRow, err error) {
	return rows, c.get(ctx, "/ops/routes", query("from", string(from)), &rows)
}

// Services lists the services, of one node unless node is "".
func (c *Client) Services(ctx context.Context, node shield.NodeID) (rows []shield.ServiceRow, err error) {
	return rows, c.get(ctx, "/ops/services", query("node", string(node)), &rows)
}

// Sessions lists the client connections.
func (c *Client) Sessions(ctx context.Context) (rows []shield.SessionRow, err error) {
	return rows, c.get(ctx, "/ops/sessions", nil, &rows)
}

// Session gives one session with its epoch history.
func (c *Client) Session(ctx context.Context, id shield.SessionID) (row shield.SessionRow, err error) {
	return row, c.get(ctx, "/ops/sessions/"+url.PathEscape(string(id)), nil, &row)
}

// Methods lists what can be called on a target.
func (c *Client) Methods(ctx context.Context, target string) (names []string, err error) {
	return names, c.get(ctx, "/ops/methods", query("target", target), &names)
}

// Call makes one call. err is not nil when no call was made; how a call that
// was made ended is in the result.
func (c *Client) Call(ctx context.Context, r control.CallRequest) (res control.CallResult, err error) {
	err = c.post(ctx, "/ops/call", r, &res)
	return res, told(res, err)
}

// Args are words of a command line as arguments of a call: JSON where one parses
// as JSON, else a string.
func Args(words []string) []json.RawMessage {
	args := make([]json.RawMessage, len(words))
	for i, w := range words {
		if json.Valid([]byte(w)) {
			args[i] = json.RawMessage(w)
			continue
		}
		args[i], _ = json.Marshal(w) // a string always encodes
	}
	return args
}

// Eval runs Lua in a service's VM.
func (c *Client) Eval(ctx context.Context, r control.EvalRequest) (res control.CallResult, err error) {
	err = c.post(ctx, "/ops/eval", r, &res)
	return res, told(res, err)
}

// told refuses an answer that does not say how it ended.
func told(res control.CallResult, err error) error {
	if err == nil && !res.OK && res.Error == nil && res.Incomplete == "" {
		return errors.New("the server said neither yes nor why not")
	}
	return err
}

// Complete asks what could stand at the end of a line of Lua.
func (c *Client) Complete(ctx context.Context, target, session, line string) (words control.Completion, err error) {
	return words, c.get(ctx, "/ops/complete", query("target", target, "session", session, "line", line), &words)
}

// Inspect looks into a service; with state, also at what it and the session hold.
func (c *Client) Inspect(ctx context.Context, target string, state bool, session string) (in control.Inspection, err error) {
	q := query("target", target, "session", session)
	if state {
		q.Set("state", "1")
	}
	return in, c.get(ctx, "/ops/inspect", q, &in)
}

// Waits lists every handler that waits.
func (c *Client) Waits(ctx context.Context) (rows []control.WaitRow, err error) {
	return rows, c.get(ctx, "/ops/waits", nil, &rows)
}

// Why says which code the services of a name run, and since when; "" asks for
// all.
func (c *Client) Why(ctx context.Context, name shield.Name) (rows []control.WhyRow, err error) {
	return rows, c.get(ctx, "/ops/why", query("service", string(name)), &rows)
}

// Reload looks at the files now.
func (c *Client) Reload(ctx context.Context, r control.ReloadRequest) (res control.ReloadResult, err error) {
	return res, c.post(ctx, "/ops/reload", r, &res)
}

// Drain takes a node out of routing, lets its services finish and ends it.
func (c *Client) Drain(ctx context.Context, r control.DrainRequest) (row shield.NodeRow, err error) {
	return row, c.post(ctx, "/ops/drain", r, &row)
}

// Node stops, kills, restarts, freezes or thaws a node of `shield dev`.
func (c *Client) Node(ctx context.Context, r control.NodeRequest) (row shield.NodeRow, err error) {
	return row, c.post(ctx, "/ops/node", r, &row)
}

// Kick closes a session and gives its last row.
func (c *Client) Kick(ctx context.Context, r control.KickRequest) (row shield.SessionRow, err error) {
	return row, c.post(ctx, "/ops/kick", r, &row)
}

// SetLogLevel changes what is logged.
func (c *Client) SetLogLevel(ctx context.Context, r control.LogLevelRequest) error {
	return c.post(ctx, "/ops/loglevel", r, nil)
}

// Clock gives every node's business clock.
func (c *Client) Clock(ctx context.Context) (rows []control.ClockRow, err error) {
	return rows, c.get(ctx, "/ops/clock", nil, &rows)
}

// SetClock moves the business clock.
func (c *Client) SetClock(ctx context.Context, r control.ClockRequest) (rows []control.ClockRow, err error) {
	return rows, c.post(ctx, "/ops/clock", r, &rows)
}

// Ready is nil when the server wants traffic, and says why not otherwise.
func (c *Client) Ready(ctx context.Context) error { return c.get(ctx, "/readyz", nil, nil) }

// Healthy is nil while the server does its work.
func (c *Client) Healthy(ctx context.Context) error { return c.get(ctx, "/healthz", nil, nil) }

func query(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errNoAnswer)
	defer cancel()
	return c.do(ctx, http.MethodGet, path, q, nil, into)
}

func (c *Client) post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return shield.Errorf(shield.EncodeFailed, "%s: %w", path, err)
	}
	ctx, stop := c.guard(ctx)
	defer stop()
	return c.do(ctx, http.MethodPost, path, nil, b, into)
}

// answerTime is how long a server may take for what it has at hand.
const answerTime = 10 * time.Second

// errNoAnswer is the cause of a request that was given up.
var errNoAnswer = fmt.Errorf("no answer within %v: it is there but hangs (stopped in a debugger?)", answerTime)

// guard watches over a request that may rightly take long: a call takes as long
// as its service does. It is given up only when the server does not answer the
// simplest question either.
func (c *Client) guard(ctx context.Context) (guarded context.Context, stop func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-guarded.Done():
				return
			case <-time.After(answerTime):
			}
			if err := c.get(guarded, "/ops/project", nil, nil); errors.Is(err, errNoAnswer) {
				cancel(errNoAnswer)
			}
		}
	})
	return guarded, func() { cancel(nil); wg.Wait() }
}

func (c *Client) do(ctx context.Context, method, path string, q url.Values, body []byte, into any) error {
	resp, err := c.open(ctx, method, path, q, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	if err != nil {
		return c.lost(ctx, err)
	}
	return nil
}

// open makes a request and returns its answer when that is a good one.
func (c *Client) open(ctx context.Context, method, path string, q url.Values, body []byte) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "shield", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.endpoint.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.endpoint.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, failure(resp)
}

// failure reads an answer that is no answer.
func failure(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var body control.ErrorBody
	if json.Unmarshal(b, &body) == nil && body.Error.Code != "" {
		return body.Error.Err()
	}
	return fmt.Errorf("the server answered %s: %s", resp.Status, strconv.Quote(string(b[:min(len(b), 200)])))
}

// lost explains an exchange that broke.
func (c *Client) lost(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return &NothingError{Tried: []string{c.endpoint.String()}, Lost: true, Err: errNoAnswer}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &NothingError{Tried: []string{c.endpoint.String()}, Err: op.Err}
	}
	return &NothingError{Tried: []string{c.endpoint.String()}, Lost: true, Err: err}
}
