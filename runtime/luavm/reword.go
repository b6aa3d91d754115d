package luavm

import (
	"fmt"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"shield/runtime/shield"
)

// gopher-lua's messages name neither the value that was wrong nor, for a call,
// its type: "attempt to call a non-function object". Here they are said again
// as Lua itself words them, with the name of the value and, for a global that
// nobody has, of one that may have been meant.

// failed is the instruction that an error came from.
type failed struct {
	L     *lua.LState
	f     *frameMirror
	p     *lua.FunctionProto
	pc    int
	inst  uint32
	words string // gopher-lua's
}

// reword gives a better text for an error of the runtime that is about to be
// thrown, or "".
func reword(L *lua.LState, text string) string {
	f := currentFrame(L)
	if f == nil {
		return ""
	}
	if f.Fn.IsG {
		if !calculates(L, f.Parent) {
			return rewordArgument(L, f, text)
		}
		f = f.Parent // strings calculate in metamethods of ours
	}
	e, ok := failedAt(L, f)
	if !ok {
		return ""
	}
	place := fmt.Sprintf("%s:%d: ", e.p.SourceName, e.p.DbgSourcePositions[e.pc])
	words, ok := strings.CutPrefix(text, place)
	if !ok {
		return ""
	}
	e.words = words
	if better := e.reword(); better != "" {
		return place + better
	}
	return ""
}

// calculates reports whether f is in the middle of arithmetic.
func calculates(L *lua.LState, f *frameMirror) bool {
	if f == nil {
		return false
	}
	e, ok := failedAt(L, f)
	op := int(e.inst >> 26)
	return ok && (op >= opAdd && op <= opPow || op == opUnm)
}

func failedAt(L *lua.LState, f *frameMirror) (e failed, ok bool) {
	p := f.Fn.Proto
	if p == nil || f.Pc < 1 || f.Pc > len(p.Code) || f.Pc > len(p.DbgSourcePositions) {
		return e, false
	}
	return failed{L: L, f: f, p: p, pc: f.Pc - 1, inst: p.Code[f.Pc-1]}, true
}

func (e *failed) reword() string {
	op := int(e.inst >> 26)
	switch {
	case strings.HasPrefix(e.words, "attempt to index a non-table object("):
		return e.index(op)
	case e.words == "attempt to call a non-function object":
		switch op {
		case opCall, opTailCall:
			return e.about("attempt to call a %s value", operandA(e.inst))
		case opTForLoop:
			return fmt.Sprintf("attempt to call a %s value (for iterator: 'for ... in' wants a function, such as pairs(t) gives)", e.typeOf(operandA(e.inst)))
		}
	case strings.HasPrefix(e.words, "cannot perform concat operation") && op == opConcat:
		return e.concat()
	case strings.HasPrefix(e.words, "cannot perform ") && op >= opAdd && op <= opPow:
		return e.arithmetic()
	case e.words == "__unm undefined" && op == opUnm:
		return e.about("attempt to perform arithmetic on a %s value", operandB(e.inst))
	case e.words == "__len undefined" && op == opLen:
		return e.about("attempt to get length of a %s value", operandB(e.inst))
	case strings.HasPrefix(e.words, "attempt to compare "):
		return e.compare(op)
	case strings.HasPrefix(e.words, "for statement ") && (op == opForPrep || op == opForLoop):
		return e.loop()
	}
	return ""
}

// value is what a register holds, or a constant.
func (e *failed) value(operand int) lua.LValue {
	if operand&bitRK != 0 {
		return e.p.Constants[operand&^bitRK]
	}
	if i := e.f.LocalBase + operand; i < len(registryOf(e.L).array) {
		if v := registryOf(e.L).array[i]; v != nil {
			return v
		}
	}
	return lua.LNil
}

func (e *failed) typeOf(operand int) string { return e.value(operand).Type().String() }

// about words a complaint about the value of a register, which has one %s for
// its type.
func (e *failed) about(format string, reg int) string {
	return fmt.Sprintf(format, e.typeOf(reg)) + e.named(reg)
}

// named is " (local 'x')" and what else is known of a register or constant.
func (e *failed) named(operand int) string {
	if operand&bitRK != 0 {
		return ""
	}
	o := originOf(e.p, e.pc, operand, 0)
	if o.kind == "" {
		return ""
	}
	hint := ""
	if o.kind == "global" && e.value(operand) == lua.LNil {
		if near := Misspelt(o.name, e.inReach()); near != "" {
			hint = fmt.Sprintf(", did you mean '%s'?", near)
		}
	}
	return " (" + o.String() + hint + ")"
}

