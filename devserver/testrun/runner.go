package testrun

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/config"
	"shield/runtime/luaapi"
	"shield/runtime/luavm"
	"shield/runtime/service"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// runner runs one file. It lives on one goroutine of the bubble, which is also
// the one that the file's Lua runs on.
type runner struct {
	spec   *Spec
	out    *emitter
	guard  *guard
	turns  *Turns
	book   *logbook
	world  *world
	api    service.API
	files  luavm.Files
	filter *regexp.Regexp
	shift  time.Duration // of the business clock

	lua  *luavm.World
	vm   *luavm.VM
	hand *luavm.Hand

	root    *block
	block   *block // that is being read
	loaded  bool   // the whole file was read
	current *test
	logFrom int    // the first line of the log that the test can see
	reason  string // why current is pending
	finally []lua.LValue
	players []*player
	hits    *hits // nil without --cover

	passed, failed, pending int
}

// scriptLimit is how long a test may compute, in real time, before it counts as
// an endless loop.
const scriptLimit = 10 * time.Second

// open builds the VM that the file runs in.
func (r *runner) open(modulePath string, cover luavm.Cover) error {
	r.api = luaapi.New()
	lib := luavm.Lib{luavm.Missing: luavm.Resolver(noShield)}
	for _, name := range []string{"null", "array", "json"} {
		lib[name] = r.api.Shield[name]
	}
	var err error
	r.lua, err = luavm.NewWorld(luavm.Config{
		Files: r.files, ModulePath: modulePath, Shield: lib, Watch: r.guard.watch, Cover: cover,
		MakeErr: r.api.Error, Getenv: r.world.getenv,
		Print: func(_ *lua.LState, line string) {
			r.book.log.Logger("").Info(line, "service", "test")
		},
	})
	if err != nil {
		return err
	}
	limit := min(r.spec.limit(), scriptLimit)
	r.vm = r.lua.NewVM(luavm.VMConfig{Owner: r, Limits: luavm.Limits{HandlerTime: limit, Memory: 1 << 30}, Now: r.now, Seed: r.spec.Seed, Files: r.files})
	r.hand = r.lua.Take()
	globals := r.vm.Globals()
	for name, f := range r.suiteLib() {
		globals.RawSetString(name, goFunc(f))
	}
	for name, lib := range r.libs() {
		globals.RawSetString(name, library(lib))
	}
	globals.RawSetString("sleep", goFunc(r.sleep))
	globals.RawSetString("eventually", goFunc(r.eventually))
	globals.RawSetString("assert", r.assertTable())
	return nil
}

// noShield answers for the parts of shield.* that only a service has.
func noShield(L *lua.LState, key string) lua.LValue {
	L.RaiseError("shield.%s works inside a service; in a test there are cluster, client, net, clock and log, and shield.json, shield.array, shield.null", key)
	return lua.LNil
}

func (r *runner) now() time.Time { return time.Now().Add(r.shift) }

func goFunc(f lua.LGFunction) *lua.LFunction {
	return &lua.LFunction{IsG: true, Env: newTable(0), GFunction: f}
}

// newTable makes a table; CreateTable does not touch its receiver.
func newTable(fields int) *lua.LTable { return (*lua.LState)(nil).CreateTable(0, fields) }

func library(funcs map[string]lua.LGFunction) *lua.LTable {
	t := newTable(len(funcs))
	for name, f := range funcs {
		t.RawSetString(name, goFunc(f))
	}
	return t
}

// runFile reads the file and runs its tests. The failure is the file's own.
func (r *runner) runFile() *Failure {
	r.root = &block{}
	r.block = r.root
	if _, err := r.vm.Load(r.hand, r.spec.File, nil); err != nil {
		return r.loadFailure(err)
	}
	r.loaded = true
	r.runBlock(r.root)
	if r.guard.over.Load() {
		return &Failure{Message: r.overText()}
	}
	return nil
}

func (r *runner) overText() string {
	text := fmt.Sprintf("not done within %v of real time (--timeout)", r.spec.limit())
	if why := r.guard.why.Load(); why != nil {
		text += *why
	}
	return text
}

func (r *runner) loadFailure(err error) *Failure {
	var se *luavm.ScriptError
	var re *luavm.RunError
	switch {
	case errors.As(err, &se):
		return &Failure{Message: se.Message, File: se.File, Line: se.Line, Source: strings.TrimSpace(se.SourceLine), Load: true}
	case errors.As(err, &re):
		f := r.failure(re)
		f.Load = !r.guard.over.Load()
		return f
	}
	return &Failure{Message: err.Error(), Load: true}
}

// call runs one function of the file as a turn of its own.
func (r *runner) call(fn lua.LValue) *Failure {
	_, err := r.vm.Run(r.hand, luavm.Call{Fn: fn})
	if err == nil {
		return nil
	}
	if _, ok := err.Reason.(pendingReason); ok {
		return nil
	}
	return r.failure(err)
}

