package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/shield"
)

func mustLoad(t testing.TB, opts Options) *Config {
	t.Helper()
	cfg, err := Load(opts)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return cfg
}

func TestOverlayLiesOver(t *testing.T) {
	dir := project(t, map[string]string{
		"shield.yaml": "app: { name: game }\ncluster: { heartbeat_interval_ms: 1000, peers: [\"a:1\", \"b:1\"] }\nservices: [{ name: s, script: s.lua, limits: { max_timers: 5 } }]\nlimits: { max_timers: 7, max_mailbox: 9 }\n",
		"node-1.yaml": "cluster:\n  node_id: node-1\n  listen: 127.0.0.1:9000\n  peers: [\"127.0.0.1:9001\"]\n",
		"s.lua":       "",
	})
	cfg := mustLoad(t, Options{Dir: dir, Overlay: filepath.Join(dir, "node-1.yaml")})
	if diff := cmp.Diff([]string{"127.0.0.1:9001"}, cfg.Cluster.Peers); diff != "" {
		t.Errorf("a list is replaced, not merged:\n%s", diff)
	}
	if got := cfg.Cluster.HeartbeatInterval; got != time.Second {
		t.Errorf("heartbeat = %v, want the base file's 1s", got)
	}
	if l := cfg.Services[0].Limits; l.MaxTimers != 5 || l.MaxMailbox != 9 {
		t.Errorf("service limits = %d timers, %d mailbox; want its own 5 and the top level's 9", l.MaxTimers, l.MaxMailbox)
	}
	for path, want := range map[string]string{
		"cluster.node_id":                "node-1.yaml:2",
		"cluster.heartbeat_interval_ms":  "shield.yaml:2",
		"cluster.peers":                  "node-1.yaml:4",
		"services[0].name":               "shield.yaml:3",
		"services[0].limits.max_timers":  "shield.yaml:3",
		"services[0].limits.max_mailbox": "shield.yaml:4",
		"services[0].instances":          "default",
		"cluster.listen":                 "node-1.yaml:3",
		"cluster.advertise":              "default",
		"log.level":                      "default",
	} {
		if got := cfg.Origin(path).String(); got != want {
			t.Errorf("origin of %s = %s, want %s", path, got, want)
		}
	}
	if diff := cmp.Diff([]string{"shield.yaml", "node-1.yaml"}, cfg.Files); diff != "" {
		t.Errorf("files:\n%s", diff)
	}
}

func TestOverlayMayBeAllThereIs(t *testing.T) {
	dir := project(t, map[string]string{"node-1.yaml": "cluster: { node_id: node-1, listen: \"127.0.0.1:9000\" }\n"})
	cfg := mustLoad(t, Options{Overlay: filepath.Join(dir, "node-1.yaml")})
	if cfg.Dir != dir || cfg.Cluster.NodeID != "node-1" {
		t.Errorf("dir %s, node %s; want %s, node-1", cfg.Dir, cfg.Cluster.NodeID, dir)
	}
}

