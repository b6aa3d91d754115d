package service

import (
	"context"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"shield/runtime/luavm"
	"shield/runtime/shield"

	lua "github.com/yuin/gopher-lua"
)

// maxWords is how many completions anybody wants to see.
const maxWords = 200

var (
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	wordEnd    = regexp.MustCompile(`[A-Za-z_]?\w*$`)
	// objectEnd is a place by constants at the end of a text: M.players[3]
	objectEnd = regexp.MustCompile(`[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\]|\["[^"\n]*"\]|\['[^'\n]*'\])*$`)
	step      = regexp.MustCompile(`\.([A-Za-z_]\w*)|\[(\d+)\]|\[["']([^"'\n]*)["']\]`)
	// calledName is the name of a service in the call whose method is typed.
	calledName = regexp.MustCompile(`shield\.(?:call|send|call_timeout)\s*\([^()]*["']([^"']+)["']\s*,\s*$`)
)

var keywords = strings.Fields("and break do else elseif end false for function if in local nil not or repeat return then true until while")

// Complete lists what could stand at the end of line, typed for a service of
// this node in a session, and the byte where those words begin. It runs nothing.
func (r *Runtime) Complete(ctx context.Context, to Target, session, line string) (from int, words []string, err error) {
	s, b, _, err := r.evalTarget("complete", to)
	if err != nil {
		return 0, nil, err
	}
	if before, quoted, ok := openString(line); ok {
		from, words = len(line)-len(quoted), r.reachable()
		if m := calledName.FindStringSubmatch(before); m != nil {
			if words, err = r.Methods(ctx, shield.Name(m[1])); err != nil {
				return from, nil, nil // it is not here: nobody can say
			}
		}
		return from, begin(words, quoted), nil
	}
	word := wordEnd.FindString(line)
	from = len(line) - len(word)
	found := make(chan []string, 1)
	err = s.inside(ctx, func(*worker) { found <- b.scopeOf(session).words(line[:from]) })
	if err != nil {
		return from, nil, err
	}
	return from, begin(<-found, word), nil
}

// scopeOf is the scope of a session without making one.
func (b *luaBody) scopeOf(session string) *scope {
	sc := b.sessions[session]
	if sc == nil {
		return b.newScope(true)
	}
	sc.cells = nil
	return sc
}

// words lists what may follow before.
func (sc *scope) words(before string) []string {
	if !strings.HasSuffix(before, ".") && !strings.HasSuffix(before, ":") || strings.HasSuffix(before, "..") {
		return append(sc.names(), keywords...)
	}
	methods := strings.HasSuffix(before, ":")
	object := objectEnd.FindString(before[:len(before)-1])
	if object == "" {
		if methods && strings.HasSuffix(before, "\":") {
			return sc.fields(lua.LString(""), true)
		}
		return nil
	}
	p := luavm.Path{Root: object}
	if i := strings.IndexAny(object, ".["); i >= 0 {
		p.Root = object[:i]
		for _, m := range step.FindAllStringSubmatch(object[i:], -1) {
			switch {
			case m[1] != "":
				p.Keys = append(p.Keys, lua.LString(m[1]))
			case m[2] != "":
				n, _ := strconv.ParseFloat(m[2], 64) // it matched \d+
				p.Keys = append(p.Keys, lua.LNumber(n))
			default:
				p.Keys = append(p.Keys, lua.LString(m[3]))
			}
		}
	}
	v, n := sc.follow(p)
	if n < len(p.Keys) {
		return nil
	}
	return slices.DeleteFunc(sc.fields(v, methods), func(n string) bool { return !identifier.MatchString(n) })
}

// openString finds the string that line ends in the middle of.
func openString(line string) (before, quoted string, ok bool) {
	var quote byte
	start := 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, start = c, i+1
		}
	}
	if quote == 0 || start > len(line) {
		return "", "", false
	}
	return line[:start-1], line[start:], true
}

// reachable lists the names that a call may go to.
func (r *Runtime) reachable() []string {
	all := r.reg.known()
	if r.cfg.Remote != nil {
		for _, p := range r.cfg.Remote.Published(func(shield.Name) bool { return true }) {
			all = append(all, string(p.Node)+":"+string(p.Name))
		}
	}
	return all
}

// begin picks the identifiers and names that begin with prefix, sorted.
func begin(words []string, prefix string) []string {
	words = slices.DeleteFunc(words, func(w string) bool {
		return !strings.HasPrefix(w, prefix) || w == "" || strings.HasPrefix(w, shield.ReservedPrefix) && prefix == ""
	})
	sort.Strings(words)
	words = slices.Compact(words)
	return words[:min(len(words), maxWords)]
}
