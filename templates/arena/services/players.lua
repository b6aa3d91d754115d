-- The directory: player name -> service. There is one, on one node, so it is
-- also the place where a player's service is started at most once. The services
-- publish the name "player.NAME", so the directory keeps no list that could get
-- out of step: what is published is what lives.
local M = {}

local starting = {} -- names whose service is starting just now

-- Gives the handle of a player's service, starting it if need be.
function M.find_or_start(ctx, name)
  -- spawn suspends, and meanwhile the same player may log in a second time.
  while starting[name] do
    shield.sleep(10)
  end

  local player = shield.query("player." .. name)
  if player then
    return player
  end

  starting[name] = true
  local handle, err = shield.spawn("player", { name = "player." .. name, args = { name = name } })
  starting[name] = nil
  if not handle then
    error("can't start player " .. name .. ": " .. tostring(err))
  end
  return handle
end

-- shield call players find ann
function M.find(ctx, name)
  return (shield.query("player." .. name))
end

return M
