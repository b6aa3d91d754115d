-- A public room: who is in it, where they stand, and telling all of them. It
-- runs on every node; players may sit in the room of any node.
local M = {}

local members = {} -- ClientRef -> { name, x, y }
local count = 0

-- tell pushes to everybody in the room. A push that fails is counted by the
-- gateway; there is nothing to do here.
local function tell(push, body)
  for ref in pairs(members) do
    push(ref, body)
  end
end

-- member finds who sits here. A room that was restarted has forgotten everybody:
-- the player's service, which sent the message, is asked to join again.
local function member(ctx, ref)
  local m = members[ref]
  if not m and ctx.sender then
    shield.send(ctx.sender, "rejoin", ref)
  end
  return m
end

-- shield call node-2:room.public ping
function M.ping(ctx)
  return "pong", shield.self():node()
end

-- shield call node-1:room.public who
function M.who(ctx)
  local list = shield.array({})
  for _, m in pairs(members) do
    list[#list + 1] = { name = m.name, x = m.x, y = m.y }
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

function M.join(ctx, ref, name, x, y)
  if members[ref] then
    return
  end
  if count >= shield.config("seats", 100) then
    shield.client_rpc.room.refused(ref, { room = shield.self():node(), reason = "the room is full" })
    return
  end
  tell(shield.client_rpc.room.joined, { name = name, x = x, y = y })
  members[ref] = { name = name, x = x, y = y }
  count = count + 1
  shield.client_rpc.room.entered(ref, { node = shield.self():node(), members = M.who() })
end

function M.leave(ctx, ref)
  local m = members[ref]
  if m then
    members[ref] = nil
    count = count - 1
    tell(shield.client_rpc.room.left, { name = m.name })
  end
end

function M.move(ctx, ref, x, y)
  local m = member(ctx, ref)
  if m then
    m.x, m.y = x, y
    tell(shield.client_rpc.room.moved, { name = m.name, x = x, y = y })
  end
end

function M.say(ctx, ref, text)
  local m = member(ctx, ref)
  if m then
    tell(shield.client_rpc.chat.said, { name = m.name, text = text })
  end
end

return M
