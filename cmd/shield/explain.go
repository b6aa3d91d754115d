package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"shield/devserver/logs"
	"shield/runtime/shield"
)

func newExplain(io *IO) *cobra.Command {
	return &cobra.Command{
		Use:     "explain [CODE]",
		Short:   "what an error code means and what to do",
		GroupID: groupMore,
		Example: "  shield explain node_offline\n  shield explain                      # all codes\n  shield explain timeout --json",
		Args:    args(cobra.MaximumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return codeNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, a []string) error {
			if len(a) == 0 {
				return explainAll(io)
			}
			info, ok := shield.Code(a[0]).Info()
			if !ok {
				if near := nearestCode(a[0]); near != "" {
					return fail(exitUsage, "shield explain "+near, "no error code %q (did you mean %q?)", a[0], near)
				}
				return fail(exitUsage, "shield explain", "no error code %q", a[0])
			}
			if io.JSON {
				return io.PrintJSON(info)
			}
			const hang = "          " // below the words, not below what they are about
			width := io.LineWidth()
			_, err := fmt.Fprintf(io.Out, "%s\n\n%s\n\n%s\n%s\n%s\n", io.PaintOut(Bold, string(info.Code)), logs.Wrap(info.Meaning, "", width),
				logs.Wrap("  causes  "+info.Causes, hang, width), logs.Wrap("  cure    "+info.Cure, hang, width), logs.Wrap("  retry   "+retryWords(info), hang, width))
			return err
		},
	}
}

func retryWords(info shield.CodeInfo) string {
	if info.Retry {
		return "the same call may succeed a little later"
	}
	return "the same call will fail again until something changes"
}

func codeNames() []string {
	var names []string
	for _, c := range shield.Codes() {
		names = append(names, string(c))
	}
	return names
}

// nearestCode is the code that was meant: one whose last part was given as it
// is, else the nearest by its letters.
func nearestCode(s string) string {
	for _, name := range codeNames() {
		if strings.HasSuffix(name, "."+s) {
			return name
		}
	}
	return shield.Nearest(s, codeNames())
}

func explainAll(io *IO) error {
	var rows []shield.CodeInfo
	for _, c := range shield.Codes() {
		info, _ := c.Info()
		rows = append(rows, info)
	}
	return Print(io, rows, []Column[shield.CodeInfo]{
		{Head: "CODE", Cell: func(r shield.CodeInfo) string { return string(r.Code) }},
		{Head: "RETRY", Cell: func(r shield.CodeInfo) string {
			if r.Retry {
				return "yes"
			}
			return "no"
		}},
		{Head: "MEANING", Prose: true, Cell: func(r shield.CodeInfo) string { return r.Meaning }},
	}, "")
}
