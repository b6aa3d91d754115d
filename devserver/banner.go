package devserver

import (
	"fmt"
	"strings"
	"time"
)

// Banner is what a person sees when every node serves. Every address in it can
// be dialled.
type Banner struct {
	Version  string
	Project  string
	Ready    time.Duration
	Gateways []string // tcp://127.0.0.1:7001
	Control  string   // path of the control socket, as short as it can be said, or the command that chooses it
	Nodes    []string
	Services []string
	Try      string // a target and method that answers
	Watching []string
	Keys     bool // single keys are read from the terminal
}

// maxLine keeps the banner inside an 80-column terminal.
const maxLine = 76

// String is the banner, at most 12 lines.
func (b Banner) String() string {
	var s strings.Builder
	left := fmt.Sprintf("shield %s  %s", b.Version, b.Project)
	right := fmt.Sprintf("ready in %d ms", b.Ready.Milliseconds())
	fmt.Fprintf(&s, "  %s%*s\n\n", left, max(maxLine-2-len(left), len(right)+2), right)
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&s, "  %-9s %s\n", label, text)
		}
	}
	for i, g := range b.Gateways {
		if i == 3 && len(b.Gateways) > 3 {
			row("", fmt.Sprintf("and %d more (shield nodes)", len(b.Gateways)-i))
			break
		}
		label := "gateway"
		if i > 0 {
			label = ""
		}
		row(label, g)
	}
	row("nodes", list(b.Nodes, "shield nodes"))
	row("services", list(b.Services, "shield services"))
	row("control", b.Control)
	row("console", "shield console")
	if b.Try != "" {
		row("try", "shield call "+b.Try)
	}
	s.WriteByte('\n')
	var last []string
	if len(b.Watching) > 0 {
		last = append(last, "watching "+strings.Join(b.Watching, " "))
	}
	if b.Keys {
		last = append(last, "r reload  o console  h help  q quit")
	} else {
		last = append(last, "Ctrl-C stops everything")
	}
	fmt.Fprintf(&s, "  %s\n", strings.Join(last, "   "))
	return s.String()
}

// list names as many items as fit, then the command that shows all.
func list(items []string, verb string) string {
	out := ""
	for i, it := range items {
		more := fmt.Sprintf(" and %d more", len(items)-i)
		if i > 0 && len(out)+len(it)+len(more)+len(verb)+18 > maxLine {
			out += more
			break
		}
		if i > 0 {
			out += " "
		}
		out += it
	}
	if out == "" {
		out = "none"
	}
	return out + "   (" + verb + ")"
}
