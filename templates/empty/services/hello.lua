local M = {}

-- shield call hello greet ann
function M.greet(ctx, name)
  return "hello, " .. tostring(name or "world") .. ", from " .. shield.self():node()
end

return M
