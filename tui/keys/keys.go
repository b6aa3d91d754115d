// Package keys is the one table of the console's keys. The footer, the `?`
// screen, `:help keys` and the documentation are printed from it; the model
// acts on what it finds here and on nothing else.
//
// It starts no goroutines, does no I/O and keeps no state.
package keys

import (
	"fmt"
	"strings"
)

// View is one screen of the console.
type View int

const (
	Overview View = iota
	Nodes
	Routes
	Sessions
	Services
	Calls
	Logs
	REPL
	Views // how many there are
)

var viewNames = [Views]string{"Overview", "Nodes", "Routes", "Sessions", "Services", "Calls", "Logs", "REPL"}

func (v View) String() string {
	if v < 0 || v >= Views {
		return fmt.Sprintf("View(%d)", int(v))
	}
	return viewNames[v]
}

// Word is the view's name as a command: nodes, routes, ...
func (v View) Word() string { return strings.ToLower(v.String()) }

// ViewOf finds a view by its word.
func ViewOf(word string) (View, bool) {
	for v := range Views {
		if v.Word() == word {
			return v, true
		}
	}
	return 0, false
}

// Action is what a key does.
type Action string

const (
	Show        Action = "show" // a view, by its digit
	NextPane    Action = "next-pane"
	PrevPane    Action = "prev-pane"
	Down        Action = "down"
	Up          Action = "up"
	Top         Action = "top"
	Bottom      Action = "bottom"
	HalfDown    Action = "half-down"
	HalfUp      Action = "half-up"
	PanLeft     Action = "pan-left"
	PanRight    Action = "pan-right"
	Open        Action = "open"
	Back        Action = "back"
	Filter      Action = "filter"
	Command     Action = "command"
	Help        Action = "help"
	Sort        Action = "sort"
	Reverse     Action = "reverse"
	Wide        Action = "wide"
	Copy        Action = "copy"
	CopyCommand Action = "copy-command"
	CopyJSON    Action = "copy-json"
	Pause       Action = "pause"
	Mouse       Action = "mouse"
	Theme       Action = "theme"
	Redraw      Action = "redraw"
	Suspend     Action = "suspend"
	Quit        Action = "quit"
	Interrupt   Action = "interrupt"

	LogOf   Action = "log-of"
	Trace   Action = "trace"
	Reload  Action = "reload"
	Drain   Action = "drain"
	Kill    Action = "kill"
	Restart Action = "restart"
	Kick    Action = "kick"
	Attach  Action = "attach"
	CallIt  Action = "call"
	Errors  Action = "errors"
	Follow  Action = "follow"
	Level   Action = "level"
	Wrap    Action = "wrap"
	Next    Action = "next"
	Clock   Action = "clock"
	Insert  Action = "insert"
)

// Binding is one line of the table.
type Binding struct {
	Keys   []string // as Bubble Tea spells them
	Show   string   // as a person reads them; "" = the first of Keys
	Short  string   // in the footer; "" = not there
	Help   string   // in `?` and the docs
	Action Action
	Views  []View // nil: everywhere
	Acts   bool   // changes the cluster: absent with --read-only
	Verb   string // what the server must understand for it
	Rank   int    // in the footer: the lowest leaves first
}

// Label is how the key is shown.
func (b *Binding) Label() string {
	if b.Show != "" {
		return b.Show
	}
	return b.Keys[0]
}

// Everywhere reports whether b works in every view.
func (b *Binding) Everywhere() bool { return b.Views == nil }

// In reports whether b works in view v.
func (b *Binding) In(v View) bool {
	if b.Views == nil {
		return true
	}
	for _, w := range b.Views {
		if w == v {
			return true
		}
	}
	return false
}

var tables = []View{Overview, Nodes, Routes, Sessions, Services, Calls}

