package shield

import "sort"

// Code is the stable name of a failure (DESIGN.md 2.6). Every code is in the
// table below; docs, `shield explain` and the console read it from there.
type Code string

// Error lets a Code be the target of errors.Is.
func (c Code) Error() string { return string(c) }

const (
	InvalidTarget        Code = "invalid_target"
	InvalidMethod        Code = "invalid_method"
	InvalidName          Code = "invalid_name"
	NameConflict         Code = "name_conflict"
	InvalidServiceModule Code = "invalid_service_module"
	ScriptLoadFailed     Code = "script_load_failed"
	InitFailed           Code = "init_failed"
	SpawnTimeout         Code = "spawn_timeout"
	SpawnFailed          Code = "spawn_failed"
	RegisterFailed       Code = "register_failed"
	UnregisterFailed     Code = "unregister_failed"
	ServiceNotFound      Code = "service_not_found"
	ServiceDead          Code = "service_dead"
	MethodNotFound       Code = "method_not_found"
	HandlerError         Code = "handler_error"
	HandlerTimeout       Code = "handler_timeout"
	Timeout              Code = "timeout"
	EncodeFailed         Code = "encode_failed"
	MessageTooLarge      Code = "message_too_large"
	MailboxFull          Code = "mailbox_full"
	CoroutineLimit       Code = "coroutine_limit"
	PendingCallLimit     Code = "pending_call_limit"
	TimerLimit           Code = "timer_limit"
	TimerNotFound        Code = "timer_not_found"
	ForkLimit            Code = "fork_limit"
	MemoryLimit          Code = "memory_limit"
	RuntimeStopping      Code = "runtime_stopping"
	PermissionDenied     Code = "permission_denied"
	ContextExpired       Code = "context_expired"
	APINotAllowedInExit  Code = "api_not_allowed_in_exit"
	ModuleUnavailable    Code = "module_unavailable"
	PoolEmpty            Code = "pool_empty"

	NodeNotFound         Code = "node_not_found"
	NodeSuspect          Code = "node_suspect"
	NodeOffline          Code = "node_offline"
	NodeRemoved          Code = "node_removed"
	PeerNotAuthenticated Code = "peer_not_authenticated"
	PeerIdentityMismatch Code = "peer_identity_mismatch"

	SessionClosed        Code = "session_closed"
	SessionSendQueueFull Code = "session_send_queue_full"
	ConnectionLimit      Code = "connection_limit"
	IPLimit              Code = "ip_limit"
	HandshakeTimeout     Code = "handshake_timeout"
	IdleTimeout          Code = "idle_timeout"
	RateLimited          Code = "rate_limited"
	DecodeError          Code = "decode_error"
	FrameTooLarge        Code = "frame_too_large"
	ResumeExpired        Code = "resume_expired"

	RPCNotAuthenticated  Code = "client_rpc.not_authenticated"
	RPCRouteNotFound     Code = "client_rpc.route_not_found"
	RPCDirectionRejected Code = "client_rpc.direction_rejected"
	RPCEpochExpired      Code = "client_rpc.epoch_expired"
	RPCOwnerMismatch     Code = "client_rpc.owner_mismatch"
	RPCHandlerMissing    Code = "client_rpc.handler_missing"
)

// CodeInfo is what the table says of a code.
type CodeInfo struct {
	Code    Code   `json:"code"`
	Retry   bool   `json:"retryable"` // the same call may succeed a little later
	Meaning string `json:"meaning"`
	Causes  string `json:"causes"`
	Cure    string `json:"cure"`
}

// Info looks c up. ok is false for a code that this release does not know.
func (c Code) Info() (info CodeInfo, ok bool) {
	info, ok = codeTable[c]
	info.Code = c
	return info, ok
}

// Retryable reports whether the same call may succeed a little later.
func (c Code) Retryable() bool { return codeTable[c].Retry }

