package control_test

import (
	"context"
	"strings"
	"testing"

	"shield/runtime/control"
	"shield/runtime/control/controltest"
	"shield/runtime/shield"
)

// elsewhere runs no node that it sees.
type elsewhere struct{ *controltest.Host }

func (elsewhere) Drain(_ context.Context, r control.DrainRequest) (shield.NodeRow, error) {
	return shield.NodeRow{}, shield.Errorf(shield.NodeNotFound, "node %q does not run in this process", r.Node)
}

// Whoever asks the wrong process of a cluster is told which one to ask.
func TestANodeOfAnotherProcess(t *testing.T) {
	c, _ := serve(t, elsewhere{controltest.New(controltest.Three())}, control.Access{})
	for node, want := range map[shield.NodeID]string{
		"node-2": "node-2 runs in another process than the one that was asked: ask that one, with --endpoint unix:.shield/node-2.sock",
		"node-9": "does not run in this process",
	} {
		_, err := c.Drain(t.Context(), control.DrainRequest{Node: node})
		if shield.CodeOf(err) != shield.NodeNotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("drain %s: %v, want %q", node, err, want)
		}
	}
}
