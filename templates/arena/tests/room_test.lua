-- Each file runs on a cluster of its own, in virtual time; cluster.start makes a
-- fresh one, so no test sees what another has left.
describe("room.public", function()
  before_each(function()
    cluster.start(3)
  end)

  local function login(name)
    local c = client.connect()
    c:send("auth.login", { name = name })
    c:expect("auth.login_ok", { player = name })
    c:expect("room.entered")
    return c
  end

  it("answers from the node that was asked", function()
    local ok, pong, node = cluster.call("node-2:room.public", "ping")
    assert.is_true(ok, pong)
    assert.are.equal("pong", pong)
    assert.are.equal("node-2", node)
  end)

  it("takes its players back after a restart", function()
    local bob = client.connect()
    bob:send("auth.login", { name = "bob" })
    bob:expect("auth.login_ok")
    bob:expect("room.entered", { node = "node-1" })
    bob:send("player.goto", { node = "node-2" })
    bob:expect("room.entered", { node = "node-2" })

    cluster.kill("node-2")
    cluster.restart("node-2")
    bob:send("chat.say", { text = "anybody here?" })
    bob:expect("room.entered", { node = "node-2" })
    bob:send("chat.say", { text = "hello again" })
    bob:expect("chat.said", { text = "hello again" })
  end)

  it("tells everybody of a move", function()
    local ann, bob = login("ann"), login("bob")
    ann:send("player.move", { x = 3, y = 4 })
    for _, c in ipairs({ ann, bob }) do
      local moved = c:expect("room.moved")
      assert.are.same({ name = "ann", x = 3, y = 4 }, moved)
    end
  end)

  it("refuses a name that is none", function()
    local c = client.connect()
    c:send("auth.login", { name = "a b" })
    c:expect("auth.login_failed")
    c:expect_none("auth.login_ok")
  end)

  it("lets the second login of a player win", function()
    local first = login("ann")
    local second = login("ann")
    first:expect_close("logged in elsewhere")
    assert.is_nil(second:closed())
  end)
end)
