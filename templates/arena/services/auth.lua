-- Logins. The gateway sends every new session here; a good login binds it to
-- the player's own service, and from then on its frames go there.
local M = {}

local function refuse(client, why)
  shield.client_rpc.auth.login_failed(client, { reason = why })
end

-- auth.login { name }. Put your password or token check here.
function M.login(ctx, client, request)
  local name = type(request) == "table" and request.name
  if type(name) ~= "string" or not name:match("^[%w_-]+$") or #name > 24 then
    return refuse(client, "a name has 1 to 24 letters, digits, _ or -")
  end

  -- players runs on node-1 only; the pool finds it from any node.
  local ok, player = shield.pool("players"):call("find_or_start", name)
  if not ok then
    shield.log.warn("login failed", { name = name, err = tostring(player) })
    return refuse(client, "try again in a moment")
  end

  -- The bind is a compare-and-set: of two logins on one session one wins. From
  -- here on the player's service speaks to the client; it says auth.login_ok.
  local ref, err = shield.client.bind(client, player, name)
  if not ref then
    shield.log.warn("bind failed", { name = name, err = tostring(err) })
    return refuse(client, "try again in a moment")
  end
end

return M
