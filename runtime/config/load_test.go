package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

// project writes files into a new folder. A file given as "name" with no text
// is an empty one.
func project(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lines gives what Load says of a project, one line a problem, warnings too.
func lines(t testing.TB, opts Options) []string {
	t.Helper()
	cfg, err := Load(opts)
	var out []string
	var ps Problems
	switch {
	case errors.As(err, &ps):
		for _, p := range ps {
			out = append(out, p.String())
		}
	case err != nil:
		t.Fatalf("Load: %v, want Problems", err)
	default:
		for _, p := range cfg.Warnings {
			out = append(out, p.String())
		}
	}
	return out
}

// The example of DESIGN.md 4.1, whole.
const design = `
app: { name: mygame }
log: { level: info, format: text }                     # or json
lua: { module_path: "lib/?.lua;lib/?/init.lua;?.lua", sandbox: { allow_os: false, allow_io: false } }
services:
  - name: room.public
    script: services/room.lua
    nodes: [node-2, node-3]
    instances: 1
    depends_on: [players]
    config: { seats: 8 }
    restart: { policy: on-failure, max_retries: 5 }
    limits: { max_handler_ms: 2000 }
  - { name: players, script: services/players.lua }
  - { name: auth, script: services/auth.lua }
gateways:
  - name: main
    nodes: [node-1]
    auth: auth
    network:
      tcp: 127.0.0.1:7001
      max_connections: 10000
      protocol: { name: game.v1, envelope: { route_id_bytes: 4, length_bytes: 4, endian: big, max_frame_size: 64KiB }, body: { provider: json } }
cluster:
  node_id: node-1
  listen: 127.0.0.1:9000
  peers: ["127.0.0.1:9001"]
  heartbeat_interval_ms: 2000
  suspect_timeout_ms: 6000
  offline_timeout_ms: 10000
  auth: { type: token, token: "${SHIELD_CLUSTER_TOKEN}", previous_token: "" }
  discovery: { type: redis, host: 127.0.0.1, port: 6379, prefix: "shield:nodes", ttl_seconds: 10 }
shutdown: { service_drain_ms: 30000, service_stop_ms: 10000 }
dev: { nodes: 3 }
`

const designRPC = `
routes:
  - { id: 1001, name: auth.login,    dir: c2s, service: auth,   handler: login, auth: false, max_body: 1KiB }
  - { id: 1002, name: player.move,   dir: c2s, service: players, handler: move, rate: "20/s" }
  - { id: 2001, name: auth.login_ok, dir: s2c }
`

func designFiles() map[string]string {
	return map[string]string{
		"shield.yaml": design, "rpc.yaml": designRPC,
		"services/room.lua": "", "services/players.lua": "", "services/auth.lua": "",
	}
}

func TestDesignExampleLoads(t *testing.T) {
	dir := project(t, designFiles())
	cfg, err := Load(Options{Dir: dir, Environ: []string{"SHIELD_CLUSTER_TOKEN=0123456789abcdef"}})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	room := Service{
		Name: "room.public", Script: "services/room.lua", Nodes: []shield.NodeID{"node-2", "node-3"}, Instances: 1,
		DependsOn: []shield.Name{"players"}, Config: map[string]any{"seats": int64(8)},
		Restart: atDefault[Restart](), Limits: Default().Limits, Pos: Pos{"shield.yaml", 6, 5},
	}
	room.Limits.MaxHandler = 2 * time.Second
	if diff := cmp.Diff(room, cfg.Services[0]); diff != "" {
		t.Errorf("services[0] (-want +have):\n%s", diff)
	}
	if got, want := cfg.Cluster.Auth.Token, "0123456789abcdef"; got != want {
		t.Errorf("token = %q, want %q", got, want)
	}
	if got, want := cfg.Cluster.Discovery.TTL, 10*time.Second; got != want {
		t.Errorf("ttl = %v, want %v", got, want)
	}
	want := []Route{
		{shield.RPCRoute{ID: 1001, Name: "auth.login", Dir: "c2s", Service: "auth", Handler: "login", Codec: "json", MaxBody: 1024}, Pos{"rpc.yaml", 3, 5}},
		{shield.RPCRoute{ID: 1002, Name: "player.move", Dir: "c2s", Auth: true, Service: "players", Handler: "move", Codec: "json", Rate: 20}, Pos{"rpc.yaml", 4, 5}},
		{shield.RPCRoute{ID: 2001, Name: "auth.login_ok", Dir: "s2c", Codec: "json"}, Pos{"rpc.yaml", 5, 5}},
	}
	if diff := cmp.Diff(want, cfg.RPC); diff != "" {
		t.Errorf("RPC (-want +have):\n%s", diff)
	}
}

// twoMachines has two gateways that share an address and no node.
const twoMachines = `services:
  - { name: auth, script: a.lua }
gateways:
  - { name: a, nodes: [node-1], auth: auth, network: { tcp: "0.0.0.0:7001" } }
  - { name: b, nodes: [node-2], auth: auth, network: { tcp: "0.0.0.0:7001" } }
`

func TestProblems(t *testing.T) {
	tests := []struct {
		name string
		yaml string
		rpc  string
		opts Options
		want []string
	}{
		{name: "unknown key", yaml: "clusterr: {}\n",
			want: []string{`shield.yaml:1:1: clusterr: unknown key (did you mean "cluster"?)`}},
		{name: "unknown nested key", yaml: "cluster:\n  heartbeat_intervall_ms: 5\n",
			want: []string{`shield.yaml:2:3: cluster.heartbeat_intervall_ms: unknown key (did you mean "heartbeat_interval_ms"?)`}},
		{name: "unknown key that nothing is near to", yaml: "services:\n  - { name: auth, script: a.lua }\ngateways:\n  - { name: main, auth: auth, network: { tcp: \"127.0.0.1:1\", qqq: 1 } }\n",
			rpc:  "routes: [{ id: 16, name: x, dir: s2c }]",
			want: []string{"shield.yaml:4:62: gateways[0].network.qqq: unknown key (known: " + strings.Join(keysOf(reflect.TypeFor[Network]()), ", ") + ")"}},
		{name: "a script that nothing is near to", yaml: "services:\n  - { name: host, script: qq.lua }\n",
			want: []string{"shield.yaml:2:27: services[0].script: there is no file qq.lua"}},
		{name: "wrong types", yaml: "app: 5\nlog: { level: [a], format: 7 }\nservices: x\ndev: { nodes: three }\nlua: { sandbox: { allow_os: maybe } }\n",
			want: []string{
				"shield.yaml:1:6: app: want a mapping, have the number 5",
				"shield.yaml:2:15: log.level: want text, have a list",
				`shield.yaml:2:28: log.format: want text, have the number 7 (write "7")`,
				`shield.yaml:3:11: services: want a list, have the text "x" (write [x])`,
				`shield.yaml:4:15: dev.nodes: want a whole number, have the text "three"`,
				`shield.yaml:5:29: lua.sandbox.allow_os: want true or false, have the text "maybe"`,
			}},
		{name: "choices", yaml: "log: { level: wran }\ncluster: { discovery: { type: etcd }, auth: { type: mtls, ca: x } }\n",
			want: []string{
				`shield.yaml:1:15: log.level: unknown level "wran" (did you mean "warn"?)`,
				`shield.yaml:2:31: cluster.discovery.type: "etcd" is planned but not in this release (this release has static, redis)`,
				`shield.yaml:2:53: cluster.auth.type: "mtls" is planned but not in this release (this release has none, token)`,
				"shield.yaml:2:63: cluster.auth.ca: is planned but not in this release (leave it out)",
			}},
		{name: "required and duplicate", yaml: "services:\n  - { name: a, script: a.lua }\n  - { name: a, script: a.lua }\n  - { script: a.lua }\n  - { name: b }\n",
			want: []string{
				`shield.yaml:3:13: services[1].name: the name "a" is already taken by services[0] in shield.yaml:2:5`,
				"shield.yaml:4:5: services[2].name: is required: the name it is published under (add name: ...)",
				"shield.yaml:5:5: services[3].script: is required: its Lua file, relative to the project (add script: ...)",
			}},
		{name: "name taken by an instance", yaml: "services:\n  - { name: a, script: a.lua, instances: 2 }\n  - { name: a.2, script: a.lua }\n",
			want: []string{`shield.yaml:3:13: services[1].name: the name "a.2" is already taken by services[0] in shield.yaml:2:5`}},
		{name: "missing script", yaml: "services:\n  - { name: a, script: a.luo }\n",
			want: []string{`shield.yaml:2:24: services[0].script: there is no file a.luo (did you mean "a.lua"?)`}},
		{name: "script outside the project", yaml: "services:\n  - { name: a, script: ../a.lua }\n  - { name: b, script: . }\nlua: { module_path: \"../lib/?.lua;lib/x.lua\" }\n",
			want: []string{
				"shield.yaml:2:24: services[0].script: ../a.lua lies outside the project (scripts are read below the project's folder only)",
				"shield.yaml:3:24: services[1].script: . is a folder (name a .lua file)",
				`shield.yaml:4:21: lua.module_path: "../lib/?.lua" leaves the project (paths are relative to the project)`,
			}},
		{name: "cycle", yaml: "services:\n  - { name: x, script: a.lua }\n  - { name: a, script: a.lua, depends_on: [b] }\n  - { name: b, script: a.lua, depends_on: [c] }\n  - { name: c, script: a.lua, depends_on: [x, a] }\n",
			want: []string{"shield.yaml:3:43: services[1].depends_on: a cycle: a -> b -> c -> a"}},
		{name: "unknown dependency", yaml: "services:\n  - { name: room, script: a.lua, depends_on: [roon, spawned] }\n  - { name: spawned, script: a.lua, instances: 0 }\n",
			want: []string{
				`shield.yaml:2:47: services[0].depends_on[0]: unknown service "roon" (did you mean "room"?)`,
				`shield.yaml:2:53: services[0].depends_on[1]: "spawned" has instances: 0; only shield.spawn starts it, so nothing can wait for it`,
			}},
		{name: "unknown node", yaml: "services:\n  - { name: a, script: a.lua, nodes: [node-1, node-4, node-1] }\ndev: { nodes: 3 }\n",
			want: []string{
				`shield.yaml:2:47: services[0].nodes[1]: unknown node "node-4" (did you mean "node-1"?)`,
				`shield.yaml:2:55: services[0].nodes[2]: "node-1" is listed twice`,
			}},
		{name: "nodes are unknown in production", yaml: "services:\n  - { name: a, script: a.lua, nodes: [gate-1] }\n", want: nil},
		{name: "times", yaml: "cluster: { heartbeat_interval_ms: 49, suspect_timeout_ms: 6000, offline_timeout_ms: 5s }\n",
			want: []string{
				"shield.yaml:1:35: cluster.heartbeat_interval_ms: 49ms is too small, the least is 50ms",
				"shield.yaml:1:85: cluster.offline_timeout_ms: offline_timeout_ms (5s) is not longer than suspect_timeout_ms (6s)",
			}},
		{name: "heartbeat and suspect", yaml: "cluster: { heartbeat_interval_ms: 6000 }\n",
			want: []string{"shield.yaml:1:35: cluster.heartbeat_interval_ms: suspect_timeout_ms (6s) is not longer than heartbeat_interval_ms (6s): every node would be suspect (three heartbeats are a good choice)"}},
		{name: "loopback advertise", yaml: "cluster: { node_id: a, listen: \"127.0.0.1:9000\", peers: [\"10.0.0.2:9000\"] }\n",
			want: []string{`shield.yaml:1:58: warning: cluster.peers[0]: 10.0.0.2:9000 is on another machine, but this node tells others to dial 127.0.0.1:9000 (set cluster.advertise to an address that peer can reach)`}},
		{name: "cluster needs listen and key", yaml: "cluster:\n  node_id: \"a:b\"\n  auth: { type: token }\n",
			want: []string{
				`shield.yaml:2:3: cluster.listen: is required once cluster.node_id is set (such as 127.0.0.1:9000)`,
				`shield.yaml:2:12: cluster.node_id: name "a:b": only letters, digits, '_', '.' and '-' are allowed`,
				"shield.yaml:3:9: cluster.auth.token: type token needs a key (such as \"${SHIELD_CLUSTER_TOKEN}\")",
			}},
		{name: "ports and addresses", yaml: "cluster: { listen: \"127.0.0.1:99999\", peers: [node-2, \"node-3:0\"] }\n",
			want: []string{
				`shield.yaml:1:20: cluster.listen: "99999" is no port (ports go from 0 to 65535)`,
				`shield.yaml:1:47: cluster.peers[0]: "node-2" is no address of a peer (want host:port, such as node-2:9000)`,
				`shield.yaml:1:55: cluster.peers[1]: "0" is no port (ports go from 1 to 65535)`,
			}},
		{name: "sizes and durations", yaml: "limits: { max_message_size: 64kb, max_handler_ms: soon, max_memory: 9999999999999999999GiB, call_timeout_ms: -1 }\n",
			want: []string{
				`shield.yaml:1:29: limits.max_message_size: want a size such as 4096, 64KiB or 1MiB, have "64kb"`,
				`shield.yaml:1:51: limits.max_handler_ms: want a duration such as 500ms, 2s or 1m30s, have "soon"`,
				`shield.yaml:1:69: limits.max_memory: want a size such as 4096, 64KiB or 1MiB, have "9999999999999999999GiB"`,
				`shield.yaml:1:110: limits.call_timeout_ms: -1ms is too small, the least is 1ms`,
			}},
		{name: "duplicate key", yaml: "app: { name: a }\napp: { name: b }\n",
			want: []string{`shield.yaml:2:1: the key "app" is here twice, first in line 1`}},
		{name: "syntax", yaml: "app: { name: a\n", want: []string{`shield.yaml:1:6: YAML: could not find flow mapping end token '}'`}},
		{name: "gateway", yaml: "services:\n  - { name: auth, script: a.lua, nodes: [node-2] }\ngateways:\n  - { name: main, nodes: [node-1], auth: auth }\n  - { name: main, auth: atuh, network: { tcp: \"127.0.0.1:1\", tls: \"127.0.0.1:1\", wss: \"127.0.0.1:2\" } }\n",
			rpc: "routes: [{ id: 16, name: x, dir: s2c }]",
			want: []string{
				`shield.yaml:4:5: gateways[0].network: a gateway needs an address: tcp, tls, ws or wss (such as tcp: 127.0.0.1:7001)`,
				`shield.yaml:4:42: gateways[0].auth: the gateway runs on node-1, where the service "auth" does not (add node-1 to the nodes of auth)`,
				`shield.yaml:5:13: gateways[1].name: the name "main" is already taken by gateways[0] in shield.yaml:4:5`,
				`shield.yaml:5:25: gateways[1].auth: unknown service "atuh" (did you mean "auth"?)`,
				`shield.yaml:5:40: gateways[1].network: tls needs cert and key`,
				`shield.yaml:5:40: gateways[1].network: wss needs cert and key`,
				`shield.yaml:5:67: gateways[1].network.tls: 127.0.0.1:1 is already the address of gateways[1].network.tcp (use another port)`,
			}},
		{name: "one port on three nodes", yaml: "services:\n  - { name: auth, script: a.lua }\ngateways:\n  - { name: main, auth: auth, network: { tcp: \"127.0.0.1:7001\" } }\n",
			rpc: "routes: [{ id: 16, name: x, dir: s2c }]", opts: Options{Dev: true, Nodes: 3},
			want: []string{`shield.yaml:4:47: gateways[0].network.tcp: 3 nodes of this machine can't all listen on port 7001 (give the gateway one node, or use port 0)`}},
		{name: "control needs a token", yaml: "control: { listen: \"tcp://127.0.0.1:8000\" }\n",
			want: []string{`shield.yaml:1:20: control.listen: a port of the control API needs a token (add token: "${SHIELD_CONTROL_TOKEN}")`}},
		{name: "variable not set", yaml: "app: { name: \"${NOPE}\" }\nlog: { level: \"${lvl\" }\n",
			want: []string{
				"shield.yaml:1:14: app.name: the environment variable NOPE is not set (set it, or write a default: ${NAME:default})",
				`shield.yaml:2:15: log.level: "${lvl" is no reference to the environment: it has no closing brace (want ${NAME} or ${NAME:default}; $${ is a literal ${)`,
			}},
		{name: "a secret is not repeated", yaml: "cluster: { auth: { token: 1234567890123456 } }\n",
			want: []string{"shield.yaml:1:27: cluster.auth.token: want text, have something else (write it in quotes)"}},
		{name: "numbers to choose from", yaml: "services:\n  - { name: auth, script: a.lua }\ngateways:\n  - { name: main, auth: auth, network: { tcp: \"127.0.0.1:0\", protocol: { envelope: { length_bytes: 3 } } } }\n",
			rpc:  "routes: [{ id: 16, name: x, dir: s2c }]",
			want: []string{`shield.yaml:4:100: gateways[0].network.protocol.envelope.length_bytes: unknown length bytes "3" (one of 1, 2, 4)`}},
		{name: "the control port is a gateway's", yaml: "control: { listen: \"tcp://127.0.0.1:7001\", token: 0123456789abcdef }\nservices:\n  - { name: auth, script: a.lua }\ngateways:\n  - { name: main, auth: auth, network: { tcp: \"127.0.0.1:7001\" } }\n",
			rpc:  "routes: [{ id: 16, name: x, dir: s2c }]",
			want: []string{`shield.yaml:1:20: control.listen: 127.0.0.1:7001 is already the address of gateways[0].network.tcp (use another port)`}},
		{name: "one address on two machines", yaml: twoMachines, rpc: "routes: [{ id: 16, name: x, dir: s2c }]", want: nil},
		{name: "one address on one machine", yaml: twoMachines, rpc: "routes: [{ id: 16, name: x, dir: s2c }]", opts: Options{Dev: true, Nodes: 2},
			want: []string{`shield.yaml:5:61: gateways[1].network.tcp: 0.0.0.0:7001 is already the address of gateways[0].network.tcp (use another port)`}},
		{name: "a key twice, one of them merged", yaml: "services:\n  - &a { name: a, script: a.lua }\n  - <<: *a\n    name: b\n    name: c\n",
			want: []string{`shield.yaml:5:5: the key "name" is here twice, first in line 4`}},
		{name: "routes", yaml: "services:\n  - { name: auth, script: a.lua }\n",
			rpc: "routes:\n  - { id: 15, name: a, dir: c2s, service: auht, handler: on_login }\n  - { id: 20, name: b, dir: s2c, handler: x, auth: false }\n  - { id: 20, name: b, dir: sideways, codec: jason }\n  - { name: c..d, dir: c2s, codec: protobuf }\n  - { id: 21, name: b.c, dir: s2c, max_body: 1kib, rate: fast }\n",
			want: []string{
				"rpc.yaml:2:11: routes[0].id: 15 is too small, the least is 16",
				`rpc.yaml:2:43: routes[0].service: unknown service "auht" (did you mean "auth"?)`,
				`rpc.yaml:2:58: routes[0].handler: "on_login" is a hook: names that begin with on_ are no methods (rename the method)`,
				"rpc.yaml:3:43: routes[1].handler: means nothing on an s2c route (leave it out)",
				"rpc.yaml:3:52: routes[1].auth: means nothing on an s2c route (leave it out)",
				"rpc.yaml:4:11: routes[2].id: the id 20 is already taken by b in rpc.yaml:3:5",
				`rpc.yaml:4:21: routes[2].name: the name "b" is already taken in rpc.yaml:3:5`,
				`rpc.yaml:4:29: routes[2].dir: unknown dir "sideways" (one of c2s, s2c)`,
				`rpc.yaml:4:46: routes[2].codec: unknown codec "jason" (did you mean "json"?)`,
				"rpc.yaml:5:5: routes[3].handler: a c2s route needs the method that hears it (add handler: ...)",
				"rpc.yaml:5:5: routes[3].id: is required: its number on the wire; 0 to 15 are the gateway's own (add id: ...)",
				"rpc.yaml:5:5: routes[3].service: a c2s route needs the service whose script has the handler (add service: ...)",
				`rpc.yaml:5:13: routes[3].name: "c..d" has an empty part between dots`,
				`rpc.yaml:5:36: routes[3].codec: the codec "protobuf" is planned but not in this release (this release has json, raw, msgpack)`,
				`rpc.yaml:6:21: routes[4].name: "b.c" lies under "b" (rpc.yaml:3:5), which is a route itself`,
				"rpc.yaml:6:46: routes[4].max_body: means nothing on an s2c route (leave it out)",
				`rpc.yaml:6:46: routes[4].max_body: want a size such as 4096, 64KiB or 1MiB, have "1kib"`,
				"rpc.yaml:6:58: routes[4].rate: means nothing on an s2c route (leave it out)",
				`rpc.yaml:6:58: routes[4].rate: want a rate such as 50 or "50/s", have "fast"`,
			}},
		{name: "everything at once", yaml: "nope: 1\nlog: { level: lou", rpc: "routes: [",
			want: []string{
				"rpc.yaml:1:9: YAML: sequence end token ']' not found",
				"shield.yaml:2:6: YAML: could not find flow mapping end token '}'",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"shield.yaml": tt.yaml, "a.lua": ""}
			if tt.rpc != "" {
				files["rpc.yaml"] = tt.rpc
			}
			opts := tt.opts
			opts.Dir = project(t, files)
			if diff := cmp.Diff(tt.want, lines(t, opts)); diff != "" {
				t.Errorf("Load(%q) (-want +have):\n%s", strings.TrimSpace(tt.yaml), diff)
			}
		})
	}
}

func TestNoHiddenFileIsMeant(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".dockerignore", ".env", "shield.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if near := nearFile(filepath.Join(dir, "x.lua")); near != "" {
		t.Errorf("x.lua is taken for %s", near)
	}
}