func TestNothingThere(t *testing.T) {
	dir := t.TempDir()
	got := lines(t, Options{Dir: dir, Overlay: filepath.Join(dir, "x.yaml")})
	want := []string{"x.yaml: there is no such file"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = lines(t, Options{Dir: dir})
	want = []string{"there is no shield.yaml in " + dir + " (shield new makes a project)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVariables(t *testing.T) {
	dir := project(t, map[string]string{
		"shield.yaml": `app: { name: "${APP:plain}-x" }
dev:
  nodes: ${NODES:4}
lua: { sandbox: { allow_io: "${IO:false}" } }
control: { token: "$${NOT}${SECRET}" }
services:
  - name: s
    script: s.lua
    nodes: "${WHERE:node-1,node-2}"
    config:
      seats: ${SEATS:8}
      motto: "${SEATS:8}"
      pay: 12345678901234567890
      none: null
`,
		".env":  "# of this machine\nexport SECRET=\"from dotenv\"\nNODES=9\n",
		"s.lua": "",
	})
	cfg := mustLoad(t, Options{Dir: dir, Environ: []string{"NODES=5", "IO=true"}})
	if got := cfg.App.Name; got != "plain-x" {
		t.Errorf("app.name = %q, want the default in place", got)
	}
	if cfg.Dev.Nodes != 5 {
		t.Errorf("dev.nodes = %d, want 5: the process's environment wins over .env", cfg.Dev.Nodes)
	}
	if !cfg.Lua.Sandbox.AllowIO {
		t.Error("allow_io = false, want the text true to count as true")
	}
	if got := cfg.Control.Token; got != "${NOT}from dotenv" {
		t.Errorf("control.token = %q", got)
	}
	if diff := cmp.Diff([]shield.NodeID{"node-1", "node-2"}, cfg.Services[0].Nodes); diff != "" {
		t.Error(diff)
	}
	want := map[string]any{"seats": int64(8), "motto": "8", "pay": 12345678901234567890.0, "none": nil}
	if diff := cmp.Diff(want, cfg.Services[0].Config); diff != "" {
		t.Errorf("config (-want +have):\n%s", diff)
	}
	if got, want := cfg.Origin("dev.nodes").String(), "shield.yaml:3, env NODES"; got != want {
		t.Errorf("origin = %q, want %q", got, want)
	}
}

// TestAnchors shows that an alias is what its anchor was, that a mapping's own
// keys win over merged ones wherever they stand, and that a literal ${ stays one.
func TestAnchors(t *testing.T) {
	dir := project(t, map[string]string{"s.lua": "", "shield.yaml": `services:
  - &base
    name: a
    script: s.lua
    config: { first: &first "$${HOME}", again: *first }
    restart: { policy: never }
  - <<: *base
    name: b
    restart: { policy: always }
  - { name: c, <<: *base }
`})
	cfg := mustLoad(t, Options{Dir: dir, Environ: []string{"HOME=/home/ann"}})
	var have []string
	for _, s := range cfg.Services {
		have = append(have, string(s.Name)+" "+s.Script+" "+s.Restart.Policy)
		if diff := cmp.Diff(map[string]any{"first": "${HOME}", "again": "${HOME}"}, s.Config); diff != "" {
			t.Errorf("%s: config (-want +have):\n%s", s.Name, diff)
		}
	}
	if diff := cmp.Diff([]string{"a s.lua never", "b s.lua always", "c s.lua never"}, have); diff != "" {
		t.Errorf("services (-want +have):\n%s", diff)
	}
}

// A reload must not take an empty file for a wish to have no routes.
func TestAnEmptyFileOfRoutes(t *testing.T) {
	for src, want := range map[string]string{
		"": "rpc.yaml: there is nothing in it (write routes: [] for none)", "# soon\n": "rpc.yaml: there is nothing in it (write routes: [] for none)",
		"routes: []\n": "", "routes:\n": "",
	} {
		said := ""
		if _, err := ParseRPC(RPCFileName, []byte(src), Default()); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("ParseRPC(%q) = %q, want %q", src, said, want)
		}
	}
	dir := project(t, map[string]string{"shield.yaml": "app: { name: a }\n", "rpc.yaml": ""})
	if got := lines(t, Options{Dir: dir}); len(got) > 0 {
		t.Errorf("Load = %q, want no problem: a start may have no routes", got)
	}
}

func TestOverrides(t *testing.T) {
	dir := project(t, map[string]string{
		"shield.yaml": "services:\n  - { name: a, script: s.lua, config: { Seats: 1 } }\n  - { name: b, script: s.lua }\ndev: { nodes: 3 }\n", "s.lua": ""})
	cfg := mustLoad(t, Options{Dir: dir, Environ: []string{
		"SHIELD__CLUSTER__NODE_ID=node-7",
		"SHIELD__CLUSTER__LISTEN=127.0.0.1:0",
		"SHIELD__CLUSTER__PEERS=127.0.0.1:1, 127.0.0.1:2",
		"SHIELD__SERVICES__1__INSTANCES=2",
		"SHIELD__SERVICES__0__NODES=[node-1, node-2]",
		"SHIELD__SERVICES__0__CONFIG__SEATS=16",
		"SHIELD__SERVICES__2={name: c, script: s.lua}",
	}})
	if diff := cmp.Diff([]string{"127.0.0.1:1", "127.0.0.1:2"}, cfg.Cluster.Peers); diff != "" {
		t.Error(diff)
	}
	if len(cfg.Services) != 3 || cfg.Services[1].Instances != 2 || cfg.Services[2].Name != "c" {
		t.Errorf("services = %+v", cfg.Services)
	}
	if diff := cmp.Diff(map[string]any{"Seats": int64(16)}, cfg.Services[0].Config); diff != "" {
		t.Error(diff)
	}
	if got, want := cfg.Origin("cluster.node_id").String(), "env SHIELD__CLUSTER__NODE_ID"; got != want {
		t.Errorf("origin = %q, want %q", got, want)
	}

	got := lines(t, Options{Dir: dir, Environ: []string{
		"SHIELD__CLUSTER__NODEID=x", "SHIELD__DEV__NODES=many", "SHIELD__SERVICES__9__NAME=x", "SHIELD____=", "SHIELD__CLUSTER__PEERS=[",
	}})
	want := []string{
		`env SHIELD__CLUSTER__NODEID: cluster.nodeid: unknown key (did you mean "node_id"?)`,
		"env SHIELD__CLUSTER__PEERS:1:1: YAML: sequence end token ']' not found",
		`env SHIELD__DEV__NODES: dev.nodes: want a whole number, have "many"`,
		`env SHIELD__SERVICES__9__NAME: "9" is no entry of a list of 2; they count from 0`,
		"env SHIELD____: an empty part between underscores; want SHIELD__SECTION__KEY",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +have):\n%s", diff)
	}
}

