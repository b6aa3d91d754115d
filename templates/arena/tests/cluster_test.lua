-- What a player notices of the cluster, and of time.
describe("a player", function()
  local ann

  before_each(function()
    cluster.start(3)
    ann = client.connect()
    ann:send("auth.login", { name = "ann" })
    ann:expect("room.entered", { node = "node-1" })
  end)

  it("walks into the room of another node", function()
    ann:send("player.goto", { node = "node-2" })
    ann:expect("room.entered", { node = "node-2" })
    local _, there = assert(cluster.call("node-2:room.public", "who"))
    assert.are.equal("ann", there[1].name)
  end)

  it("comes home when that node is cut off", function()
    ann:send("player.goto", { node = "node-2" })
    ann:expect("room.entered", { node = "node-2" })
    net.cut("node-1", "node-2")
    clock.advance("15s") -- until the nodes hold each other for offline
    ann:send("player.move", { x = 1, y = 2 })
    ann:expect("room.entered", { node = "node-1" })
    log.expect("room lost, going home")
  end)

  it("is forgotten half a minute after leaving", function()
    ann:close()
    clock.advance("20s")
    local _, player = assert(cluster.call("players", "find", "ann"))
    assert.is_not_nil(player)
    clock.advance("20s")
    local ok, gone = cluster.call("players", "find", "ann")
    assert.is_true(ok, gone)
    assert.is_nil(gone)
  end)

  it("stays as long as the client is there", function()
    clock.advance("1d")
    assert.is_nil(ann:closed())
  end)
end)
