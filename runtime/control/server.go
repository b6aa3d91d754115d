package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"shield/runtime/shield"
)

// Config makes a Server.
type Config struct {
	Host Host
	Log  *slog.Logger // audit lines; nil = none
}

// Access is what one listener allows.
type Access struct {
	// Token must come with every request as a bearer token. It may be empty on
	// a Unix socket only, where the file's mode keeps others out.
	Token string
	Eval  bool // POST /ops/eval, which runs any Lua
	Audit bool // even calls go to the log at level info
}

// Server serves the control API on any number of listeners.
type Server struct {
	host    Host
	log     *slog.Logger
	metrics http.Handler
	ctx     context.Context // ends watches and followed logs
	stop    context.CancelFunc

	mu      sync.Mutex
	servers []*http.Server
	closed  bool
}

// maxBody bounds a request's body.
const maxBody = 16 << 20

// NewServer makes a server that listens nowhere yet.
func NewServer(c Config) *Server {
	s := &Server{host: c.Host, log: c.Log, metrics: newMetrics(c.Host)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Serve answers on ln until Close, and then returns nil. It closes ln.
func (s *Server) Serve(ln net.Listener, a Access) error {
	if a.Token == "" && ln.Addr().Network() != "unix" {
		ln.Close()
		return fmt.Errorf("control API on %s: a port needs a token, everybody can reach it: set control.token", ln.Addr())
	}
	srv := &http.Server{
		Handler:           s.Handler(a),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		ln.Close()
		return nil
	}
	s.servers = append(s.servers, srv)
	s.mu.Unlock()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("control API on %s: %w", ln.Addr(), err)
	}
	return nil
}

// Close ends watches at once and lets other requests finish until ctx ends. It
// may be called twice.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	servers := slices.Clone(s.servers)
	s.mu.Unlock()
	s.stop()
	var errs []error
	for _, srv := range servers {
		if err := srv.Shutdown(ctx); err != nil {
			errs = append(errs, srv.Close())
		}
	}
	return errors.Join(errs...)
}

// Handler is the whole API for one kind of access.
func (s *Server) Handler(a Access) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.probe(s.host.Healthy))
	mux.HandleFunc("GET /readyz", s.probe(s.host.Ready))
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("GET /ops/logs", s.logs)
	mux.HandleFunc("GET /ops/watch", s.watch)
	s.reads(mux)
	s.inside(mux, a)
	s.writes(mux, a)
	mux.HandleFunc("/", unknownEndpoint)
	return authorize(mux, a.Token)
}

// endpoints is what unknownEndpoint offers, and what doc.go describes.
var endpoints = []string{
	"/healthz", "/readyz", "/metrics", "/ops/project", "/ops/status", "/ops/nodes", "/ops/routes", "/ops/services", "/ops/sessions",
	"/ops/methods", "/ops/complete", "/ops/inspect", "/ops/waits", "/ops/why", "/ops/logs", "/ops/watch", "/ops/call", "/ops/eval", "/ops/reload", "/ops/drain", "/ops/node", "/ops/kick",
	"/ops/loglevel", "/ops/clock",
}

func unknownEndpoint(w http.ResponseWriter, r *http.Request) {
	msg := fmt.Sprintf("%s %s: no such endpoint", r.Method, r.URL.Path)
	if slices.Contains(endpoints, r.URL.Path) {
		msg = fmt.Sprintf("%s %s: wrong method; reading is GET, acting is POST", r.Method, r.URL.Path)
	} else if near := shield.Nearest(r.URL.Path, endpoints); near != "" {
		msg += fmt.Sprintf(" (did you mean %s?)", near)
	}
	writeError(w, http.StatusNotFound, &shield.Error{Code: shield.MethodNotFound,
		Message: msg + "; known: " + strings.Join(endpoints, " ")})
}

// authorize lets a request through that carries the token.
func authorize(next http.Handler, token string) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		// Hashed first, so that the time taken tells nothing of the length.
		got := sha256.Sum256([]byte(bearer))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, shield.Errorf(shield.PermissionDenied,
				"this port needs the token of control.token in shield.yaml: set SHIELD_CONTROL_TOKEN"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) probe(ask func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := ask(); err != nil {
			writeError(w, http.StatusServiceUnavailable, shield.AsError(err, shield.RuntimeStopping))
			return
		}
		writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
	}
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	req, err := parseWatch(r)
	if err == nil {
		req.from, err = s.view(r)
	}
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := s.streaming(r)
	defer cancel()
	if err := watch(ctx, s.host, req, newLineWriter(w)); err != nil {
		s.log.Debug("a watch ended", "service", "control", "error", err)
	}
}

// streaming gives a context that ends with the request or the server.
func (s *Server) streaming(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		writeError(w, http.StatusInternalServerError, shield.Errorf(shield.EncodeFailed, "the answer is no JSON: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A reader that left before its answer was written needs no other.
	_, _ = w.Write(b.Bytes())
}

func writeError(w http.ResponseWriter, status int, err *shield.Error) {
	writeJSON(w, status, ErrorBody{Error: *MakeError(err, err.Code)})
}

// fail answers with err and the status that fits its code.
func fail(w http.ResponseWriter, err error) {
	e := shield.AsError(err, shield.HandlerError)
	writeError(w, statusOf(e.Code), e)
}

func statusOf(c shield.Code) int {
	switch c {
	case shield.InvalidTarget, shield.InvalidMethod, shield.InvalidName, shield.DecodeError, shield.EncodeFailed:
		return http.StatusBadRequest
	case shield.PermissionDenied:
		return http.StatusForbidden
	case shield.NodeNotFound, shield.ServiceNotFound, shield.MethodNotFound, shield.SessionClosed, shield.ModuleUnavailable:
		return http.StatusNotFound
	case shield.MessageTooLarge, shield.FrameTooLarge:
		return http.StatusRequestEntityTooLarge
	case shield.NodeOffline, shield.NodeSuspect, shield.NodeRemoved, shield.RuntimeStopping:
		return http.StatusServiceUnavailable
	case shield.Timeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// decode reads a request's body; unknown fields are errors, they are misspelt
// ones.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return shield.Errorf(shield.MessageTooLarge, "%s: the body is longer than %d bytes", r.URL.Path, tooLarge.Limit)
	case errors.Is(err, io.EOF):
		return shield.Errorf(shield.DecodeError, "%s: the body is empty: send a JSON object", r.URL.Path)
	default:
		return shield.Errorf(shield.DecodeError, "%s: the body is not what it should be: %s", r.URL.Path, err)
	}
}
