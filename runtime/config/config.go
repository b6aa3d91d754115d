package config

import (
	"time"

	"shield/runtime/shield"
)

// The tags of a field:
//
//	key      the key in the file; "-" for what no file can set
//	default  the value when nobody sets the key; absent = the zero value
//	is       the rule for its value (rules.go), "any" when every value is right
//	unit     what a bare number means: ms, s, bytes, per_second
//	doc      one line for people
//	secret   its value is never printed
//	later    "set": the key is planned, and refused until it does something;
//	         else values that are planned, such as "etcd|kubernetes"

// Config is everything a project says about itself, after files, overlay and
// environment were laid over the defaults.
type Config struct {
	App      App       `key:"app" doc:"what the project is called"`
	Log      Log       `key:"log" doc:"what is logged, and how it looks"`
	Lua      Lua       `key:"lua" doc:"the Lua virtual machines"`
	Limits   Limits    `key:"limits" doc:"limits of every service that does not set its own"`
	Services []Service `key:"services" doc:"the services to start, each a Lua file"`
	Gateways []Gateway `key:"gateways" doc:"where clients connect"`
	Cluster  Cluster   `key:"cluster" doc:"how nodes find and trust each other; without node_id nothing of it runs"`
	Control  Control   `key:"control" doc:"a port for the control API, beside its Unix socket"`
	Shutdown Shutdown  `key:"shutdown" doc:"how long a stop may take"`
	Dev      Dev       `key:"dev" doc:"what only shield dev reads"`

	// RPC holds the routes of rpc.yaml with their places.
	RPC []Route `key:"-"`
	// Dir is the project folder, absolute; scripts are relative to it.
	Dir string `key:"-"`
	// Files are the files that were read, in the order they were laid over
	// each other, relative to Dir where they lie inside it.
	Files []string `key:"-"`
	// Warnings are problems that don't stop a start.
	Warnings []Problem `key:"-"`

	origins  map[string]Origin
	sections map[string]Pos
}

// App is the project as a whole.
type App struct {
	Name string `key:"name" default:"shield" is:"name" doc:"shown by every tool"`
}

// Log is what the node writes to its log.
type Log struct {
	Level  string `key:"level" default:"info" is:"debug|info|warn|error" doc:"the least important line that is written"`
	Format string `key:"format" default:"text" is:"text|json" doc:"text for people, json for programs (one object a line)"`
}

// Lua is what all virtual machines share.
type Lua struct {
	ModulePath string  `key:"module_path" default:"lib/?.lua;lib/?/init.lua;?.lua" is:"module_path" doc:"where require looks, relative to the project; ? is the module"`
	Sandbox    Sandbox `key:"sandbox" doc:"what scripts may reach outside Shield"`
}

// Sandbox opens parts of Lua's library that are closed by default.
type Sandbox struct {
	AllowOS bool `key:"allow_os" is:"any" doc:"os.getenv, os.remove, os.rename, os.tmpname"`
	AllowIO bool `key:"allow_io" is:"any" doc:"the io library; a service may have 100 files open"`
	// Folders are what both may touch; see DefaultFolder.
	Folders []string `key:"folders" is:"any" doc:"the only folders that io and os may touch, relative to the project or absolute; absent = data"`
}

// DefaultFolder is the folder that scripts may touch when none is configured.
const DefaultFolder = "data"

