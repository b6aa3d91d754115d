package control

import (
	"strings"
	"testing"

	"shield/runtime/shield"
)

type servicesOnly struct {
	Host
	rows []shield.ServiceRow
}

func (h servicesOnly) Services() ([]shield.ServiceRow, error) { return h.rows, nil }

func TestNotServingSaysWhereAndWhy(t *testing.T) {
	h := servicesOnly{rows: []shield.ServiceRow{
		{Name: "ee", Node: "node-1", State: shield.Failed, Reason: "init: ee.lua:3: boom"},
		{Name: "ee", Node: "node-2", State: shield.Running},
		{Name: "ok", Node: "node-1", State: shield.Running},
	}}
	err := notServing(h, "", "ee")
	if err == nil || err.Code != shield.ServiceNotFound || !strings.Contains(err.Message, "on node-1 it is failed: init: ee.lua:3: boom") ||
		strings.Contains(err.Message, "node-2") {
		t.Errorf("notServing = %v", err)
	}
	for _, name := range []shield.Name{"ok", "none"} {
		if err := notServing(h, "", name); err != nil {
			t.Errorf("%s: %v, want nil", name, err)
		}
	}
	if err := notServing(h, "node-2", "ee"); err != nil {
		t.Errorf("on another node: %v", err)
	}
}
