package devserver

import (
	"maps"
	"slices"
	"sync"
	"time"

	"shield/devserver/reload"
	"shield/runtime/control"
	"shield/runtime/service"
	"shield/runtime/shield"
)

// history remembers the last changes of every service's code, also across its
// restarts. It is safe from any goroutine.
type history struct {
	mu    sync.Mutex
	steps map[historyKey][]control.CodeStep
	// restarted is when `reload --restart` started a service afresh whose new
	// incarnation has not been looked at yet.
	restarted map[historyKey]time.Time
}

// historyKey names a service for longer than one incarnation lives; one without
// a name has only that.
type historyKey struct {
	node shield.NodeID
	name shield.Name
	id   shield.ServiceID // of one without a name
}

// restartTime is how long after a restart its new incarnation may have begun.
const restartTime = 30 * time.Second

const (
	maxSteps     = 20   // of one service
	maxHistories = 4096 // services; those without a name come and go
)

func keyOf(node shield.NodeID, name shield.Name, id shield.ServiceID) historyKey {
	if len(name) > 0 && name[0] == '(' {
		return historyKey{node: node, id: id}
	}
	return historyKey{node: node, name: name}
}

// add notes what a round of the reloader came to. by says what began it.
func (h *history) add(results []reload.Result, by string) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range results {
		step := control.CodeStep{Time: now, By: by, ID: r.ID, Generation: r.To, Code: r.Code, Files: slices.Clone(r.Files)}
		switch r.Outcome {
		case reload.Unchanged:
			continue
		case reload.Undone:
			step.By = "undo"
		case reload.Restarted:
			if h.restarted == nil || len(h.restarted) >= maxHistories {
				h.restarted = map[historyKey]time.Time{}
			}
			h.restarted[keyOf(r.Node, r.Service, r.ID)] = now
			continue
		case reload.Failed, reload.Refusal, reload.HeldBack:
			step.Failed = r.Outcome
			if r.Err != nil {
				step.Failed += ": " + firstLine(r.Err.Error())
			}
		}
		h.push(keyOf(r.Node, r.Service, r.ID), step)
	}
}

// forget drops the history of a node that starts anew.
func (h *history) forget(node shield.NodeID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.steps, func(k historyKey, _ []control.CodeStep) bool { return k.node == node })
	maps.DeleteFunc(h.restarted, func(k historyKey, _ time.Time) bool { return k.node == node })
}

func (h *history) push(key historyKey, step control.CodeStep) {
	if h.steps == nil || len(h.steps) >= maxHistories {
		h.steps = map[historyKey][]control.CodeStep{}
	}
	steps := append(h.steps[key], step)
	h.steps[key] = steps[max(0, len(steps)-maxSteps):]
}

// why completes a service's row: the last step that made its code live, else
// its start.
func (h *history) why(row shield.ServiceRow, st service.Started) control.WhyRow {
	w := control.WhyRow{Service: row.Name, Node: row.Node, ID: row.ID, Generation: row.Generation, Code: row.Code,
		Since: st.Time, By: "start", Files: st.Files}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := keyOf(row.Node, row.Name, row.ID)
	steps := h.steps[key]
	began := func(s control.CodeStep) bool { return s.ID == row.ID && s.Generation == 1 && s.Failed == "" }
	if !slices.ContainsFunc(steps, began) {
		steps = h.begin(key, row, st)
	}
	w.History = slices.Clone(steps)
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		if s.Failed == "" && s.ID == row.ID && s.Generation == row.Generation {
			w.Since, w.By, w.Files = s.Time, s.By, s.Files
			break
		}
	}
	return w
}

// begin notes the start of an incarnation, before the steps that followed it.
func (h *history) begin(key historyKey, row shield.ServiceRow, st service.Started) []control.CodeStep {
	start := control.CodeStep{Time: st.Time, By: "start", ID: row.ID, Generation: 1, Files: slices.Clone(st.Files)}
	if row.Generation == 1 {
		start.Code = row.Code
	}
	if at, ok := h.restarted[key]; ok {
		delete(h.restarted, key)
		if at.Sub(st.Time) < restartTime {
			start.By = "restart"
		}
	}
	steps := slices.Clone(h.steps[key])
	at, _ := slices.BinarySearchFunc(steps, st.Time, func(s control.CodeStep, t time.Time) int { return s.Time.Compare(t) })
	steps = slices.Insert(steps, at, start)
	if over := len(steps) - maxSteps; over > 0 {
		steps = steps[over:]
	}
	h.push(key, start)
	h.steps[key] = steps
	return steps
}
