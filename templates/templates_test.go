package templates

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"shield/runtime/config"
	"shield/runtime/luaapi"
	"shield/runtime/luavm"
)

// write puts a template into a new folder, as shield new does.
func write(t *testing.T, template string) string {
	t.Helper()
	files, err := Files(template, Data{Name: "my-game", Token: strings.Repeat("0123", 16)})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, f.Mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTemplatesAreValid(t *testing.T) {
	for _, name := range Names() {
		dir := write(t, name)
		for what, opts := range map[string]config.Options{
			"dev": {Dir: dir, Dev: true, Nodes: 3},
			"run": {Dir: dir},
		} {
			cfg, err := config.Load(opts)
			if err != nil {
				t.Fatalf("%s, %s:\n%v", name, what, err)
			}
			if len(cfg.Warnings) > 0 {
				t.Errorf("%s, %s: warnings %v", name, what, cfg.Warnings)
			}
			if cfg.App.Name != "my-game" {
				t.Errorf("%s: app.name = %q", name, cfg.App.Name)
			}
		}
	}
}

func TestNodesOfTheArenaAreValid(t *testing.T) {
	dir := write(t, "arena")
	for _, node := range []string{"node-1", "node-2"} {
		cfg, err := config.Load(config.Options{Dir: dir, Overlay: filepath.Join(dir, node+".yaml")})
		if err != nil {
			t.Fatalf("%s: %v", node, err)
		}
		if cfg.Cluster.Auth.Token != strings.Repeat("0123", 16) {
			t.Errorf("%s does not get its token from .env", node)
		}
	}
}

// A gateway in a container must be reachable from outside, and a project without
// one must not promise a port.
func TestContainersListen(t *testing.T) {
	for _, name := range Names() {
		dir := write(t, name)
		text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
		if err != nil {
			t.Fatal(err)
		}
		opts := config.Options{Dir: dir}
		for _, m := range regexp.MustCompile(`(?m)^ENV (\S+)$`).FindAllStringSubmatch(string(text), -1) {
			opts.Environ = append(opts.Environ, m[1])
		}
		cfg, err := config.Load(opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range cfg.Gateways {
			if !strings.HasPrefix(g.Network.TCP, "0.0.0.0:") {
				t.Errorf("%s: in its container gateway %s listens on %s", name, g.Name, g.Network.TCP)
			}
		}
		if exposes := strings.Contains(string(text), "EXPOSE 7001/tcp"); exposes != (len(cfg.Gateways) > 0) {
			t.Errorf("%s: %d gateways, and the Dockerfile publishes their port: %v", name, len(cfg.Gateways), exposes)
		}
	}
}

// TestHandlersExist holds rpc.yaml to the scripts by text; the node does it by
// loading them.
func TestHandlersExist(t *testing.T) {
	dir := write(t, "arena")
	cfg, err := config.Load(config.Options{Dir: dir, Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range cfg.RPC {
		if r.Handler == "" {
			continue
		}
		src, err := os.ReadFile(filepath.Join(dir, "services", string(r.Service)+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(src, []byte("function M."+r.Handler+"(ctx, client, request)")) {
			t.Errorf("%s: services/%s.lua has no handler %s", r.Pos, r.Service, r.Handler)
		}
	}
}

func TestLuaParses(t *testing.T) {
	for _, name := range Names() {
		files, err := Files(name, Data{Name: "x", Token: "y"})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if filepath.Ext(f.Path) != ".lua" {
				continue
			}
			if _, err := parse.Parse(bytes.NewReader(f.Data), f.Path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestFilesOfTheArena(t *testing.T) {
	files, err := Files("arena", Data{Name: "g", Token: "t0k3n"})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, f := range files {
		have = append(have, f.Path)
		if bytes.Contains(f.Data, []byte("@NAME@")) || bytes.Contains(f.Data, []byte("@TOKEN@")) {
			t.Errorf("%s: a place for a name or token is left", f.Path)
		}
		if (f.Path == ".env") != bytes.Contains(f.Data, []byte("t0k3n")) {
			t.Errorf("%s: the token belongs into .env and nowhere else", f.Path)
		}
		if f.Path == ".env" && f.Mode != 0o600 {
			t.Errorf(".env has mode %v, want 0600", f.Mode)
		}
	}
	want := []string{
		".dockerignore", ".env", ".github/workflows/check.yml", ".gitignore", ".luarc.json", "Dockerfile", "README.md",
		"lib/policy.lua", "node-1.yaml", "node-2.yaml", "rpc.yaml",
		"services/auth.lua", "services/player.lua", "services/players.lua", "services/room.lua", "shield.yaml",
		"tests/cluster_test.lua", "tests/policy_test.lua", "tests/room_test.lua",
		"types/rpc.schema.json", "types/shield.lua", "types/shield.schema.json", "types/test.lua",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("files (-want +have):\n%s", diff)
	}
	if _, err := Files("nope", Data{}); err == nil {
		t.Error("Files(nope): no error")
	}
}

// TestSchemasAreFresh holds the schemas that projects get to the configuration.
// SHIELD_UPDATE=1 rewrites them.
func TestSchemasAreFresh(t *testing.T) {
	for name, want := range map[string][]byte{"shield.schema.json": config.Schema(), "rpc.schema.json": config.RPCSchema()} {
		path := filepath.Join("common", "types", name)
		if os.Getenv("SHIELD_UPDATE") == "1" {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is old; refresh it with: SHIELD_UPDATE=1 go test ./templates", path)
		}
	}
}

// TestTypesMatchTheAPI holds types/shield.lua to what scripts really see.
func TestTypesMatchTheAPI(t *testing.T) {
	src, err := files.ReadFile("common/types/shield.lua")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(?:function )?([A-Za-z]+[.:][a-z_.]+)`).FindAllStringSubmatch(string(src), -1) {
		have[m[1]] = true
	}
	api := luaapi.New()
	want := map[string]bool{}
	var walk func(lib luavm.Lib, path string)
	walk = func(lib luavm.Lib, path string) {
		for name, v := range lib {
			at := path + "." + name
			if sub, ok := v.(luavm.Lib); ok {
				want[at] = true
				if name != "client_rpc" { // its fields are the project's own
					walk(sub, at)
				}
				continue
			}
			want[at] = true
		}
	}
	walk(api.Shield, "shield")
	for class, meta := range map[string]*lua.LTable{"Handle": api.Handle, "ClientRef": api.ClientRef, "Client": api.Client} {
		meta.RawGetString("__index").(*lua.LTable).ForEach(func(name, _ lua.LValue) { want[class+":"+name.String()] = true })
	}
	for _, name := range []string{"pick", "send", "call"} {
		want["Pool:"+name] = true
	}
	want["shield.null"] = bytes.Contains(src, []byte("---@field null "))
	have["shield.null"] = true
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("types/shield.lua (-API +types):\n%s", diff)
	}
}
