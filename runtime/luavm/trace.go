package luavm

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxTraceLines keeps the traceback of a deep recursion readable: its ends tell
// the story.
const maxTraceLines = 40

// traceback describes the Lua frames of th and of the stacks that resumed it,
// innermost first, without the first skip frames.
func (th *thread) traceback(skip int) string {
	var lines []string
	for ; th != nil; th = th.parent {
		lines = append(lines, stackLines(th.L, th.entry())...)
	}
	return joinTrace(lines[min(skip, len(lines)):])
}

func joinTrace(lines []string) string {
	if n := len(lines); n > maxTraceLines {
		head := lines[: maxTraceLines/2 : maxTraceLines/2]
		left := fmt.Sprintf("\t... (%d more)", n-maxTraceLines)
		lines = append(append(head, left), lines[n-maxTraceLines/2:]...)
	}
	return "stack traceback:\n" + strings.Join(lines, "\n")
}

// stackLines describes the frames of one stack. gopher-lua calls the outermost
// function "main chunk" whatever it is; here it has its own name.
func stackLines(L *lua.LState, entry string) (lines []string) {
	level := 0
	for f := currentFrame(L); f != nil; f = f.Parent {
		dbg, ok := L.GetStack(level)
		if !ok {
			return lines
		}
		if level++; !f.Fn.IsG {
			level += f.TailCall // each counts as a level of its own
		}
		if _, err := L.GetInfo("Snl", dbg, lua.LNil); err != nil {
			return lines
		}
		name := dbg.Name
		switch {
		case name == "main chunk":
			name = entry
			if dbg.LineDefined > 0 && !strings.Contains(entry, "<") {
				name = fmt.Sprintf("%s <%s:%d>", entry, dbg.Source, dbg.LineDefined)
			} else if dbg.LineDefined == 0 && dbg.Source != "" && entry == "coroutine" {
				name = "main chunk"
			}
		case strings.HasPrefix(name, "<") || strings.HasPrefix(name, "("):
			name = "function " + name
		default:
			name = "function '" + name + "'"
		}
		place := "[Go]"
		if dbg.Source != "" {
			place = fmt.Sprintf("%s:%d", dbg.Source, dbg.CurrentLine)
		}
		if dbg.Source == "" && strings.HasPrefix(name, "function (") {
			continue
		}
		if f.TailCall > 0 && !f.Fn.IsG {
			name += " (after tail calls)"
		}
		lines = append(lines, "\t"+place+": in "+name)
	}
	return lines
}

// tidyTrace puts gopher-lua's own traceback, taken where an error was thrown,
// into the words of stackLines.
func tidyTrace(trace, entry string) string {
	lines := strings.Split(strings.TrimRight(trace, "\n"), "\n")
	kept := lines[:0]
	for _, line := range lines {
		if line == "\t[G]: ?" || line == "\t[G]: in function (anonymous)" {
			continue // a Go function without a name tells nobody anything
		}
		if strings.HasSuffix(line, " in main chunk") {
			line = strings.TrimSuffix(line, "main chunk") + entry
		}
		if strings.HasPrefix(line, "\t[G]: in ") {
			line = "\t[Go]" + line[len("\t[G]"):]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// describe names a function by where it stands.
func describe(fn lua.LValue) string {
	f, ok := fn.(*lua.LFunction)
	switch {
	case !ok || f.IsG:
		return "function"
	case f.Proto.LineDefined == 0:
		return "main chunk"
	default:
		return fmt.Sprintf("function <%s:%d>", f.Proto.SourceName, f.Proto.LineDefined)
	}
}

// where gives "file:line: " of the innermost Lua function, or "".
func where(L *lua.LState) string {
	for level := 0; ; level++ {
		dbg, ok := L.GetStack(level)
		if !ok {
			return ""
		}
		if _, err := L.GetInfo("Sl", dbg, lua.LNil); err == nil && dbg.Source != "" && dbg.CurrentLine > 0 {
			return fmt.Sprintf("%s:%d: ", dbg.Source, dbg.CurrentLine)
		}
	}
}

// traceBody is a traceback without its headline.
func traceBody(trace string) string {
	return strings.TrimPrefix(trace, "stack traceback:\n")
}

// entry is how tracebacks name the function at the bottom of th.
func (th *thread) entry() string {
	if th.co != nil {
		return "coroutine"
	}
	return th.turn.entry()
}
