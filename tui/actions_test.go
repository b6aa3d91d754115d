package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// Item 30.
func TestDestructiveAsks(t *testing.T) {
	fake := &fakeCommander{reply: "kicked ann"}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		c.run("3 j K")
		c.wants("kick s-1bc9 (ann)? y/N")
		c.run("n")
		c.wants("nothing was done")
		if len(fake.asked) > 0 {
			t.Fatalf("asked %q after a no", fake.asked)
		}
		c.run("K y")
		c.wants("kick s-1bc9: kicked ann")
		c.run("1 j K")
		c.wants("kill node-2, 18 sessions? y/N")
		c.run("enter") // anything but y is no
		c.run(": d r a i n space n o d e - 2 enter")
		c.wants("drain node-2, 18 sessions? y/N")
		c.run("y")
		c.run("4 R")
		c.wants("restart auth, its state is lost? y/N")
		c.run("y")
	})
	want := "kick|s-1bc9, drain|node-2, reload|--restart|auth"
	if got := strings.Join(fake.asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// A node that doesn't answer can't hold a key.
func TestSlowAnswersHoldNothing(t *testing.T) {
	fake := &fakeCommander{}
	in(t, 80, 24, Config{Commander: fake}, func(t *testing.T, c *console) {
		fake.block = make(chan struct{}) // of this bubble
		c.keys("4")
		_, cmd := c.m.Update(key("r"))
		done := make(chan tea.Msg)
		go func() {
			msg := cmd()
			batch, _ := msg.(tea.BatchMsg)
			for _, sub := range batch {
				if m, ok := sub().(doneMsg); ok {
					msg = m
				}
			}
			done <- msg
		}()
		c.keys("1 j").wants("> node-2") // the keys go on
		c.send(<-done)
		c.wants("no answer after 10s")
	})
}
