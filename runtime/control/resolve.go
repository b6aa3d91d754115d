package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"shield/runtime/shield"
)

// resolve finds the node and the name that a target means: "node:name" as it
// stands; a name on the first node, else on the only node that publishes it.
func resolve(h Host, target string) (shield.NodeID, shield.Name, *shield.Error) {
	node, name, qualified := shield.SplitTarget(target)
	if qualified {
		if err := shield.CheckName(string(node)); err != nil {
			return "", "", shield.Errorf(shield.InvalidTarget, "target %q: the node before the colon: %s", target, plain(err))
		}
	}
	if err := shield.CheckName(string(name)); err != nil {
		return "", "", shield.Errorf(shield.InvalidTarget, "target %q: %s", target, plain(err))
	}
	if qualified {
		return node, name, nil
	}
	first := firstNode(h)
	routes, err := h.Routes(first)
	if err != nil {
		return "", "", shield.AsError(err, shield.ServiceNotFound)
	}
	var on []string
	for _, r := range routes {
		if r.Name == name {
			if r.Node == first {
				return r.Node, name, nil
			}
			on = append(on, string(r.Node))
		}
	}
	switch slices.SortFunc(on, natural); len(on) {
	case 0:
		if err := notServing(h, "", name); err != nil {
			return "", name, err
		}
		return "", name, withNames(shield.Errorf(shield.ServiceNotFound, "no node publishes %q", string(name)), name, routes, "")
	case 1:
		return shield.NodeID(on[0]), name, nil
	}
	return "", name, &shield.Error{Code: shield.InvalidTarget,
		Message: fmt.Sprintf("%d nodes publish %q and the first node does not; say which: %s",
			len(on), string(name), strings.Join(qualify(on, name), " ")),
		Detail: map[string]any{"nodes": on}}
}

// notServing is the error for a name that a service of the host has and nobody
// can call: it has failed, or is not there yet. It is nil for one that no service
// has. node may be "".
func notServing(h Host, node shield.NodeID, name shield.Name) *shield.Error {
	rows, err := h.Services()
	if err != nil {
		return nil // the error that the caller has says enough
	}
	var said []string
	var detail []map[string]any
	for _, r := range rows {
		if r.Name != name || node != "" && r.Node != node || r.State == shield.Running {
			continue
		}
		text := fmt.Sprintf("on %s it is %s", r.Node, r.State)
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		said = append(said, text)
		detail = append(detail, map[string]any{"node": r.Node, "state": r.State, "reason": r.Reason})
	}
	if len(said) == 0 {
		return nil
	}
	hint := "see `shield logs --service " + string(name) + "`"
	return &shield.Error{Code: shield.ServiceNotFound, Detail: map[string]any{"services": detail},
		Message: fmt.Sprintf("%q exists and can't be called: %s; %s", string(name), strings.Join(said, "; "), hint)}
}

// firstNode answers whatever names no node.
func firstNode(h Host) shield.NodeID {
	if nodes := h.Project().Nodes; len(nodes) > 0 {
		return nodes[0]
	}
	return shield.LocalNode
}

func qualify(nodes []string, name shield.Name) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n + ":" + string(name)
	}
	return all
}

// explain adds to an error of a call what was meant, perhaps, and what there
// is. A Host need not do it: it is the same for all of them.
func explain(ctx context.Context, h Host, node shield.NodeID, name shield.Name, method string, e *Error) {
	if e == nil || e.Detail != nil {
		return
	}
	var better *shield.Error
	switch e.Code {
	case shield.NodeNotFound:
		better = withKnown(e, string(node), knownNodes(h), "nodes")
	case shield.ServiceNotFound:
		if err := notServing(h, node, name); err != nil {
			e.Message, e.Detail = err.Message, err.Detail
			return
		}
		routes, err := h.Routes(firstNode(h))
		if err != nil {
			return
		}
		better = withNames(&shield.Error{Code: e.Code, Message: e.Message}, name, routes, node)
	case shield.MethodNotFound:
		methods, err := h.Methods(ctx, node, name)
		if err != nil {
			return
		}
		better = withKnown(e, method, methods, "methods")
	default:
		return
	}
	e.Detail = better.Detail
	if !helpful(e.Message) {
		e.Message = better.Message
	}
}

// helpful reports whether a message says already what could have been meant.
func helpful(msg string) bool {
	for _, words := range []string{"did you mean", "known", "it has"} {
		if strings.Contains(msg, words) {
			return true
		}
	}
	return false
}

// withNames adds the names that a misspelt one may have meant. A name that some
// other node publishes is the best guess there is.
func withNames(e *shield.Error, name shield.Name, routes []shield.RouteRow, node shield.NodeID) *shield.Error {
	var names, elsewhere []string
	for _, r := range routes {
		if strings.HasPrefix(string(r.Name), shield.ReservedPrefix) {
			continue
		}
		if r.Name == name && r.Node != node {
			elsewhere = append(elsewhere, string(r.Node))
		}
		if node == "" || r.Node == node {
			names = append(names, string(r.Name))
		}
	}
	if len(elsewhere) > 0 {
		slices.SortFunc(elsewhere, natural)
		e.Message += "; it is on " + strings.Join(elsewhere, " ") + ": " + strings.Join(qualify(elsewhere, name), " ")
		e.Detail = map[string]any{"elsewhere": elsewhere}
		return e
	}
	slices.SortFunc(names, natural)
	where := "names"
	if node != "" {
		where = "names on " + string(node)
	}
	return withKnown(&Error{Code: e.Code, Message: e.Message}, string(name), slices.Compact(names), where)
}

// manyNames is how many known words an error lists.
const manyNames = 12

func withKnown(e *Error, word string, known []string, what string) *shield.Error {
	better := &shield.Error{Code: e.Code, Message: e.Message}
	detail := map[string]any{"known": known}
	if near := shield.Nearest(word, known); near != "" && near != word {
		better.Message += fmt.Sprintf(" (did you mean %q?)", near)
		detail["near"] = near
	}
	switch {
	case len(known) == 0:
		better.Message += "; there are no " + what
	case len(known) > manyNames:
		better.Message += fmt.Sprintf("; %s: %s and %d more", what, strings.Join(known[:manyNames], " "), len(known)-manyNames)
	default:
		better.Message += "; " + what + ": " + strings.Join(known, " ")
	}
	better.Detail = detail
	return better
}

func knownNodes(h Host) []string {
	rows, err := h.Nodes(firstNode(h))
	if err != nil {
		rows = nil
		for _, n := range h.Project().Nodes {
			rows = append(rows, shield.NodeRow{Node: n})
		}
	}
	var names []string
	for _, r := range rows {
		if r.Node != "" {
			names = append(names, string(r.Node))
		}
	}
	slices.SortFunc(names, natural)
	return names
}

// plain is an error's text without its code, for use inside another.
func plain(err error) string { return shield.AsError(err, shield.InvalidName).Message }