// Misspelt gives the name that one without a meaning is probably a slip of, or
// "". Names are short and many, so it wants to be surer than shield.Nearest.
func Misspelt(name string, names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return n == "" || name == "" || n[0] != name[0] || len(n)-len(name) > 1 || len(name)-len(n) > 1
	})
	return shield.Nearest(name, names)
}

// inReach lists the names that the instruction could have used.
func (e *failed) inReach() []string {
	names := localsAt(e.p, e.pc)
	vm := VMOf(e.L)
	if vm == nil {
		return names
	}
	for _, m := range vm.modules { // the locals of the file, which a closure that misspells one has not captured
		if m.Code != nil && m.Code.Path == e.p.SourceName {
			for _, l := range m.Code.Proto.DbgLocals {
				if l.EndPc == len(m.Code.Proto.Code) {
					names = append(names, l.Name)
				}
			}
		}
	}
	return append(names, vm.GlobalNames()...)
}

func (e *failed) index(op int) string {
	reg, key := operandB(e.inst), ""
	switch op {
	case opGetTable, opGetTableKS, opSelf:
		key = e.key(operandC(e.inst))
	case opSetTable, opSetTableKS:
		reg, key = operandA(e.inst), e.key(operandB(e.inst))
	default:
		return ""
	}
	have := e.typeOf(reg)
	if !strings.HasPrefix(e.words, "attempt to index a non-table object("+have+")") {
		return "" // it is what a metatable's __index holds
	}
	what := "field"
	if op == opSelf {
		what = "method"
	}
	return fmt.Sprintf("attempt to index a %s value%s, looking for %s %s", have, e.named(reg), what, key)
}

// key is how a message shows a key.
func (e *failed) key(operand int) string {
	switch k := e.value(operand).(type) {
	case lua.LString:
		return "'" + clip(string(k), 60) + "'"
	case lua.LNumber, lua.LBool, *lua.LNilType:
		return "[" + k.String() + "]"
	default:
		return "[a " + k.Type().String() + "]"
	}
}

func (e *failed) arithmetic() string {
	for _, operand := range []int{operandB(e.inst), operandC(e.inst)} {
		switch v := e.value(operand).(type) {
		case lua.LNumber:
		case lua.LString:
			if parseNumber(string(v)) == lua.LNil {
				return "attempt to perform arithmetic on a string value" + e.named(operand) + ": " + fmt.Sprintf("%q is no number", clip(string(v), 40))
			}
		default:
			return e.about("attempt to perform arithmetic on a %s value", operand)
		}
	}
	return ""
}

func (e *failed) concat() string {
	for reg := operandB(e.inst); reg <= operandC(e.inst); reg++ {
		if !lua.LVCanConvToString(e.value(reg)) {
			return e.about("attempt to concatenate a %s value", reg)
		}
	}
	return ""
}

func (e *failed) compare(op int) string {
	if op != opLT && op != opLE {
		return ""
	}
	var who []string
	for _, operand := range []int{operandB(e.inst), operandC(e.inst)} {
		if name := e.named(operand); name != "" {
			who = append(who, strings.Trim(name, " ()")+" is a "+e.typeOf(operand))
		}
	}
	if len(who) == 0 {
		return ""
	}
	return e.words + " (" + strings.Join(who, ", ") + ")"
}

func (e *failed) loop() string {
	for i, what := range []string{"initial value", "limit", "step"} {
		if v := e.value(operandA(e.inst) + i); v.Type() != lua.LTNumber {
			return fmt.Sprintf("'for' %s must be a number, and is a %s", what, v.Type())
		}
	}
	return ""
}

// rewordArgument says which argument of a Go function it was that is nil.
func rewordArgument(L *lua.LState, f *frameMirror, text string) string {
	var n int
	at := strings.Index(text, "bad argument #")
	if at < 0 || !strings.HasSuffix(text, "got nil)") || f.Parent == nil || f.Parent.Fn.IsG {
		return ""
	}
	if _, err := fmt.Sscanf(text[at:], "bad argument #%d", &n); err != nil {
		return ""
	}
	e, ok := failedAt(L, f.Parent)
	if op := int(e.inst >> 26); !ok || op != opCall && op != opTailCall || n < 1 || n > f.NArgs {
		return ""
	}
	name := strings.Trim(e.named(operandA(e.inst)+n), " ()")
	if name == "" {
		return ""
	}
	return strings.TrimSuffix(text, ")") + ": " + name + " is nil)"
}
