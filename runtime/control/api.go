package control

import (
	"encoding/json"
	"fmt"
	"time"

	"shield/runtime/shield"
)

// Project is what a running server says of itself.
type Project struct {
	Name    string          `json:"name"`
	Version string          `json:"version"` // of Shield
	Mode    Mode            `json:"mode"`
	PID     int             `json:"pid"`
	Started time.Time       `json:"started"`
	Dir     string          `json:"dir"`   // where shield.yaml is
	Nodes   []shield.NodeID `json:"nodes"` // the nodes of this process, in order; the first answers for targets without a node
}

// Mode tells the two servers apart.
type Mode string

const (
	ModeDev Mode = "dev"
	ModeRun Mode = "run"
)

// Status is what GET /ops/status answers.
type Status struct {
	Project Project      `json:"project"`
	Nodes   []NodeStatus `json:"nodes"` // of this process only
}

// NodeStatus is one node's own row with everything it counts.
type NodeStatus struct {
	shield.NodeRow
	Cluster  *ClusterStatus   `json:"cluster,omitempty"` // absent without a cluster
	Gateway  []GatewayStatus  `json:"gateway"`           // one for each gateway of the node
	Counters map[string]int64 `json:"counters"`          // of its services: calls, sends, errors, timeouts, dropped, ...
	Memory   int64            `json:"memory"`            // bytes, an estimate of its services together
	Clock    *ClockRow        `json:"clock,omitempty"`   // absent while the business clock is not shifted
}

// ClusterStatus is the block that one builder makes for every reader
// (DESIGN.md 3.6). Without a running transport the six counters are absent.
type ClusterStatus struct {
	*shield.ClusterCounters
	Nodes []shield.NodeRow `json:"nodes"`
}

// GatewayStatus is one gateway and what it counts, refusals by reason among it.
type GatewayStatus struct {
	Gateway   shield.GatewayID `json:"gateway"`
	Addresses []string         `json:"addresses"`
	Sessions  int              `json:"sessions"`
	Counters  map[string]int64 `json:"counters"`
}

// CallRequest asks for one call. Target is "node:name" or a name.
type CallRequest struct {
	Target  string            `json:"target"`
	Method  string            `json:"method"`
	Args    []json.RawMessage `json:"args,omitempty"`
	Timeout int64             `json:"timeout_ms,omitempty"` // 0 = the node's call_timeout
}

// EvalRequest runs Lua in a service's VM, on its own turn: an expression, or
// statements.
type EvalRequest struct {
	Target  string `json:"target"`
	Source  string `json:"source"`
	Timeout int64  `json:"timeout_ms,omitempty"`

	// Session, any text of the caller's, keeps the locals that the source
	// declares for the next request that has it too.
	Session  string `json:"session,omitempty"`
	Name     string `json:"name,omitempty"`      // how errors call the source
	Budget   int64  `json:"budget_ms,omitempty"` // running time between two waits; 0 = limits.max_handler_ms
	ReadOnly bool   `json:"read_only,omitempty"` // only what can change nothing; nothing is run
}

// CallResult is how a call or an eval ended: ok with Values, or not ok with
// Error. The rest is filled as far as the call got.
type CallResult struct {
	OK         bool              `json:"ok"`
	Values     []json.RawMessage `json:"values,omitzero"`      // present, if empty, whenever ok
	Text       []string          `json:"text,omitempty"`       // the values as Lua prints them (eval); where JSON can't hold one, Values has null
	Output     string            `json:"output,omitempty"`     // what the Lua printed (eval), also when it failed
	Hint       string            `json:"hint,omitempty"`       // what may have been meant (eval)
	Incomplete string            `json:"incomplete,omitempty"` // eval with a session: the source ends too early; nothing was run
	Ended      string            `json:"ended,omitempty"`      // eval: why the service has ended by it
	Began      bool              `json:"began,omitempty"`      // eval with a session: it holds no locals of earlier lines
	Error      *Error            `json:"error,omitempty"`
	Node       shield.NodeID     `json:"node,omitempty"`
	Service    shield.Name       `json:"service,omitempty"`
	ID         shield.ServiceID  `json:"id,omitempty"`
	Generation int               `json:"generation,omitempty"`
	Code       string            `json:"code,omitempty"`
	MS         float64           `json:"ms"`
	Trace      shield.TraceID    `json:"trace,omitempty"`
}

