package repl

import (
	"fmt"
	"strconv"
	"strings"

	"shield/runtime/control"
)

// Handlers is a table of what the methods of a service took.
func Handlers(rows []control.HandlerRow) *Table {
	t := &Table{Head: []string{"HANDLER", "COUNT", "ERRORS", "MEAN", "MAX"}, Right: []bool{false, true, true, true, true}, Empty: "no handler has run yet"}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Method, strconv.FormatInt(r.Count, 10), strconv.FormatInt(r.Errors, 10), millis(r.MeanMS), millis(r.MaxMS)})
	}
	return t
}

// Timers is a table of the timers of a service.
func Timers(rows []control.TimerRow) *Table {
	t := &Table{Head: []string{"TIMER", "DUE", "EVERY", "FUNCTION"}, Right: []bool{true, true, true, false}, Empty: "no timers"}
	for _, r := range rows {
		due, every := "in "+control.AgeText(r.InMS), control.AgeText(r.EveryMS)
		if r.InMS < 0 {
			due = "now"
		}
		if r.EveryMS == 0 {
			every = "once"
		}
		t.Rows = append(t.Rows, []string{strconv.FormatUint(r.ID, 10), due, every, r.Function})
	}
	return t
}

// Waiting is a table of the handlers that wait.
func Waiting(rows []control.WaitRow) *Table {
	t := &Table{Head: []string{"HANDLER", "WAITS IN", "SINCE", "TRACE"}, Right: []bool{false, false, true, false}, Empty: "nothing waits"}
	for _, r := range rows {
		trace := ""
		if r.Trace != 0 {
			trace = r.Trace.String()
		}
		t.Rows = append(t.Rows, []string{r.Method, WaitText(r), control.AgeText(r.ForMS), trace})
	}
	return t
}

func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

// WaitText is what a handler waits in, as it is written in Lua.
func WaitText(r control.WaitRow) string {
	switch {
	case r.Calls != "":
		return fmt.Sprintf("%s(%q, %q)", r.What, r.Target, r.Calls)
	case r.Target != "":
		return fmt.Sprintf("%s(%q)", r.What, r.Target)
	}
	return r.What
}

// StuckText says what keeps everybody out of a service: a line and a stack.
func StuckText(r *control.StuckRow) (head, stack string) {
	head = fmt.Sprintf("in %s (%s) since %s", r.Method, r.Kind, control.AgeText(r.ForMS))
	if r.Stack == "" {
		return head, "          its Lua stack can't be had: a function of the runtime does not return"
	}
	return head, r.Stack
}

// Stacks are the stacks of handlers that wait, those of one stack together.
func Stacks(rows []control.WaitRow) []string {
	count := map[string]int{}
	var order []control.WaitRow
	for _, r := range rows {
		if r.Stack == "" {
			continue
		}
		if count[r.Stack]++; count[r.Stack] == 1 {
			order = append(order, r)
		}
	}
	var out []string
	for _, r := range order {
		head := fmt.Sprintf("%s in %s", r.Method, WaitText(r))
		if n := count[r.Stack]; n > 1 {
			head = fmt.Sprintf("%d times %s", n, head)
		}
		out = append(out, head+"\n"+r.Stack)
	}
	return out
}

// ReloadText is one line when all went well, else a line for each that did not,
// with the excerpt that came with it.
func ReloadText(res control.ReloadResult) string {
	counts := map[string]int{}
	var b strings.Builder
	for _, row := range res.Services {
		counts[row.Result]++
		if row.Error != nil {
			fmt.Fprintf(&b, "%s on %s: %s: %s\n", row.Service, row.Node, row.Error.Code, row.Error.Message)
			if trace, ok := row.Error.Detail.(string); ok && trace != "" {
				fmt.Fprintln(&b, trace)
			}
		}
		for _, w := range row.Warnings {
			fmt.Fprintf(&b, "%s on %s: %s\n", row.Service, row.Node, w)
		}
		for _, l := range row.Lost {
			fmt.Fprintf(&b, "%s on %s: lost %s\n", row.Service, row.Node, l)
		}
	}
	var parts []string
	for _, word := range []string{"reloaded", "restarted", "started", "undone", "unchanged", "refused", "held back", "failed"} {
		if counts[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[word], word))
		}
	}
	head := strings.Join(parts, ", ")
	if head == "" {
		head = "nothing to reload"
	}
	return strings.TrimRight(fmt.Sprintf("%s in %.0fms\n%s", head, res.MS, b.String()), "\n")
}
