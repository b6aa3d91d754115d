package reload

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"shield/runtime/shield"
)

// This file says what became of a round.

// tell writes what became of one group to the log: one line, and what belongs to
// it.
func (rl *Reloader) tell(rs []Result, took time.Duration) {
	if len(rs) == 0 {
		return
	}
	files := map[string]bool{}
	nodes := map[shield.NodeID]bool{}
	said := map[string]bool{}
	for _, r := range rs {
		for _, f := range r.Files {
			files[path.Base(f)] = true
		}
		nodes[r.Node] = true
	}
	what := strings.Join(sorted(files), ", ")
	at := []any{"service", "reload", "event", "reload"}
	switch first := rs[0]; first.Outcome {
	case Reloaded:
		rl.cfg.Log.Info(fmt.Sprintf("%s: %s in %.1f ms on %s", what, steps(rs), float64(took.Microseconds())/1000, count(len(nodes), "node")),
			append(at, "generation", first.To, "code", first.Code)...)
	case Undone:
		rl.cfg.Log.Info(fmt.Sprintf("%s undone: %s on %s; what is on disk is not loaded until it changes again", what, steps(rs), count(len(nodes), "node")),
			append(at, "generation", first.To, "code", first.Code)...)
	default:
		for _, r := range rs {
			if r.Outcome != HeldBack {
				rl.cfg.Log.Error(Explain(r), at...)
				break
			}
		}
	}
	for _, r := range rs {
		for _, w := range append(slices.Clone(r.Warnings), r.Lost...) {
			if r.Outcome == Undone && slices.Contains(r.Lost, w) {
				w = "lost: " + w
			}
			if !said[w] {
				said[w] = true
				rl.cfg.Log.Warn(w, append(at, "node", string(r.Node))...)
			}
		}
	}
}

// tellRestored ends the story of a save that could not be loaded: the files hold
// again what runs.
func (rl *Reloader) tellRestored(rs []Result) {
	var all []string
	for _, r := range rs {
		if s := fmt.Sprintf("%s gen %d (%s)", r.Service, r.From, r.Code); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		rl.cfg.Log.Info("restored: the files hold again what runs, "+strings.Join(all, ", "), "service", "reload", "event", "reload")
	}
}

// steps lists what each service went through: "room gen 4 -> 5 (a41f9c2)".
func steps(rs []Result) string {
	var all []string
	for _, r := range rs {
		s := fmt.Sprintf("%s gen %d -> %d (%s)", r.Service, r.From, r.To, r.Code)
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) > 3 {
		all = append(all[:3:3], fmt.Sprintf("and %d more", len(all)-3))
	}
	return strings.Join(all, ", ")
}

// Explain says why a service was not reloaded, where, and what to do, in a few
// lines.
func Explain(r Result) string {
	var b strings.Builder
	b.WriteString(r.Err.Error())
	var p *Problem
	if errors.As(r.Err, &p) {
		if e := p.Excerpt(); e != "" {
			b.WriteString("\n" + e)
		}
		if p.Opened > 0 && !strings.Contains(p.Text, fmt.Sprintf("line %d", p.Opened)) {
			fmt.Fprintf(&b, "\n(opened at line %d)", p.Opened)
		}
	}
	if r.From == 0 {
		fmt.Fprintf(&b, "\n%s does not run; it is started again when a script is saved", r.Service)
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s: gen %d keeps serving", r.Service, r.From)
	var refused *Refused
	switch {
	case errors.As(r.Err, &refused):
		b.WriteString(restartHint(r.Service))
	case errors.Is(r.Err, shield.Timeout):
		b.WriteString("; it is tried again at the next save")
	}
	return b.String()
}

func restartHint(name shield.Name) string {
	return "; to start afresh, without the old state: shield reload --restart " + strings.Trim(string(name), "()")
}

func sorted(set map[string]bool) []string {
	var all []string
	for s := range set {
		all = append(all, s)
	}
	sort.Strings(all)
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
