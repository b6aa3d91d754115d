---@meta shield
-- What editors need to know of the shield API (Lua language server, LuaLS).
-- This file is never run.

---Opaque reference to a service. Equal handles are the same value within one
---service, so they work as table keys; they may be sent to other services.
---@class shield.Handle
local Handle = {}
---Number of the service on its node. Ids are never reused.
---@return integer
function Handle:id() end
---The node it lives on.
---@return string
function Handle:node() end
---False when the service is known to be gone. True promises nothing: it may end
---any moment.
---@return boolean
function Handle:valid() end

---A session at one epoch of its binding. It may be stored and sent to other
---services, and goes stale at the next bind.
---@class shield.ClientRef
local ClientRef = {}
---Who was bound to it.
---@return string? player nil before login
function ClientRef:player_id() end
---Id of the connection, as tools show it.
---@return string
function ClientRef:session() end
---Rises at each bind.
---@return integer
function ClientRef:epoch() end
---The gateway it came through: "node:name".
---@return string
function ClientRef:gateway() end
---Itself, so that code can take a client or a ref.
---@return shield.ClientRef
function ClientRef:ref() end

---What the handler of a client RPC gets as `client`: read-only, and gone when
---the handler returns. Keep client:ref() instead.
---@class shield.Client
local Client = {}
---Who is bound to it.
---@return string? player nil before login
function Client:player_id() end
---Id of the connection, as tools show it.
---@return string
function Client:session() end
---Rises at each bind.
---@return integer
function Client:epoch() end
---The gateway it came through: "node:name".
---@return string
function Client:gateway() end
---What may be kept and sent: the session at this epoch.
---@return shield.ClientRef
function Client:ref() end

---What a handler gets as `ctx`: read-only, and gone when the handler returns.
---@class shield.Context
---@field sender shield.Handle? who sent the message; nil for tools and clients
---@field trace string id that follows one piece of work through every call
---@field deadline integer? ms that are left
---@field method string
---@field reason string? in on_shutdown

---What went wrong. tostring(err) reads "code: message"; `shield explain CODE`
---tells more.
---@class shield.Error
---@field code string stable name, such as "node_offline"
---@field message string
---@field retryable boolean the same call may succeed a little later
---@field detail any

---A local name, "node:name", or a handle. A local name comes first.
---@alias shield.Target string|shield.Handle

---@class shield.InitArgs what on_init gets
---@field name string
---@field id integer
---@field config table<string, any> services[].config of shield.yaml
---@field args any what shield.spawn was given

---@class shield.ErrorContext what on_error and on_panic get
---@field type "handler"|"client"|"timer"|"fork"|"event"|"reload"|"init"|"vm"|"threshold"|"explicit"
---@field method string?
---@field event string?

---A service's module: every plain function is a method, except hooks (on_...).
---@class shield.Module
---@field on_init? fun(args: shield.InitArgs): boolean?, string? return false and why to fail the start
---@field on_shutdown? fun(ctx: shield.Context) drain; may suspend
---@field on_exit? fun(reason: string) last words; may not suspend
---@field on_error? fun(err: shield.Error, context: shield.ErrorContext)
---@field on_panic? fun(reason: string, context: shield.ErrorContext)
---@field on_reload? fun(args: shield.InitArgs) after new code went live
---@field on_client_bound? fun(client: shield.Client)
---@field on_client_unbound? fun(client: shield.Client, reason: string)
---@field on_client_disconnected? fun(client: shield.Client, reason: string)

---@class shieldlib
---@field null userdata stands for JSON's null inside tables
shield = {}

---Hands a message over. Never suspends; true means accepted for delivery, no more.
---@param target shield.Target
---@param method string
---@param ... any plain data, handles, client refs
---@return boolean ok
---@return shield.Error? err
function shield.send(target, method, ...) end

---Calls a method and waits for its results. Suspends.
---@param target shield.Target
---@param method string
---@param ... any
---@return boolean ok
---@return any ... results, or a shield.Error
function shield.call(target, method, ...) end

---Like shield.call with a deadline of its own.
---@param ms integer
---@param target shield.Target
---@param method string
---@param ... any
---@return boolean ok
---@return any ... results, or a shield.Error
function shield.call_timeout(ms, target, method, ...) end

---@class shield.SpawnOptions
---@field name? string published when on_init has succeeded
---@field args? any handed to on_init as args.args
---@field timeout? integer ms for on_init

---Starts a service on this node. Suspends until on_init has returned.
---@param module string name of an entry of services in shield.yaml
---@param options? shield.SpawnOptions
---@return shield.Handle? handle
---@return shield.Error? err
function shield.spawn(module, options) end

---The handle of this service.
---@return shield.Handle
function shield.self() end

---Looks a name up on this node.
---@param name string
---@return shield.Handle? handle
---@return shield.Error? err
function shield.query(name) end

---The names this service publishes.
---@return string[]
function shield.names() end

---Publishes a name for this service, or for another of this node.
---@param name string
---@param handle? shield.Handle
---@return boolean ok
---@return shield.Error? err
function shield.register(name, handle) end

---Takes a name back that this service publishes.
---@param name string
---@return boolean ok
---@return shield.Error? err
function shield.unregister(name) end

---Ends this service when the handler returns.
---@param reason? string
function shield.exit(reason) end

---Ends this service as a failure; its restart policy acts.
---@param reason string
function shield.panic(reason) end