// ReloadRequest asks for a look at the files now. Without Names every service
// whose code changed is reloaded.
type ReloadRequest struct {
	Names   []shield.Name `json:"names,omitempty"`
	Restart bool          `json:"restart,omitempty"` // start the named services afresh, state and all
	Undo    bool          `json:"undo,omitempty"`    // back to the code and state before the last swap
}

// ReloadResult lists what became of each service on each node.
type ReloadResult struct {
	OK       bool        `json:"ok"` // no row failed
	Services []ReloadRow `json:"services"`
	MS       float64     `json:"ms"`
}

// ReloadRow is one service on one node after a reload.
type ReloadRow struct {
	Service  shield.Name      `json:"service"`
	Node     shield.NodeID    `json:"node"`
	ID       shield.ServiceID `json:"id"`
	Result   string           `json:"result"` // reloaded, unchanged, restarted, started (it had failed), undone, refused, held back, failed
	From     int              `json:"from"`   // generations
	To       int              `json:"to"`
	Code     string           `json:"code"`
	MS       float64          `json:"ms"`
	Error    *Error           `json:"error,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
	Lost     []string         `json:"lost,omitempty"` // key paths whose newer state an undo threw away
}

// DrainRequest takes a node out of routing, lets its services finish and ends
// it.
type DrainRequest struct {
	Node shield.NodeID `json:"node"`
}

// NodeAction is what `shield dev` can do to one of its nodes.
type NodeAction string

const (
	NodeStop    NodeAction = "stop"    // drains, says goodbye, ends
	NodeKill    NodeAction = "kill"    // ends as a crash does
	NodeRestart NodeAction = "restart" // starts again, with a new epoch
	NodeFreeze  NodeAction = "freeze"  // stops reading and writing, as SIGSTOP would
	NodeThaw    NodeAction = "thaw"    // ends a freeze before its time
)

// NodeRequest is one action on one node.
type NodeRequest struct {
	Node   shield.NodeID `json:"node"`
	Action NodeAction    `json:"action"`
	For    int64         `json:"for_ms,omitempty"` // freeze: when it ends by itself
}

// KickRequest closes one session.
type KickRequest struct {
	Session shield.SessionID `json:"session"`
	Reason  string           `json:"reason,omitempty"` // empty = kicked
}

// LogLevelRequest changes what is logged from now on.
type LogLevelRequest struct {
	Level   string        `json:"level"`             // debug info warn error
	Node    shield.NodeID `json:"node,omitempty"`    // empty = every node
	Service string        `json:"service,omitempty"` // empty = every service
}

// ClockRequest moves the business clock. Timers and deadlines never move.
type ClockRequest struct {
	Node  shield.NodeID `json:"node,omitempty"` // empty = every node
	Shift int64         `json:"shift_ms,omitempty"`
	Reset bool          `json:"reset,omitempty"` // back to the wall clock, before Shift is added
}

// ClockRow is one node's business clock.
type ClockRow struct {
	Node  shield.NodeID `json:"node"`
	Time  time.Time     `json:"time"`
	Shift int64         `json:"shift_ms"`
}

// Error is a shield.Error as the API writes it.
type Error struct {
	Code      shield.Code `json:"code"`
	Message   string      `json:"message"`
	Retryable bool        `json:"retryable"`
	Detail    any         `json:"detail"`
}

// ErrorBody is the whole body of an answer that is no answer.
type ErrorBody struct {
	OK    bool  `json:"ok"` // false
	Error Error `json:"error"`
}

// MakeError writes err for the wire. One without a code becomes fallback.
func MakeError(err error, fallback shield.Code) *Error {
	if err == nil {
		return nil
	}
	e := shield.AsError(err, fallback)
	detail := e.Detail
	if _, err := json.Marshal(detail); err != nil { // a script may put a NaN into it
		detail = fmt.Sprint(detail)
	}
	return &Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable(), Detail: detail}
}

// Err turns e back into the error it was made from. nil gives nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	err := &shield.Error{Code: e.Code, Message: e.Message, Detail: e.Detail}
	if err.Retryable() != e.Retryable {
		err.RetryOverride = &e.Retryable
	}
	return err
}
