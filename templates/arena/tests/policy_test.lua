local policy = require("policy")

describe("a second login", function()
  it("closes the old session under kick_old", function()
    assert.are.same({ "old" }, policy.kick_old({ "old" }, "new"))
  end)

  it("is refused under single", function()
    assert.are.same({ "new" }, policy.single({ "old" }, "new"))
    assert.are.same({}, policy.single({}, "new"))
  end)

  it("changes nothing under multi", function()
    assert.are.same({}, policy.multi({ "old" }, "new"))
  end)
end)