// Limits bound one service. Each has an error code and a counter.
type Limits struct {
	MaxMailbox           int           `key:"max_mailbox" default:"65536" is:"1.." doc:"messages that may wait (mailbox_full)"`
	MaxCoroutines        int           `key:"max_coroutines" default:"1000" is:"1.." doc:"handlers and coroutines in flight (coroutine_limit)"`
	MaxPendingCalls      int           `key:"max_pending_calls" default:"1000" is:"1.." doc:"calls that wait for a reply (pending_call_limit)"`
	MaxTimers            int           `key:"max_timers" default:"10000" is:"1.." doc:"timers (timer_limit)"`
	MaxForkTasks         int           `key:"max_fork_tasks" default:"1000" is:"1.." doc:"forks in flight (fork_limit)"`
	MaxMessageSize       int           `key:"max_message_size" default:"1MiB" unit:"bytes" is:"1KiB..64MiB" doc:"size of one message (message_too_large)"`
	MaxHandler           time.Duration `key:"max_handler_ms" default:"5s" unit:"ms" is:"1ms.." doc:"running time of one turn of a handler (handler_timeout)"`
	MaxMemory            int           `key:"max_memory" default:"64MiB" unit:"bytes" is:"1MiB.." doc:"estimated Lua memory (memory_limit)"`
	MaxCallDepth         int           `key:"max_call_depth" default:"200" is:"16..10000" doc:"nested Lua calls (stack overflow)"`
	MaxErrorsBeforePanic int           `key:"max_errors_before_panic" default:"10" is:"1.." doc:"handler errors in a row that end the service"`
	CallTimeout          time.Duration `key:"call_timeout_ms" default:"5s" unit:"ms" is:"1ms.." doc:"how long shield.call waits"`
	SpawnTimeout         time.Duration `key:"spawn_timeout_ms" default:"10s" unit:"ms" is:"1ms.." doc:"how long on_init may take"`
}

// Service is one entry of services.
type Service struct {
	Name      shield.Name     `key:"name" is:"required public_name" doc:"the name it is published under"`
	Script    string          `key:"script" is:"required script" doc:"its Lua file, relative to the project"`
	Nodes     []shield.NodeID `key:"nodes" is:"name" doc:"the nodes that run it; absent = every node"`
	Instances int             `key:"instances" default:"1" is:"0..10000" doc:"0 = only by shield.spawn; 2 and more publish name.1, name.2, ..."`
	DependsOn []shield.Name   `key:"depends_on" is:"name" doc:"services that start before it and stop after it"`
	Config    map[string]any  `key:"config" is:"any" doc:"handed to on_init as args.config; shield.config reads it"`
	Restart   Restart         `key:"restart" doc:"what happens when it ends"`
	Limits    Limits          `key:"limits" doc:"its own limits, over those at the top level"`

	Pos Pos `key:"-"`
}

// Restart says what happens when a service ends.
type Restart struct {
	Policy       string        `key:"policy" default:"on-failure" is:"always|on-failure|never" doc:"always restarts after a normal exit too"`
	InitialDelay time.Duration `key:"initial_delay" default:"1s" unit:"ms" is:"1ms.." doc:"pause before the first restart, 500 (ms) or \"1s\""`
	MaxDelay     time.Duration `key:"max_delay" default:"30s" unit:"ms" is:"1ms.." doc:"the longest pause"`
	Multiplier   float64       `key:"multiplier" default:"2" is:"1..100" doc:"each pause is this many times the one before"`
	MaxRetries   int           `key:"max_retries" default:"5" is:"0.." doc:"restarts in a row before it is left failed; 0 = for ever"`
}

// Gateway is one entry of gateways.
type Gateway struct {
	Name    string          `key:"name" is:"required name" doc:"its name; nodes and tools say node:name"`
	Nodes   []shield.NodeID `key:"nodes" is:"name" doc:"the nodes that run it; absent = every node"`
	Auth    shield.Name     `key:"auth" is:"required name" doc:"the service every new session starts with"`
	Network Network         `key:"network" doc:"its listeners and limits"`

	Pos Pos `key:"-"`
}

