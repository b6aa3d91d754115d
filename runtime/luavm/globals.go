package luavm

import (
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// GlobalUse is a place in a script that breaks when a global, or a field of one,
// is nil there; or one that sets it.
type GlobalUse struct {
	Path []string // shield.client.bind is three
	Line int
	Set  bool
	Near []string // locals that could have been meant
}

// Globals finds where a script calls, indexes or sets globals and what lies in
// them under constant names, without running it. What is only read may rightly be
// nil: `unpack = unpack or table.unpack`. The error is a *ScriptError.
func Globals(path string, source []byte) ([]GlobalUse, error) {
	code, err := compile(path, string(source))
	if err != nil {
		return nil, err
	}
	main := code.Proto
	var top []string
	for _, l := range main.DbgLocals {
		if l.EndPc == len(main.Code) {
			top = append(top, l.Name)
		}
	}
	var all []GlobalUse
	var look func(p *lua.FunctionProto)
	look = func(p *lua.FunctionProto) {
		for pc := range p.Code {
			used, set := globalsAt(p, pc)
			line, near := p.DbgSourcePositions[pc], append(localsAt(p, pc), top...)
			if used != nil {
				all = append(all, GlobalUse{Path: used, Line: line, Near: near})
			}
			if set != nil {
				all = append(all, GlobalUse{Path: set, Line: line, Near: near, Set: true})
			}
		}
		for _, inner := range p.FunctionPrototypes {
			look(inner)
		}
	}
	look(main)
	return all, nil
}

// globalsAt gives what the instruction at pc calls or indexes, and what it sets,
// where that is a global or lies in one.
func globalsAt(p *lua.FunctionProto, pc int) (used, set []string) {
	inst := p.Code[pc]
	switch inst >> 26 {
	case opCall, opTailCall:
		return globalPath(p, pc, operandA(inst), 0), nil
	case opGetTable, opGetTableKS, opSelf:
		return globalPath(p, pc, operandB(inst), 0), nil
	case opSetGlobal:
		return nil, []string{constantText(p, operandBx(inst))}
	case opSetTable, opSetTableKS:
		used = globalPath(p, pc, operandA(inst), 0)
		if key, ok := constantName(p, pc, operandB(inst)); ok && used != nil {
			set = append(slices.Clone(used), key)
		}
	}
	return used, set
}

// globalPath is the path by which the value of a register was reached from a
// global; nil when it was not.
func globalPath(p *lua.FunctionProto, pc, reg, depth int) []string {
	if name, began, sure := localAt(p, pc, reg); name != "" {
		if at, _ := lastSet(p, pc, reg); sure || at < began {
			return nil
		}
	}
	at, known := lastSet(p, pc, reg)
	if !known || at < 0 || depth == maxPath {
		return nil
	}
	switch inst := p.Code[at]; inst >> 26 {
	case opGetGlobal:
		return []string{constantText(p, operandBx(inst))}
	case opGetTable, opGetTableKS:
		key, ok := constantName(p, at, operandC(inst))
		if path := globalPath(p, at, operandB(inst), depth+1); ok && path != nil {
			return append(path, key)
		}
	}
	return nil
}

// constantName is the key of an operand, where it is a constant text.
func constantName(p *lua.FunctionProto, pc, operand int) (string, bool) {
	s, ok := constantAt(p, pc, operand).(lua.LString)
	return string(s), ok
}

// localsAt lists what the instruction could have named beside globals.
func localsAt(p *lua.FunctionProto, pc int) []string {
	names := slices.Clone(p.DbgUpvalues)
	for _, l := range p.DbgLocals {
		if l.StartPc <= pc && pc < l.EndPc {
			names = append(names, l.Name)
		}
	}
	return names
}
