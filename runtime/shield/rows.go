package shield

import "time"

// The rows that tools see. One struct serves the CLI's table, its --json, the
// control API and the console; fields may be added, never renamed (DESIGN.md
// section 5).

// NodeRow is one node as another (or itself) sees it.
type NodeRow struct {
	Node           NodeID        `json:"node"`
	State          NodeState     `json:"state"`
	Intent         Intent        `json:"intent"`
	Epoch          NodeEpoch     `json:"epoch"` // null for a placeholder
	Address        string        `json:"address"`
	Gateways       []string      `json:"gateways"` // dialled as written: tcp://127.0.0.1:7001
	Services       int           `json:"services"`
	Sessions       int           `json:"sessions"`
	RoutesVersion  RoutesVersion `json:"routes_version"`
	LastHeartbeat  *int64        `json:"last_heartbeat_ms"` // monotonic, means nothing as a date; null before the first
	HeartbeatAge   *int64        `json:"heartbeat_age_ms"`
	Self           bool          `json:"self,omitempty"`
	Reason         string        `json:"reason,omitempty"`        // why it is in this state
	RTTMicros      int64         `json:"rtt_us,omitempty"`        // smoothed, of the link
	LossPercent    float64       `json:"loss_percent,omitempty"`  // of the link's packets
	ClockSkew      *int64        `json:"clock_skew_ms,omitempty"` // its UTC clock minus ours at the handshake
	RoutesBehind   bool          `json:"routes_behind,omitempty"` // it holds a newer table than ours
	Uptime         int64         `json:"uptime_ms,omitempty"`
	CallsPerSecond float64       `json:"calls_per_s,omitempty"`
}

// ClusterCounters count since the node started (DESIGN.md 3.6).
type ClusterCounters struct {
	Connections  int64 `json:"connections"`
	Reconnects   int64 `json:"reconnects"`
	TxMessages   int64 `json:"tx_messages"`
	RxMessages   int64 `json:"rx_messages"`
	TxHeartbeats int64 `json:"tx_heartbeats"`
	RxHeartbeats int64 `json:"rx_heartbeats"`
}

// RouteRow is one published name of one node.
type RouteRow struct {
	Node    NodeID        `json:"node"`
	Name    Name          `json:"name"`
	Service ServiceID     `json:"service"`
	Version RoutesVersion `json:"version"`
}

// ServiceRow is one service of one node.
type ServiceRow struct {
	Name       Name         `json:"name"` // the first of Names, else the module name in parentheses
	Names      []Name       `json:"names"`
	Node       NodeID       `json:"node"`
	ID         ServiceID    `json:"id"`
	State      ServiceState `json:"state"`
	Generation int          `json:"generation"`
	Code       string       `json:"code"`            // short hash of all its files
	Mixed      bool         `json:"mixed,omitempty"` // another node of the process runs other code under this name
	Mailbox    int          `json:"mailbox"`
	Calls      int64        `json:"calls"` // a total
	Module     string       `json:"module"`
	Errors     int64        `json:"errors"`
	Restarts   int          `json:"restarts"`
	Sessions   int          `json:"sessions"`
	Memory     int64        `json:"memory"` // bytes, an estimate; 0 = not measured
	Reason     string       `json:"reason,omitempty"`
	Reload     string       `json:"reload,omitempty"` // how its last reload went: "" = none, "ok", "failed: ..."
	ReloadTime *time.Time   `json:"reload_time,omitempty"`
}

// SessionRow is one client connection.
type SessionRow struct {
	Session   SessionID    `json:"session"`
	Player    string       `json:"player"`
	Epoch     SessionEpoch `json:"epoch"`
	Target    string       `json:"target"` // "node:name", or the handle where the service has no name
	Gateway   GatewayID    `json:"gateway"`
	State     SessionState `json:"state"`
	Address   string       `json:"address"`
	Transport string       `json:"transport"` // tcp, tls, ws, quic
	In        int64        `json:"in"`        // frames
	Out       int64        `json:"out"`
	Stale     int64        `json:"stale"` // refused pushes that carried an old epoch
	Queue     int          `json:"queue"`
	IdleMS    int64        `json:"idle_ms"`
	OpenedMS  int64        `json:"age_ms"`
	Code      string       `json:"code,omitempty"` // generation and hash of the target's code: "3 a41f9c"
	History   []EpochStep  `json:"history,omitempty"`
}

// EpochStep is one change of a session's binding and why it happened.
type EpochStep struct {
	Epoch  SessionEpoch `json:"epoch"`
	Time   time.Time    `json:"time"`
	Cause  string       `json:"cause"` // opened, bind, kick, disconnect, ...
	Player string       `json:"player"`
	Target string       `json:"target"`
}

// LogRow is one line of the log. Events that a person waits for (a state that
// changed, a reload, a bind) are lines too, told apart by Event.
type LogRow struct {
	Seq        uint64         `json:"seq"`
	Time       time.Time      `json:"time"`
	Level      string         `json:"level"` // debug info warn error
	Node       NodeID         `json:"node"`
	Service    string         `json:"service"` // a service's name, or the part of the runtime that speaks: node, cluster, gateway, reload
	Text       string         `json:"text"`
	Event      string         `json:"event,omitempty"` // state, epoch, reload, crash, drain
	Generation int            `json:"generation,omitempty"`
	Code       string         `json:"code,omitempty"`
	Trace      string         `json:"trace,omitempty"`
	Fields     map[string]any `json:"fields,omitempty"`
}

// CallRow is one finished call, for the Calls view.
type CallRow struct {
	Time   time.Time `json:"time"`
	Trace  TraceID   `json:"trace"`
	From   string    `json:"from"` // "node:name", "session s-...", "control"
	Target string    `json:"target"`
	Method string    `json:"method"`
	Node   NodeID    `json:"node"`
	Micros int64     `json:"us"`
	Result string    `json:"result"` // ok, or an error code
}
