package luaapi_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What one path takes the other takes, and both deliver equal values: the same
// expression is sent, built in place and out of a variable, to a service of this
// node and to one of another, and comes back.
func TestPropertyLocalEqualsRemote(t *testing.T) {
	files := scripts{"ask.lua": `
local M = {}
local function show(v, depth)
  if type(v) == "number" and v ~= v then return "nan" end
  if type(v) == "number" then return ("%.17g"):format(v) end
  if type(v) ~= "table" then return type(v) .. " " .. tostring(v):gsub("[^%g ]", function(c) return "\\" .. c:byte() end) end
  local keys, parts = {}, {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return type(a) .. tostring(a) < type(b) .. tostring(b) end)
  for _, k in ipairs(keys) do parts[#parts + 1] = show(k, depth + 1) .. "=" .. show(v[k], depth + 1) end
  return "#" .. #v .. "{" .. table.concat(parts, ",") .. "}"
end
-- go(source, target): what the echo of the values of source looks like.
local function asked(f, to)
  local r = {f(to)}
  if not r[1] then return "refused " .. r[2].code .. " " .. r[2].message:gsub("node%-%d#%d+", "handle") end
  local parts = {}
  for i = 2, #r do parts[#parts + 1] = show(r[i], 0) end
  return table.concat(parts, " ")
end
function M.go(ctx, source, to)
  local inplace = assert(loadstring("local to = ... local r = {shield.call(to, 'echo', " .. source .. ", true)} return unpack(r)"))
  local kept = assert(loadstring("local to = ... local v = " .. source .. " local r = {shield.call(to, 'echo', v, true)} return unpack(r)"))
  return asked(inplace, to), asked(kept, to)
end
return M`, "echo.lua": `return {echo = function(ctx, ...) return ... end}`}
	both := scripts{}
	for path, text := range files {
		both["1/"+path], both["2/"+path] = text, text
	}
	_, n, _ := newPair(t, both)
	rapid.Check(t, func(rt *rapid.T) {
		source := luaValue(rt, 3)
		local, err := n.call("ask", "go", source, "echo")
		if err != nil {
			rt.Fatalf("%s: %v", source, err)
		}
		remote, err := n.call("ask", "go", source, "node-2:echo")
		if err != nil || local != remote {
			rt.Fatalf("%s\nwithin the node: %s\nto another node: %s, %v", source, local, remote, err)
		}
		inPlace, kept, _ := strings.Cut(strings.Trim(local, "[]"), `","`)
		if strings.Trim(inPlace, `"`) != strings.Trim(kept, `"`) {
			rt.Fatalf("%s\nbuilt in place: %s\nout of a variable: %s", source, inPlace, kept)
		}
	})
}

// luaValue draws the source of a value, which now and then can't travel.
func luaValue(t *rapid.T, depth int) string {
	kinds := 11
	if depth == 0 {
		kinds = 8
	}
	switch kind := rapid.IntRange(0, kinds).Draw(t, "kind"); kind {
	case 0:
		return rapid.SampledFrom([]string{"nil", "true", "false", "shield.null", "shield.self()", "shield.query('echo')"}).Draw(t, "constant")
	case 1:
		return rapid.SampledFrom([]string{"0", "-0.0", "0/0", "1/0", "-1/0", "2^53", "2^63", "-2^63", "127", "128", "-33", "1e300"}).Draw(t, "special")
	case 2, 3:
		return fmt.Sprintf("%.17g", rapid.Float64().Draw(t, "number"))
	case 4:
		return fmt.Sprint(rapid.Int32().Draw(t, "integer"))
	case 5, 6:
		text := ""
		for _, b := range rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "bytes") {
			text += fmt.Sprintf(`\%03d`, b)
		}
		return `"` + text + `"`
	case 7:
		return `("x"):rep(` + fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "length")) + ")"
	case 8:
		return rapid.SampledFrom([]string{"print", "coroutine.create(print)", "{[1.5] = 1}", "{[true] = 1}", "{f = {print}}", "shield.array()", "(function() local t = {} t.t = t return t end)()"}).Draw(t, "odd")
	}
	var parts []string
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		v := luaValue(t, depth-1)
		switch rapid.IntRange(0, 5).Draw(t, "key") {
		case 0, 1:
			parts = append(parts, v)
		case 2, 3:
			parts = append(parts, rapid.SampledFrom([]string{"a", "b", "hp", "name"}).Draw(t, "field")+" = "+v)
		case 4:
			parts = append(parts, fmt.Sprintf("[%d] = %s", rapid.SampledFrom([]int64{-3, 0, 2, 9, 1 << 40, 1 << 53}).Draw(t, "index"), v))
		default:
			parts = append(parts, fmt.Sprintf(`["\000%d"] = %s`, rapid.IntRange(0, 9).Draw(t, "odd key"), v))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