func TestDevNeedsNoSecrets(t *testing.T) {
	dir := project(t, map[string]string{"shield.yaml": "cluster: { node_id: x, auth: { type: token, token: \"${NOPE}\" } }\ncontrol: { token: \"${NOPE}\" }\n"})
	want := []string{"shield.yaml:2:19: control.token: the environment variable NOPE is not set (set it, or write a default: ${NAME:default})"}
	if diff := cmp.Diff(want, lines(t, Options{Dir: dir, Dev: true})); diff != "" {
		t.Error(diff)
	}
}

// TestVariableNearby names the variable that the project has under almost that
// name.
func TestVariableNearby(t *testing.T) {
	dir := project(t, map[string]string{".env": "SHIELD_CLUSTER_TOKEN=0123456789abcdef\n",
		"shield.yaml": "cluster: { node_id: x, listen: 127.0.0.1:0, auth: { type: token, token: \"${SHIELD_CLUSTER_TOKN}\" } }\n"})
	want := []string{"shield.yaml:1:73: cluster.auth.token: the environment variable SHIELD_CLUSTER_TOKN is not set, but SHIELD_CLUSTER_TOKEN is (set it, or write a default: ${NAME:default})"}
	if diff := cmp.Diff(want, lines(t, Options{Dir: dir})); diff != "" {
		t.Error(diff)
	}
}

func TestForNode(t *testing.T) {
	dir := project(t, designFiles())
	cfg := mustLoad(t, Options{Dir: dir, Dev: true})
	n2 := cfg.ForNode(Node{ID: "node-2", Listen: "127.0.0.1:0", Peers: []string{"127.0.0.1:5"}, Token: "0123456789abcdef"})
	if cfg.Cluster.NodeID != "node-1" {
		t.Error("ForNode changed its receiver")
	}
	if c := n2.Cluster; c.NodeID != "node-2" || c.Discovery.Type != "static" || c.Auth.Type != "token" || c.HeartbeatInterval != 2*time.Second {
		t.Errorf("cluster = %+v", c)
	}
	for _, path := range []string{"cluster.node_id", "cluster.peers[0]", "cluster.auth.token", "cluster.discovery.type"} {
		if o := n2.Origin(path); o.Source != FromDev {
			t.Errorf("origin of %s = %v, want dev", path, o)
		}
	}
	if ps := n2.Validate(Options{}); len(ps) > 0 {
		t.Errorf("Validate = %v", ps)
	}
}

