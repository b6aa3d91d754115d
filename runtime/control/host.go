package control

import (
	"context"
	"encoding/json"
	"time"

	"shield/runtime/shield"
)

// Host is a running project: the nodes of one process. Every error should carry
// a shield code; one that does not is shown as handler_error.
type Host interface {
	Project() Project

	// Nodes gives the rows as from sees them. from is one of Project().Nodes; for
	// one that is stopped the first that runs answers.
	Nodes(from shield.NodeID) ([]shield.NodeRow, error)
	// Routes gives what from knows: its own names and those it learnt.
	Routes(from shield.NodeID) ([]shield.RouteRow, error)
	// Services and Sessions are those of the nodes of this process.
	Services() ([]shield.ServiceRow, error)
	Sessions() ([]shield.SessionRow, error)
	// Session has the epoch history; session_closed when there is no such one.
	Session(id shield.SessionID) (shield.SessionRow, error)
	Status() ([]NodeStatus, error)
	// Methods lists what may be called on a service of any node it can reach.
	Methods(ctx context.Context, node shield.NodeID, name shield.Name) ([]string, error)

	// Call and Eval end with a result whatever happens.
	Call(ctx context.Context, c Call) CallResult
	Eval(ctx context.Context, e Eval) CallResult
	// Complete, Inspect, Waits and Why look into services of this process.
	Complete(ctx context.Context, c Complete) (Completion, error)
	Inspect(ctx context.Context, r Inspect) (Inspection, error)
	Waits(ctx context.Context) ([]WaitRow, error)
	Why(name shield.Name) ([]WhyRow, error)
	Reload(ctx context.Context, r ReloadRequest) (ReloadResult, error)
	Drain(ctx context.Context, r DrainRequest) (shield.NodeRow, error)
	// Node is refused with permission_denied outside of dev.
	Node(ctx context.Context, r NodeRequest) (shield.NodeRow, error)
	Kick(ctx context.Context, r KickRequest) error
	SetLogLevel(r LogLevelRequest) error
	// Clock gives every node's business clock; SetClock moves it first.
	Clock() ([]ClockRow, error)
	SetClock(r ClockRequest) error

	// Logs and Calls are the rings that the host writes into.
	Logs() *Ring[shield.LogRow]
	Calls() *Ring[shield.CallRow]

	// Healthy is nil while the process does its work; Ready is nil while it
	// wants traffic. Both say why not.
	Healthy() error
	Ready() error

	// Notify (a Notifier does it) asks for changed to be called, from any goroutine, whenever rows
	// of a topic changed in a way that a person waits for. changed does not
	// block. The host may call it too often, and for what is merely counted it
	// need not. stop ends it; nothing may be kept for nobody.
	Notify(changed func(Topic)) (stop func())
}

// Call is a CallRequest whose target was found: the node is one that Project
// lists, or one it knows from the cluster.
type Call struct {
	Node    shield.NodeID
	Service shield.Name
	Method  string
	Args    []json.RawMessage
	Timeout time.Duration // 0 = the node's call_timeout
}

// Eval is an EvalRequest whose target was found.
type Eval struct {
	Node     shield.NodeID
	Service  shield.Name
	Source   string
	Timeout  time.Duration
	Session  string
	Name     string
	Budget   time.Duration
	ReadOnly bool
}

// Complete is a question for words whose target was found.
type Complete struct {
	Node    shield.NodeID
	Service shield.Name
	Session string
	Line    string // up to the cursor
}

// Inspect asks for a look into a service.
type Inspect struct {
	Node    shield.NodeID
	Service shield.Name
	State   bool   // also what it holds
	Session string // whose locals count as state too
}
