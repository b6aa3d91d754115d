package testrun

import "encoding/json"

// Spec is what a child is told, as JSON on its standard input.
type Spec struct {
	Dir     string   `json:"dir"`     // of the project
	File    string   `json:"file"`    // of the tests, relative to Dir, with slashes
	Seed    uint64   `json:"seed"`    // 1 or more
	Run     string   `json:"run"`     // a regular expression that a test's name must match; "" = all
	Timeout int64    `json:"timeout"` // real milliseconds for the file
	Cover   bool     `json:"cover"`
	Level   string   `json:"level"` // of the log that is kept: debug, info, warn, error
	Environ []string `json:"environ"`
}

// The kinds of events.
const (
	EventFile     = "file"     // a file begins
	EventBegin    = "begin"    // a test begins
	EventTest     = "test"     // a test has ended
	EventFileEnd  = "file_end" // a file has ended
	EventCoverage = "coverage" // lines that ran, at the very end
	EventEnd      = "end"      // everything has ended
	eventHits     = "hits"     // from a child: lines that ran
)

// The results of tests and files.
const (
	Pass    = "pass"
	Fail    = "fail"
	Pending = "pending"
	Error   = "error" // of a file: it could not be loaded, or did not end
)

// Event is one thing that happened, in order. With --json each is a line; fields
// may be added, never renamed.
type Event struct {
	Event string `json:"event"`
	File  string `json:"file,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`

	Name   string `json:"name,omitempty"` // of a test: its describes and its own, joined by spaces
	Line   int    `json:"line,omitempty"` // where it stands
	Result string `json:"result,omitempty"`
	Reason string `json:"reason,omitempty"` // why a test is pending

	VirtualMS float64 `json:"virtual_ms"`
	MS        float64 `json:"ms"` // real

	Failure *Failure `json:"failure,omitempty"`
	Log     []string `json:"log,omitempty"`   // of a test that failed
	Again   string   `json:"again,omitempty"` // the command that repeats a failure

	// Of file_end and end.
	Passed   int    `json:"passed,omitempty"`
	Failed   int    `json:"failed,omitempty"`
	Pending  int    `json:"pending,omitempty"`
	Errors   int    `json:"errors,omitempty"`   // files that could not be loaded or did not end
	Turns    uint64 `json:"turns,omitempty"`    // given out
	Schedule string `json:"schedule,omitempty"` // a hash over who had which turn when: equal for equal runs

	// Of coverage.
	Coverage []FileCoverage `json:"coverage,omitempty"`

	Hits map[string]map[int]int `json:"hits,omitempty"` // of a child: file, line, how often
}

// MarshalJSON leaves no count out of what has ended: whoever reads failed wants a
// number there also when it is 0.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	if e.Event != EventFileEnd && e.Event != EventEnd {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct {
		plain
		Passed  int    `json:"passed"`
		Failed  int    `json:"failed"`
		Pending int    `json:"pending"`
		Errors  int    `json:"errors"`
		Turns   uint64 `json:"turns"`
	}{plain(e), e.Passed, e.Failed, e.Pending, e.Errors, e.Turns})
}

// Failure says what went wrong, and where.
type Failure struct {
	Message  string `json:"message"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Source   string `json:"source,omitempty"`   // the text of the line
	Expected string `json:"expected,omitempty"` // of an assertion that compares
	Actual   string `json:"actual,omitempty"`
	Differs  string `json:"differs,omitempty"` // the first places where two tables differ
	Trace    string `json:"trace,omitempty"`   // Lua frames, innermost first
	Stacks   string `json:"stacks,omitempty"`  // of all goroutines, when a file had to be killed
	Load     bool   `json:"load,omitempty"`    // the file, or shield.yaml, could not be loaded
}

// FileCoverage is how much of a script ran.
type FileCoverage struct {
	File   string `json:"file"`
	Hit    int    `json:"hit"`
	Total  int    `json:"total"`
	Missed []int  `json:"missed,omitempty"` // lines
}
