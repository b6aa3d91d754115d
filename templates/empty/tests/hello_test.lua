-- Each file runs on a cluster of its own, in virtual time: shield test
describe("hello", function()
  before_each(function()
    cluster.start(2)
  end)

  it("greets by name", function()
    local ok, text = cluster.call("node-2:hello", "greet", "ann")
    assert.is_true(ok, text)
    assert.equal("hello, ann, from node-2", text)
  end)

  it("greets whoever has no name", function()
    local ok, text = cluster.call("hello", "greet")
    assert.is_true(ok, text)
    assert.matches("^hello, world", text)
  end)
end)
