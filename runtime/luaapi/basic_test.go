package luaapi_test

import (
	"testing"

	"shield/runtime/shield"
)

func TestCall(t *testing.T) {
	n := start(t, scripts{
		"echo.lua": `
local M = {}
function M.echo(ctx, ...) return ... end
function M.add(ctx, a, b) return a + b end
function M.three() return 1, nil, nil end
function M.boom() error("kaboom") end
return M`,
		"front.lua": `
local M = {}
function M.call(ctx, ...) return shield.call(...) end
function M.code(ctx, ...) local ok, err = shield.call(...) return ok, err.code, tostring(err), err.retryable end
return M`,
	}, nil)
	n.want(`[3]`, "echo", "add", 1, 2)
	n.want(`[1,null,null]`, "echo", "three")
	n.want(`[true,3]`, "front", "call", "echo", "add", 1, 2)
	n.want(`[true,1,null,null]`, "front", "call", "echo", "three")
	n.want(`[true,{"a":[1,2,3]}]`, "front", "call", "node-1:echo", "echo", map[string]any{"a": []any{1, 2, 3}})
	n.wantError(shield.HandlerError, "echo.lua:6: kaboom", "echo", "boom")
	n.wantError(shield.MethodNotFound, "did you mean echo?", "echo", "ecko")
	n.wantError(shield.ServiceNotFound, `did you mean "echo"?`, "ecko", "echo")
	n.wantError(shield.InvalidMethod, "hook", "echo", "on_init")
	n.wantError(shield.InvalidTarget, "", "a:b:c", "echo")
	n.wantError(shield.ModuleUnavailable, "cluster.node_id", "node-9:echo", "echo")
}
