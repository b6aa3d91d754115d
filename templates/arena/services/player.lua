-- One player. All frames of the player's sessions come here, one after another,
-- so nothing in this file needs a lock.
local policy = require("policy")

local M = {}

local name
local room = "room.public" -- a local name, or "node-2:room.public"
local sessions = {}        -- ClientRef -> true: every live connection
local x, y = 0, 0
local linger               -- the timer that ends a player nobody plays

local function connected()
  return next(sessions) ~= nil
end

-- Tells the room where we are. If its node is gone we go to the room next door.
local function to_room(method, ...)
  local ok, err = shield.send(room, method, ...)
  if not ok and room ~= "room.public" then
    shield.log.warn("room lost, going home", { room = room, err = tostring(err) })
    room = "room.public"
    for ref in pairs(sessions) do
      shield.send(room, "join", ref, name, x, y)
    end
  end
end

local function start_linger()
  linger = linger or shield.timer_once(shield.config("linger_ms", 30000), function()
    linger = nil
    if not connected() then
      shield.exit("nobody plays " .. name)
    end
  end)
end

function M.on_init(args)
  name = args.args.name
  start_linger()
end

-- A session is ours now. This comes before its first frame.
function M.on_client_bound(client)
  local ref = client:ref()
  local current = {}
  for old in pairs(sessions) do
    current[#current + 1] = old
  end

  sessions[ref] = true
  local decide = policy[shield.config("second_login", "kick_old")] or policy.kick_old
  for _, loser in ipairs(decide(current, ref)) do
    sessions[loser] = nil
    to_room("leave", loser)
    shield.client.close(loser, "logged in elsewhere")
  end

  if sessions[ref] then
    shield.client_rpc.auth.login_ok(ref, { player = name, node = shield.self():node() })
    to_room("join", ref, name, x, y)
  end
end

-- A session is no longer ours. Exactly one of the two hooks comes, once.
local function gone(client, reason)
  local ref = client:ref()
  if sessions[ref] then
    sessions[ref] = nil
    to_room("leave", ref)
  end
  if not connected() then
    start_linger()
  end
end

function M.on_client_unbound(client, reason) -- kicked
  gone(client, reason)
end

function M.on_client_disconnected(client, reason) -- left, or lost
  gone(client, reason)
end

function M.on_exit(reason)
  for ref in pairs(sessions) do
    shield.send(room, "leave", ref)
  end
end

-- The room does not know this session any more: it was restarted. What was said
-- is lost; the client hears room.entered and knows where it is.
function M.rejoin(ctx, ref)
  if sessions[ref] then
    shield.send(room, "join", ref, name, x, y)
  end
end

-- player.move { x, y }
function M.move(ctx, client, request)
  if type(request) ~= "table" or type(request.x) ~= "number" or type(request.y) ~= "number" then
    return -- a broken client; nothing that a handler does is an answer
  end
  x, y = request.x, request.y
  to_room("move", client:ref(), x, y)
end

-- player.goto { node }: to the room of another node. The sessions stay where
-- they are; pushes of that room travel through the cluster.
function M.go_to(ctx, client, request)
  local node = type(request) == "table" and request.node
  local target = tostring(node) .. ":room.public"
  local ok, err = shield.call(target, "ping")
  if not ok then
    shield.client_rpc.room.refused(client, { room = target, reason = tostring(err) })
    return
  end
  for ref in pairs(sessions) do
    shield.send(room, "leave", ref)
    shield.send(target, "join", ref, name, x, y)
  end
  room = target
end

-- chat.say { text }
function M.say(ctx, client, request)
  if type(request) == "table" and type(request.text) == "string" then
    to_room("say", client:ref(), request.text)
  end
end

return M
