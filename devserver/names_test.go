package devserver

import "testing"

// TestASaveWarnsOfNames wants a slip told when it is saved, not when its line
// runs, and only for the file that was saved.
func TestASaveWarnsOfNames(t *testing.T) {
	dir := newProject(t, 0)
	write(t, dir, "room.lua", "local M = {}\nlocal players = {}\nfunction M.ping() return 'pong' end\nfunction M.old() return palyers.x end\nreturn M\n")
	s, _ := serve(t, dir, 2)
	write(t, dir, "other.lua", "local M = {}\nfunction M.f() return shield.selff() end\nreturn M\n")
	eventually(t, "the warning", func() bool { return logHas(s, "other.lua:2: there is no shield.selff (did you mean shield.self?)") })
	if logHas(s, "palyers") {
		t.Error("a file that nobody saved is told of")
	}
	write(t, dir, "room.lua", "local M = {}\nlocal players = {}\nfunction M.ping() return 'pong2' end\nfunction M.old() return palyers.x end\nreturn M\n")
	const want = "room.lua:4: nothing sets the global palyers, so it is nil here (did you mean players?)"
	eventually(t, "the other warning", func() bool { return logHas(s, want) })
	if n := logCount(s, "shield.selff"); n != 1 {
		t.Errorf("the first warning was told %d times", n)
	}
}