// failure makes words of how a turn ended.
func (r *runner) failure(err *luavm.RunError) *Failure {
	f := &Failure{Message: err.Message, File: err.File, Line: err.Line, Trace: callers(err.Traceback)}
	if t, ok := err.Value.(*lua.LTable); ok {
		if said := asserted(t); said != nil {
			own := *said
			f, own.Trace = &own, f.Trace
		} else if f.Message == "" || t.Metatable != lua.LNil {
			f.Message = errorText(t)
		}
	}
	if prefix := fmt.Sprintf("%s:%d: ", f.File, f.Line); strings.HasPrefix(f.Message, prefix) {
		f.Message = f.Message[len(prefix):]
	}
	switch {
	case r.guard.over.Load():
		f.Message = r.overText()
	case err.Kind == luavm.KindTimeout:
		f.Message = fmt.Sprintf("an endless loop? it ran for %v of real time without calling anything that waits", min(r.spec.limit(), scriptLimit))
	}
	f.Source = r.sourceLine(f.File, f.Line)
	return f
}

// callers is a traceback if it says more than the place itself.
func callers(trace string) string {
	var lines []string
	for _, line := range strings.Split(trace, "\n") {
		if strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t[Go]") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) < 2 {
		return ""
	}
	return strings.Join(lines, "\n")
}

func (r *runner) sourceLine(file string, line int) string {
	if file == "" || line == 0 {
		return ""
	}
	src, err := r.files.ReadFile(file)
	if err != nil {
		return ""
	}
	for text := range strings.SplitSeq(string(src), "\n") {
		if line--; line == 0 {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// placeOf is where the Lua function stands that calls a Go function.
func placeOf(L *lua.LState) (file string, line int) {
	for level := 1; level < 10; level++ {
		dbg, ok := L.GetStack(level)
		if !ok {
			break
		}
		if _, err := L.GetInfo("Sl", dbg, lua.LNil); err == nil && dbg.Source != "" && dbg.CurrentLine > 0 {
			return dbg.Source, dbg.CurrentLine
		}
	}
	return "", 0
}

// wait lets do block, and comes back in a turn of the test's own.
func (r *runner) wait(L *lua.LState, what string, do func()) {
	r.checkTime(L)
	luavm.Suspend(L, what, luavm.WaitFunc(func() {
		do()
		r.turns.Take(theTest)
	}))
	r.checkTime(L)
}

func (r *runner) checkTime(L *lua.LState) {
	if r.guard.over.Load() {
		luavm.Abort(L, overReason{}, "the file's time is over")
	}
}

// overReason is the reason of a turn that outlived the file's time.
type overReason struct{}

// raise ends the function that called us with an error at its place.
func raise(L *lua.LState, err error) {
	var ps config.Problems
	if errors.As(err, &ps) {
		L.RaiseError("shield.yaml or rpc.yaml is wrong:\n%s", ps.Error())
	}
	text := err.Error()
	var se *shield.Error
	if errors.As(err, &se) && se.Detail != nil {
		text += "\n" + fmt.Sprint(se.Detail)
	}
	L.RaiseError("%s", text)
}

// errorText is an Error's or any other thrown table's words.
func errorText(v lua.LValue) string {
	t, ok := v.(*lua.LTable)
	if !ok {
		if s, ok := v.(lua.LString); ok {
			return string(s)
		}
		return value.Text(v)
	}
	code, _ := t.RawGetString("code").(lua.LString)
	msg, _ := t.RawGetString("message").(lua.LString)
	switch {
	case code != "" && msg != "":
		text := string(code) + ": " + string(msg)
		if d, ok := t.RawGetString("detail").(lua.LString); ok {
			text += "\n" + string(d)
		}
		return text
	case msg != "":
		return string(msg)
	}
	return value.Text(t)
}

// duration reads "500ms", "1d", "1h30m" or a number of milliseconds.
func duration(L *lua.LState, n int) time.Duration {
	d, err := toDuration(L.Get(n))
	if err != "" {
		L.ArgError(n, err)
	}
	return d
}

// longest is a hundred years: two of them still are a time.Duration.
const longest = 100 * 365 * 24 * time.Hour

func toDuration(v lua.LValue) (d time.Duration, problem string) {
	const want = `want a time such as "500ms", "2m30s" or "1d", or milliseconds`
	switch v := v.(type) {
	case lua.LNumber:
		if !(v >= 0) || v > lua.LNumber(longest/time.Millisecond) {
			return 0, want
		}
		return time.Duration(float64(v) * float64(time.Millisecond)), ""
	case lua.LString:
		days := time.Duration(0)
		text := string(v)
		if n, rest, ok := strings.Cut(text, "d"); ok {
			count, err := strconv.ParseFloat(n, 64)
			if err != nil || !(count >= 0) || count > float64(longest/(24*time.Hour)) {
				return 0, want
			}
			days, text = time.Duration(count*24*float64(time.Hour)), rest
			if text == "" {
				return days, ""
			}
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > longest {
			return 0, want
		}
		return days + d, ""
	}
	return 0, want
}
