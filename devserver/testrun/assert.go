package testrun

import (
	"fmt"
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/luavm"
	"shield/runtime/shield"
	"shield/runtime/value"
)

// failureKey finds the Failure in the error that an assertion throws.
const failureKey = "failure"

// throw ends the function that called us with a failure at its place.
func throw(L *lua.LState, f *Failure) {
	if f.File == "" {
		f.File, f.Line = placeOf(L)
	}
	t := newTable(2)
	text := fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
	if f.Expected != "" || f.Actual != "" {
		text += "\nexpected: " + f.Expected + "\ngot:      " + f.Actual
	}
	t.RawSetString("message", lua.LString(text))
	t.RawSetString(failureKey, &lua.LUserData{Value: f, Metatable: lua.LNil})
	meta := newTable(1)
	meta.RawSetString("__tostring", goFunc(func(L *lua.LState) int { L.Push(lua.LString(text)); return 1 }))
	t.Metatable = meta
	L.Error(t, 0)
}

// asserted is the failure that an error is, or nil.
func asserted(t *lua.LTable) *Failure {
	if ud, ok := t.RawGetString(failureKey).(*lua.LUserData); ok {
		f, _ := ud.Value.(*Failure)
		return f
	}
	return nil
}

// check is one assertion: ok, or what to say. With negated it is asked for the
// opposite, so f says what the plain one would.
type check struct {
	args int // that it needs
	run  func(r *runner, L *lua.LState) (ok bool, f *Failure)
	not  string // what a negated one says when it fails
	more int    // arguments that it may have beside those, before a message
}

// checks are the assertions by the names that luassert has for them.
var checks map[string]*check

func init() {
	equal := &check{2, checkEqual, "expected another value", 0}
	same := &check{2, checkSame, "expected other values", 0}
	errors := &check{1, checkError, "expected no error", 1}
	matches := &check{2, checkMatches, "expected no match", 0}
	checks = map[string]*check{
		"equal": equal, "equals": equal, "same": same,
		"truthy": {1, checkThat("a true value", lua.LVAsBool), "expected false or nil", 0},
		"falsy":  {1, checkThat("false or nil", lua.LVIsFalse), "expected a true value", 0},
		"near":   {3, checkNear, "expected a number further away", 0},
		"error":  errors, "errors": errors,
		"error_matches": {2, checkErrorMatches, "expected another error", 0}, "matches_error": {2, checkErrorMatches, "expected another error", 0},
		"match": matches, "matches": matches,
		"unique":   {1, checkUnique, "expected the same element twice", 0},
		"contains": {2, checkContains, "expected a list without it", 0},
	}
	for name, v := range map[string]lua.LValue{"true": lua.LTrue, "false": lua.LFalse, "nil": lua.LNil} {
		checks[name] = &check{1, checkThat(name, func(have lua.LValue) bool { return have == v }), "expected anything but " + name, 0}
	}
	for _, kind := range []string{"string", "number", "table", "boolean", "function", "userdata", "thread"} {
		checks[kind] = &check{1, checkThat("a "+kind, func(have lua.LValue) bool { return have.Type().String() == kind }), "expected no " + kind, 0}
	}
}

// fillers are the words that only make an assertion read well.
var fillers = []string{"is", "are", "was", "has", "have", "does", "be", "to", "a", "an", "the"}

// assertTable is the global assert: Lua's own when it is called, and the root of
// all chains of words.
func (r *runner) assertTable() *lua.LTable {
	t := r.chain(false)
	meta := t.Metatable.(*lua.LTable)
	meta.RawSetString("__call", goFunc(r.plainAssert))
	return t
}

// plainAssert is Lua's assert, which knows what an Error is: the usual
// assert(cluster.call(...)) says what the call ended with.
func (r *runner) plainAssert(L *lua.LState) int {
	L.Remove(1) // the table itself
	if L.GetTop() == 0 {
		L.RaiseError("assert: a value expected")
	}
	if lua.LVAsBool(L.Get(1)) {
		return L.GetTop()
	}
	msg := "assertion failed!"
	if v := L.Get(2); v != lua.LNil {
		msg = errorText(v)
	}
	throw(L, &Failure{Message: msg})
	return 0
}

