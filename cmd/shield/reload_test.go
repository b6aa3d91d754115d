package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"shield/runtime/control"
	"shield/runtime/shield"
)

func TestReloadSaysTheSameOnAllNodesOnce(t *testing.T) {
	bad := &control.Error{Code: shield.ScriptLoadFailed, Message: "room.lua:3:10: unexpected )"}
	var got []string
	for _, n := range reloadNotes([]control.ReloadRow{
		{Service: "room", Node: "node-1", Error: bad, Warnings: []string{"room.lua:1: w"}},
		{Service: "room", Node: "node-2", Error: bad},
		{Service: "hall", Node: "node-2", Error: bad, Lost: []string{"n: 2, was 1"}},
		{Service: "rpc.yaml", Error: bad},
	}) {
		got = append(got, n.who()+": "+n.text)
	}
	want := []string{
		"node-1:room: room.lua:1: w",
		"node-1 node-2:room: script_load_failed: room.lua:3:10: unexpected )",
		"node-2:hall: lost since: n: 2, was 1",
		"node-2:hall: script_load_failed: room.lua:3:10: unexpected )",
		"rpc.yaml: script_load_failed: room.lua:3:10: unexpected )",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