// Table is every key of the console, in the order `?` prints it.
var Table = []Binding{
	{Keys: []string{"enter"}, Short: "open", Help: "open the row, or the pane", Action: Open, Views: []View{Overview, Nodes, Routes, Sessions, Services, Calls}, Rank: 80},
	{Keys: []string{"l"}, Short: "log", Help: "its log lines", Action: LogOf, Views: []View{Overview, Nodes, Routes, Services}, Rank: 60},
	{Keys: []string{"t"}, Short: "calls", Help: "its calls", Action: Trace, Views: []View{Nodes, Routes, Sessions, Services}, Rank: 50},
	{Keys: []string{"r"}, Short: "reload", Help: "reload its code now", Action: Reload, Views: []View{Nodes, Services}, Acts: true, Verb: "reload", Rank: 55},
	{Keys: []string{"a"}, Short: "repl", Help: "attach the REPL to it", Action: Attach, Views: []View{Routes, Services}, Acts: true, Verb: "eval", Rank: 54},
	{Keys: []string{"c"}, Short: "call", Help: "call it: type the method and arguments", Action: CallIt, Views: []View{Routes, Services, Calls}, Acts: true, Verb: "call", Rank: 53},
	{Keys: []string{"d"}, Short: "drain", Help: "drain the node, asks first", Action: Drain, Views: []View{Nodes}, Acts: true, Verb: "drain", Rank: 52},
	{Keys: []string{"K"}, Short: "kill", Help: "kill the node, asks first", Action: Kill, Views: []View{Nodes}, Acts: true, Verb: "kill", Rank: 30},
	{Keys: []string{"R"}, Short: "restart", Help: "restart it, asks first", Action: Restart, Views: []View{Nodes, Services}, Acts: true, Verb: "restart", Rank: 31},
	{Keys: []string{"K"}, Short: "kick", Help: "kick the client, asks first", Action: Kick, Views: []View{Sessions}, Acts: true, Verb: "kick", Rank: 52},
	{Keys: []string{"o"}, Short: "errors", Help: "errors only, or all", Action: Errors, Views: []View{Calls}, Rank: 51},
	{Keys: []string{"enter"}, Short: "open", Help: "open the line: all of its text, and what it carries", Action: Open, Views: []View{Logs}, Rank: 80},
	{Keys: []string{"f"}, Short: "follow", Help: "follow the newest", Action: Follow, Views: []View{Calls, Logs}, Rank: 70},
	{Keys: []string{"n"}, Short: "next", Help: "next line with a warning or an error", Action: Next, Views: []View{Logs}, Rank: 48},
	{Keys: []string{"L"}, Short: "level", Help: "lowest level shown: debug, info, warn, error", Action: Level, Views: []View{Logs}, Rank: 52},
	{Keys: []string{"w"}, Short: "wrap", Help: "wrap long lines", Action: Wrap, Views: []View{Logs}, Rank: 47},
	{Keys: []string{"t"}, Short: "time", Help: "clock time, or seconds ago", Action: Clock, Views: []View{Logs}, Rank: 40},
	{Keys: []string{"i", "enter"}, Short: "type", Help: "type into the line; esc leaves it, .help lists its commands", Action: Insert, Views: []View{REPL}, Rank: 80},

	{Keys: []string{"0", "1", "2", "3", "4", "5", "6", "7"}, Show: "0-7", Help: "show a view", Action: Show},
	{Keys: []string{"tab"}, Help: "next pane, or next view", Action: NextPane},
	{Keys: []string{"shift+tab"}, Show: "shift-tab", Help: "the one before", Action: PrevPane},
	{Keys: []string{"j", "down"}, Show: "j down", Help: "down", Action: Down},
	{Keys: []string{"k", "up"}, Show: "k up", Help: "up", Action: Up},
	{Keys: []string{"g", "home"}, Show: "g home", Help: "to the top", Action: Top},
	{Keys: []string{"G", "end"}, Show: "G end", Help: "to the bottom; follows where there is something to follow", Action: Bottom},
	{Keys: []string{"ctrl+d", "pgdown"}, Show: "ctrl-d", Help: "half a screen down", Action: HalfDown},
	{Keys: []string{"ctrl+u", "pgup"}, Show: "ctrl-u", Help: "half a screen up", Action: HalfUp},
	{Keys: []string{"left"}, Help: "pan to the left: wide columns, lines of the log", Action: PanLeft},
	{Keys: []string{"right"}, Help: "pan to the right", Action: PanRight},
	{Keys: []string{"esc"}, Help: "back; clears the filter", Action: Back},
	{Keys: []string{"?"}, Short: "help", Help: "this list", Action: Help, Rank: 100},
	{Keys: []string{"/"}, Short: "filter", Help: "filter rows; !text inverts", Action: Filter, Rank: 90},
	{Keys: []string{":"}, Short: "cmd", Help: "a command: the verbs of the command line", Action: Command, Rank: 85},
	{Keys: []string{"s"}, Help: "sort by the next column", Action: Sort, Views: tables},
	{Keys: []string{"S"}, Help: "turn the order round", Action: Reverse, Views: tables},
	{Keys: []string{"w"}, Help: "wide columns", Action: Wide, Views: tables},
	{Keys: []string{"y"}, Short: "copy", Help: "copy the row", Action: Copy, Rank: 45},
	{Keys: []string{"Y"}, Help: "copy the shell command that prints it", Action: CopyCommand, Rank: 20},
	{Keys: []string{"J"}, Help: "copy the row as JSON", Action: CopyJSON},
	{Keys: []string{"space"}, Short: "pause", Help: "freeze the screen, not the cluster", Action: Pause, Rank: 35},
	{Keys: []string{"m"}, Help: "mouse on or off; off keeps the terminal's own selection", Action: Mouse},
	{Keys: []string{"T"}, Help: "next theme", Action: Theme},
	{Keys: []string{"ctrl+l"}, Show: "ctrl-l", Help: "draw the screen again", Action: Redraw},
	{Keys: []string{"ctrl+z"}, Show: "ctrl-z", Help: "suspend", Action: Suspend},
	{Keys: []string{"q"}, Short: "quit", Help: "quit the console; the cluster stays", Action: Quit, Rank: 95},
	{Keys: []string{"ctrl+c"}, Show: "ctrl-c", Help: "give up the line, leave it, else quit", Action: Interrupt},
}

// Find gives the binding of a key in a view, nil when there is none. A key of
// the view goes before one that works everywhere.
func Find(v View, key string) *Binding {
	var everywhere *Binding
	for i := range Table {
		b := &Table[i]
		if !b.In(v) || !b.has(key) {
			continue
		}
		if !b.Everywhere() {
			return b
		}
		everywhere = b
	}
	return everywhere
}

func (b *Binding) has(key string) bool {
	for _, k := range b.Keys {
		if k == key {
			return true
		}
	}
	return false
}

// InView lists the bindings of a view: its own, or those that work everywhere.
func InView(v View, own bool) []*Binding {
	var out []*Binding
	for i := range Table {
		if b := &Table[i]; b.In(v) && b.Everywhere() != own {
			out = append(out, b)
		}
	}
	return out
}

// Text prints the whole table, for `:help keys` and the docs.
func Text() string {
	var b strings.Builder
	for v := range Views {
		fmt.Fprintf(&b, "%d %s\n", int(v), v)
		for _, k := range InView(v, true) {
			fmt.Fprintf(&b, "  %-10s %s\n", k.Label(), k.Help)
		}
	}
	b.WriteString("everywhere\n")
	for _, k := range InView(Overview, false) {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Label(), k.Help)
	}
	return b.String()
}