// chain is assert, or what follows it: each word is looked up.
func (r *runner) chain(negated bool) *lua.LTable {
	t, meta := newTable(0), newTable(2)
	meta.RawSetString("__index", goFunc(func(L *lua.LState) int {
		L.Push(r.word(L, L.CheckString(2), negated))
		return 1
	}))
	t.Metatable = meta
	return t
}

// word reads is_not_nil, are, has_error and their like: fillers, no and not, and
// an assertion at the end.
func (r *runner) word(L *lua.LState, word string, negated bool) lua.LValue {
	if c := checks[word]; c != nil {
		return r.assertion(word, c, negated)
	}
	rest := strings.ToLower(word)
	for rest != "" {
		if c := checks[rest]; c != nil {
			return r.assertion(word, c, negated)
		}
		first, after, _ := strings.Cut(rest, "_")
		switch {
		case first == "not" || first == "no":
			negated = !negated
		case !slices.Contains(fillers, first):
			var known []string
			for name := range checks {
				known = append(known, name)
			}
			slices.Sort(known)
			if near := shield.Nearest(rest, known); near != "" {
				L.RaiseError("assert has no %q (did you mean %q?)", word, near)
			}
			L.RaiseError("assert has no %q; there are %s", word, strings.Join(known, ", "))
		}
		rest = after
	}
	return r.chain(negated)
}

func (r *runner) assertion(name string, c *check, negated bool) *lua.LFunction {
	return goFunc(func(L *lua.LState) int {
		if L.GetTop() < c.args {
			L.RaiseError("assert.%s needs %d arguments, got %d", name, c.args, L.GetTop())
		}
		top := L.GetTop()
		ok, f := c.run(r, L)
		L.SetTop(top)
		if ok != negated {
			return top
		}
		if negated {
			f = &Failure{Message: c.not, Actual: show(L.Get(min(top, c.args)))}
		}
		if msg := L.Get(c.args + c.more + 1); msg.Type() == lua.LTString || msg.Type() == lua.LTTable {
			f.Message = errorText(msg) + ": " + f.Message
		}
		throw(L, f)
		return 0
	})
}

func show(v lua.LValue) string {
	return value.Printer{Depth: 8, Items: 200, String: 2000, Width: 100}.Print(v)
}

func differ(message string, want, have lua.LValue) *Failure {
	return &Failure{Message: message, Expected: show(want), Actual: show(have)}
}

func checkThat(what string, is func(lua.LValue) bool) func(*runner, *lua.LState) (bool, *Failure) {
	return func(_ *runner, L *lua.LState) (bool, *Failure) {
		have := L.Get(1)
		f := &Failure{Message: "expected " + what, Expected: what, Actual: show(have)}
		if t, ok := L.Get(2).(*lua.LTable); ok && lua.LVIsFalse(have) && t.RawGetString("code") != lua.LNil {
			f.Message += "; " + errorText(t) // assert.is_true(cluster.call(...))
			L.Replace(2, lua.LNil)
		}
		return is(have), f
	}
}

func checkEqual(_ *runner, L *lua.LState) (bool, *Failure) {
	want, have := L.Get(1), L.Get(2)
	f := differ("expected an equal value", want, have)
	if want.Type() == lua.LTTable && have.Type() == lua.LTTable {
		f.Message = "expected the very same table (assert.same compares what tables hold)"
	}
	return L.Equal(want, have), f
}

func checkSame(_ *runner, L *lua.LState) (bool, *Failure) {
	want, have := L.Get(1), L.Get(2)
	d := &differences{L: L}
	d.compare("", want, have, 0)
	if len(d.lines) == 0 {
		return true, nil
	}
	f := differ("expected the same values", want, have)
	if want.Type() == lua.LTTable && have.Type() == lua.LTTable {
		f.Differs = strings.Join(d.lines, "\n")
	}
	return false, f
}

