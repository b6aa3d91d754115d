package tui

import (
	"errors"
	"fmt"
	"testing"
)

func TestREPL(t *testing.T) {
	fake := &fakeCommander{reply: "7"}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		c.run("4 G k a")
		c.wants("[7]REPL", "attached to node-3:room.public", "node-3:room.public g3> ")
		c.run("# r o o m s enter")
		c.wants("node-3:room.public g3> #rooms", "7")
		c.run("esc 1")
		c.wants("[1]Nodes") // out of the line, keys are keys again
		c.run("7 ctrl+d")
		c.wants("detached from node-3:room.public; the service keeps running")
		fake.err = errors.New("handler_error: <repl>:1: attempt to index a nil value\nstack traceback:\n\t<repl>:1")
		c.run("4 a x enter")
		c.wants("attempt to index a nil value", "<repl>:1")
		fake.err = fmt.Errorf("%w: at EOF", ErrIncomplete)
		c.run("f ( enter")
		c.wants(">>> ")
		fake.err = nil
		c.run("1 ) enter")
		c.wants(">>> 1)", "7")
	})
	if last := fake.asked[len(fake.asked)-1]; last != "eval|node-3:room.public|f(\n1)" {
		t.Errorf("the lines of a chunk were asked as %q", last)
	}
	if want := "eval|node-3:room.public|#rooms"; fake.asked[0] != want {
		t.Errorf("asked %q, want %q", fake.asked, want)
	}
}

func TestCtrlCInTheREPLLeavesTheLine(t *testing.T) {
	in(t, 80, 24, Config{Commander: &fakeCommander{}}, func(t *testing.T, c *console) {
		c.keys("7 i type:1+1 ctrl+c")
		if c.lacks("1+1"); c.m.mode != inserting {
			t.Error("the first ctrl-c does more than clear the line")
		}
		if _, cmd := c.m.Update(key("ctrl+c")); cmd != nil {
			c.follow(cmd)
		}
		if c.wants("left the line", "q quits"); c.m.mode != browsing {
			t.Error("ctrl-c on an empty line does not leave it")
		}
	})
}
