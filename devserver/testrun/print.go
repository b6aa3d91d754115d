package testrun

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Printer writes events for people.
type Printer struct {
	W     io.Writer
	Good  func(string) string // paints; nil = plain
	Bad   func(string) string
	Faint func(string) string
	Clean func(string) string // takes out what a terminal would obey; nil = nothing
	Seeds int                 // how many the run has; with more than one, tests that pass are not listed

	failed map[string]bool // what was printed in full, whatever the seed
}

// Print writes one event; most have a line, some none.
func (p *Printer) Print(e *Event) {
	switch e.Event {
	case EventFile:
		if p.Seeds <= 1 {
			fmt.Fprintln(p.W, e.File)
		}
	case EventTest:
		p.test(e)
	case EventFileEnd:
		p.fileEnd(e)
	case EventCoverage:
		p.coverage(e)
	case EventEnd:
		p.end(e)
	}
}

func (p *Printer) clean(s string) string {
	if p.Clean == nil {
		return s
	}
	return p.Clean(s)
}

func (p *Printer) paint(paint func(string) string, s string) string {
	s = p.clean(s)
	if paint == nil {
		return s
	}
	return paint(s)
}

func (p *Printer) test(e *Event) {
	if p.Seeds > 1 && e.Result != Fail {
		return
	}
	if p.Seeds > 1 {
		key := fmt.Sprintf("%s %s %s", e.File, e.Name, e.Failure.Message)
		if p.failed[key] {
			return // the same failure with another seed says nothing new
		}
		if p.failed == nil {
			p.failed = map[string]bool{}
		}
		p.failed[key] = true
		fmt.Fprintf(p.W, "%s  seed %d\n", e.File, e.Seed)
	}
	word := p.paint(p.Good, "ok     ")
	switch e.Result {
	case Fail:
		word = p.paint(p.Bad, "FAIL   ")
	case Pending:
		word = p.paint(p.Faint, "pending")
	}
	times := p.paint(p.Faint, fmt.Sprintf("%s in %s", span(e.VirtualMS), span(e.MS)))
	fmt.Fprintf(p.W, "  %s %-52s %s\n", word, p.clean(e.Name), times)
	if e.Result == Pending {
		fmt.Fprintf(p.W, "          %s:%d: %s\n", e.File, e.Line, p.clean(e.Reason))
	}
	if e.Failure != nil {
		p.failure(e.Failure)
		p.log(e.Log)
		fmt.Fprintf(p.W, "          again: %s\n", p.clean(e.Again))
	}
}

func (p *Printer) failure(f *Failure) {
	place := ""
	if f.File != "" && f.Line > 0 {
		place = fmt.Sprintf("%s:%d: ", f.File, f.Line)
	} else if f.File != "" {
		place = f.File + ": "
	}
	if strings.HasPrefix(f.Message, place) {
		place = ""
	}
	p.block("          ", place+f.Message)
	if f.Source != "" {
		fmt.Fprintf(p.W, "          %s\n", p.paint(p.Faint, "    "+f.Source))
	}
	if f.Expected != "" || f.Actual != "" {
		p.labelled("expected: ", f.Expected, p.Good)
		p.labelled("got:      ", f.Actual, p.Bad)
	}
	if f.Differs != "" {
		p.labelled("differs:  ", f.Differs, nil)
	}
	if f.Trace != "" {
		p.labelled("trace:    ", f.Trace, p.Faint)
	}
	if f.Stacks != "" {
		p.block("          ", telling(f.Stacks))
	}
}

// telling picks the goroutines out of all stacks that say where a file hangs: its
// own, and those that run. With --json there are all.
func telling(stacks string) string {
	const most, lines = 3, 14
	var picked []string
	all := strings.Split(strings.TrimSpace(stacks), "\n\n")
	for _, g := range all {
		head, _, _ := strings.Cut(g, "\n")
		own := strings.Contains(g, "testrun.(*runner)") || strings.Contains(head, "[runnable") || strings.Contains(head, "[running")
		if !own || strings.Contains(g, "testrun.(*guard)") || len(picked) == most {
			continue
		}
		if l := strings.Split(g, "\n"); len(l) > lines {
			g = strings.Join(l[:lines], "\n") + "\n..."
		}
		picked = append(picked, g)
	}
	return fmt.Sprintf("%d goroutines were there (all of them with --json), among them:\n\n%s", len(all), strings.Join(picked, "\n\n"))
}

func (p *Printer) block(indent, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(p.W, "%s%s\n", indent, p.clean(line))
	}
}

// labelled prints lines under a label of ten columns.
func (p *Printer) labelled(label, text string, paint func(string) string) {
	if text == "" {
		return
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		fmt.Fprintf(p.W, "            %s%s\n", label, p.paint(paint, line))
	}
}

func (p *Printer) log(lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(p.W, "          log:")
	for _, line := range lines {
		for part := range strings.SplitSeq(line, "\n") {
			fmt.Fprintf(p.W, "            %s\n", p.paint(p.Faint, part))
		}
	}
}

func (p *Printer) fileEnd(e *Event) {
	if e.Result != Error {
		return
	}
	if p.Seeds > 1 {
		fmt.Fprintf(p.W, "%s  seed %d\n", e.File, e.Seed)
	}
	fmt.Fprintf(p.W, "  %s\n", p.paint(p.Bad, "ERROR"))
	p.failure(e.Failure)
	fmt.Fprintf(p.W, "          again: %s\n", p.clean(e.Again))
}

func (p *Printer) coverage(e *Event) {
	fmt.Fprintln(p.W, "\nlines that ran")
	hit, total := 0, 0
	for _, c := range e.Coverage {
		hit, total = hit+c.Hit, total+c.Total
		fmt.Fprintf(p.W, "  %-40s %4d of %4d  %5.1f %%", c.File, c.Hit, c.Total, percent(c.Hit, c.Total))
		if len(c.Missed) > 0 {
			fmt.Fprintf(p.W, "  not: %s", ranges(c.Missed))
		}
		fmt.Fprintln(p.W)
	}
	fmt.Fprintf(p.W, "  %-40s %4d of %4d  %5.1f %%\n", "all", hit, total, percent(hit, total))
}

func percent(hit, total int) float64 {
	if total == 0 {
		return 100
	}
	return 100 * float64(hit) / float64(total)
}

// ranges writes line numbers shortly: 3-5, 9.
func ranges(lines []int) string {
	var parts []string
	for i := 0; i < len(lines); {
		j := i
		for j+1 < len(lines) && lines[j+1] == lines[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(lines[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", lines[i], lines[j]))
		}
		i = j + 1
	}
	const most = 12
	if len(parts) > most {
		parts = append(parts[:most], "...")
	}
	return strings.Join(parts, ", ")
}

func (p *Printer) end(e *Event) {
	word := p.paint(p.Good, "ok")
	if e.Result != Pass {
		word = p.paint(p.Bad, "FAIL")
	}
	fmt.Fprintf(p.W, "\n%s  %d passed, %d failed, %d pending", word, e.Passed, e.Failed, e.Pending)
	switch e.Errors {
	case 0:
	case 1:
		fmt.Fprint(p.W, ", 1 file with errors")
	default:
		fmt.Fprintf(p.W, ", %d files with errors", e.Errors)
	}
	if p.Seeds > 1 {
		fmt.Fprintf(p.W, " over %d seeds", p.Seeds)
	}
	fmt.Fprintf(p.W, "   %s of virtual time in %s\n", span(e.VirtualMS), span(e.MS))
}

// span writes milliseconds as people do.
func span(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd%s", d/(24*time.Hour), (d % (24 * time.Hour)).Round(time.Second))
}
