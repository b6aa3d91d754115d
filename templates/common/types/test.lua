---@meta
-- What a file in tests/ finds beside Lua itself. `shield test` runs it; times are
-- milliseconds or texts such as "500ms", "2m30s", "1d", all of them virtual.
-- docs/testing.md of Shield explains everything.

---@alias Time number|string

---@param name string
---@param body fun()
function describe(name, body) end

---@param name string
---@param body fun()? none: the test is pending
function it(name, body) end

---@param body fun()
function before_each(body) end

---@param body fun()
function after_each(body) end

---@param body fun() once, before the first test of this describe
function setup(body) end

---@param body fun() once, after the last test of this describe
function teardown(body) end

---Inside an it: ends it as pending. Outside: a test that is not written yet.
---@param why string?
function pending(why) end

---@param body fun() after this test, however it ends
function finally(body) end

---Lets virtual time pass.
---@param time Time
function sleep(time) end

---Calls body until it neither throws nor returns false.
---@param body fun(): any
---@param within Time? 5 s
---@param every Time? 10 ms
function eventually(body, within, every) end

cluster = {}

---Ends the cluster there is and starts a fresh one: node-1, node-2, ...
---@param nodes integer? dev.nodes of shield.yaml
function cluster.start(nodes) end

---@param node string
function cluster.stop(node) end

---Ends a node as a crash would: nobody is told.
---@param node string
function cluster.kill(node) end

---Starts a node again; one that runs is stopped first.
---@param node string
function cluster.restart(node) end

---Takes a node out of routing and lets its services finish.
---@param node string
function cluster.drain(node) end

---@param target string|Handle
---@param method string
---@return boolean ok, any ... the results, or an Error
function cluster.call(target, method, ...) end

---As a service of that node would call.
---@param node string
---@param target string|Handle
---@param method string
---@return boolean ok, any ...
function cluster.call_from(node, target, method, ...) end

---@param target string|Handle
---@param method string
---@return boolean ok, Error?
function cluster.send(target, method, ...) end

---Runs Lua inside a service: M is its module.
---@param target string|Handle
---@param source string an expression, or statements
---@return boolean ok, any ...
function cluster.eval(target, source) end

---The rows of `shield nodes --json`, as one node sees the cluster.
---@param node string? the first that runs
---@return table[]
function cluster.nodes(node) end

---The rows of `shield services --json`.
---@param node string? all
---@return table[]
function cluster.services(node) end

---The rows of `shield sessions --json`.
---@param node string? all
---@return table[]
function cluster.sessions(node) end

client = {}

---@class GameClient
local GameClient = {}

---Connects a game client; it is closed when the test ends.
---@param node string? whose gateway; the first there is
---@return GameClient
function client.connect(node) end

---@param route string of rpc.yaml, client to server
---@param body any?
---@return boolean ok, string? why the connection is closed
function GameClient:send(route, body) end

---The oldest push of this route that no expect has taken, waiting for it if need be.
---@param route string of rpc.yaml, server to client
---@param like table|fun(body: any): boolean fields that the body must have, or a check
---@param within Time? 5 s
---@return any body
---@overload fun(self: GameClient, route: string, within: Time?): any
function GameClient:expect(route, like, within) end

---The oldest push that no expect has taken, whatever it is.
---@param within Time? 5 s
---@return string route, any body
function GameClient:next(within) end

---Nothing of this route comes, and none is left from before.
---@param route string
---@param within Time? 1 s
function GameClient:expect_none(route, within) end

---@param reason string? that the server must give
---@param within Time? 5 s
---@return string reason
function GameClient:expect_close(reason, within) end

---@return string? reason nil while it is open
function GameClient:closed() end

function GameClient:close() end

net = {}

---@param a string node
---@param b string node
---@param way "one-way"? only from a to b
function net.cut(a, b, way) end

---Without nodes: ends every cut, delay and loss.
---@param a string?
---@param b string?
---@param way "one-way"?
function net.heal(a, b, way) end

---How long frames take, each way. net.delay("50ms") is for all nodes.
---@param a string
---@param b string
---@param time Time
---@param way "one-way"?
---@overload fun(time: Time)
function net.delay(a, b, time, way) end

---Packets that get lost, from 0 to below 1: links repeat them, so frames come later.
---@param a string
---@param b string
---@param rate number
---@param way "one-way"?
---@overload fun(rate: number)
function net.loss(a, b, rate, way) end

clock = {}

---Lets virtual time pass; a day of timers takes milliseconds.
---@param time Time
function clock.advance(time) end

---The business clock, as shield.now() has it.
---@return number milliseconds
function clock.now() end

---Moves the business clock of all nodes ahead. Timers don't move.
---@param time Time
function clock.shift(time) end

log = {}

---A line that was logged since the test began, or is in time.
---@param pattern string a Lua pattern
---@param where { level: string?, node: string?, service: string? }?
---@param within Time? 5 s
---@return table row
function log.expect(pattern, where, within) end

---@param pattern string
---@param where { level: string?, node: string?, service: string? }?
function log.expect_none(pattern, where) end

---@return table[] rows since the test began
function log.lines() end

---assert is Lua's own when it is called, and busted's luassert otherwise:
---assert.equal, assert.are.same, assert.is_true, assert.is_not_nil, assert.has_error,
---assert.error_matches, assert.near, assert.matches, assert.contains, ...
---@class luassert
assert = {}
