package reload

import (
	"strings"
	"testing"
)

func TestDroppedStateIsTold(t *testing.T) {
	const before = `local M = {}
local count, name, same, on = 0, "a", 7, false
local seen, empty = {}, {}
local cfg = { gold = 5, list = {} }
local function f() return 1 end
function M.go(ctx) count = count + 3 name = "bob" on = true seen[42] = true cfg.gold = 6 return same, empty, f() end
return M
`
	const after = `local M = {}
local total = 0
local cfg = {}
function M.go(ctx) total = total + 1 return cfg end
return M
`
	b := newBed(t, script(before))
	b.call("go")
	var warnings []string
	for _, r := range b.reloads(script(after)) {
		warnings = append(warnings, r.Warnings...)
	}
	all := strings.Join(warnings, "\n")
	for _, want := range []string{"count was dropped: it held 3", `name was dropped: it held "bob"`, "on was dropped: it held true",
		"seen was dropped: it held a table of 1 entry", "cfg.gold was dropped: it held 6"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in:\n%s", want, all)
		}
	}
	for _, not := range []string{"same was", "empty was", "f was", "cfg was", "list was"} {
		if strings.Contains(all, not) {
			t.Errorf("a warning %q in:\n%s", not, all)
		}
	}
}

func TestDroppingWhatNothingChangedIsSilent(t *testing.T) {
	b := newBed(t, script("local M = {}\nlocal n, t = 0, { a = 1 }\nfunction M.go() return n, t end\nreturn M\n"))
	b.call("go")
	for _, r := range b.reloads(script("local M = {}\nlocal other = 0\nfunction M.go() return other end\nreturn M\n")) {
		for _, w := range r.Warnings {
			if strings.Contains(w, "dropped") {
				t.Errorf("%s", w)
			}
		}
	}
}
