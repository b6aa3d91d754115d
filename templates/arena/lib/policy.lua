-- What happens when a player logs in who is playing already.
--
-- Each policy gets the player's live sessions and the new one, and returns the
-- sessions to close. The player's service calls it when a session was bound; it
-- handles one message at a time, so even a hundred logins at once are decided
-- one after another.
--
-- shield.yaml names the policy: services, player, config, second_login.
local policy = {}

-- The new session wins; the old ones are closed.
function policy.kick_old(current, new)
  return current
end

-- The old session wins; the new one is closed.
function policy.single(current, new)
  if #current > 0 then
    return { new }
  end
  return {}
end

-- All may stay: one player on several devices.
function policy.multi(current, new)
  return {}
end

return policy