// Network is how clients reach a gateway and how much they may do.
type Network struct {
	TCP              string        `key:"tcp" is:"address" doc:"plain TCP, host:port; port 0 = any, printed at start"`
	TLS              string        `key:"tls" is:"address" doc:"TCP inside TLS; needs cert and key"`
	WS               string        `key:"ws" is:"address" doc:"WebSocket, binary messages"`
	WSS              string        `key:"wss" is:"address" doc:"WebSocket inside TLS; needs cert and key"`
	QUIC             string        `key:"quic" is:"address" later:"set" doc:"QUIC; needs cert and key"`
	WSPath           string        `key:"ws_path" default:"/" is:"url_path" doc:"the path of ws and wss"`
	WSOrigins        []string      `key:"ws_origins" is:"any" doc:"origins that browsers may come from; absent = only the same host"`
	Cert             string        `key:"cert" is:"file" doc:"PEM certificate chain for tls, wss and quic"`
	Key              string        `key:"key" is:"file" doc:"PEM private key for tls, wss and quic"`
	MaxConnections   int           `key:"max_connections" default:"10000" is:"1.." doc:"clients at once (connection_limit)"`
	MaxPerIP         int           `key:"max_per_ip" default:"256" is:"1.." doc:"clients from one address (ip_limit)"`
	HandshakeTimeout time.Duration `key:"handshake_timeout_ms" default:"10s" unit:"ms" is:"10ms.." doc:"time to log in (handshake_timeout)"`
	IdleTimeout      time.Duration `key:"idle_timeout_ms" default:"60s" unit:"ms" is:"0.." doc:"silence that ends a session (idle_timeout); 0 = never"`
	SendQueue        int           `key:"send_queue" default:"512" is:"1..1000000" doc:"frames that may wait for a slow reader (session_send_queue_full)"`
	MaxDecodeErrors  int           `key:"max_decode_errors" default:"10" is:"1.." doc:"undecodable bodies that end a session (decode_error)"`
	Rate             float64       `key:"rate" default:"200/s" unit:"per_second" is:"0.." doc:"frames a second and session, 50 or \"50/s\" (rate_limited); 0 = no limit"`
	Burst            int           `key:"burst" is:"0.." doc:"frames at once above the rate; 0 = twice the rate"`
	ResumeWindow     time.Duration `key:"resume_window_ms" unit:"ms" is:"0..1h" later:"set" doc:"time in which a dropped client may resume its session; 0 = off"`
	ForwardRaw       []ForwardRaw  `key:"forward_raw" later:"set" doc:"route ids relayed undecoded to another gateway"`
	Protocol         Protocol      `key:"protocol" doc:"the frame format"`
}

// ForwardRaw relays a range of route ids to another gateway.
type ForwardRaw struct {
	IDs IDRange `key:"ids" is:"required" doc:"one route id, or a range such as 9000-9999"`
	To  string  `key:"to" is:"required gateway" doc:"node:gateway"`
}

// IDRange is a range of route ids, both ends included.
type IDRange struct{ First, Last shield.RouteID }

// Protocol is the frame format of a gateway.
type Protocol struct {
	Name     string   `key:"name" default:"game.v1" is:"name" doc:"told to services in a client's profile"`
	Envelope Envelope `key:"envelope" doc:"the header of a frame"`
	Body     Body     `key:"body" doc:"how bodies are encoded"`
}

// Envelope is the header of a frame: a route id, then the body's length.
type Envelope struct {
	RouteIDBytes int    `key:"route_id_bytes" default:"4" is:"1|2|4" doc:"width of the route id"`
	LengthBytes  int    `key:"length_bytes" default:"4" is:"1|2|4" doc:"width of the length"`
	Endian       string `key:"endian" default:"big" is:"big|little" doc:"byte order of both"`
	MaxFrameSize int    `key:"max_frame_size" default:"64KiB" unit:"bytes" is:"16..16MiB" doc:"longest frame, header included (frame_too_large)"`
}

// Body is how the bodies of a gateway's frames are encoded.
type Body struct {
	Provider string `key:"provider" is:"codec" doc:"json, raw or msgpack for every route; absent = each route's codec"`
}