// Codes lists every code, sorted.
func Codes() []Code {
	all := make([]Code, 0, len(codeTable))
	for c := range codeTable {
		all = append(all, c)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all
}

const (
	again = true
	final = false
)

var codeTable = map[Code]CodeInfo{
	InvalidTarget: {Retry: final,
		Meaning: "The target of a send, call or bind is not a name, a handle or \"node:name\".",
		Causes:  "a nil variable, a number, a table, or a string with more than one colon",
		Cure:    "pass a service name, a handle from shield.spawn or shield.query, or \"node:name\""},
	InvalidMethod: {Retry: final,
		Meaning: "The method is not a non-empty string, or begins with on_, which hooks do.",
		Causes:  "arguments in the wrong order, or a hook called as a method",
		Cure:    "call a plain function of the service's module by its name"},
	InvalidName: {Retry: final,
		Meaning: "A service name breaks the rule for names.",
		Causes:  "empty, longer than 64 bytes, a character other than letters, digits, _ . -, or the reserved prefix shield.",
		Cure:    "choose a name such as room.public or player-17"},
	NameConflict: {Retry: final,
		Meaning: "Another service on this node holds or has reserved the name.",
		Causes:  "spawned twice, or two entries of shield.yaml with one name",
		Cure:    "use shield.query to find the holder, or choose another name"},
	InvalidServiceModule: {Retry: final,
		Meaning: "There is no such module, or its script did not return a table of functions.",
		Causes:  "a misspelt module in shield.spawn, or a missing `return M` at the end of the file",
		Cure:    "spawn a name from the services block or the path of a .lua script; end that with `return M`, where M is the table of methods"},
	ScriptLoadFailed: {Retry: final,
		Meaning: "A script could not be read, parsed or run.",
		Causes:  "a missing file, a syntax error, a top level that throws, or a cycle of require",
		Cure:    "open the file at the line the message names"},
	InitFailed: {Retry: final,
		Meaning: "on_init threw or returned false.",
		Causes:  "the service decided that it can't work with these arguments",
		Cure:    "read the reason in the message; check args and config of the service"},
	SpawnTimeout: {Retry: final,
		Meaning: "on_init did not finish within the spawn time-out; the late service is ended.",
		Causes:  "on_init waits for something slow, or for a service that waits for this one",
		Cure:    "raise timeout in shield.spawn, or move slow work out of on_init"},
	SpawnFailed: {Retry: final,
		Meaning: "A service could not be started for a reason other than its script.",
		Causes:  "the node is stopping, or a limit of the node was reached",
		Cure:    "read the reason in the message"},
	RegisterFailed: {Retry: final,
		Meaning: "A name could not be published for this service.",
		Causes:  "the handle belongs to another node or to a service that is gone",
		Cure:    "register names only for live services of this node"},
	UnregisterFailed: {Retry: final,
		Meaning: "A name could not be withdrawn.",
		Causes:  "the name is not published here, or belongs to another service",
		Cure:    "withdraw only names that this service registered"},
	ServiceNotFound: {Retry: again,
		Meaning: "No service with that name is published there (yet).",
		Causes:  "a misspelt name, a service still starting, or one that runs on another node only",
		Cure:    "see `shield routes`; use \"node:name\" or shield.pool for a service of another node"},
	ServiceDead: {Retry: final,
		Meaning: "The handle refers to a service that has ended, or to an earlier start of its node.",
		Causes:  "the service exited, crashed or was restarted after the handle was taken",
		Cure:    "take a new handle with shield.query or address the service by name"},
	MethodNotFound: {Retry: final,
		Meaning: "The service has no method of that name.",
		Causes:  "a misspelt method, a hook (on_...), a local function, or one removed by a reload",
		Cure:    "make it a plain function on the module's table"},
	HandlerError: {Retry: final,
		Meaning: "The handler threw. The message and detail carry its error and Lua traceback.",
		Causes:  "an error in the game's code",
		Cure:    "open the file at the line the message names"},
	HandlerTimeout: {Retry: final,
		Meaning: "The handler ran longer than max_handler_ms without suspending and was aborted.",
		Causes:  "an endless loop, or too much work in one turn",
		Cure:    "split the work with shield.sleep(0), or raise limits.max_handler_ms"},
	Timeout: {Retry: again,
		Meaning: "No reply came before the deadline. The handler may still have run.",
		Causes:  "a slow or stuck callee, a ring of calls, or a deadline that is too short",
		Cure:    "see `shield services` for a growing mailbox; use shield.call_timeout for slow methods"},
	EncodeFailed: {Retry: final,
		Meaning: "A value can't travel in a message; the message names its path.",
		Causes:  "a function, thread or userdata in a table, a cycle, or more than 64 levels",
		Cure:    "send plain data: numbers, strings, booleans, tables, handles, client refs"},
	MessageTooLarge: {Retry: final,
		Meaning: "The encoded values exceed max_message_size.",
		Causes:  "a whole world or inventory in one message",
		Cure:    "send less or in parts, or raise limits.max_message_size"},
	MailboxFull: {Retry: again,
		Meaning: "The target has max_mailbox messages waiting; this one was refused.",
		Causes:  "the service gets more than it can handle, or is stuck in a long handler",
		Cure:    "slow the senders down, or share the work with `instances`"},
	CoroutineLimit: {Retry: final,
		Meaning: "The service has max_coroutines handlers and coroutines in flight.",
		Causes:  "handlers that wait for a service that never answers, or abandoned coroutines",
		Cure:    "see `shield services` for what it waits for; raise limits.max_coroutines"},
	PendingCallLimit: {Retry: final,
		Meaning: "The service already waits for max_pending_calls replies.",
		Causes:  "calls made faster than they are answered",
		Cure:    "use send where no answer is needed; raise limits.max_pending_calls"},
	TimerLimit: {Retry: final,
		Meaning: "The service has max_timers timers.",
		Causes:  "a timer for each event that is never cancelled",
		Cure:    "cancel timers, or use one timer for many things"},
	TimerNotFound: {Retry: final,
		Meaning: "There is no timer with that id in this service.",
		Causes:  "it fired once already, was cancelled, or belongs to another service",
		Cure:    "forget the id when the timer fires or is cancelled"},
	ForkLimit: {Retry: final,
		Meaning: "The service has max_fork_tasks forks in flight.",
		Causes:  "forks that wait for something that never comes",
		Cure:    "bound the number of forks, or raise limits.max_fork_tasks"},
	MemoryLimit: {Retry: final,
		Meaning: "The service went over max_memory and was ended; its restart policy acts.",
		Causes:  "a table that only grows, or a runaway loop that builds strings",
		Cure:    "see the service's biggest tables before it ends; raise limits.max_memory"},
	RuntimeStopping: {Retry: final,
		Meaning: "The node or service is shutting down and takes no new work.",
		Causes:  "a drain, a stop or a restart",
		Cure:    "go to another node"},
	PermissionDenied: {Retry: final,
		Meaning: "The caller may not do that.",
		Causes:  "eval on a production node, a read-only attachment, a path outside the allowed folders, or a kick that is not yours",
		Cure:    "switch the right on in the configuration the message names"},
	ContextExpired: {Retry: final,
		Meaning: "A ctx or client was used after its handler had returned.",
		Causes:  "ctx kept in a table or captured by a timer",
		Cure:    "copy what you need from ctx while the handler runs; keep client:ref() instead of client"},
	APINotAllowedInExit: {Retry: final,
		Meaning: "on_exit called something that suspends.",
		Causes:  "call, sleep or spawn inside on_exit",
		Cure:    "move it to on_shutdown, which may wait"},
	ModuleUnavailable: {Retry: final,
		Meaning: "That part of the runtime is not switched on.",
		Causes:  "shield.cluster.* without cluster.node_id, or shield.client.* without a gateway",
		Cure:    "add the block the message names to shield.yaml"},
	PoolEmpty: {Retry: again,
		Meaning: "No published service matches the pool's pattern.",
		Causes:  "none has started yet, or the nodes that run it are down",
		Cure:    "see `shield routes`"},

	NodeNotFound: {Retry: final,
		Meaning: "No node of that id is known here.",
		Causes:  "a misspelt id, or a peer that was never configured or discovered",
		Cure:    "see `shield nodes`"},
	NodeSuspect: {Retry: again,
		Meaning: "The node's heartbeats are late; it takes no new work until one arrives.",
		Causes:  "a busy or paused process, or a network that loses packets",
		Cure:    "try again in a moment"},
	NodeOffline: {Retry: again,
		Meaning: "The node can't be reached.",
		Causes:  "it stopped, crashed, or the network between is down",
		Cure:    "see `shield nodes` for since when and why"},
	NodeRemoved: {Retry: final,
		Meaning: "The node has been offline so long that it was struck off; it may still come back.",
		Causes:  "removed_timeout passed",
		Cure:    "start it again, or take it out of the configuration"},
	PeerNotAuthenticated: {Retry: final,
		Meaning: "A message came over a connection whose handshake is not finished.",
		Causes:  "a peer that breaks the protocol",
		Cure:    "check what connects to the cluster port"},
	PeerIdentityMismatch: {Retry: final,
		Meaning: "A message claims another source than the node that proved itself on this connection.",
		Causes:  "a peer that breaks the protocol",
		Cure:    "check what connects to the cluster port"},

	SessionClosed: {Retry: final,
		Meaning: "The client's connection is closed.",
		Causes:  "it left, was kicked, or broke a limit",
		Cure:    "wait for the client to connect again"},
	SessionSendQueueFull: {Retry: again,
		Meaning: "The client reads too slowly: its send queue is full.",
		Causes:  "a bad connection, or more pushes than it can take",
		Cure:    "push less often, or raise network.send_queue"},
	ConnectionLimit: {Retry: again,
		Meaning: "The gateway has max_connections clients.",
		Causes:  "a busy hour, or a flood",
		Cure:    "raise network.max_connections or add a gateway"},
	IPLimit: {Retry: final,
		Meaning: "One address has max_per_ip connections.",
		Causes:  "a flood, or many players behind one address",
		Cure:    "raise network.max_per_ip"},
	HandshakeTimeout: {Retry: final,
		Meaning: "The client did not log in within handshake_timeout_ms.",
		Causes:  "a connection that never sends, or a login that never binds",
		Cure:    "log in sooner, or raise network.handshake_timeout_ms"},
	IdleTimeout: {Retry: final,
		Meaning: "Nothing came from the client for idle_timeout_ms.",
		Causes:  "a sleeping phone, or a client that sends no pings",
		Cure:    "send a ping frame now and then"},
	RateLimited: {Retry: again,
		Meaning: "The client sends more frames than allowed; this one was dropped.",
		Causes:  "a client in a loop",
		Cure:    "raise network.rate or the route's rate"},
	DecodeError: {Retry: final,
		Meaning: "A frame's body does not decode with its codec; the handler was not called.",
		Causes:  "client and server disagree on the codec, or a hostile client",
		Cure:    "compare the client's codec with network.protocol.body.provider"},
	FrameTooLarge: {Retry: final,
		Meaning: "A frame is longer than max_frame_size, or its body than the route's max_body.",
		Causes:  "a wrong byte order of the length, or too much in one message",
		Cure:    "send less, or raise the limit"},
	ResumeExpired: {Retry: final,
		Meaning: "The session's resume window is over.",
		Causes:  "the client was away too long",
		Cure:    "log in again"},

	RPCNotAuthenticated: {Retry: final,
		Meaning: "The route needs a bound session and this one is not bound.",
		Causes:  "a frame sent before login",
		Cure:    "log in first, or set auth: false on the route"},
	RPCRouteNotFound: {Retry: final,
		Meaning: "rpc.yaml has no route of that id or name.",
		Causes:  "client and server have different versions of rpc.yaml",
		Cure:    "add the route to rpc.yaml"},
	RPCDirectionRejected: {Retry: final,
		Meaning: "The route goes the other way.",
		Causes:  "a client sent on an s2c route, or a service pushed on a c2s route",
		Cure:    "use a route of the right dir"},
	RPCEpochExpired: {Retry: final,
		Meaning: "The session was bound again after this client or ref was taken.",
		Causes:  "two logins at once, or a ref kept from before the last bind",
		Cure:    "use the ref that bind returned or on_client_bound delivered"},
	RPCOwnerMismatch: {Retry: final,
		Meaning: "The session belongs to another player than the ref says.",
		Causes:  "a ref that was built or kept wrongly",
		Cure:    "use the ref that bind returned or on_client_bound delivered"},
	RPCHandlerMissing: {Retry: final,
		Meaning: "The session's target has no such handler.",
		Causes:  "the session is bound to a service whose script lacks the route's handler",
		Cure:    "add the handler, or bind the session to the right service"},
}
