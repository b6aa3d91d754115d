package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shield/runtime/control/client"
	"shield/runtime/control/repl"
)

// shell is `shield repl` without a target: every verb without the word shield.
type shell struct {
	io       *IO
	readOnly bool
	exit     int // of the last line that failed
}

// clusterShell takes verbs until there are no more.
func clusterShell(ctx context.Context, io *IO, c *client.Client, readOnly bool) error {
	project, err := c.Project(ctx)
	if err != nil {
		return err
	}
	io.Endpoint = c.Endpoint().String() // the same project for every line
	s := &shell{io: io, readOnly: readOnly}
	if io.InTTY && io.OutTTY && !io.JSON {
		return s.byHand(ctx, project.Name)
	}
	in := io.Input(ctx)
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), repl.MaxSource)
	for lines.Scan() && ctx.Err() == nil {
		if s.line(ctx, lines.Text(), nil) {
			break
		}
	}
	if err := errors.Join(ctx.Err(), lines.Err()); err != nil {
		return err
	}
	if s.exit != exitOK {
		return quiet(s.exit)
	}
	return nil
}

func (s *shell) byHand(ctx context.Context, project string) error {
	s.io.Note("%s: every verb without the word shield; help lists them, `repl TARGET` talks to a service, Ctrl-D leaves", clean(project))
	var p *prompt
	words := func(line string, pos int, _ rune) (string, int, bool) {
		from, fits := s.words(ctx, line[:pos])
		return offer(line, pos, from, fits, func(t string) { fmt.Fprint(p.screen, clean(t)+"\n") })
	}
	signals := s.io.TakeSignals()
	p, err := newPrompt(ctx, s.io, signals, words)
	if err != nil {
		return err
	}
	defer p.in.Close()
	history := openHistory("shell_history")
	p.screen.History = history
	for {
		line, err := p.ReadLine(clean(project) + "> ")
		switch {
		case errors.Is(err, errBreak):
			continue
		case errors.Is(err, stdio.EOF):
			fmt.Fprintln(s.io.Err)
			return history.said()
		case err != nil:
			return err
		}
		if s.line(ctx, line, signals) {
			return history.said()
		}
	}
}

// line runs one line and reports whether it was the last.
func (s *shell) line(ctx context.Context, line string, signals <-chan os.Signal) (last bool) {
	words, err := splitWords(line)
	if err == nil && len(words) > 0 && words[0] == "shield" {
		words = words[1:] // who is used to it
	}
	switch {
	case err != nil:
		s.refuse(err)
	case len(words) == 0:
	case words[0] == "exit" || words[0] == "quit" || words[0] == ".quit" || words[0] == ".exit":
		return true
	case words[0] == ".help":
		s.run(ctx, []string{"help"}, signals)
	default:
		if err := s.allowed(words); err != nil {
			s.refuse(err)
			return false
		}
		if s.readOnly && words[0] == "repl" {
			words = append(words, "--read-only")
		}
		s.run(ctx, words, signals)
	}
	return false
}

func (s *shell) refuse(err error) {
	s.exit = exitOf(context.Background(), err)
	printError(s.io, "repl", err, s.exit)
}

// run carries a verb out as the program would.
func (s *shell) run(ctx context.Context, words []string, signals <-chan os.Signal) {
	sub := s.io.Within(s.io.Dir, signals)
	sub.JSON, sub.Endpoint = s.io.JSON, s.io.Endpoint
	if signals == nil {
		sub.In, sub.InTTY = strings.NewReader(""), false // the input is our own
	}
	if exit := run(ctx, words, sub); exit != exitOK {
		s.exit = exit
	}
}

// notHere are verbs that make no sense inside of another.
var notHere = []string{"dev", "run", "demo", "console", "completion"}

// looking are the verbs outside of the looking group that change nothing.
var looking = []string{"check", "config", "wait", "repl"}

// allowed refuses what can't be done from here, and with --read-only what
// changes something.
func (s *shell) allowed(words []string) error {
	cmd, rest, err := newRoot(s.io.Within(s.io.Dir, nil)).Find(words)
	if err != nil || cmd.Parent() == nil {
		return nil // the verb itself will say so
	}
	top := cmd
	for top.Parent().HasParent() {
		top = top.Parent()
	}
	switch name := top.Name(); {
	case slices.Contains(notHere, name):
		return fail(exitUsage, "shield "+name, "%s runs by itself, not from here", name)
	case name == "repl" && !slices.ContainsFunc(rest, func(a string) bool { return !strings.HasPrefix(a, "-") }):
		return fail(exitUsage, "repl room.public", "you are there already; repl TARGET talks to a service")
	case name == "repl" && !s.io.InTTY:
		return fail(exitUsage, "shield repl "+strings.Join(rest, " ")+" < lines.lua", "on a pipe every line here is a verb; give the lines for a service to a repl of its own")
	case s.readOnly && top.GroupID != groupLook && top.GroupID != groupMore && !slices.Contains(looking, name):
		return fail(exitUsage, "shield "+strings.Join(words, " "), "this session is read-only, and %s changes something", name)
	}
	return nil
}

// words completes the last word of a line as the shell's own tab key would.
func (s *shell) words(ctx context.Context, line string) (from int, fits []string) {
	from = strings.LastIndexByte(line, ' ') + 1
	before, err := splitWords(line[:from])
	if err != nil {
		return from, nil
	}
	var out bytes.Buffer
	sub := s.io.Within(s.io.Dir, nil)
	sub.Endpoint, sub.In, sub.Out, sub.Err = s.io.Endpoint, strings.NewReader(""), &out, stdio.Discard
	if run(ctx, append(append([]string{cobra.ShellCompNoDescRequestCmd}, before...), line[from:]), sub) != exitOK {
		return from, nil
	}
	for l := range strings.Lines(out.String()) {
		if w := strings.TrimSpace(l); w != "" && !strings.HasPrefix(w, ":") && strings.HasPrefix(w, line[from:]) {
			fits = append(fits, w)
		}
	}
	return from, fits
}

// splitWords cuts a line as a shell does: blanks part words, quotes and
// backslashes keep them together, # begins a comment.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			inWord, quote = true, c
		case c == '#' && !inWord:
			return words, nil
		case c == ' ' || c == '\t' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if quote != 0 || escaped {
		return nil, fail(exitUsage, "", "the line ends inside of quotes")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