---Calls fn again and again, ms after the last call ended. A timer whose fn throws is stopped, and the
---log says so: a mistake would only be repeated. Use pcall inside fn to go on in spite of errors.
---@param ms integer
---@param fn fun()
---@return integer? id
---@return shield.Error? err
function shield.timer(ms, fn) end

---Calls fn once.
---@param ms integer
---@param fn fun()
---@return integer? id
---@return shield.Error? err
function shield.timer_once(ms, fn) end

---Stops a timer.
---@param id integer
---@return boolean ok
---@return shield.Error? err
function shield.cancel_timer(id) end

---Waits. The service goes on with other messages meanwhile.
---@param ms integer
---@return boolean ok
---@return shield.Error? err
function shield.sleep(ms) end

---Runs fn beside this handler, as soon as the service is free.
---@param fn fun()
---@return boolean ok
---@return shield.Error? err
function shield.fork(fn) end

---Milliseconds of the business clock, which tools and tests may shift.
---@return integer
function shield.now() end

---Milliseconds of a clock that never jumps.
---@return integer
function shield.monotonic() end

---A key of services[].config in shield.yaml; dots go deeper.
---@param key string
---@param default? any
---@return any
function shield.config(key, default) end

---@class shield.log
shield.log = {}
---Writes a line that is shown at level debug only.
---@param message string
---@param fields? table<string, any>
function shield.log.debug(message, fields) end
---Writes a line to the log.
---@param message string
---@param fields? table<string, any>
function shield.log.info(message, fields) end
---Writes a warning.
---@param message string
---@param fields? table<string, any>
function shield.log.warn(message, fields) end
---Writes an error. It ends nothing.
---@param message string
---@param fields? table<string, any>
function shield.log.error(message, fields) end

---Events inside one service: synchronous, never across services.
---@class shield.event
shield.event = {}
---Calls fn at every emit of the name.
---@param name string
---@param fn fun(...)
---@return integer id
function shield.event.on(name, fn) end
---Takes one listener away, by id or function, or all of a name.
---@param name string
---@param listener? integer|fun(...)
---@return integer removed
function shield.event.off(name, listener) end
---Calls the listeners of a name, one after another, before it returns.
---@param name string
---@param ... any
---@return integer called
function shield.event.emit(name, ...) end
---Takes all listeners away, or those of a name.
---@param name? string
function shield.event.clear(name) end

---@class shield.Node
---@field node string
---@field state "connecting"|"online"|"suspect"|"offline"|"removed"
---@field intent "serving"|"draining"
---@field epoch string? decimal
---@field address string
---@field last_heartbeat_ms integer? monotonic, no date; nil before the first
---@field heartbeat_age_ms integer? how long ago that was
---@field self boolean this very node

---@class shield.cluster
shield.cluster = {}
---Looks a name up among the routes learned from another node.
---@param node string
---@param name string
---@return shield.Handle? handle
---@return shield.Error? err
function shield.cluster.query(node, name) end
---Every node this one knows, itself included.
---@return shield.Node[]? nodes
---@return shield.Error? err
function shield.cluster.nodes() end
---The id of this node.
---@return string? node
---@return shield.Error? err
function shield.cluster.node_id() end
---The epoch of this node: new at each start.
---@return string? epoch decimal
---@return shield.Error? err
function shield.cluster.node_epoch() end

---Picks among all services whose name matches, on every node.
---@class shield.Pool
local Pool = {}
---Sends to one of them.
---@param method string
---@param ... any
---@return boolean ok
---@return shield.Error? err
function Pool:send(method, ...) end
---Calls one of them. Suspends.
---@param method string
---@param ... any
---@return boolean ok
---@return any ... results, or a shield.Error
function Pool:call(method, ...) end
---Chooses one of them and does no more.
---@param key? any for consistent_hash; send and call hash their first argument
---@return shield.Handle? handle
---@return shield.Error? err
function Pool:pick(key) end

---@class shield.PoolOptions
---@field policy? "round_robin"|"least_pending"|"consistent_hash"|"weighted"
---@field weights? table<string, number> for weighted: by "node:name", name or node

---Makes a picker among services of a name or a pattern.
---@param pattern string a name, or a pattern such as "worker.*"
---@param options? shield.PoolOptions
---@return shield.Pool
function shield.pool(pattern, options) end

---@class shield.client
shield.client = {}
---Binds a session to a target and a player: a compare-and-set on its epoch.
---Suspends. Only the ref that it returns may write to the client afterwards.
---@param client shield.Client|shield.ClientRef
---@param target shield.Target
---@param player_id string
---@return shield.ClientRef? ref
---@return shield.Error? err
function shield.client.bind(client, target, player_id) end
---Ends a session; its target hears on_client_unbound.
---@param client shield.Client|shield.ClientRef
---@param reason? string
---@return boolean ok
---@return shield.Error? err
function shield.client.close(client, reason) end

---One function per s2c route of rpc.yaml; dots in a name nest:
---shield.client_rpc.auth.login_ok(client, body).
---@type table<string, any>
shield.client_rpc = {}

---Marks a table as a list, so that an empty one is [] and not {} in JSON, and holes are null.
---Without it a table is a list when its keys are exactly 1 to n; any other is an object, so a table
---by player id should have string keys: tostring(id).
---@generic T: table
---@param t T
---@return T
function shield.array(t) end

---@class shield.json
shield.json = {}
---Writes a value as JSON.
---@param value any
---@return string
function shield.json.encode(value) end
---Reads JSON; null inside tables becomes shield.null.
---@param text string
---@return any value
---@return shield.Error? err
function shield.json.decode(text) end
