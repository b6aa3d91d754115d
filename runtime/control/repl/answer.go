package repl

import (
	"fmt"
	"strings"

	"shield/runtime/control"
	"shield/runtime/shield"
)

// Kind says what a block is, and with it where it goes and how it looks.
type Kind int

const (
	Value   Kind = iota // what was asked for
	Output              // what the Lua printed; it ends where the Lua ended it
	Alarm               // what was asked for, and it is bad
	Note                // beside the result
	Aside               // the same, of little weight
	Hint                // what may have been meant
	Warning             // something to know
	Failure             // why the line failed
	Trace               // the stack of a failure
)

// Block is a part of an answer. Its text is foreign: it may have several lines
// and whatever bytes.
type Block struct {
	Kind  Kind
	Text  string
	Kept  string // of a Value: what kind of thing it is
	Table *Table // instead of Text
}

// Table is rows for people; without rows it says why there are none.
type Table struct {
	Head  []string
	Right []bool // the columns of numbers
	Rows  [][]string
	Empty string
}

// Answer is what a line came to.
type Answer struct {
	Blocks []Block

	// Watched says that the answer is one look of a .watch, which changed.
	Watched bool

	// For programs: how the Lua ended, what a reload did, or the Value of a
	// command under its Key, or the error of one.
	Result *control.CallResult
	Reload *control.ReloadResult
	Key    string
	Value  any
	Err    error
}

func (a *Answer) say(kind Kind, text string) {
	a.Blocks = append(a.Blocks, Block{Kind: kind, Text: text})
}

// result is what a turn came to.
func (s *Session) result(res control.CallResult) Answer {
	a := Answer{Result: &res}
	s.changed(&a, res)
	if res.Output != "" {
		a.say(Output, res.Output)
	}
	if !res.OK {
		a.failed(res)
		return a
	}
	for _, text := range res.Text {
		a.say(Value, text)
	}
	if res.Hint != "" {
		a.say(Hint, res.Hint)
	}
	if res.Ended != "" {
		a.say(Warning, "the line has ended the service: "+res.Ended)
	}
	return a
}

// changed says that the service is not what it was at the line before.
func (s *Session) changed(a *Answer, res control.CallResult) {
	if res.ID == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case res.ID != s.id && s.begun:
		a.say(Warning, "-- it was started afresh; the locals of this session are gone --")
	case res.ID != s.id:
		a.say(Warning, "-- it was started afresh --")
	case res.Generation != s.gen:
		a.say(Aside, fmt.Sprintf("-- generation %d -> %d; the locals of this session were kept --", s.gen, res.Generation))
	}
	s.id, s.gen, s.begun = res.ID, res.Generation, true
}

// failed says why a line failed: the reason, what may have been meant, and the
// stack where there is more to it than the line itself.
func (a *Answer) failed(res control.CallResult) {
	e := res.Error // never nil: the client sees to that
	text := string(e.Code) + ": " + e.Message
	if e.Code == shield.HandlerError || e.Code == shield.ScriptLoadFailed {
		text = e.Message
	}
	a.say(Failure, text)
	if res.Hint != "" {
		a.say(Hint, res.Hint)
	}
	if trace, ok := e.Detail.(string); ok && (e.Code != shield.HandlerError || leadsAway(trace)) {
		a.say(Trace, trace)
	}
}

// leadsAway reports whether a traceback says more than that the line failed.
func leadsAway(trace string) bool {
	for l := range strings.Lines(trace) {
		if strings.HasPrefix(l, "\t") && !strings.HasPrefix(l, "\t[Go]") && !strings.HasPrefix(l, "\trepl:") {
			return true
		}
	}
	return false
}
