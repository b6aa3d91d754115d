package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"shield/devserver/logs"
	"shield/tui/keys"
)

// workflow is what `shield` alone prints: the way from nothing to a console.
const workflow = `Shield builds, runs and inspects game backends written in Lua.

  shield new mygame && cd mygame               make a project
  shield dev --nodes 3                         run it; saved files go live
  shield call node-2:room.public ping          ask a service
  shield client                                play against it
  shield test                                  test it in virtual time
  shield console                               watch and steer it
  shield run --config node-1.yaml              run one node in production

  shield help             all verbs
  shield help VERB        one verb, with lines to paste
`

// topics are the helps that are no verbs.
var topics = []struct {
	name, short string
	print       func(io *IO) error
}{
	{"exit-codes", "what the exit codes mean", printExitCodes},
	{"keys", "the keys of the console", printKeys},
	{"environment", "the environment variables that shield reads", printEnvironment},
}

// addHelp replaces cobra's help with ours: verbs by what one wants to do, and
// for one verb the lines to paste first.
func addHelp(root *cobra.Command, sio *IO) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if cmd == root {
			fmt.Fprint(sio.Out, helpRoot(root))
			return
		}
		fmt.Fprint(sio.Out, helpVerb(cmd, sio.LineWidth()))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), helpVerb(cmd, 0))
		return err
	})
	help := &cobra.Command{
		Use:     "help [VERB|TOPIC]",
		Short:   "explain a verb or a topic",
		GroupID: groupMore,
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(given) == 0 {
				for _, t := range topics {
					names = append(names, t.name+"\t"+t.short)
				}
				for _, c := range root.Commands() {
					if c.IsAvailableCommand() {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, words []string) error {
			if len(words) == 1 {
				for _, t := range topics {
					if t.name == words[0] {
						return t.print(sio)
					}
				}
			}
			cmd, rest, err := root.Find(words)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownTopic(cmd, rest[0])
			}
			cmd.HelpFunc()(cmd, nil)
			return nil
		},
	}
	root.SetHelpCommand(help)
	root.SetHelpCommandGroupID(groupMore)
	root.SetCompletionCommandGroupID(groupMore)
}

func unknownTopic(cmd *cobra.Command, word string) error {
	err := unknownVerb(cmd, []string{word})
	if f, ok := err.(*failure); ok {
		f.Next = "shield help"
	}
	return err
}

func helpRoot(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Shield builds, runs and inspects game backends written in Lua.\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n%s\n", g.Title)
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
	}
	b.WriteString("\nTopics\n")
	for _, t := range topics {
		fmt.Fprintf(&b, "  %-11s %s\n", t.name, t.short)
	}
	b.WriteString("\nEvery verb\n" + root.PersistentFlags().FlagUsages())
	b.WriteString("\nshield help VERB opens with lines to paste.\n")
	return b.String()
}

// helpVerb is the help of a verb. Where width is not 0, sentences keep to it; the
// lines to paste stay whole.
func helpVerb(cmd *cobra.Command, width int) string {
	var b strings.Builder
	if cmd.Example != "" {
		b.WriteString(strings.Trim(cmd.Example, "\n") + "\n\n")
	}
	text := cmd.Long
	if text == "" {
		text = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	b.WriteString(refill(strings.TrimSpace(text), width) + "\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUsage\n  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nVerbs\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
			}
		}
	}
	if f := cmd.LocalNonPersistentFlags(); f.HasAvailableFlags() {
		b.WriteString("\nFlags\n" + f.FlagUsagesWrapped(width))
	}
	b.WriteString("\nFlags of every verb: --json --color --endpoint -C --help (shield help)\n")
	return b.String()
}

// refill breaks those paragraphs anew that are too wide.
func refill(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		tooWide := func(line string) bool { return ansi.StringWidth(line) > width }
		if width > 0 && slices.ContainsFunc(strings.Split(p, "\n"), tooWide) {
			paragraphs[i] = logs.Wrap(strings.Join(strings.Fields(p), " "), "", width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func printExitCodes(sio *IO) error {
	return Print(sio, exitCodes, []Column[exitRow]{
		{Head: "CODE", Right: true, Cell: func(r exitRow) string { return fmt.Sprint(r.Code) }},
		{Head: "NAME", Cell: func(r exitRow) string { return r.Name }},
		{Head: "MEANING", Prose: true, Cell: func(r exitRow) string { return r.Meaning }},
	}, "")
}

// keyRow is one key of the console; no views = it works in all of them.
type keyRow struct {
	Key   string   `json:"key"`
	Help  string   `json:"help"`
	Views []string `json:"views"`
}

func printKeys(sio *IO) error {
	if sio.JSON {
		var rows []keyRow
		for i := range keys.Table {
			b := &keys.Table[i]
			row := keyRow{Key: b.Label(), Help: b.Help, Views: []string{}}
			for _, v := range b.Views {
				row.Views = append(row.Views, v.Word())
			}
			rows = append(rows, row)
		}
		return sio.PrintJSON(rows)
	}
	_, err := fmt.Fprint(sio.Out, keys.Text())
	return err
}

// envRow is one environment variable that shield reads.
type envRow struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

var envRows = []envRow{
	{"SHIELD__SECTION__KEY", "overrides a key of shield.yaml: SHIELD__CLUSTER__NODE_ID=node-1"},
	{"", "entries of a list by number: SHIELD__SERVICES__0__INSTANCES=2"},
	{"", "a whole list by commas, or as YAML: SHIELD__CLUSTER__PEERS=a:9000,b:9000"},
	{"SHIELD_ENDPOINT", "the control API to talk to, like --endpoint"},
	{"SHIELD_CONTROL_TOKEN", "the token of a control API that is reached over tcp://"},
	{"SHIELD_CLUSTER_TOKEN", "read by the shield.yaml that shield new writes; .env sets it"},
	{"NO_COLOR", "any value but the empty one: no colour"},
	{"CLICOLOR_FORCE", "any value but 0: colour without a terminal"},
	{"TERM", "dumb: no colour"},
}

func printEnvironment(sio *IO) error {
	rows := envRows
	if sio.JSON {
		rows = nil
		for _, r := range envRows {
			if r.Name != "" {
				rows = append(rows, r)
			}
		}
	}
	return Print(sio, rows, []Column[envRow]{
		{Head: "VARIABLE", Cell: func(r envRow) string { return orBlank(r.Name) }},
		{Head: "MEANING", Prose: true, Cell: func(r envRow) string { return r.Meaning }},
	}, "")
}

// orBlank keeps a cell empty that the table would fill with a dash.
func orBlank(s string) string {
	if s == "" {
		return " "
	}
	return s
}

// addCompletion lets cobra make its completion verb and words it like ours.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "print the completion script of a shell"
			c.Example = "  source <(shield completion bash)\n  shield completion zsh > ~/.zfunc/_shield\n  shield completion fish > ~/.config/fish/completions/shield.fish"
			c.Long = "Prints the script that completes verbs, flags, and the nodes, services and sessions of a running project.\nThat of bash needs the package bash-completion."
		}
	}
}
