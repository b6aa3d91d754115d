package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGlobals warns of names that will be nil where they are called or indexed,
// and of nothing that a script may rightly ask for.
func TestGlobals(t *testing.T) {
	_, r := checked(t, map[string]string{
		"shield.yaml": "services:\n  - { name: auth, script: services/auth.lua }\n  - { name: fine, script: services/fine.lua }\n" +
			"gateways:\n  - { name: main, auth: auth, network: { tcp: \"127.0.0.1:0\" } }\n",
		"rpc.yaml": "routes:\n  - { id: 100, name: auth.login, dir: c2s, service: auth, handler: login, auth: false }\n  - { id: 200, name: room.state, dir: s2c }\n",
		"services/auth.lua": `local M = {}
local players = {}
function M.login(ctx, client, req)
  shield.clients.bind(client, "lobby", req.name)
  shield.client.bnd(client)
  playres[1] = 2
  pirnt("x")
  shield.client_rpc.room.sate(client, {})
  shield.client_rpc.room.state(client, {})
  return strnig.rep("x", 3), string.repp("x", 2), completely_unknown.x
end
return M
`,
		"services/fine.lua": `local M = {}
unpack = table.unpack or unpack
table.unpack = table.unpack or unpack
local bit = bit32 or bit
function string.split(s) return s end
function helper() return config_of_the_game.x end
config_of_the_game = { x = 1 }
local function walk(t) for k, v in pairs(t) do walk(v) end end
function M.f(ctx, ...)
  local n = select("#", ...)
  if jit then n = 1 end
  do local gone = 1 end
  return string.split("x"), helper(), walk({}), arg and arg.n, shield.log.info("x"), math.max(n, 1), M.g()
end
function M.g() return shield.null, os.time(), #shield.names(), shield.pool("a"):pick() end
return M
`,
		"tests/a_test.lua":  `describe("x", function() it("y", function() nope.x() end) end)`,
		"types/shield.lua":  "---@meta\nfunction what.ever() end\n",
		"lib/uses_more.lua": "return function() return math.rnadom(3) end\n",
	})
	var have []string
	for _, p := range r.Problems {
		have = append(have, p.String())
	}
	want := []string{
		"lib/uses_more.lua:1: warning: there is no math.rnadom (did you mean math.random?)",
		"services/auth.lua:4: warning: there is no shield.clients (did you mean shield.client?)",
		"services/auth.lua:5: warning: there is no shield.client.bnd (did you mean shield.client.bind?)",
		"services/auth.lua:6: warning: nothing sets the global playres, so it is nil here (did you mean players?)",
		"services/auth.lua:7: warning: nothing sets the global pirnt, so it is nil here (did you mean print?)",
		"services/auth.lua:8: warning: rpc.yaml has no s2c route room.sate (did you mean room.state?)",
		"services/auth.lua:10: warning: nothing sets the global strnig, so it is nil here (did you mean string?)",
		"services/auth.lua:10: warning: there is no string.repp (did you mean string.rep?)",
		"services/auth.lua:10: warning: nothing sets the global completely_unknown, so it is nil here",
	}
	if diff := cmp.Diff(want, have); diff != "" || r.Failed {
		t.Errorf("problems (-want +have), failed %v:\n%s", r.Failed, diff)
	}
}

// TestGlobalsHidden says nothing of globals where a script sets them by ways that
// can't be seen.
func TestGlobalsHidden(t *testing.T) {
	_, r := checked(t, map[string]string{
		"shield.yaml": "services:\n  - { name: a, script: a.lua }\n",
		"a.lua":       "for k, v in pairs({ go = print }) do _G[k] = v end\nlocal M = {}\nfunction M.f() go('x') shield.selff() end\nreturn M\n",
	})
	if len(r.Problems) != 1 || r.Problems[0].Message != "there is no shield.selff (did you mean shield.self?)" {
		t.Errorf("problems: %v", r.Problems)
	}
}