// Cluster is how a node joins others.
type Cluster struct {
	Name              string        `key:"name" default:"shield" is:"name" doc:"nodes of another cluster name are refused"`
	NodeID            shield.NodeID `key:"node_id" is:"name" doc:"unique in the cluster; switches the cluster on"`
	Listen            string        `key:"listen" is:"address" doc:"UDP host:port for the other nodes; 0.0.0.0 and * mean all interfaces"`
	Advertise         string        `key:"advertise" is:"address" doc:"the host:port others should dial; absent = listen"`
	Peers             []string      `key:"peers" is:"peer" doc:"host:port of other nodes"`
	HeartbeatInterval time.Duration `key:"heartbeat_interval_ms" default:"2s" unit:"ms" is:"50ms.." doc:"pause between heartbeats"`
	SuspectTimeout    time.Duration `key:"suspect_timeout_ms" default:"6s" unit:"ms" is:"1ms.." doc:"silence that makes a node suspect"`
	OfflineTimeout    time.Duration `key:"offline_timeout_ms" default:"10s" unit:"ms" is:"1ms.." doc:"silence that makes a node offline"`
	RemovedTimeout    time.Duration `key:"removed_timeout_ms" default:"60s" unit:"ms" is:"1ms.." doc:"time offline after which a node is struck off"`
	Auth              Auth          `key:"auth" doc:"how nodes prove who they are"`
	Discovery         Discovery     `key:"discovery" doc:"how nodes find each other"`
}

// Auth is how nodes prove who they are.
type Auth struct {
	Type          string        `key:"type" default:"none" is:"none|token" later:"mtls" doc:"none is for a closed network only and warns at every start"`
	Token         string        `key:"token" is:"any" secret:"yes" doc:"the shared key of type token"`
	PreviousToken string        `key:"previous_token" is:"any" secret:"yes" doc:"also accepted while keys are rotated"`
	CA            string        `key:"ca" is:"file" later:"set" doc:"PEM certificates that type mtls trusts"`
	Cert          string        `key:"cert" is:"file" later:"set" doc:"PEM certificate of this node for type mtls; node_id must match a SAN"`
	Key           string        `key:"key" is:"file" later:"set" doc:"PEM private key of this node for type mtls"`
	MaxClockSkew  time.Duration `key:"max_clock_skew_ms" unit:"ms" is:"0.." doc:"refuse nodes whose clock differs by more; 0 = off"`
}

// Discovery is where candidates for peers come from, beside cluster.peers.
type Discovery struct {
	Type              string        `key:"type" default:"static" is:"static|redis" later:"etcd|kubernetes|broadcast" doc:"static is cluster.peers alone"`
	Host              string        `key:"host" default:"127.0.0.1" is:"host" doc:"of the Redis server"`
	Port              int           `key:"port" default:"6379" is:"1..65535" doc:"of the Redis server"`
	Password          string        `key:"password" is:"any" secret:"yes" doc:"of the Redis server"`
	DB                int           `key:"db" is:"0..1000000" doc:"number of the Redis database"`
	Prefix            string        `key:"prefix" default:"shield:nodes" is:"required" doc:"of the Redis keys"`
	TTL               time.Duration `key:"ttl_seconds" default:"10s" unit:"s" is:"1s.." doc:"how long a crashed node stays listed"`
	HeartbeatInterval time.Duration `key:"heartbeat_interval_ms" default:"3s" unit:"ms" is:"50ms.." doc:"pause between renewals"`
	ScanInterval      time.Duration `key:"scan_interval_ms" default:"3s" unit:"ms" is:"50ms.." doc:"pause between scans"`
}

// Control adds a port to the control API.
type Control struct {
	Listen    string `key:"listen" is:"control_address" doc:"tcp://host:port; only with a token"`
	Token     string `key:"token" is:"any" secret:"yes" doc:"what tools must send to that port"`
	AllowEval bool   `key:"allow_eval" is:"any" doc:"whether eval is allowed outside shield dev"`
}

// Shutdown is how long a stop may take.
type Shutdown struct {
	Drain time.Duration `key:"service_drain_ms" default:"30s" unit:"ms" is:"0..24h" doc:"for on_shutdown of all services"`
	Stop  time.Duration `key:"service_stop_ms" default:"10s" unit:"ms" is:"0..24h" doc:"for everything after it"`
}

// Dev is what only shield dev reads.
type Dev struct {
	Nodes int `key:"nodes" default:"1" is:"1..64" doc:"how many nodes shield dev starts: node-1, node-2, ..."`
}

// Route is one route of rpc.yaml and its place.
type Route struct {
	shield.RPCRoute
	Pos Pos
}