func checkNear(_ *runner, L *lua.LState) (bool, *Failure) {
	want, have, by := L.CheckNumber(1), L.CheckNumber(2), L.CheckNumber(3)
	f := differ("expected a number near", want, have)
	f.Expected += " +/- " + by.String()
	return math.Abs(float64(want-have)) <= float64(by), f
}

// thrown runs a function and gives what it threw.
func thrown(L *lua.LState) (v lua.LValue, threw bool) {
	L.Push(L.CheckFunction(1))
	if err := luavm.PCall(L, 0, 0); err != nil {
		return err.Value, true
	}
	return lua.LNil, false
}

// withoutPlace takes "file:line: " off a message, as luassert does.
func withoutPlace(v lua.LValue) lua.LValue {
	s, ok := v.(lua.LString)
	if !ok {
		return v
	}
	if head, rest, found := strings.Cut(string(s), ": "); found {
		if _, line, ok := strings.Cut(head, ":"); ok && line != "" && strings.Trim(line, "0123456789") == "" {
			return lua.LString(rest)
		}
	}
	return v
}

func checkError(_ *runner, L *lua.LState) (bool, *Failure) {
	want := L.Get(2)
	have, threw := thrown(L)
	if !threw {
		return false, &Failure{Message: "expected an error, and there was none"}
	}
	if want == lua.LNil {
		return true, nil
	}
	f := differ("expected another error", want, have)
	if t, ok := have.(*lua.LTable); ok {
		if s, ok := want.(lua.LString); ok { // an Error, by its code or its words
			return t.RawGetString("code") == s || lua.LString(errorText(t)) == s, f
		}
	}
	d := &differences{L: L}
	d.compare("", want, withoutPlace(have), 0)
	return len(d.lines) == 0 || L.Equal(want, have), f
}

// find is string.find of the test's VM.
func (r *runner) find(L *lua.LState, s, pattern string) bool {
	lib, _ := r.vm.Library("string").(*lua.LTable)
	if lib == nil {
		L.RaiseError("the string library is gone")
	}
	L.Push(r.vm.Field(lib, lua.LString("find")))
	L.Push(lua.LString(s))
	L.Push(lua.LString(pattern))
	L.Call(2, 1)
	v := L.Get(-1)
	L.Pop(1)
	return v != lua.LNil
}

func checkErrorMatches(r *runner, L *lua.LState) (bool, *Failure) {
	pattern := L.CheckString(2)
	have, threw := thrown(L)
	if !threw {
		return false, &Failure{Message: "expected an error, and there was none"}
	}
	f := differ("expected an error that matches", lua.LString(pattern), have)
	return r.find(L, errorText(have), pattern), f
}

func checkMatches(r *runner, L *lua.LState) (bool, *Failure) {
	pattern, s := L.CheckString(1), L.CheckString(2)
	return r.find(L, s, pattern), differ("expected a text that matches", lua.LString(pattern), lua.LString(s))
}

func checkUnique(_ *runner, L *lua.LState) (bool, *Failure) {
	t := L.CheckTable(1)
	for i := 1; i <= t.Len(); i++ {
		for j := i + 1; j <= t.Len(); j++ {
			if L.Equal(t.RawGetInt(i), t.RawGetInt(j)) {
				return false, &Failure{Message: fmt.Sprintf("expected each element once; [%d] and [%d] are equal", i, j), Actual: show(t)}
			}
		}
	}
	return true, nil
}

// checkContains is assert.contains(list, value), or (text, part of it).
func checkContains(_ *runner, L *lua.LState) (bool, *Failure) {
	want := L.Get(2)
	if s, ok := L.Get(1).(lua.LString); ok {
		return strings.Contains(string(s), want.String()), differ("expected a text with", want, s)
	}
	t := L.CheckTable(1)
	for i := 1; i <= t.Len(); i++ {
		d := &differences{L: L}
		if d.compare("", want, t.RawGetInt(i), 0); len(d.lines) == 0 {
			return true, nil
		}
	}
	return false, differ("expected a list with", want, t)
}