func TestServicesOnStartsDependenciesFirst(t *testing.T) {
	dir := project(t, map[string]string{"s.lua": "", "shield.yaml": `services:
  - { name: c, script: s.lua, depends_on: [b, a] }
  - { name: b, script: s.lua, nodes: [node-2] }
  - { name: a, script: s.lua, depends_on: [b] }
  - { name: d, script: s.lua, instances: 0 }
`})
	cfg := mustLoad(t, Options{Dir: dir})
	for node, want := range map[shield.NodeID]string{"node-1": "a c d", "node-2": "b a c d", shield.LocalNode: "b a c d"} {
		var names []string
		for _, s := range cfg.ServicesOn(node) {
			names = append(names, string(s.Name))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("ServicesOn(%s) = %s, want %s", node, got, want)
		}
	}
}

func TestFindLooksUp(t *testing.T) {
	dir := project(t, map[string]string{"shield.yaml": "", "a/b/x": ""})
	if got, ok := Find(filepath.Join(dir, "a", "b")); !ok || got != dir {
		t.Errorf("Find = %q, %v; want %q", got, ok, dir)
	}
	if _, ok := Find(filepath.Dir(dir)); ok {
		t.Error("Find above the project found one")
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := project(t, map[string]string{"rpc.yaml": "\xff\xfe"})
	if err := os.Mkdir(filepath.Join(dir, "shield.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`rpc.yaml:1: is not UTF-8 (save the file as UTF-8)`,
		"shield.yaml: can't be read: is a directory",
	}
	if diff := cmp.Diff(want, lines(t, Options{Dir: dir})); diff != "" {
		t.Error(diff)
	}
}

// TestHostileFiles holds the bounds: deep, wide and self-referring files are
// refused quickly.
func TestHostileFiles(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	var stairs strings.Builder
	for i := range 1400 {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, src := range map[string]string{
		"billion laughs": bomb,
		"flow depth":     strings.Repeat("[", 500_000),
		"block depth":    strings.Repeat("- ", 500_000) + "x",
		"stairs":         stairs.String(),
		"itself":         "a: &a\n  b: *a\n",
		"tag chain":      strings.Repeat("!a ", 300_000),
		"too big":        strings.Repeat("#", maxFileSize+1),
	} {
		start := time.Now()
		if _, ps := parseYAML("f", []byte(src)); len(ps) == 0 {
			t.Errorf("%s: no problem, want one", name)
		}
		if d := time.Since(start); d > 15*time.Second { // generous: the race detector on a busy machine
			t.Errorf("%s took %v", name, d)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(design), []byte(designRPC), "SHIELD__DEV__NODES=2")
	f.Add([]byte("a: &a {b: *a}\n<<: *a"), []byte("routes:\n- <<: [x]\n"), "SHIELD__SERVICES__0=[")
	f.Add([]byte("services: [{config: {a: ${X:1}, 1: 2}}, null, !t x]"), []byte("- \n? a\n: b"), "SHIELD__A__B__C=")
	f.Add([]byte("%YAML 1.2\n---\n'a': |\n b\n...\n---\n"), []byte("\xef\xbb\xbfroutes: []\r\n"), "X")
	f.Fuzz(func(t *testing.T, yaml, rpc []byte, env string) {
		l, err := newLoader(Options{Dir: "/nowhere", Environ: []string{env, "X=y"}})
		if err != nil {
			t.Fatal(err)
		}
		root, _ := parseYAML("shield.yaml", yaml)
		root, _ = l.env.override(root)
		x := &expander{env: l.env}
		x.expand(root, "")
		cfg := l.decode(root)
		cfg.RPC, _ = parseRPC("rpc.yaml", rpc, cfg)
		v := &validator{c: cfg, bad: l.broken}
		v.all()
		for _, p := range v.problems {
			_ = p.String()
		}
		cfg.Values()
		cfg.Table()
		cfg.ServicesOn("node-1")
		cfg.Clone()
		l.env.readDotenv(".env", yaml)
	})
}
