package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// Config is what a Runtime is made of. Zero fields mean default.
type Config struct {
	Node   shield.NodeID    // LocalNode by default
	Epoch  shield.NodeEpoch // rises at every start of Node; 1 by default
	Log    *slog.Logger     // discarded by default
	Limits Limits           // defaults of every service

	// Remote and Clients may be nil: what needs them gives module_unavailable.
	Remote  Remote
	Clients Clients
	// Routes is the RPC table of this moment; nil means no routes.
	Routes func() *shield.RPCTable

	// OnName hears every published or withdrawn name, in the order of the
	// changes, outside of all locks.
	OnName func(name shield.Name, id shield.ServiceID, published bool)
	// OnDead hears once of every service that has ended, after its names are
	// withdrawn. A restart keeps the id, so it is not an end.
	OnDead func(h shield.Handle, code shield.Code)

	Dev  bool  // waits that can't end are looked for and reported
	Seed int64 // of every service's math.random and of trace ids; 0 = random
}

// Runtime runs the services of one node.
type Runtime struct{ cfg Config }

// New makes a Runtime that has no services yet.
func New(cfg Config) (*Runtime, error) { return &Runtime{cfg: cfg}, nil }

// Start starts specs in the order their depends_on asks for and returns when
// every on_init has succeeded, or with the first failure. It may be called
// again with more specs.
func (r *Runtime) Start(ctx context.Context, specs []Spec) error { return errors.ErrUnsupported }

// Drain refuses new work and runs every on_shutdown in reverse start order, as
// long as ctx lasts.
func (r *Runtime) Drain(ctx context.Context) error { return errors.ErrUnsupported }

// Stop ends every service (on_exit, then whatever waits gets service_dead) and
// returns when all goroutines of the Runtime are gone, or ctx is over.
func (r *Runtime) Stop(ctx context.Context) error { return errors.ErrUnsupported }

// Target is what Call and Eval go to: a handle, or else a name ("room" or
// "node-2:room").
type Target struct {
	Handle shield.Handle
	Name   string
}

// CallRequest is a call made by a tool.
type CallRequest struct {
	Target  Target
	Method  string
	Args    []lua.LValue  // detached: shared with no VM
	Timeout time.Duration // 0 = the default call_timeout
	Trace   shield.TraceID
	From    string // for the Calls view; "control" by default
}

// Served says who did a piece of work, and with which code.
type Served struct {
	Node       shield.NodeID
	Service    shield.Name
	ID         shield.ServiceID
	Generation int
	Code       string
	Trace      shield.TraceID
	Took       time.Duration
}

// Call calls a service as a tool does. Served is filled in as far as it is
// known, also with an error.
func (r *Runtime) Call(ctx context.Context, req CallRequest) ([]lua.LValue, Served, error) {
	return nil, Served{}, errors.ErrUnsupported
}

// EvalRequest is a piece of Lua to be run as one turn of a service.
type EvalRequest struct {
	Target  Target
	Source  string        // one expression, or statements
	Timeout time.Duration // waiting included
}

// Eval runs Lua in a service's VM. Only services of this node can be reached.
func (r *Runtime) Eval(ctx context.Context, req EvalRequest) ([]lua.LValue, Served, error) {
	return nil, Served{}, errors.ErrUnsupported
}

// Deliver takes an envelope from another node. reply is nil for a send and
// used exactly once for a call.
func (r *Runtime) Deliver(env *shield.Envelope, reply shield.Replier) {}

// Ingress takes a client frame to the handler of its route in its target.
func (r *Runtime) Ingress(in *shield.Ingress) error { return errors.ErrUnsupported }

// Notice tells a target about one of its sessions, in order with Ingress and
// not counted against max_mailbox.
func (r *Runtime) Notice(n *shield.Notice) error { return errors.ErrUnsupported }

// Services lists every service, by id.
func (r *Runtime) Services() []shield.ServiceRow { return nil }

// Names lists the published names, sorted. Version rises with every change.
func (r *Runtime) Names() (rows []Published, version uint64) { return nil, 0 }

// Lookup finds a published name.
func (r *Runtime) Lookup(name shield.Name) (shield.Handle, bool) { return shield.Handle{}, false }

// Kill ends one service as a failure: its restart policy acts.
func (r *Runtime) Kill(id shield.ServiceID, reason string) error { return errors.ErrUnsupported }

// Restart ends one service in good order and starts it again under the same id
// and names.
func (r *Runtime) Restart(id shield.ServiceID, reason string) error { return errors.ErrUnsupported }

// SetClockOffset moves the business clock: shield.now, os.time and os.date.
func (r *Runtime) SetClockOffset(d time.Duration) {}

// Now is the business clock.
func (r *Runtime) Now() time.Time { return time.Time{} }
