package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"shield/devserver/logs"
	"shield/runtime/config"
	"shield/runtime/control"
	"shield/runtime/shield"
)

// The exit codes, DESIGN.md section 5.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNobody      = 3
	exitCall        = 4
	exitInvalid     = 5
	exitTimeout     = 6
	exitInternal    = 70
	exitInterrupted = 130
)

// exitCodes is what `shield help exit-codes` prints.
var exitCodes = []exitRow{
	{exitOK, "ok", "it worked"},
	{exitFailed, "failed", "it was tried and did not work; the message says why"},
	{exitUsage, "usage", "wrong verb, flag or argument, or no terminal where one is needed"},
	{exitNobody, "nobody", "there is nothing to talk to: no dev server, no node at that endpoint"},
	{exitCall, "call", "the call reached its target and ended with an error other than timeout"},
	{exitInvalid, "invalid", "shield.yaml, rpc.yaml or a script is wrong"},
	{exitTimeout, "timeout", "the call had no answer in time"},
	{exitInternal, "internal", "a fault in shield itself; a crash file was written"},
	{exitInterrupted, "interrupted", "Ctrl-C"},
}

type exitRow struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

// failure is an error that knows its exit code and what to type next.
type failure struct {
	Exit int
	Err  error
	Next string // the next command; the last line a person reads
	// Quiet failures have printed all there is to say, such as the outcome of
	// a call with --json: only the exit code is left.
	Quiet bool
}

func (f *failure) Error() string { return f.Err.Error() }
func (f *failure) Unwrap() error { return f.Err }

// fail makes an error with an exit code and the next command.
func fail(exit int, next, format string, args ...any) error {
	return &failure{Exit: exit, Next: next, Err: fmt.Errorf(format, args...)}
}

// quiet ends with an exit code and prints nothing more.
func quiet(exit int) error {
	return &failure{Exit: exit, Quiet: true, Err: fmt.Errorf("exit %d", exit)}
}

// errInterrupted is the cause of a context that Ctrl-C cancelled.
var errInterrupted = errors.New("interrupted")

// exitOf maps an error to the exit code of the process.
func exitOf(ctx context.Context, err error) int {
	var f *failure
	var ps config.Problems
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.Exit
	case errors.As(err, &ps):
		return exitInvalid
	case errors.Is(err, errInterrupted),
		errors.Is(err, context.Canceled) && context.Cause(ctx) == errInterrupted:
		return exitInterrupted
	default:
		return exitFailed
	}
}

// exitOfCall maps how a call ended to the exit code of the process.
func exitOfCall(r control.CallResult) int {
	switch {
	case r.OK:
		return exitOK
	case r.Error != nil && r.Error.Code == shield.Timeout:
		return exitTimeout
	}
	return exitCall
}

// errorRow is an error with --json, one object on standard error.
type errorRow struct {
	Code     string           `json:"code"` // an error code, else the name of the exit code
	Message  string           `json:"message"`
	Exit     int              `json:"exit"`
	Next     string           `json:"next,omitempty"`
	Problems []config.Problem `json:"problems,omitempty"`
}

// printError writes err for people, the last line being the next command, or as
// one JSON object.
func printError(io *IO, verb string, err error, exit int) {
	var f *failure
	if errors.As(err, &f) && f.Quiet {
		return
	}
	row := errorRow{Code: exitName(exit), Message: clean(err.Error()), Exit: exit, Next: nextOf(err)}
	if c := shield.CodeOf(err); c != "" {
		row.Code = string(c)
		row.Message = strings.TrimPrefix(row.Message, row.Code+": ") // it has a field of its own, as in a call's result
	}
	var ps config.Problems
	if errors.As(err, &ps) {
		row.Problems = ps
		row.Message = plural(len(ps), "problem")
	}
	if io.JSON {
		line, _ := json.Marshal(map[string]errorRow{"error": row}) // plain strings and ints always encode
		fmt.Fprintf(io.Err, "%s\n", line)
		return
	}
	for _, p := range ps {
		fmt.Fprintln(io.Err, clean(p.String()))
	}
	name := strings.TrimSpace("shield " + verb)
	message, more, several := strings.Cut(cleanLines(row.messageForPeople(err)), "\n")
	message = io.PaintErr(Red, name) + ": " + message
	if io.ErrTTY { // else a program reads it by lines
		message = logs.Wrap(message, "    ", io.LineWidth())
	}
	fmt.Fprintln(io.Err, message)
	if several {
		fmt.Fprintln(io.Err, more)
	}
	if text := detailOf(err); text != "" {
		fmt.Fprintln(io.Err, io.PaintErr(Faint, cleanLines(text)))
	}
	if row.Next != "" {
		fmt.Fprintf(io.Err, "  %s\n", clean(row.Next))
	}
}

// detailOf is the source line or the traceback of a script's error. It stands
// below the error, as the last lines of a terminal are read first.
func detailOf(err error) string {
	var e *shield.Error
	if !errors.As(err, &e) {
		return ""
	}
	text, _ := e.Detail.(string)
	return strings.TrimRight(text, "\n")
}

func (r errorRow) messageForPeople(err error) string {
	if len(r.Problems) > 0 {
		return r.Message
	}
	return err.Error()
}

func nextOf(err error) string {
	var f *failure
	if errors.As(err, &f) && f.Next != "" {
		return f.Next
	}
	if c := shield.CodeOf(err); c != "" {
		return "shield explain " + string(c)
	}
	if errors.As(err, new(config.Problems)) {
		return "shield check"
	}
	return ""
}

func exitName(exit int) string {
	for _, r := range exitCodes {
		if r.Code == exit {
			return r.Name
		}
	}
	return "failed"
}

// plural is "1 problem" or "2 problems".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
